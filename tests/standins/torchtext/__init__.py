"""Stand-in for torchtext: generated sentence pairs, tokens by white space, a vocabulary."""

__version__ = "0.0+stand-in"
