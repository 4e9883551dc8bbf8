"""The processes that train together: joined once, left by all together, and never waited for in vain.

Processes are started by `torchrun`, which tells each of them its rank in the environment. Tensors travel by torch's
process groups: NCCL between CUDA devices, gloo between CPUs. Beside them is a small group of gloo's on which ranks
compare, before each forward pass, where they are (`exchange`), and the store that torch keeps for the start, where
a rank that fails leaves word, so that the others can say which one it was.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import re
import signal
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import torch
from torch import distributed as dist

from .. import devices
from ..environment import Decision, note, warn_once, whole_number
from ..rng_state import RngState

_BACKENDS: Final = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl", "xpu": "cpu:gloo,xpu:xccl"}
_PATIENCE: Final = 600  # seconds that a rank waits for another one in the same operation
_LATER: Final = timedelta(seconds=10)  # until torch gives up, which does not say which rank is missing
_POLL: Final = 1e-4  # seconds
_ASKING: Final = 0.5  # seconds between two looks at who is still there
_STARTERS: Final = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""By which programs that know nothing of torch say how many processes they have started."""
AGREE: Final = "what decides how a program goes on is for accel.agreed(...)"
"""What there is to do where ranks come apart."""
_WORD: Final = 3.0  # seconds in which a rank that fails has left word
_LOST: Final = re.compile(r"gloo|nccl|connection|timed? ?out|peer|socket|store", re.IGNORECASE)


def world_size() -> int:
    """How many processes `torchrun` has started; 1 where there is none of it."""
    text = os.environ.get("WORLD_SIZE", "").strip()
    if not text and (several := next((name for name in _STARTERS if _number(name) > 1), None)):
        warn_once(
            f"{several} says that this is one of {_number(several)} processes, but not where the others are: each of "
            "them trains alone; let each machine start torchrun, which starts the processes"
        )
    return _number("WORLD_SIZE")


def _number(variable: str) -> int:
    text = os.environ.get(variable, "").strip()
    return int(text) if text.isdecimal() and int(text) > 0 else 1


@dataclass(frozen=True, slots=True)
class Group:
    """What a rank knows of itself and the others."""

    rank: int
    size: int
    store: Any
    words: Any  # torch's group for what ranks tell one another: of gloo's kind, apart from that of the tensors
    _apart: list[str] = field(default_factory=list)
    _saves: list[None] = field(default_factory=list)

    @contextlib.contextmanager
    def apart(self, verb: str) -> Iterator[None]:
        """A block in which ranks are not at the same place of the program, and so must not meet."""
        self._apart.append(verb)
        try:
            yield
        finally:
            self._apart.pop()

    def is_apart(self) -> bool:
        """Whether this rank is in such a block."""
        return bool(self._apart)

    def count_save(self) -> None:
        """Note that this rank has come to a save; in a block that not all run, saves do not count."""
        if not self._apart:
            self._saves.append(None)

    @property
    def saves(self) -> int:
        """How many saves this rank has come to: the first one waits for nobody there."""
        return len(self._saves)

    def exchange(self, values: list[float], place: str) -> list[list[float]]:
        """What each rank says in the same place of the program, by rank.

        Args:
            values: As many on each rank; whole numbers up to 2**53 arrive as they are.
            place: Where this rank is, for the message of who waits in vain.

        Raises:
            RuntimeError: Another rank has ended, or does not come.
        """
        if self._apart:
            raise RuntimeError(f"accel: ranks cannot meet inside of the block of {self._apart[-1]}; this is {place}")
        mine = torch.tensor(values, dtype=torch.float64)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        with self.naming_the_lost(place):
            work = dist.all_gather(found, mine, group=self.words, async_op=True)
            self.wait(work.is_completed, place)
            work.wait()
        return [each.tolist() for each in found]

    def wait(self, is_over: Callable[[], bool], place: str, *, patient: bool = False) -> None:
        """Wait until something is over, unless a rank has ended.

        Args:
            patient: Whether it may take as long as it takes, as downloads do.
        """
        began = asked = time.monotonic()
        while not is_over():
            time.sleep(_POLL)
            now = time.monotonic()
            if now - asked > _ASKING:
                asked = now
                self.store.set(f"at/{self.rank}", place)
                if (reason := self.lost()) and not is_over():
                    raise RuntimeError(f"{reason}; this is rank {self.rank}, {place}")
                if not patient and now - began > patience():
                    raise RuntimeError(f"{self.missing(place)}; this is rank {self.rank}, {place}")

    def lost(self) -> str:
        """Which rank is no longer there, and why; empty where none is known to be gone."""
        if self.store.check(["failed"]):
            return str(self.store.get("failed").decode())
        ranks = [rank for rank in range(self.size) if rank != self.rank]
        for rank in ranks:
            if self.store.check([f"ended/{rank}"]):
                return f"rank {rank} has reached the end of the program"
        return self.gone()

    def gone(self) -> str:
        """Which process of this machine has ended without a word; empty where none is known to have."""
        for rank in range(self.size):
            here = rank != self.rank and self.store.check([f"process/{rank}"])
            if here and not self.store.check([f"ended/{rank}"]):
                if _is_gone(self.store.get(f"process/{rank}").decode()):
                    return f"rank {rank} has gone without a word, as a process that is killed does"
        return ""

    def missing(self, place: str) -> str:
        """Which ranks are not where this one waits, and where they were last seen to wait."""
        seen = {
            rank: self.store.get(f"at/{rank}").decode() if self.store.check([f"at/{rank}"]) else "not waiting"
            for rank in range(self.size)
            if rank != self.rank
        }
        away = [f"rank {rank} ({where})" for rank, where in seen.items() if where != place]
        return f"{', '.join(away) or 'another rank'} did not come within {patience():g} s"

    @contextlib.contextmanager
    def naming_the_lost(self, place: str) -> Iterator[None]:
        """Errors of torch's connections become one message that names the rank that was lost."""
        try:
            yield
        except RuntimeError as failure:  # torch's own errors of connections are of this kind
            if not _LOST.search(str(failure)) or str(failure).startswith("rank "):
                raise
            if reason := self._word() or ("imed out" in str(failure) and self.missing(place)):
                raise RuntimeError(f"{reason}; this is rank {self.rank}, {place}") from failure
            raise

    def _word(self) -> str:
        limit = time.monotonic() + _WORD
        while time.monotonic() < limit:
            try:
                if reason := self.lost():
                    return reason
            except RuntimeError:
                return "rank 0 has ended, and the store of torch's with it"
            time.sleep(0.05)
        return ""


