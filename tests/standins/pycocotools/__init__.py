"""Stand-in for pycocotools."""

__version__ = "0.0+stand-in"
