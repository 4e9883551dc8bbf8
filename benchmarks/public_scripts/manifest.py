"""Which scripts are run, how, and which are not, and why: `manifest.toml`, read into records."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Input:
    """A generated input: its kind (`inputs.KINDS`), where it goes below the repository, and its options."""

    kind: str
    to: str
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """One way of running one script."""

    repository: str
    path: str
    variant: str = ""
    args: tuple[str, ...] = ()
    directory: str | None = None  # below the repository; the script's own folder unless said otherwise
    inputs: tuple[Input, ...] = ()
    before: tuple[tuple[str, ...], ...] = ()  # commands (script and arguments) that make further inputs
    environment: dict[str, str] = field(default_factory=dict)
    shims: tuple[str, ...] = ()
    count: str = (
        "step"  # what `stop_after` counts: optimizer steps, or calls of backward where a script has no optimizer
    )
    stop_after: int = 12
    samples: int = 192
    test_samples: int = 64
    timeout: int = 60
    note: str = ""

    @property
    def path_in_tree(self) -> str:
        return f"{self.repository}/{self.path}"

    @property
    def name(self) -> str:
        return self.path_in_tree + (f" [{self.variant}]" if self.variant else "")


@dataclass(frozen=True, slots=True)
class Excluded:
    """A training script that is not run, and why, in one phrase."""

    repository: str
    path: str
    reason: str

    @property
    def name(self) -> str:
        return f"{self.repository}/{self.path}"


@dataclass(frozen=True, slots=True)
class Manifest:
    runs: tuple[Run, ...]
    excluded: tuple[Excluded, ...]


def read_run(entry: dict[str, Any], defaults: dict[str, Any]) -> Run:
    values = {**defaults, **entry}
    values["args"] = tuple(str(argument) for argument in values.get("args", ()))
    values["inputs"] = tuple(
        Input(item["kind"], item["to"], {key: value for key, value in item.items() if key not in ("kind", "to")})
        for item in values.get("inputs", ())
    )
    values["before"] = tuple(tuple(command) for command in values.get("before", ()))
    values["shims"] = tuple(values.get("shims", ()))
    values["environment"] = dict(values.get("environment", {}))
    return Run(**values)


def load(path: Path | None = None) -> Manifest:
    """Read a manifest, by default the one beside this module; a duplicate name or an unknown key is an error."""
    path = path or Path(__file__).with_name("manifest.toml")
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    defaults = content.get("defaults", {})
    runs = tuple(read_run(entry, defaults) for entry in content.get("run", ()))
    names = [run.name for run in runs]
    if len(set(names)) != len(names):
        raise ValueError(f"{path}: {sorted({name for name in names if names.count(name) > 1})} occur twice")
    return Manifest(runs, tuple(Excluded(**entry) for entry in content.get("excluded", ())))
