"""Stand-in for scipy: `misc.toimage` as old releases had it."""

__version__ = "0.0+stand-in"
