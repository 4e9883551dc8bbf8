"""Many files through the judge: each once, in processes that may die, and from where a run was stopped."""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import resource
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

from autoaccel.analysis import Project
from autoaccel.rewriting import registry
from autoaccel.rewriting.rule import Rule
from benchmarks.robustness.judging import Depth, Verdict, judge

_MOST_MEMORY = 6 << 30


@dataclass(frozen=True, slots=True)
class Item:
    """One text: where it lies, and the hash of its bytes, which is its name among texts."""

    path: Path
    digest: str

    @property
    def number(self) -> int:
        return int(self.digest[:12], 16)


@dataclass(frozen=True, slots=True)
class Effort:
    """Every n-th text, by its hash, is looked at by all rules or probed; `seconds` of CPU time for one text."""

    all_rules: int
    probes: int
    seconds: int

    def depth(self, item: Item) -> Depth:
        return Depth(item.number % self.all_rules == 0, item.number // 7 % self.probes == 0)


class TooLong(BaseException):
    """Passes through whatever catches exceptions: no part of the tool may take it for an error of a file."""


def collect(folders: Iterable[Path]) -> Iterator[Item]:
    """Every text once, in the order of folders."""
    seen: set[str] = set()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if path.is_symlink() or not path.is_file():
                continue
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if digest not in seen:
                seen.add(digest)
                yield Item(path, digest)


def known(state: Path) -> dict[str, Verdict]:
    """The verdicts of a run that was stopped."""
    found = {}
    for line in state.read_text(encoding="utf-8").splitlines() if state.exists() else ():
        entry = json.loads(line)
        problems = tuple((kind, text) for kind, text in entry["verdict"].pop("problems"))
        found[entry["digest"]] = Verdict(**entry["verdict"], problems=problems)
    return found


def run(items: Sequence[Item], state: Path, effort: Effort) -> Iterator[Verdict]:
    """Judge what has no verdict yet and write it down."""
    done = known(state)
    worker: _Worker | None = None
    with state.open("a", encoding="utf-8") as log:
        try:
            for item in items:
                verdict = done.get(item.digest)
                if verdict is None:
                    worker = worker if worker is not None and worker.alive else _Worker(effort)
                    verdict = worker.judge(item)
                    log.write(json.dumps({"digest": item.digest, "verdict": asdict(verdict)}) + "\n")
                    log.flush()
                yield verdict
        finally:
            if worker is not None:
                worker.end()


class _Worker:
    """A process that judges one file after the other, and takes only itself down when it dies."""

    def __init__(self, effort: Effort) -> None:
        context = multiprocessing.get_context("spawn")
        self._seconds = effort.seconds
        self._here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, effort), daemon=True)
        self._process.start()
        there.close()
        self.alive = True

    def judge(self, item: Item) -> Verdict:
        try:
            self._here.send(item)
            # It keeps the time itself; this is for what cannot be interrupted.
            if self._here.poll(self._seconds * 10 + 60):
                verdict = self._here.recv()
                assert isinstance(verdict, Verdict)
                return verdict
            problem = "timeout", f"more than {self._seconds} s, not to be interrupted"
        except (EOFError, OSError):
            self._process.join()
            problem = "crash", f"the process died: {self._process.exitcode}"
        self.end()
        return Verdict(str(item.path), item.path.stat().st_size, parsable=True, problems=(problem,))

    def end(self) -> None:
        self.alive = False
        self._process.kill()
        self._process.join()
        self._here.close()


def _serve(pipe: Connection, effort: Effort) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    signal.signal(signal.SIGPROF, _stop)
    rules = registry.rules()
    folder, project = Path(), Project()
    with contextlib.suppress(EOFError, BrokenPipeError):  # whoever asked has gone
        while True:
            item = pipe.recv()
            if item.path.parent != folder:
                folder = item.path.parent
                project = Project(sorted(folder.glob("*.py")))
            pipe.send(_judged(item, rules, project, effort))


def _judged(item: Item, rules: Sequence[Rule], project: Project, effort: Effort) -> Verdict:
    signal.setitimer(signal.ITIMER_PROF, effort.seconds)
    try:
        return judge(item.path, rules, project, effort.depth(item), item.number)
    except TooLong:
        problem = "timeout", f"more than {effort.seconds} s of CPU time"
    except Exception as error:  # what is to be counted
        problem = "crash", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return Verdict(str(item.path), item.path.stat().st_size, parsable=True, problems=(problem,))


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TooLong
