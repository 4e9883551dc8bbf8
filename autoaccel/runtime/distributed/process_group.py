"""The processes that train together: joined once, left by all together, and never waited for in vain.

Processes are started by `torchrun`, which tells each of them its rank in the environment. Tensors travel by torch's
process groups: NCCL between CUDA devices, gloo between CPUs. Beside them is a small group of gloo's on which ranks
compare, before each forward pass, where they are (`exchange`), and the store that torch keeps for the start, where
a rank that fails leaves word, so that the others can say which one it was.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import random
import re
import signal
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
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
from . import connections

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
_VAIN: Final = 5.0  # seconds in which what waits for a rank that has gone is to learn it by itself
_LOST: Final = re.compile(r"gloo|nccl|connection|timed? ?out|peer|pipe|socket|store", re.IGNORECASE)


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


@dataclass(slots=True, eq=False)
class Group:
    """What a rank knows of itself and the others."""

    rank: int
    size: int
    store: Any
    words: Any  # torch's group for what ranks tell one another: of gloo's kind, apart from that of the tensors
    sockets: Mapping[int, int]  # between ranks
    _apart: list[str] = field(default_factory=list)
    _blocks: list[tuple[int, str]] = field(default_factory=list)
    saves: int = 0
    """How many saves this rank has come to: the first one waits for nobody there."""

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

    def see_all(self, place: str) -> None:
        """Raise a `RuntimeError` where ranks cannot meet."""
        if self._apart:
            raise RuntimeError(f"accel: ranks cannot meet inside of the block of {self._apart[-1]}; this is {place}")

    def count_save(self) -> None:
        """Note that this rank has come to a save; in a block that not all run, saves do not count."""
        if not self._apart:
            self.saves += 1

    def exchange(self, values: list[float], place: str) -> list[list[float]]:
        """What each rank says in the same place of the program, by rank.

        Args:
            values: As many on each rank; whole numbers up to 2**53 arrive as they are.
            place: Where this rank is, for the message of who waits in vain.

        Raises:
            RuntimeError: Another rank has ended, or does not come.
        """
        self.see_all(place)
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
        with self.naming_the_lost(place):
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
            if rank != self.rank and not self.store.check([f"ended/{rank}"]) and self._is_gone(rank):
                return f"rank {rank} has gone without a word, as a process that is killed does"
        return ""

    def _is_gone(self, rank: int) -> bool:
        key = f"process/{rank}"
        return bool(self.store.check([key])) and _is_gone(self.store.get(key).decode())

    def let_the_others_leave(self, limit: float) -> None:
        """On the first rank wait for the others, so many seconds: the store may be its own, and they ask it."""
        self.store.set(f"left/{self.rank}", "")
        end = time.monotonic() + limit
        for rank in range(1, self.size) if self.rank == 0 else ():
            while not self.store.check([f"left/{rank}"]) and not self._is_gone(rank) and time.monotonic() < end:
                time.sleep(0.005)

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
        self._blocks.append((next(_numbers), place))
        try:
            yield
        except RuntimeError as failure:  # torch's own errors of connections are of this kind
            self._blocks[0] = next(_numbers), place  # it does not wait for them any more
            if not _LOST.search(str(failure)) or str(failure).startswith("rank "):
                raise
            if reason := self._word() or ("imed out" in str(failure) and self.missing(place)):
                raise RuntimeError(f"{reason}; this is rank {self.rank}, {place}") from failure
            raise
        finally:
            self._blocks.pop()

    def _word(self) -> str:
        limit = time.monotonic() + _WORD
        while time.monotonic() < limit:
            if reason := self._known_lost():
                return reason
            time.sleep(0.05)
        return ""

    def _known_lost(self) -> str:
        try:
            return self.lost()
        except RuntimeError:
            has_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # else the store is the first rank's
            return f"{'torchrun' if has_agent else 'rank 0'} has ended, and the store of torch's with it"

    def end_what_waits_in_vain(self) -> None:
        """In a thread of its own: end this process where it still waits for others seconds after one has gone.

        Connections that break wake who waits for them, but gloo misses it at times (`waitSend`), and nccl has some that
        do not break.
        """
        while _group is self:
            time.sleep(_ASKING)
            block, end = next(iter(self._blocks), None), time.monotonic() + _VAIN
            while block is not None and block == next(iter(self._blocks), None):
                reason = self._known_lost() if time.monotonic() > end else ""
                if reason and block == next(iter(self._blocks), None):
                    self._give_up(reason, block[1])
                time.sleep(_ASKING)

    def _give_up(self, reason: str, place: str) -> None:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.write(f"accel: {reason}; this is rank {self.rank}, {place}\n")
            sys.stderr.flush()
        with contextlib.suppress(RuntimeError):
            self.store.compare_set("failed", "", reason)
            self.let_the_others_leave(_VAIN + _WORD)
        os._exit(1)


_numbers = itertools.count()
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
        before = connections.open_sockets().items()
        _group = _joined(kind)
        connections.keep_from_forks(dict(connections.open_sockets().items() - before), _forget)
        atexit.register(_leave)
        sys.excepthook = _tells(sys.excepthook)
        threading.Thread(target=_group.end_what_waits_in_vain, name="autoaccel ranks", daemon=True).start()
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
    with group.naming_the_lost("joining"):
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
    own.set(f"process/{rank}", f"{_machine()} {os.getpid()}")
    before = connections.open_sockets().items()
    with Group(rank, size, own, None, {}).naming_the_lost("joining"):
        dist.init_process_group(_backends(kind), store=store, rank=rank, world_size=size, timeout=limit)
        words = dist.new_group(backend="gloo", timeout=limit)
    return Group(rank, size, own, words, dict(connections.open_sockets().items() - before))


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
        clean = not group.store.check(["failed"]) and _wait_for_the_end(group)
        if not clean:
            connections.hang_up(group.sockets)  # some may wait for this one, and for none that has gone
        group.let_the_others_leave(patience() if clean else _VAIN + _WORD)
    if clean:
        dist.destroy_process_group()
        return
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
    return True


@functools.cache
def _machine() -> str:
    """Where a number tells a process: containers may share a host, and its name, and count their processes apart."""
    found = [socket.gethostname()]
    with contextlib.suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        found.append(os.readlink("/proc/self/ns/pid"))  # noqa: PTH115 - no path, but a name of its own
    return "/".join(found)


def _is_gone(process: str) -> bool:
    """Whether a process of this machine, spelled `machine pid`, has ended; no where that cannot be told."""
    machine, _, number = process.rpartition(" ")
    if machine != _machine():
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
