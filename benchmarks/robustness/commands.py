"""The commands themselves over a sample: a tree of copies is linted, patched by git, patched back."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.robustness.judging import Verdict

_ROOT = Path(__file__).resolve().parents[2]


def sample(verdicts: Sequence[Verdict], count: int) -> list[Path]:
    """So many files that are rewritten, and as many others, those that Python cannot parse included."""
    chance = random.Random(0)
    changed = [each for each in verdicts if each.changed]
    others = [each for each in verdicts if not each.changed]
    drawn = chance.sample(changed, min(count, len(changed))) + chance.sample(others, min(count, len(others)))
    return [Path(each.path) for each in drawn]


def problems(files: Sequence[Path], place: Path) -> Iterator[str]:
    """What goes wrong when copies of the files in the empty folder `place` are handled as a user would."""
    for number, path in enumerate(files):
        copy = place / f"{number:04} copy" / path.name
        copy.parent.mkdir(parents=True)
        shutil.copyfile(path, copy)
    before = _contents(place)
    _git(place, "init", "--quiet")
    lint = _run(place, "lint", "--isolated", "--no-cache", "--output-format", "concise", ".")
    yield from _complaints("lint", lint, (0, 1, 2))
    if _contents(place) != before:
        yield "lint changed a file"
    first = _run(place, "rewrite", "--isolated", "--diff", ".")
    yield from _complaints("rewrite --diff", first, (0, 1, 2))
    if _contents(place) != before:
        yield "rewrite --diff changed a file"
    if not first.stdout:
        return
    patch = place / ".git" / "changes.patch"
    patch.write_bytes(first.stdout)
    yield from _complaints("git apply", _git(place, "apply", str(patch)), (0,))
    patched = _contents(place)
    again = _run(place, "rewrite", "--isolated", "--diff", ".")
    yield from _complaints("the second rewrite --diff", again, (0, 2))
    if again.stdout:
        yield "a second run changes files again"
    yield from _complaints("git apply -R", _git(place, "apply", "-R", str(patch)), (0,))
    if _contents(place) != before:
        yield "the patch cannot be taken back"
    yield from _complaints("rewrite", _run(place, "rewrite", "--isolated", "--quiet", "."), (0, 2))
    if _contents(place) != patched:
        yield "rewrite writes what its patch does not say"


def _run(place: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    roots = os.pathsep.join([str(_ROOT), str(_ROOT / "codemods")])
    environment = {**os.environ, "PYTHONPATH": roots, "XDG_STATE_HOME": str(place / ".git" / "state")}
    line = [sys.executable, "-m", "autoaccel", *arguments]
    return subprocess.run(line, cwd=place, env=environment, capture_output=True, check=False)


def _git(place: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=place, capture_output=True, check=False)


def _complaints(name: str, done: subprocess.CompletedProcess[bytes], expected: Sequence[int]) -> Iterator[str]:
    said = done.stderr.decode(errors="replace")
    if done.returncode not in expected:
        yield f"{name}: exit status {done.returncode}: {said[-300:]}"
    yield from (f"{name}: {line}" for line in said.splitlines() if "internal error" in line or "Traceback" in line)


def _contents(place: Path) -> dict[str, str]:
    files = (path for path in place.rglob("*.py") if ".git" not in path.parts)
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
