"""Decisions of earlier runs on disk, so that the second run of a command starts as the first one ended.

One small JSON file per decision, under `AUTOACCEL_CACHE_DIR`, else `$XDG_CACHE_HOME/autoaccel`, else
`~/.cache/autoaccel`. What was decided holds for the same program with the same arguments on the same machine under the
same torch, and for the facts that the caller names. A file that is missing, damaged or not to be written is as good as
none, never an error. `AUTOACCEL_REMEMBER=off` neither reads nor writes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import multiprocessing
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import torch

from ..environment import setting

_MOST: Final = 300  # files; the oldest go
_PID: Final = os.getpid()
_WORDS_OF_OFF: Final = ("off", "0", "no", "none", "false")


def recall(topic: str, *facts: object) -> dict[str, Any] | None:
    """What was decided in an earlier run of this program; None if nothing is known."""
    key = _key(topic, facts)
    if key is None:
        return None
    try:
        known = json.loads((folder() / f"{key}.json").read_text("utf-8"))
    except (OSError, RuntimeError, ValueError):  # no such file, no home, no JSON
        return None
    decision = known.get("decision") if isinstance(known, dict) and known.get("topic") == topic else None
    return decision if isinstance(decision, dict) else None


def keep(topic: str, decision: dict[str, Any], *facts: object) -> None:
    """Keep a decision for later runs; only the first process of a program does, and only JSON's types can be kept."""
    key = _key(topic, facts)
    if key is None or not _first_process():
        return
    try:
        text = json.dumps({"topic": topic, "program": sys.argv[0], "decision": decision}, indent=1)
        place = folder()
        place.mkdir(parents=True, exist_ok=True)
        _write(place / f"{key}.json", text)
        _thin_out(place)
    except (OSError, RuntimeError, TypeError, ValueError):
        return


def folder() -> Path:
    """Where decisions are kept."""
    if chosen := setting("CACHE_DIR"):
        return Path(chosen).expanduser() / "decisions"
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path("~/.cache").expanduser()) / "autoaccel" / "decisions"


def on() -> bool:
    """Whether decisions are remembered."""
    return setting("REMEMBER").lower() not in _WORDS_OF_OFF


def _write(path: Path, text: str) -> None:
    """All or nothing: another process may be reading, and this one may be killed."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(draft).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(draft).unlink()
        raise


def _thin_out(place: Path) -> None:
    files = [path for path in place.iterdir() if path.is_file()]
    if len(files) > _MOST:
        for path in sorted(files, key=lambda path: path.stat().st_mtime)[: -_MOST // 2]:
            path.unlink(missing_ok=True)


def _first_process() -> bool:
    """Whether this is neither a forked or spawned child nor another rank than the first of a distributed run."""
    if os.getpid() != _PID:
        return False
    return multiprocessing.parent_process() is None and os.environ.get("RANK", "0").strip() in ("", "0")


def _key(topic: str, facts: tuple[object, ...]) -> str | None:
    """A name for the decision; None where decisions are not remembered, or where the program has no name."""
    program = _program()
    if program is None or not on():
        return None
    machine = (platform.node(), platform.machine(), torch.__version__, str(torch.get_num_threads()))
    spelled = json.dumps([topic, *map(str, facts), *program, *machine])
    return hashlib.sha256(spelled.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _program() -> tuple[str, ...] | None:
    """The program with its arguments and its text: an edited program is another one. None without a file."""
    try:
        path = str(Path(sys.argv[0]).absolute()) if sys.argv and sys.argv[0] not in ("", "-", "-c", "-m") else ""
    except OSError:  # the working directory is gone
        path = ""
    text = _digest(path) if path else None
    return None if text is None else (path, text, *sys.argv[1:])


@functools.lru_cache(maxsize=8)
def _digest(path: str) -> str | None:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except (OSError, ValueError):
        return None
