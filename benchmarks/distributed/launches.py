"""`python -m benchmarks.distributed.launches [--count N] [--killed N] [--torchrun N]`: launches; ranks fail at random.

All run `scripts/distributed.py`, over gloo on the CPU. `--count` are launches of two or three ranks that nobody looks
after, forks of one process; in every other one, a worker of each rank loads the batches. Of five launches two come to
their end; in the others one rank, at random, is killed at a random moment after the ranks have joined, or raises an
exception at a random step, or leaves the program there. The others have to end by themselves: what has not after 60
seconds hangs. `--killed` are such launches with one or two workers for each loader, that stay from epoch to epoch or
do not, in which one rank is killed: in every other one before a worker that it has started does anything, else at a
random moment after the ranks have joined. `--torchrun` are launches of two ranks by `torchrun`, which ends the others;
in every other one a rank is killed at a random moment from the start on, and 180 seconds count. A process that is still
there after all ranks have ended is an orphan.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import importlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

from autoaccel.measure.observing.hooks import around
from autoaccel.runtime.distributed import process_group
from benchmarks.distributed.launching import Launch, launch, left_behind
from benchmarks.public_scripts import observe

SCRIPT = Path(__file__).parent / "scripts" / "distributed.py"
RESULT = Path(__file__).parents[1] / "results" / "distributed_launches.md"
STARTING = "a rank is killed as it starts a worker"
END, KILLED, RAISES, LEAVES = "all come to their end", "a rank is killed", "a rank raises", "a rank leaves the program"
KINDS = (END, KILLED, RAISES, END, LEAVES)
BY_TORCHRUN = "by torchrun: "
LIMIT = 60.0  # seconds
LIMIT_BY_TORCHRUN = 180.0  # seconds: three processes import torch
STEPS = 22  # of the script


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one launch."""

    kind: str
    wrong: str
    seconds: float
    hung: bool
    orphans: int
    named: bool = False
    """Whether all others have said which rank it was."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--killed", type=int, default=400)
    parser.add_argument("--torchrun", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--result", type=Path, default=RESULT)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for module in ("torch._dynamo", "numpy"):
        importlib.import_module(module)
    gc.freeze()  # no fork looks through all of it, and copies it by that
    found: list[Outcome] = []
    counts = arguments.count, arguments.killed, arguments.torchrun
    for outcome in launches(random.Random(arguments.seed), *counts):
        found.append(outcome)
        if outcome.wrong or len(found) % 25 == 0:
            print(f"{len(found)}: {outcome.kind}: {outcome.wrong or 'right'} ({outcome.seconds:.1f} s)", flush=True)
            arguments.result.write_text(page(found, arguments.seed), encoding="utf-8")
    arguments.result.write_text(page(found, arguments.seed), encoding="utf-8")
    return 1 if any(each.wrong for each in found) else 0


def launches(rng: random.Random, count: int, killed: int, by_torchrun: int) -> Iterator[Outcome]:
    usual = 3.0
    for number in range(count):
        outcome = launched(rng, KINDS[number % len(KINDS)], usual, workers=number % 2)
        usual = outcome.seconds if outcome.kind == END else usual
        yield outcome
    for number in range(killed):
        kind = KILLED if number % 2 else STARTING
        yield launched(rng, kind, usual, workers=rng.choice((1, 2)), persistent=rng.random() < 0.5)
    usual = 10.0
    for number in range(by_torchrun):
        outcome = started(rng, END if number % 2 == 0 else KILLED, usual)
        usual = outcome.seconds if number % 2 == 0 else usual
        yield outcome


# -- ranks that nobody looks after


def launched(rng: random.Random, kind: str, usual: float, workers: int, *, persistent: bool = False) -> Outcome:
    """One launch; `usual` is how many seconds it takes where nothing happens."""
    ranks = rng.choice((2, 2, 3))
    unlucky, step, after = rng.randrange(ranks), rng.randrange(STEPS), rng.uniform(0, usual)
    with tempfile.TemporaryDirectory(prefix="launch-", ignore_cleanup_errors=True) as folder:

        def be_a_rank(rank: int) -> None:
            os.chdir(folder)
            os.environ.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
            if workers:
                _load_by_workers(workers, persistent)
            if rank == unlucky:
                _befall(kind, step, after)
            observe.execute(SCRIPT, [])

        ended = launch(ranks, be_a_rank, Path(folder), limit=LIMIT)
        others = [rank for rank in range(ranks) if rank != unlucky and ended.statuses[rank]]
        said = (Path(folder, f"err.{rank}").read_text(errors="replace") for rank in others)
        named = all(f"rank {unlucky} has" in each for each in said)
    return Outcome(kind, wrong_with(kind, unlucky, ended), ended.seconds, bool(ended.hung), ended.orphans, named)


def _load_by_workers(workers: int, persistent: bool) -> None:
    init = DataLoader.__init__
    more = {"num_workers": workers, "persistent_workers": persistent}

    @functools.wraps(init)
    def with_workers(self: object, *args: object, **kwargs: object) -> None:
        init(self, *args, **{**more, **kwargs})  # type: ignore[arg-type]

    DataLoader.__init__ = with_workers  # type: ignore[method-assign]


def _befall(kind: str, step: int, after: float) -> None:
    """In the rank: what happens to it."""
    if kind == KILLED:

        @around(process_group, "_joined")
        def joined(plain: object, device: str) -> object:
            group = plain(device)  # type: ignore[operator]
            threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()
            return group

    if kind == STARTING:
        me, starts = os.getpid(), iter(range(step % 2, -1, -1))  # it starts two or more

        def start() -> None:
            if os.getpid() == me and next(starts) == 0:
                os.register_at_fork(after_in_parent=lambda: os.kill(me, signal.SIGKILL), after_in_child=be_late)

        def be_late() -> None:
            while os.getppid() == me:
                time.sleep(0.001)

        os.register_at_fork(before=start)

    if kind in (RAISES, LEAVES):
        left = iter(range(step, -1, -1))

        def before_a_step(*_: object) -> None:
            if next(left) == 0:
                raise (ValueError("as planned") if kind == RAISES else SystemExit(0))

        register_optimizer_step_pre_hook(before_a_step)


def wrong_with(kind: str, unlucky: int, ended: Launch) -> str:
    """What is not as it shall be, in one line."""
    others = {rank: status for rank, status in ended.statuses.items() if rank != unlucky}
    if ended.hung or ended.orphans or (kind == END and any(ended.statuses.values())):
        return ended.problem
    if kind in (RAISES, LEAVES) and not all(others.values()):
        return f"others than rank {unlucky} came to their end: {others}"
    return ""


# -- ranks that torchrun looks after


def started(rng: random.Random, kind: str, usual: float) -> Outcome:
    """One launch by `torchrun`, which ends the other ranks."""
    after, began = rng.uniform(0, usual), time.monotonic()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(SCRIPT)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with tempfile.TemporaryDirectory(prefix="launch-", ignore_cleanup_errors=True) as folder:
        with Path(folder, "said").open("wb") as said:
            run = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=said, stderr=said, start_new_session=True
            )
        if kind == KILLED:
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(after)
            ranks = _ranks_of(run.pid)
            for pid in rng.sample(ranks, min(1, len(ranks))):
                os.kill(pid, signal.SIGKILL)
        try:
            status: int | None = run.wait(LIMIT_BY_TORCHRUN)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        ended = Launch({0: status}, time.monotonic() - began, left_behind(run.pid), LIMIT_BY_TORCHRUN)
    wrong = ended.problem if ended.hung or ended.orphans or (kind == END and status) else ""
    return Outcome(f"{BY_TORCHRUN}{kind}", wrong, ended.seconds, bool(ended.hung), ended.orphans, kind == KILLED)


def _ranks_of(parent: int) -> list[int]:
    """Processes that a process has started and that run the script."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents = (place / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parents) == parent and SCRIPT.name in (place / "cmdline").read_text():
                found.append(int(place.name))
    return sorted(found)


