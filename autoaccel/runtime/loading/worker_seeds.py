"""Random generators that a dataset keeps, each seeded anew in every worker.

torch seeds the generators that a program shares in each worker of a loader. One that a dataset keeps is copied with it:
every worker draws the same numbers from it, and, since the copies are made anew, the same ones in every pass
(https://docs.pytorch.org/docs/stable/data.html#randomness-in-multi-process-data-loading).
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, TypeAlias

import torch
from torch.utils.data import get_worker_info

from ..environment import disabled, warn_once

Generator: TypeAlias = "random.Random | torch.Generator | Any"
"""Python's, torch's, or NumPy's: a `RandomState` or a `BitGenerator`, by whose state a `Generator` draws."""

MOST: Final = 100_000  # objects that are looked at
_LONG: Final = 1000  # what has so many elements is taken to be data where some of them are nothing but data
_LOOKS: Final = 50  # so many of them
_DATA: Final = (
    str, bytes, bytearray, memoryview, int, float, complex, range, slice, type(None), type(Ellipsis), torch.Tensor,
    torch.dtype, torch.device, type, types.ModuleType, types.GeneratorType,
)  # fmt: skip


def seed_worker(worker_id: int) -> None:  # noqa: ARG001 - torch hands it over; its seed holds it already
    """Seed the generators that the dataset keeps, in each worker: `DataLoader(..., worker_init_fn=accel.seed_worker)`.

    A generator's new seed follows from its state and from the worker's own seed (`torch.initial_seed()`), which is
    another one in each worker and pass, and the same whenever the program is seeded the same. So what the script seeds
    it with still matters, and generators that were alike, as those of a picture and its mask, stay alike.

    Found are generators of Python (`random.Random`), NumPy and torch's for the CPU, in attributes of the dataset and of
    whatever it holds: other datasets (`Subset`, `ConcatDataset`), transforms, lists and mappings, closures. They are
    seeded in place. Those that cannot be seeded are left alone, with a warning, and so is what lies behind more than
    100,000 objects. Outside of a worker it does nothing.

    Args:
        worker_id: The number of the worker, which torch hands over.
    """
    info = get_worker_info()
    if info is None or disabled("workers"):
        return
    found, complete = kept_generators(info.dataset)
    name = type(info.dataset).__name__
    if not complete:
        warn_once(f"seed_worker: {name} holds more than {MOST} objects; a generator behind them was not seeded")
    worker = torch.initial_seed()
    for generator, state in [(each, state_of(each)) for each in found]:
        if state is None or not _seed(generator, hashlib.blake2b(state, key=worker.to_bytes(16, "big")).digest()):
            warn_once(f"seed_worker: a {type(generator).__name__} of {name} cannot be seeded: workers draw the same")


def kept_generators(owner: object) -> tuple[list[Generator], bool]:
    """The generators that an object holds, each once, nearest first; and whether it was looked at as a whole.

    Those that the whole program shares are not its own. No code of the object's is run.
    """
    found: dict[int, Generator] = {}
    shared = {id(each) for each in _shared()}
    seen: dict[int, object] = {}  # which keeps them, and so their identities, alive
    level: Iterable[object] = [owner]
    while level:
        below: list[object] = []
        for each in level:
            if isinstance(each, _DATA) or id(each) in seen:
                continue
            if len(seen) >= MOST:
                return list(found.values()), False
            seen[id(each)] = each
            own = _as_generator(each)
            if own is None:
                below.append(each)
            elif id(own) not in shared:
                found.setdefault(id(own), own)
        level = [part for each in below for part in _parts(each)]
    return list(found.values()), True


def state_of(generator: Generator) -> bytes | None:
    """Where a generator stands; None for one that does not say."""
    try:
        if isinstance(generator, random.Random):
            return repr(generator.getstate()).encode()
        if isinstance(generator, torch.Generator):
            return None if generator.device.type != "cpu" else bytes(generator.get_state().tolist())
        legacy = hasattr(generator, "get_state")
        return _spelled(generator.get_state(legacy=False) if legacy else generator.state)
    except (NotImplementedError, AttributeError, TypeError, ValueError):
        return None


