"""Runs that are made up, for commands that run scripts: what a script would have done is told by its text."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from autoaccel.measure import interpreters, launching
from autoaccel.measure.benching import procedure
from autoaccel.measure.benching.contenders import Processes
from autoaccel.measure.interpreters import Interpreter
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FAILED, FINISHED, RunFailure, RunRecord
from tests.measure.benching.scripts import Played, steady
from tests.measure.verifying.made import RECORD, losses


@dataclass
class Observed:
    """In the place of `launching.observe`. A call of `fast` fails: nobody has defined it; `crash` fails anywhere."""

    requests: list[Request] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    files: tuple[str, ...] = ()
    """What the script imports of its project."""
    defined: tuple[str, ...] = ()
    """What does not fail, then."""

    def __call__(
        self, request: Request, *, python: str, environment: Mapping[str, str], folder: Path, **_: Any
    ) -> RunRecord:
        self.requests.append(request)
        self.folders.append(folder)
        script = (folder / request.script).resolve()
        texts = [*request.texts.values()] if request.texts else [self._text(script)]
        try:
            names = {each.id for text in texts for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Name)}
        except (SyntaxError, ValueError) as error:
            return RunRecord(
                FAILED, RunFailure("SyntaxError", str(error), f"{script.name}:1", "Traceback: SyntaxError")
            )
        for name in ("crash", "fast"):
            if name in names and name not in self.defined:
                failure = RunFailure("NameError", f"name {name!r} is not defined", f"{script.name}:2", "Traceback …")
                return RunRecord(FAILED, failure)
        reached = {str(path): tuple(range(1, 100)) for path in (script, *self.files)} if request.lines else {}
        return RunRecord(
            FINISHED,
            losses=losses([0.9 + request.seed / 10, 0.8, 0.7]),
            steps=3,
            backwards=3,
            optimizers=1,
            settings=RECORD.settings,
            random=RECORD.random,
            files=(str(script), *self.files),
            reached=reached,
            device="cpu",
            torch="2.13.0",
            python="3.11.7",
        )

    def ranks(self, request: Request, count: int, **options: Any) -> tuple[RunRecord, ...]:
        """In the place of `launching.observe_ranks`. A call of `apart` fails on the second rank."""
        records = tuple(self(replace(request, rank=rank, ranks=count), **options) for rank in range(count))
        texts = request.texts.values() or [self._text(options["folder"] / request.script)]
        if any("apart(" in text for text in texts):
            failure = RunFailure("ValueError", "it is another one", "train.py:2")
            return (records[0], RunRecord(FAILED, failure), *records[2:])
        return records

    def _text(self, script: Path) -> str:
        try:
            return script.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return "("  # as good as unreadable

    @contextlib.contextmanager
    def contender(self, name: str, request: Request) -> Iterator[Played]:
        """In the place of a run that takes turns."""
        played = Played(name, steady(0.1))
        if any("fast" in text for text in request.texts.values()):
            played.fails_after = 0
        yield played


def install(monkeypatch: pytest.MonkeyPatch) -> Observed:
    """No process is started any more."""
    observed = Observed()
    monkeypatch.setattr(launching, "observe", observed)
    monkeypatch.setattr(launching, "observe_ranks", observed.ranks)
    monkeypatch.setattr(Processes, "contender", lambda runs, *args, **kwargs: observed.contender(*args, **kwargs))
    monkeypatch.setattr(interpreters, "choose", lambda _: Interpreter("python", (3, 11, 7), "2.13.0"))
    return observed


class Stage:
    """Runs that take turns, too: a script that calls `brave` is faster."""

    gain = 1.5
    """How many times as fast it is."""
    fails = ""
    """Which run fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch)
        monkeypatch.setattr(procedure, "load", lambda: 0.1)
        self.asked: list[str] = []
        """Whose runs were asked for."""

        @contextlib.contextmanager
        def contender(runs: Processes, name: str, request: Request) -> Iterator[Played]:
            self.asked.append(name)
            is_brave = any("brave" in text for text in request.texts.values())
            played = Played(name, steady(0.1 / (self.gain if is_brave else 1)))
            if self.fails in (name, f"{name}, {request.batch_scale} times"):
                played.fails_after = 3
            yield played

        monkeypatch.setattr(Processes, "contender", contender)
