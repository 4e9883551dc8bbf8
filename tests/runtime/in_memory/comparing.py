"""A loader's passes, by torch and looked up whole, held against each other down to the bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from autoaccel.runtime.in_memory.device_placement import DevicePlacement
from autoaccel.runtime.in_memory.eligible_loaders import InMemoryLoader, begin, in_memory_loader
from autoaccel.runtime.loading.rebuild_batch import PartsToMove

CPU = torch.device("cpu")

Make = Callable[[], DataLoader[Any]]


def seed() -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


def states() -> list[Any]:
    """What a program's generators will give next, and they stay as they are."""
    numpys: Any = np.random.get_state()
    return [torch.get_rng_state().numpy().tobytes(), random.getstate(), numpys[1].tobytes(), numpys[2:]]


def content(value: Any) -> Any:
    """All there is to know about a batch, comparable with `==`."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().contiguous().reshape(-1)
        bits = flat.numpy().tobytes() if flat.dtype != torch.bfloat16 else flat.view(torch.int16).numpy().tobytes()
        memory = value.untyped_storage().nbytes()
        kind = (type(value), value.dtype, value.device.type, value.requires_grad, value.is_contiguous())
        return (*kind, tuple(value.shape), value.stride(), value.storage_offset(), memory, bits)
    if isinstance(value, dict):
        return (type(value), [(key, content(each)) for key, each in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value), [content(each) for each in value])
    return (type(value), value)


def found(loader: DataLoader[Any], move: PartsToMove = "all") -> InMemoryLoader:
    """What is known of a loader that stays on the host."""
    known = in_memory_loader(loader, CPU, move)
    assert known is not None
    return known


def whole(loader: DataLoader[Any]) -> Iterator[Any]:
    """A pass that is looked up whole."""
    batches = begin(loader, CPU)
    assert batches is not None, found(loader).given_up
    return batches


def watch(iterate: Callable[[DataLoader[Any]], Iterator[Any]], make: Make, passes: int, leave: int | None) -> list[Any]:
    """The contents of all batches of some passes, whose loop draws numbers too, and the generators in between."""
    seed()
    loader = make()
    seen: list[Any] = []
    for _ in range(passes):
        for at, batch in enumerate(iterate(loader)):
            seen.append((content(batch), torch.rand(1).item(), states()))
            if at == leave:
                break
        seen.append(states())
    return seen


def same(make: Make, passes: int = 2, leave: int | None = None) -> None:
    """Fails unless whole batches are what torch gives, and were really looked up whole."""
    loaders = []

    def made() -> DataLoader[Any]:
        loaders.append(make())
        return loaders[-1]

    want = watch(iter, made, passes, leave)
    assert watch(whole, made, passes, leave) == want
    known = found(loaders[-1])
    assert not known.given_up
    lookup = known.lookup()
    assert lookup is not None
    assert lookup.proven is any(isinstance(each, tuple) for each in want)


def left_to_torch(make: Make, reason: str) -> None:
    """Fails unless a loader is torch's business, for a reason."""
    loader = make()
    assert begin(loader, CPU) is None
    assert reason in found(loader).given_up


def as_if(device: str, loader: DataLoader[Any], move: PartsToMove = "all", memory: int = 2**30) -> InMemoryLoader:
    """A residence on a device that is the host, with so much memory."""
    return InMemoryLoader(loader, DevicePlacement(torch.device(device), move, free=lambda _: memory))
