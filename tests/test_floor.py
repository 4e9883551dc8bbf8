"""What runs with the interpreter of the script asks for Python 3.10 and torch alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ROOMS = tuple(
    folder
    for room in ("autoaccel/runtime", "autoaccel/measure/observing")
    for folder in (REPOSITORY / room, *(REPOSITORY / room).glob("*/"))
)
# `sys.monitoring` is used where there is one.
NEWER = {"autoaccel/measure/observing/coverage.py": "sys.monitoring"}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module(name: str) -> Path | None:
    path = REPOSITORY.joinpath(*name.split("."))
    return next((each for each in (path / "__init__.py", path.with_suffix(".py")) if each.is_file()), None)


def needed() -> dict[Path, set[str]]:
    """The files that these rooms consist of or import, and what each imports from elsewhere."""
    found: dict[Path, set[str]] = {}
    pending = [path for room in ROOMS for path in room.glob("*.py")]
    while pending:
        path = pending.pop()
        if path in found:
            continue
        found[path] = set()
        for name in imported(path):
            parts = name.split(".")
            if parts[0] != "autoaccel":
                found[path].add(parts[0])
            outer = (module(".".join(parts[:length])) for length in range(1, len(parts) + 1))
            pending.extend(each for each in outer if each is not None and parts[0] == "autoaccel")
    return found


def test_only_torch_is_needed() -> None:
    allowed = sys.stdlib_module_names | {"torch", "numpy"}
    foreign = {path: names - allowed for path, names in needed().items() if names - allowed}
    assert not foreign


def test_python_3_10_has_what_is_used() -> None:
    files = [str(path) for path in needed() if str(path.relative_to(REPOSITORY)) not in NEWER]
    program = "import vermin; vermin.main()"
    options = ["-t=3.10-", "--violations", "--no-tips", "--eval-annotations"]
    command = [sys.executable, "-c", program, *options, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Minimum required versions: 3." in done.stdout
