"""What `tune` decided, in a file of the project that `rewrite` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoaccel import __version__, sources
from autoaccel.measure.benching.report import Interval
from autoaccel.measure.tuning.deciding import RuleWorth
from autoaccel.measure.tuning.machine_facts import fingerprint
from autoaccel.reports.json import dumped, plain

PLACE = Path(".autoaccel", "tune.json")
"""Below the root of the project."""
FORMAT = 1
"""Grows when a key goes or changes its meaning."""


class RecordError(ValueError):
    """A record that cannot be used; the message is one line."""


@dataclass(frozen=True, slots=True)
class TunedScript:
    """What a record says of one script."""

    script: str
    files: tuple[str, ...]
    """It and what it imports of its project, relative to the root."""
    fingerprint: str
    left_out: tuple[str, ...]
    """Codes of rules."""


def entry(
    *,
    files: Sequence[str],
    arguments: Sequence[str],
    machine: dict[str, str],
    versions: Mapping[str, str],
    rules: Sequence[RuleWorth],
    speedup: Interval | None,
    level: float,
    notes: Sequence[str],
) -> dict[str, Any]:
    """What is written of one script; `speedup` is that of what is kept."""
    return {
        "files": files,
        "arguments": arguments,
        "machine": {**machine, "fingerprint": fingerprint(machine)},
        "versions": versions,
        "level": level,
        "speedup": speedup,
        "rules": rules,
        "notes": notes,
    }


def write(root: Path, script: str, said: Mapping[str, Any]) -> Path:
    """Put what is said of a script beside what is said of others. Raises `sources.SourceError` and `RecordError`."""
    path = root / PLACE
    scripts = {**_scripts(path), script: said}
    content = {"format": FORMAT, "autoaccel": __version__, "scripts": scripts}
    sources.write_data(path, dumped(plain(content)).encode())
    return path


def read(root: Path) -> list[TunedScript]:
    """Nothing where there is no record. Raises `RecordError`."""
    path = root / PLACE
    try:
        return list(_tuned(_scripts(path)))
    except (AttributeError, KeyError, TypeError) as error:
        raise RecordError(f"{path}: is no record of `tune`") from error


def left_out(records: Sequence[TunedScript], file: str, here: str) -> tuple[str, ...] | None:
    """The rules that every script that was tuned on this machine, and has this file, leaves out; None without one."""
    found = [each.left_out for each in records if file in each.files and each.fingerprint == here]
    if not found:
        return None
    return tuple(code for code in found[0] if all(code in each for each in found))


def _tuned(scripts: Mapping[str, Any]) -> Iterator[TunedScript]:
    for script, said in scripts.items():
        codes = tuple(each["code"] for each in said["rules"] if not each["kept"])
        yield TunedScript(script, tuple(said["files"]), said["machine"]["fingerprint"], codes)


def _scripts(path: Path) -> dict[str, Any]:
    """Raises `RecordError`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] == FORMAT:
            scripts = content["scripts"]
            return {str(name): said for name, said in scripts.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RecordError(f"{path}: cannot read: {(error.strerror or str(error)).lower()}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path}: is no record of `tune`") from error
    raise RecordError(f"{path}: was written by another version of autoaccel")