# -- what is told


def page(found: list[Outcome], seed: int) -> str:
    """All of it as Markdown."""
    hung, orphans = sum(each.hung for each in found), sum(each.orphans for each in found)
    lines = [
        "# Launches of several ranks",
        "",
        f"`python -m benchmarks.distributed.launches` (seed {seed}), which says what is done; two CPU cores, in use by",
        f"others, torch {torch.__version__}, gloo.",
        "",
        f"**{len(found)} launches: {hung} hung, {orphans} processes left behind.**",
        "",
        "| | launches | hung | left behind | otherwise wrong | longest, s | all others name the rank |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for kind in dict.fromkeys(each.kind for each in found):
        of = [each for each in found if each.kind == kind]
        odd = sum(bool(each.wrong) and not each.hung and not each.orphans for each in of)
        figures = (len(of), sum(each.hung for each in of), sum(each.orphans for each in of), odd)
        named = "" if kind.endswith(END) or kind.startswith(BY_TORCHRUN) else sum(each.named for each in of)
        longest = max(each.seconds for each in of)
        lines.append(f"| {kind} | {' | '.join(map(str, figures))} | {longest:.0f} | {named} |")
    wrong = [f"- {number}, {each.kind}: {each.wrong}" for number, each in enumerate(found, 1) if each.wrong]
    return "\n".join([*lines, *(["", *wrong] if wrong else [])]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
