"""How a project has its code laid out: the line width, and whether a formatter does it, as its configuration says."""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autoaccel.patterns import PatternError, Patterns
from autoaccel.rewriting.places import LineLayout

_TOML = ("ruff.toml", ".ruff.toml", "pyproject.toml")
_INI = ("setup.cfg", "tox.ini", ".flake8")
_EDITOR = ".editorconfig"
_ROOTS = (".git", ".hg")
_WIDTHS = range(40, 401)
_BLACK, _RUFF = 88, 88  # what they take where nothing is said


def layout_of(path: Path) -> tuple[LineLayout, list[Path]]:
    """What is said of a file, and which files of the project were asked, whether they are there or not."""
    asked: list[Path] = []
    width: int | None = None
    for folder in path.parents:
        for name in (*_TOML, *_INI, _EDITOR):
            asked.append(folder / name)
            with contextlib.suppress(OSError, ValueError, configparser.Error, TypeError, AttributeError):
                said = _said(folder / name, path)
                if said is not None and said.formatted:
                    return LineLayout(said.width or width, True), asked
                width = width or (said.width if said is not None else None)
        if any(os.path.exists(folder / name) for name in _ROOTS):  # noqa: PTH110 - False where it may not be asked
            break
    return LineLayout(width), asked


def _said(file: Path, path: Path) -> LineLayout | None:
    """What one configuration file says. Raises `OSError` and what is raised where it is broken: others complain."""
    text = file.read_text(encoding="utf-8-sig")
    if file.name in _TOML:
        document = tomllib.loads(text)
        tool = document.get("tool", {}) if file.name == "pyproject.toml" else {"ruff": document}
        return _of_tools(tool, file.parent, path)
    if file.name == _EDITOR:
        widths = [_width(value) for value in _editor_values(text)]
        return LineLayout(next((each for each in reversed(widths) if each), None))
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    for section in ("flake8", "pycodestyle", "pep8"):
        if parser.has_option(section, "max-line-length"):
            return LineLayout(_width(parser.get(section, "max-line-length")))
    return None


def _of_tools(tool: Mapping[str, Any], folder: Path, path: Path) -> LineLayout | None:
    black, ruff = tool.get("black"), tool.get("ruff")
    if black is not None and not _left_out_by_black(black, folder, path):
        return LineLayout(_width(black.get("line-length")) or _BLACK, True)
    if ruff is None:
        return None
    own = ruff.get("format") or {}
    left_out = [*ruff.get("exclude", ()), *ruff.get("extend-exclude", ()), *own.get("exclude", ())]
    if _matches(left_out, folder, path):
        return None
    width = _width(ruff.get("line-length")) or _RUFF
    double = own.get("quote-style", "double") == "double" and own.get("indent-style", "space") == "space"
    return LineLayout(width, "format" in ruff and double)


def _left_out_by_black(settings: Mapping[str, Any], folder: Path, path: Path) -> bool:
    patterns = [settings.get(key) for key in ("exclude", "extend-exclude", "force-exclude")]
    place = "/" + path.relative_to(folder).as_posix()
    return any(each and re.search(each, place, re.VERBOSE if "\n" in each else 0) for each in patterns)


def _matches(lines: Sequence[str], folder: Path, path: Path) -> bool:
    with contextlib.suppress(PatternError):
        matcher = Patterns(tuple(lines), str(folder)).matcher()
        parts = path.relative_to(folder).parts
        for count in range(1, len(parts) + 1):
            is_folder = count < len(parts)
            if matcher.verdict("/".join(parts[:count]), parts[count - 1], is_folder=is_folder):
                return True
    return False


def _width(value: object) -> int | None:
    number = int(value) if isinstance(value, int | str) and str(value).strip().isdigit() else None
    return number if number in _WIDTHS else None


def _editor_values(text: str) -> Iterator[str]:
    """`max_line_length` of the sections that speak of all files, or of Python's, in order."""
    speaks = False
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped.startswith("["):
            speaks = stripped[1:-1] in ("*", "*.py") or "py" in re.split(r"[{},.*\s]+", stripped[1:-1])
        elif speaks and re.match(r"max_line_length\s*=", stripped):
            yield stripped.partition("=")[2].strip()
