"""The older interface: fields, examples, bucket iterators."""

from . import data, datasets

__all__ = ["data", "datasets"]
