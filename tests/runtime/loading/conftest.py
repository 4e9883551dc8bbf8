"""torchvision, as for data in memory."""

from tests.runtime.in_memory.conftest import torchvision

__all__ = ["torchvision"]
