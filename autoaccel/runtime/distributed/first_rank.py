"""What the first rank does for all, or before the others: devices, files, decisions."""

from __future__ import annotations

import atexit
import functools
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, overload

import torch

from .. import devices
from . import deferred_outputs, process_group
from .process_group import Group

_P = ParamSpec("_P")
_R = TypeVar("_R")
_counts: dict[str, int] = {}


def device(device: Any) -> Any:
    """The device of this rank, which joins the others here; under one process `device` as it is.

    Args:
        device: As the script spells it. Without an index it stays as it is, and this rank's accelerator becomes the
            current one; with an index that of this rank's takes its place.

    Raises:
        RuntimeError: This machine has fewer accelerators than ranks, or the ranks cannot be joined.
    """
    if process_group.world_size() == 1:
        return device
    place = devices.resolve(device)
    if place.type == "cpu":
        process_group.join("cpu")
        return device
    local, module = int(os.environ.get("LOCAL_RANK", "0")), devices.module_of(place.type)
    count = module.device_count()
    if local >= count:
        raise RuntimeError(
            f"accel.device: rank {local} of this machine has no {place.type} device: {count} can be seen; "
            "start no more processes than that"
        )
    module.set_device(local)
    process_group.join(place.type)
    if isinstance(device, int):
        return local
    if str(place) == place.type:
        return device
    own = torch.device(place.type, local)
    return str(own) if isinstance(device, str) else own


def save(obj: Any, path: Any, *args: Any, **kwargs: Any) -> None:
    """`torch.save` by the first rank; the others wait, and get the exception if it fails.

    Args:
        path: As of `torch.save`. What is no file, such as a buffer in memory, every rank writes for itself.
        args: What else `torch.save` takes.
    """
    group = _joined()
    in_memory = not isinstance(path, str | os.PathLike) and not hasattr(path, "fileno")
    if group is None or in_memory:
        torch.save(obj, path, *args, **kwargs)
        return
    if not group.is_apart():
        deferred_outputs.gather_all(group)
    key = _numbered("save")
    group.count_save()
    if group.rank == 0:
        with group.apart("accel.save()"), _publishing(group, key):
            torch.save(obj, path, *args, **kwargs)
    else:
        _await(group, key)


@overload
def first() -> AbstractContextManager[object]: ...


@overload
def first(function: Callable[_P, _R]) -> Callable[_P, _R]: ...


def first(function: Callable[_P, _R] | None = None) -> AbstractContextManager[object] | Callable[_P, _R]:
    """A block that the first rank runs before the others: downloads, directories, what is computed once and kept.

    Every rank runs the block, for what it binds is wanted on each; so it has to be one that finds its work done: the
    dataset downloaded, the directory there. First comes rank 0, alone; then the first rank of each other machine, whose
    disk may be another one; then all others. Nobody goes on before all are through. If the block fails on the first
    rank, the same exception is raised on the others, which do not run it. In the block models compute whole
    batches, for ranks do not meet there.

    Args:
        function: What the block is about where that is one call: `accel.first(download)(url)`.

    Returns:
        A context manager; with a function one that calls it in such a block, under one process the function itself.
    """
    if function is not None:
        return function if _joined() is None else functools.partial(_call_first, function)
    group = _joined()
    return nullcontext() if group is None or group.is_apart() else _in_order(group)


def _call_first(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    with first():
        return function(*args, **kwargs)


@contextmanager
def _in_order(group: Group) -> Iterator[None]:
    deferred_outputs.gather_all(group)
    key = _numbered("first")
    leads = group.rank == 0 or os.environ.get("LOCAL_RANK", "0") == "0"
    place = "waiting for the block of accel.first()"
    if group.rank:
        _await(group, key)
    if not leads:
        group.wait(lambda: _count(group, f"{key}/leaders") >= _machines(group), place, patient=True)
    with group.apart("accel.first()"), _publishing(group, key) if group.rank == 0 else nullcontext():
        yield
    if leads:
        group.store.add(f"{key}/leaders", 1)
    group.store.add(f"{key}/through", 1)
    group.wait(lambda: _count(group, f"{key}/through") >= group.size, place, patient=True)


def agreed(condition: Any) -> Any:
    """What the first rank finds, for all: of conditions on the clock, on files, on what devices round otherwise.

    Args:
        condition: Anything that is true or false.

    Returns:
        The first rank's truth value; under one process `condition` as it is.
    """
    group = _joined()
    if group is None:
        return condition
    return bool(group.exchange([float(bool(condition))], "at accel.agreed()")[0][0])


def path(place: Any) -> Any:
    """Where a rank writes a file or a folder: the first one to `place`, the others to where it is thrown away.

    So each rank does what the script says, and what it leaves behind is there once. What the others read again is for
    `save` and `first`.

    Args:
        place: A path. What is none, such as an open file, stays as it is.

    Returns:
        A path of the same type; under one process, and on the first rank, `place` itself.
    """
    group = _joined()
    if group is None or group.rank == 0 or not isinstance(place, str | os.PathLike):
        return place
    own = Path(_throwaway(), Path(place).absolute().relative_to(Path(place).absolute().anchor))
    own.parent.mkdir(parents=True, exist_ok=True)
    return str(own) if isinstance(place, str) else type(place)(own)  # type: ignore[call-arg]


@functools.cache
def _throwaway() -> str:
    """A folder of this process, which goes with it."""
    folder = tempfile.mkdtemp(prefix="autoaccel-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _joined() -> Group | None:
    """The group, which is joined here where a script comes to save before it names a device; None of one process."""
    if process_group.world_size() == 1:
        return None
    found = process_group.current()
    if found is None and process_group.has_left():
        return None
    return found or process_group.join(devices.in_use().type)


def _numbered(verb: str) -> str:
    """A name for this call, the same on all ranks: they make the same calls."""
    _counts[verb] = _counts.get(verb, 0) + 1
    return f"{verb}/{_counts[verb]}"


def _machines(group: Group) -> int:
    """How many ranks come first on their machine."""
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    return group.size // int(local) if local.isdecimal() and int(local) else 1


def _count(group: Group, key: str) -> int:
    return int(group.store.add(key, 0))


@contextmanager
def _publishing(group: Group, key: str) -> Iterator[None]:
    """Tell the others how the block ends: well, or by which exception."""
    try:
        yield
    except Exception as failure:
        group.store.set(key, _pickled(failure))
        raise
    group.store.set(key, pickle.dumps(None))


def _pickled(failure: Exception) -> bytes:
    try:
        text = pickle.dumps(failure)
        pickle.loads(text)
    except Exception:  # exceptions of libraries need not survive it
        return pickle.dumps(RuntimeError(f"rank 0: {type(failure).__name__}: {failure}"))
    return text


def _await(group: Group, key: str) -> None:
    is_there: Callable[[], bool] = lambda: bool(group.store.check([key]))  # noqa: E731
    group.wait(is_there, f"waiting for rank 0 ({key.partition('/')[0]})", patient=True)
    if (failure := pickle.loads(group.store.get(key))) is not None:
        raise failure
