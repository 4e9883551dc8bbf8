"""Why a step is left alone."""

from __future__ import annotations


class DeclinedError(Exception):
    """The message is the reason, as the report has it."""
