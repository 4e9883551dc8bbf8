"""What is run for each column of a script: which file, with which changes, in which environment."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from autoaccel import sources
from autoaccel.analysis import Project
from autoaccel.analysis.files import Files
from autoaccel.config import Configuration
from autoaccel.config.settings import Settings
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.training import marked
from autoaccel.rewriting import engine
from benchmarks.suite.catalogue import CAPTURED, COMPILED, EXACT, REWRITTEN, SCRIPTS, Script, modules

ENDLESS = 1_000_000_000
"""Steps of a run that is ended when enough is known."""
_LONG = 200_000  # steps that a rewritten script on a GPU is told: it may weigh what pays, as in a run of some minutes
_CAPTURE = "AA403"
_TIERS = {EXACT: "exact", CAPTURED: "equivalent"}
_FOLDER = tempfile.TemporaryDirectory(prefix="autoaccel-suite-")
_ALONE = Path(_FOLDER.name)
STANDINS = Path(__file__).resolve().parents[2] / "tests" / "standins"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One column, ready to run."""

    column: str
    request: Request
    environment: dict[str, str]
    changes: int = 0
    """How many findings are applied."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all runs of a suite have in common."""

    size: str
    device: str
    data: Path
    folder: Path = SCRIPTS
    """The scripts."""

    def columns(self, script: Script, wanted: Collection[str]) -> tuple[str, ...]:
        found = script.columns(wanted, self.folder, self.device)
        if CAPTURED in found and not _is_captured(script.file(CAPTURED, self.folder).resolve()):
            return tuple(each for each in found if each != CAPTURED)
        return found

    def environment(self, script: Script, column: str) -> dict[str, str]:
        """What the runtime is told: hardly anything on a GPU. On a CPU nothing is compiled unasked, since that takes
        longer there than all else."""
        said = {"AUTOACCEL_REMEMBER": "off"}
        if column == COMPILED:
            said["AUTOACCEL_COMPILE_MODE"] = "default"
        elif self.device == "cpu" and column in REWRITTEN:
            said["AUTOACCEL_DISABLE"] = "compile"
        if script.generated:
            # torchvision compares checksums of the files, which generated ones cannot have
            said["PYTHONPATH"] = str(STANDINS)
        return said

    def steps(self, script: Script, column: str) -> int:
        if script.whole is not None:
            return script.whole
        return _LONG if self.device != "cpu" and column in REWRITTEN else ENDLESS


def candidates(script: Script, wanted: Collection[str], setting: Setting, *, seed: int) -> list[Candidate]:
    """Those that there are. Raises `ValueError` where a script does not keep to what the suite asks of it."""
    return [_candidate(script, column, setting, seed) for column in setting.columns(script, wanted)]


def _candidate(script: Script, column: str, setting: Setting, seed: int) -> Candidate:
    path = script.file(column, setting.folder).resolve()
    text, count = sources.read(path).text, 0
    if column in REWRITTEN:
        result = rewritten(path, tier=_TIERS.get(column, "numerics"))
        text, count = result.after, len(result.applied)
    try:
        text = marked(text, loss=script.loss)
    except ValueError as error:
        raise ValueError(f"{script.id}/{path.name}: {error}") from error
    arguments = ("--steps", str(setting.steps(script, column)), "--seed", str(seed), "--size", setting.size)
    request = Request(
        str(path),
        (*arguments, *(("--data", str(setting.data)) if "--data" in text else ())),
        root=str(path.parent),
        texts={str(path): text},
        mode="turns",
        marked=True,
    )
    return Candidate(column, request, setting.environment(script, column), count)


@functools.lru_cache(maxsize=64)
def rewritten(path: Path, *, tier: str = "numerics") -> engine.Result:
    """The script as the command rewrites it, as its author has it: by itself, not beside those that import its model.
    Raises `ValueError` where it cannot be rewritten."""
    alone = (_ALONE / path.parent.name / path.name).resolve()
    alone.parent.mkdir(exist_ok=True)
    for each in (path, *modules(path)):
        shutil.copy(each, alone.parent)
    configuration = Configuration(Settings(tier=tier))
    rules, project = configuration.rules_for(alone), Project(Files((alone,)))
    result = engine.rewrite(sources.read(alone).text, alone, rules, tier=configuration.tier_for(alone), project=project)
    if result.errors:
        raise ValueError(f"{path}: {result.errors[0]}")
    return result


def _is_captured(path: Path) -> bool:
    """Whether there is a step to capture: else the column would be the default once more."""
    return any(each.code == _CAPTURE for each in rewritten(path).applied)
