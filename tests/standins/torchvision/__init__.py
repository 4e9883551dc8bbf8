"""Stand-in for torchvision: generated data, shallow networks; see the README beside this package."""

from . import datasets, models, transforms, utils

__version__ = "0.0+stand-in"
__all__ = ["datasets", "models", "transforms", "utils"]