def _seed(generator: Generator, digest: bytes) -> bool:
    """Give a generator another seed, in place: whoever shares it goes on sharing it. Whether that was possible."""
    try:
        if isinstance(generator, random.Random):
            generator.seed(int.from_bytes(digest, "big"))
        elif isinstance(generator, torch.Generator):
            generator.manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        else:
            numpy = sys.modules["numpy"]
            words = numpy.frombuffer(digest, dtype=numpy.uint32)
            if isinstance(generator, numpy.random.RandomState):
                generator.seed(words)
            else:
                generator.state = type(generator)(numpy.random.SeedSequence(words.tolist())).state
    except (NotImplementedError, AttributeError, TypeError, ValueError):
        return False
    return True


def _as_generator(candidate: object) -> Generator | None:
    """What holds the state by which an object draws; None if it is no generator."""
    if isinstance(candidate, random.SystemRandom):
        return None  # it has no state: no two draw the same
    if isinstance(candidate, (random.Random, torch.Generator)):
        return candidate
    numpy = sys.modules.get("numpy.random")
    if numpy is None:
        return None
    if isinstance(candidate, numpy.Generator):
        return candidate.bit_generator
    return candidate if isinstance(candidate, (numpy.RandomState, numpy.BitGenerator)) else None


def _shared() -> Iterator[object]:
    """The generators of the whole program, which torch seeds in its workers."""
    yield torch.default_generator
    yield random._inst  # noqa: SLF001 - it has no other name
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        yield numpy.mtrand._rand  # noqa: SLF001


def _parts(owner: object) -> Iterator[object]:
    """What an object holds."""
    if isinstance(owner, (Mapping, Sequence, Set)):
        yield from _elements(owner)
    elif isinstance(owner, functools.partial):
        yield from (owner.func, *owner.args, *owner.keywords.values())
    elif isinstance(owner, (types.MethodType, types.BuiltinMethodType)):  # `self.draw = rng.normal`
        yield owner.__self__
        yield getattr(owner, "__func__", None)
    elif isinstance(owner, types.FunctionType):
        for cell in owner.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # nothing is bound yet
                continue
        yield from owner.__defaults__ or ()
        yield from (owner.__kwdefaults__ or {}).values()
    yield from _attributes(owner)


def _attributes(owner: object) -> Iterator[object]:
    try:
        own = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        own = None
    if isinstance(own, dict):
        yield from list(own.values())
    for cls in type(owner).__mro__:
        for slot in vars(cls).values() if "__slots__" in vars(cls) else ():
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    yield slot.__get__(owner, type(owner))
                except AttributeError:  # it is empty
                    continue


def _elements(owner: Any) -> Iterator[object]:
    """The elements of a container, the values of a mapping; none of one that is too long to hold anything but data."""
    if type(owner).__module__ not in ("builtins", "collections"):
        return  # another class may compute them; what it holds it has in attributes
    values = owner.values() if isinstance(owner, Mapping) else owner
    if len(owner) <= _LONG:
        yield from list(values)
        return
    step = len(owner) // _LOOKS
    some = values[::step] if isinstance(values, (list, tuple)) else itertools.islice(values, 0, None, step)
    if not all(map(_is_data, some)):
        yield from list(values)


def _is_data(value: object) -> bool:
    if isinstance(value, _DATA):
        return True
    if type(value) in (tuple, list, dict, set, frozenset) and len(value) <= _LOOKS:  # type: ignore[arg-type]
        return all(map(_is_data, value.values() if isinstance(value, dict) else value))  # type: ignore[call-overload]
    return type(value).__module__.partition(".")[0] in ("numpy", "pathlib", "PIL") and _as_generator(value) is None


def _spelled(state: Any) -> bytes:
    """A state of NumPy's, which is numbers and arrays in dictionaries, as bytes."""
    if isinstance(state, dict):
        return b"".join(key.encode() + b"=" + _spelled(state[key]) + b";" for key in sorted(state))
    return state.tobytes() if hasattr(state, "tobytes") else repr(state).encode()
