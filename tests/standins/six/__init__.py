"""Stand-in for six: what Python 3 has under another name."""

__version__ = "0.0+stand-in"
