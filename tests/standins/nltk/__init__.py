"""Stand-in for nltk: words and punctuation."""

from . import tokenize

__version__ = "0.0+stand-in"
__all__ = ["tokenize"]
