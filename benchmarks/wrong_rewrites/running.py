"""Many short programs: a process that has torch forks one child for each condition, which runs several programs one
after the other and tells what each did. What differs is run again, each run in a child of its own."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import linecache
import os
import select
import signal
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing import queues
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from autoaccel import runtime
from autoaccel.measure.observing import double_precision, host_prefetch, invariants, rehearsal
from autoaccel.measure.observing import observation as observing
from autoaccel.measure.observing.exchange import Exchange
from autoaccel.measure.observing.request import COMPILE, PREFETCH, SCALER, WORKERS, Request
from autoaccel.measure.observing.request import FUSED as FUSED_KERNELS
from benchmarks.public_scripts import observe
from benchmarks.wrong_rewrites.fetching import FetchedAhead

Texts = Mapping[str, str]
"""The files of a program by path; the one that is run is `main.py`."""

TIMEOUT = 12.0  # seconds for one run


@dataclass(frozen=True, slots=True)
class Condition:
    """What is made to happen while a program runs."""

    name: str
    rehearse: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """On top of what the rehearsal sets."""
    timeout: float = TIMEOUT
    double: bool = False
    """In float64, where what is rounded otherwise is seen no more."""


# As it is on a machine on which nothing pays.
PLAIN = Condition("plain")
DISABLED = Condition("disabled", (), {"AUTOACCEL_DISABLE": "all"})
# Batches are moved, gradients scaled by powers of two: bit for bit the same.
MOVED = Condition("moved", (PREFETCH,))
SCALED = Condition("scaled", (PREFETCH, SCALER))
# What only a GPU would do: forwards and losses in bfloat16.
LOW = Condition("bfloat16", (PREFETCH,), {"AUTOACCEL_AMP_DTYPE": "bfloat16"})
# Optimizers update all parameters in one kernel, which rounds otherwise.
FUSED = Condition("fused", (PREFETCH, FUSED_KERNELS))
# Convolutions over pictures whose channels lie side by side, which round otherwise.
CHANNELS_LAST = Condition("channels last", (PREFETCH,), {"AUTOACCEL_CHANNELS_LAST": "on"})
# Batches are fetched one step early, where that draws no random numbers.
EARLY = Condition("early", (PREFETCH,))
# Processes: slow, for a sample of the programs.
AHEAD = Condition("ahead", (PREFETCH, WORKERS), {}, 30.0)
CAPTURED = Condition("captured", (COMPILE,), {}, 120.0)
TRACED = Condition("traced", (COMPILE,), {"AUTOACCEL_COMPILE_MODE": "aot_eager"}, 120.0)

CONDITIONS = {
    each.name: each
    for each in (PLAIN, DISABLED, MOVED, SCALED, EARLY, LOW, FUSED, CHANNELS_LAST, AHEAD, CAPTURED, TRACED)
}


@dataclass(frozen=True, slots=True)
class Record:
    """What one run did."""

    error: str = ""
    """The exception that ended it, or `timeout`, or `died`."""
    where: str = ""
    losses: tuple[str, ...] = ()
    """What went backward, exactly spelled."""
    steps: int = 0
    state: str = ""
    """A hash of parameters, buffers and states of optimizers."""
    shapes: str = ""
    """A hash of their types and shapes."""
    random: str = ""
    printed: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    """What no good rewrite does."""


def run(programs: Sequence[Texts], condition: Condition) -> list[Record]:
    """What each of the programs does; they share a process as long as none dies."""
    records: list[Record] = []
    while len(records) < len(programs):
        found, ending = _batch(programs[len(records) :], condition)
        records += found
        if len(records) < len(programs):
            records.append(Record(ending))
    return records


def run_alone(program: Texts, condition: Condition) -> Record:
    """What one program does in a process of its own."""
    return run([program], condition)[0]


def _batch(programs: Sequence[Texts], condition: Condition) -> tuple[list[Record], str]:
    """The records up to where the child ended, and how it did."""
    # Here, not in the child: that one ends by `os._exit` or is killed, and would leave its folder behind.
    with tempfile.TemporaryDirectory(prefix="wrong-rewrites-", ignore_cleanup_errors=True) as folder:
        return _batch_in(folder, programs, condition)


def _batch_in(folder: str, programs: Sequence[Texts], condition: Condition) -> tuple[list[Record], str]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _serve(folder, programs, condition, writing)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writing)
    records: list[Record] = []
    buffer, ending = b"", "died"
    deadline = time.monotonic() + condition.timeout + 5
    while len(records) < len(programs):  # workers that are left hold the pipe open
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            ending = "timeout"
            break
        received = os.read(reading, 1 << 16)
        if not received:
            break
        buffer += received
        while b"\n" in buffer:
            line, buffer = buffer.split(b"\n", 1)
            values = json.loads(line)
            for name in ("losses", "printed", "marks"):
                values[name] = tuple(values[name])
            records.append(Record(**values))
            deadline = time.monotonic() + condition.timeout + 5
    os.close(reading)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # workers of programs that came to no end
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    return records, ending


class _Timeout(BaseException):
    pass


def _serve(folder: str, programs: Sequence[Texts], condition: Condition, pipe: int) -> None:
    """In the child."""
    os.setsid()
    gc.disable()
    gc.freeze()  # what was there before is not looked through after every run
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(quiet, descriptor)
    sys.stderr = io.StringIO()
    os.chdir(folder)
    observer = _Observer(condition, Path(folder))
    for texts in programs:
        record = observer.observe(texts)
        gc.collect()
        os.write(pipe, json.dumps(asdict(record)).encode() + b"\n")
    os._exit(0)


class _Observer:
    """Hooks on torch, put there once for all runs of this process."""

    def __init__(self, condition: Condition, folder: Path) -> None:
        self._condition = condition
        for name in [each for each in os.environ if each.startswith("AUTOACCEL_")]:
            del os.environ[name]
        os.environ["AUTOACCEL_REMEMBER"] = "off"
        os.environ["MPLBACKEND"] = "Agg"
        self._rehearsal = observing.Observation(Request("main.py", rehearse=condition.rehearse), Exchange(folder), 0.0)
        if condition.rehearse:
            rehearsal.install(self._rehearsal)
        if condition.double:
            double_precision.install()
        if condition is EARLY:
            vars(runtime)["prefetch"] = FetchedAhead
        os.environ.update(condition.environment)
        self._seen = observe.Observation(1 << 60, "step")
        observe.install(self._seen)
        backward = torch.autograd.backward

        def told(tensors: Any, *args: Any, **kwargs: Any) -> None:
            for each in self._rehearsal.events.before_backward:
                each([])
            backward(tensors, *args, **kwargs)

        def stepping(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            for each in self._rehearsal.events.before_step:
                each(optimizer)

        vars(torch.autograd)["backward"] = told
        # A sample that cannot be sent would be waited for until the timeout.
        queues.Queue._on_queue_feeder_error = staticmethod(lambda *_: os._exit(1))  # type: ignore[attr-defined]  # noqa: SLF001
        register_optimizer_step_pre_hook(stepping)
        signal.signal(signal.SIGALRM, self._late)

    @staticmethod
    def _late(*_: Any) -> None:
        raise _Timeout

    def observe(self, texts: Texts) -> Record:
        """Run one program."""
        self._seen.__init__(1 << 60, "step")  # type: ignore[misc]
        self._rehearsal.marks.clear()
        for kept in (host_prefetch._passes, host_prefetch._stands, host_prefetch._batches):  # noqa: SLF001
            kept.clear()
        invariants.CountedRegion.open = invariants.CountedRegion.exempt = 0
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float64 if self._condition.double else torch.float32)
        observe.settle(0)
        if FUSED_KERNELS in self._condition.rehearse:
            torch.use_deterministic_algorithms(False)  # else none is fused
        error = where = ""
        out = io.StringIO()
        known = set(sys.modules)
        signal.setitimer(signal.ITIMER_REAL, self._condition.timeout)
        try:
            with _importable(texts), contextlib.redirect_stdout(out):
                _execute(texts)
        except _Timeout:
            error = "timeout"
        except SystemExit as leave:
            error = f"exit status {leave.code}" if leave.code else ""
        except BaseException as problem:
            message = str(problem).strip().split("\n")
            error = f"{type(problem).__name__}: {message[0] if message else ''}"[:300]
            where = _place(problem, texts)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        while torch.is_autocast_enabled("cpu"):
            torch.set_autocast_enabled("cpu", False)
        torch.set_grad_enabled(True)
        if PREFETCH in self._condition.rehearse:
            host_prefetch.look_back(self._rehearsal.mark)
        state = list(self._seen.state())
        record = Record(
            error,
            where,
            tuple(self._seen.losses),
            self._seen.steps,
            observe.sha(state),
            observe.sha(_shapes(state)),
            observe.sha([torch.get_rng_state(), *_others()]),
            tuple(out.getvalue().splitlines()),
            tuple(sorted(self._rehearsal.marks)),
        )
        for name in set(sys.modules) - known:
            if name.split(".")[0] + ".py" in texts or any(path.startswith(name.split(".")[0] + "/") for path in texts):
                del sys.modules[name]
        return record


def _others() -> list[str]:
    import random

    import numpy as np

    numpys: Any = np.random.get_state(legacy=True)
    return [str(hash(random.getstate())), hashlib.sha256(numpys[1].tobytes()).hexdigest(), repr(numpys[2:])]


def _shapes(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{tuple(value.shape)}"
    if isinstance(value, dict):
        return {str(key): _shapes(each) for key, each in value.items() if isinstance(each, (torch.Tensor, dict))}
    if isinstance(value, (list, tuple)):
        return [_shapes(each) for each in value]
    return value


def _place(error: BaseException, texts: Texts) -> str:
    where = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename in texts:
            source = texts[frame.f_code.co_filename].splitlines()
            where = f"{frame.f_code.co_filename}:{line}: {source[line - 1].strip() if line <= len(source) else ''}"
    return where


def _execute(texts: Texts) -> None:
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__="main.py", __builtins__=__builtins__)
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    sys.argv = ["main.py"]
    try:
        exec(compile(texts["main.py"], "main.py", "exec"), module.__dict__)
    finally:
        sys.modules["__main__"] = before


@contextlib.contextmanager
def _importable(texts: Texts) -> Iterator[None]:
    """Modules of a program are found in its texts, whose lines tracebacks and compilers find, too."""
    finder = _Finder(texts)
    for path, text in texts.items():
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, texts: Texts) -> None:
        self._texts = texts

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> importlib.machinery.ModuleSpec | None:
        base = name.replace(".", "/")
        for path in (f"{base}.py", f"{base}/__init__.py"):
            if path in self._texts:
                return importlib.util.spec_from_loader(name, self, origin=path, is_package=path.endswith("__init__.py"))
        return None

    def create_module(self, _spec: Any) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        path = module.__spec__.origin
        assert path is not None
        exec(compile(self._texts[path], path, "exec"), module.__dict__)


def warm() -> None:
    """Before anything is forked: what every child would import by itself."""
    import torch._dynamo
    import torch.testing

    import autoaccel.runtime

    assert autoaccel.runtime
    torch.set_num_threads(1)
    nn, distributions = torch.nn, torch.distributions
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(4, 4))
    cells = [nn.LSTM(4, 2, batch_first=True), nn.GRU(2, 4, batch_first=True)]
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        optimizer = kind([each for part in (model, *cells) for each in part.parameters()], lr=0.1)
        out = cells[1](cells[0](model(torch.ones(2, 1, 2, 2)).unsqueeze(1))[0])[0].squeeze(1)
        _ = distributions.Categorical(logits=out).probs
        loss: Any = nn.functional.cross_entropy(out, out.argmax(1))
        loss.backward()
        optimizer.step()
    gc.collect()
    gc.freeze()