_group: Group | None = None
_left = False  # this process was a rank, or was forked by one


def current() -> Group | None:
    """The group that this process has joined."""
    return _group


def has_left() -> bool:
    """Whether this process is no rank, or no longer: a loader's worker, or a program at its end."""
    return _left


def join(kind: str) -> Group:
    """Join the other ranks, which do the same; at the second call there is nothing to do.

    From here on every rank has the first rank's random generators, and the others print nothing.

    Args:
        kind: Of the device that this rank computes on, such as "cuda".

    Raises:
        RuntimeError: The ranks cannot be joined: what stands in the way is in the message.
    """
    global _group
    if _group is None:
        if _left:
            raise RuntimeError("accel: this process is no rank: it was started by one, or the run has ended")
        _group = _joined(kind)
        os.register_at_fork(after_in_child=_forget)
        atexit.register(_leave)
        sys.excepthook = _tells(sys.excepthook)
        share_generators(_group)
        if _group.rank:
            _silence()
        note("distribute", Decision(f"{_group.size} ranks", f"this is rank {_group.rank}, on {kind}"))
    return _group


def patience() -> int:
    """Seconds that a rank waits for another one."""
    wanted = whole_number("RANK_TIMEOUT")
    return _PATIENCE if wanted is None else max(1, wanted)


def share_generators(group: Group) -> None:
    """Give every rank the random generators of the first one: torch's, Python's, NumPy's."""
    holder = [RngState(cuda=True) if group.rank == 0 else None]
    dist.broadcast_object_list(holder, src=0, group=group.words)
    state = holder[0]
    assert state is not None
    state.restore()


def generator_sum() -> int:
    """A checksum of the generators on the host, which are to be the same on all ranks."""
    state = zlib.crc32(torch.get_rng_state().numpy().tobytes())
    _, words, _ = random.getstate()
    state = zlib.crc32(f"{words[0]} {words[-1]}".encode(), state)
    if (numpy := sys.modules.get("numpy.random")) is not None:
        _, keys, position, *_ = numpy.get_state()
        state = zlib.crc32(f"{keys[0]} {position}".encode(), state)
    return state


