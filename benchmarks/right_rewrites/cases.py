"""What is verified: whole scripts of this repository and of public ones, with all rules and with some."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autoaccel.config.selection import Selection
from autoaccel.config.settings import Settings
from benchmarks.public_scripts import manifest
from benchmarks.public_scripts.manifest import Run
from benchmarks.public_scripts.running import PROJECT, environment, limited, workspace

_FIXTURES = PROJECT / "fixtures" / "scripts"
_OWN = PROJECT / "benchmarks" / "planted_faults" / "scripts"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a rewrite that users ask for."""

    select: tuple[str, ...] = ()
    """Rules; none are all."""
    tier: str = "numerics"

    @property
    def options(self) -> list[str]:
        """On the command line."""
        return ["--tier", self.tier, *(word for code in self.select for word in ("--select", code))]

    @property
    def settings(self) -> Settings:
        return Settings(selections=(Selection(self.select),) if self.select else (), tier=self.tier)


PARTS = {
    "all rules": Part(),
    "exact": Part(tier="exact"),
    "AA301": Part(("AA301",)),
    "AA401": Part(("AA401",)),
    "AA103, AA201, AA202": Part(("AA103", "AA201", "AA202")),
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A script that lies in a folder of its own, ready to run."""

    script: str
    folder: Path
    arguments: tuple[str, ...]
    environment: dict[str, str]


class UnpreparedError(Exception):
    """A script whose inputs could not be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Case:
    """One verification. `public` is how a public script is run; else `path` is a script of this repository."""

    name: str
    part: str
    path: Path | None = None
    public: Run | None = None

    @property
    def key(self) -> str:
        return f"{self.name} | {self.part}"

    @contextlib.contextmanager
    def prepared(self, corpus: Path | None) -> Iterator[Prepared]:
        """A copy in a temporary folder. Raises `UnpreparedError`."""
        if self.public is not None:
            if corpus is None:
                raise UnpreparedError("no folder with public repositories was given")
            with _public(self.public, corpus) as found:
                yield found
        else:
            assert self.path is not None
            with _own(self.path) as found:
                yield found


@contextlib.contextmanager
def _own(path: Path) -> Iterator[Prepared]:
    with tempfile.TemporaryDirectory(prefix="right-rewrites-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        alone = path.parent in (_FIXTURES, _OWN)
        for each in [path] if alone else sorted(path.parent.glob("*.py")):
            shutil.copy(each, folder)
        (folder / "setup.cfg").touch()  # a project of its own: what lies beside it is none of it
        run = Run("", path.name, samples=256, test_samples=100)
        yield Prepared(path.name, folder, (), environment(run, folder, {}))


@contextlib.contextmanager
def _public(run: Run, corpus: Path) -> Iterator[Prepared]:
    with workspace(corpus, run) as repository:
        script = repository / run.path
        folder = script.parent if run.directory is None else repository / run.directory
        variables = environment(run, repository, {})
        for path, *arguments in run.before:
            command = [sys.executable, str(repository / path), *arguments]
            status, _, err = limited(command, folder, variables, run.timeout)
            if status != 0:
                raise UnpreparedError(f"{path}: {(err.strip().splitlines() or ['it fails'])[-1]}")
        yield Prepared(os.path.relpath(script, folder), folder, run.args, variables)


def cases(only: tuple[str, ...] = ()) -> list[Case]:
    """All of them: first every script with all rules, then parts of the rewrites of this repository's scripts."""
    fixtures = [*sorted(_FIXTURES.glob("*.py")), _FIXTURES / "project" / "main.py"]
    own = [(_name(path), path) for path in (*fixtures, *sorted(_OWN.glob("*.py")))]
    # What needs old spellings put back cannot be run as its user would today.
    public = [each for each in manifest.load().runs if not each.shims]
    found = [
        *(Case(name, "all rules", path) for name, path in own),
        *(Case(each.name, "all rules", public=each) for each in public),
        *(Case(name, part, path) for name, path in own[: len(fixtures)] for part in PARTS if part != "all rules"),
    ]
    return [each for each in found if not only or any(text in each.key for text in only)]


def _name(path: Path) -> str:
    return str(path.relative_to(PROJECT))
