"""Moved modules."""

import urllib
import urllib.request

__all__ = ["urllib"]