def _joined(kind: str) -> Group:
    if not dist.is_available():
        raise RuntimeError("accel: this torch was built without torch.distributed; start one process")
    if dist.is_initialized():
        raise RuntimeError("accel: the program has a process group of its own; it cannot be distributed once more")
    if kind not in _BACKENDS:
        raise RuntimeError(f"accel: processes cannot train together on {kind}; start one process, or use the CPU")
    # not at import: a torch may be built without
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    limit = timedelta(seconds=patience())
    try:
        store, rank, size = next(rendezvous("env://", timeout=min(limit, timedelta(seconds=120))))
    except (RuntimeError, ValueError) as failure:
        raise RuntimeError(_explained(failure)) from failure
    limit += _LATER
    store.set_timeout(limit)
    own = PrefixStore("autoaccel", store)
    own.set(f"process/{rank}", f"{socket.gethostname()} {os.getpid()}")
    dist.init_process_group(_backends(kind), store=store, rank=rank, world_size=size, timeout=limit)
    return Group(rank, size, own, dist.new_group(backend="gloo", timeout=limit))


def _backends(kind: str) -> str:
    """Those of a kind of device; on a CPU also that of the accelerator, which the program may come to use later.

    Connections between accelerators are made at their first use.
    """
    found = devices.accelerator() if kind == "cpu" else None
    return _BACKENDS.get(kind if found is None else found.type, _BACKENDS[kind])


def _explained(failure: Exception) -> str:
    address, port = os.environ.get("MASTER_ADDR", "?"), os.environ.get("MASTER_PORT", "?")
    text = str(failure)
    if "EADDRINUSE" in text or "in use" in text:
        return f"accel: port {port} is in use by another program: start with another --master-port"
    if "environment variable" in text:
        return f"accel: WORLD_SIZE is set, but the program was not started by torchrun: {text}"
    return f"accel: the other ranks were not reached at {address}:{port}: {text.splitlines()[0]}"


def _silence() -> None:
    """Let this process print nothing on stdout: the first rank does, and all print the same."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stdout.flush()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def _forget() -> None:
    """In a forked child, such as a loader's worker: it is no rank, and waits for none."""
    global _group, _left
    _group, _left = None, True


_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def _tells(before: _Hook) -> _Hook:
    """An excepthook that leaves word for the other ranks, and then does what the one before did."""

    def hook(kind: type[BaseException], failure: BaseException, trace: TracebackType | None) -> None:
        if _group is not None:
            with contextlib.suppress(RuntimeError):
                text = f"rank {_group.rank} has failed with {kind.__name__}: {failure}"
                _group.store.compare_set("failed", "", text.partition("\n")[0])
        before(kind, failure, trace)

    return hook


def _leave() -> None:
    """Leave together: who goes first waits for the others, unless one of them has failed."""
    global _group, _left
    group, _group, _left = _group, None, True
    if group is None:
        return
    clean = False
    with contextlib.suppress(RuntimeError):  # the first rank has gone, and its store with it
        if not group.store.check(["failed"]):
            clean = _wait_for_the_end(group)
    if clean:
        dist.destroy_process_group()
        return
    if group.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        time.sleep(1)  # the store is this process's own, and the others look there for the reason
    if hasattr(signal, "alarm"):
        # what waits for ranks that are gone may wait for long when the interpreter takes it down
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(5)


def _wait_for_the_end(group: Group) -> bool:
    store, began = group.store, time.monotonic()
    asked = began
    store.set(f"ended/{group.rank}", str(group.saves))
    ends = [f"ended/{rank}" for rank in range(group.size)]
    while not store.check(ends):
        now = time.monotonic()
        if store.check(["failed"]) or now - began > patience():
            return False
        if now - asked > _ASKING:
            asked = now
            if (reason := group.gone()) and not store.check(ends):
                sys.stderr.write(f"accel: {reason}; this is rank {group.rank}, at the end of the program\n")
                return False
        time.sleep(0.01)
    saves = [int(store.get(each)) for each in ends]
    if saves[group.rank] != saves[0]:
        others = f"rank {group.rank} has come to {saves[group.rank]} saves, and rank 0 to {saves[0]}"
        sys.stderr.write(f"accel: ranks have come apart: {others}; {AGREE}\n")
    store.add("left", 1)
    while group.rank == 0 and store.add("left", 0) < group.size and time.monotonic() - began < patience():
        time.sleep(0.005)  # the store may be this process's own, and the others ask it
    return True


def _is_gone(process: str) -> bool:
    """Whether a process of this machine, spelled `host pid`, has ended; no where that cannot be told."""
    host, _, number = process.rpartition(" ")
    if host != socket.gethostname():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    with contextlib.suppress(OSError):
        return " Z " in Path(f"/proc/{number}/stat").read_text().rpartition(")")[2][:4]
    return False
