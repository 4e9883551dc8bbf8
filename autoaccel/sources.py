"""Which files are looked at, and their text: read and written faithfully, replaced atomically."""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
import string
import tempfile
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_BOM = codecs.BOM_UTF8.decode("utf-8")

# Patches and what is inserted are made of these: an encoding that spells them otherwise (UTF-7, UTF-16) is of no use.
_ASCII = string.printable


class SourceError(ValueError):
    """A file that cannot be read, decoded or written; the message is one line: what and where."""


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file, with its own line endings; a byte order mark is kept apart, because no parser wants it."""

    data: bytes
    text: str
    encoding: str
    mark: str = ""

    def encode(self, text: str) -> bytes:
        """The bytes of a new text of this file."""
        return (self.mark + text).encode(self.encoding)


def decode(data: bytes, name: Path | str) -> Source:
    """Decode as Python does: byte order mark, then coding comment, then UTF-8. Raises `SourceError`."""
    try:
        encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
        mark = _BOM if encoding == "utf-8-sig" else ""
        encoding = "utf-8" if mark else encoding
        source = Source(data, data.decode(encoding).removeprefix(mark), encoding, mark)
        faithful = _ASCII.encode(encoding) == _ASCII.encode("ascii") and source.encode(source.text) == data
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SourceError(f"{name}:{line}: not {error.encoding} text; is a coding comment missing?") from error
    except SyntaxError as error:
        # Unknown coding, or invalid bytes in the first two lines.
        raise SourceError(f"{name}:1: cannot decode: {error.msg}") from error
    except (LookupError, UnicodeError) as error:
        raise SourceError(f"{name}:1: cannot decode: {encoding} is no encoding of text") from error
    if not faithful:
        raise SourceError(f"{name}:1: cannot be written as it was read: {encoding} does not give its bytes back")
    return source


def read(path: Path) -> Source:
    """Raises `SourceError`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: cannot read: {_reason(error)}") from error
    return decode(data, path)


def write(path: Path, source: Source, text: str) -> None:
    """Write a new text of `source`, atomically, keeping the file's mode; folders are made.

    Raises `SourceError`, and then nothing was written.
    """
    target = Path(os.path.realpath(path))  # the file that a link points to, not the link
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            # A rename would put a file in the place of a device, such as /dev/null, or of a pipe.
            raise OSError("is a directory" if stat.S_ISDIR(mode) else "not a regular file")
        if mode is not None and not os.access(target, os.W_OK):
            raise PermissionError(None, "Permission denied")
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        temporary = Path(name)
        with open(handle, "wb") as file:  # noqa: PTH123 - an open descriptor
            file.write(source.encode(text))
        temporary.chmod(mode if mode is not None else 0o666 & ~_umask())
        temporary.replace(target)
    except OSError as error:
        raise SourceError(f"{path}: cannot write: {_reason(error)}") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()  # there only where something went wrong, an interruption included


def replace(path: Path, source: Source, text: str) -> None:
    """`write` onto the file that was read, unless somebody else has changed it since. Raises `SourceError`."""
    if read(path).data != source.data:
        raise SourceError(f"{path}: left alone, it was changed while it was being rewritten")
    write(path, source, text)


@dataclass(frozen=True, slots=True)
class Found:
    """Files in order, each once; folders in which there was none; paths that are no use, with the reason."""

    files: tuple[Path, ...]
    barren: tuple[Path, ...]
    problems: tuple[str, ...]


def find(
    paths: Sequence[Path], *, exclude: Sequence[str] = (), root: Path | None = None, respect_gitignore: bool = True
) -> Found:
    """The Python files of `paths`. Files that are named are taken whatever the patterns say.

    `exclude` are gitignore patterns relative to `root` (the working directory if it is None).
    """
    files: dict[str, Path] = {}  # by what they are, so that a link and its target are one file
    barren = []
    problems = []
    for path in paths:
        try:
            is_folder, is_file, exists = path.is_dir(), path.is_file(), path.exists()
        except OSError as error:  # a folder above may not be entered, a name may be too long
            problems.append(f"{path}: cannot read: {_reason(error)}")
            continue
        if is_folder:
            within = list(_walk(path, exclude, root or Path.cwd(), respect_gitignore, problems))
            for each in within:
                files.setdefault(os.path.realpath(each), each)
            if not within:
                barren.append(path)
        elif path.suffix == ".ipynb":
            problems.append(f"{path}: notebooks are not supported")
        elif is_file:
            files.setdefault(os.path.realpath(path), path)
        elif exists:
            problems.append(f"{path}: not a regular file; `-` reads stdin")
        else:
            problems.append(f"{path}: no such file or folder")
    return Found(tuple(files.values()), tuple(barren), tuple(problems))


def _walk(
    folder: Path, exclude: Sequence[str], root: Path, respect_gitignore: bool, problems: list[str]
) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        problems.append(f"{error.filename}: cannot read: {_reason(error)}")

    base = Path(os.path.abspath(folder))
    excluded = _Ignore(Path(os.path.abspath(root)), _spec(exclude))
    if not base.is_relative_to(excluded.folder) or excluded.verdict(base, is_dir=True):
        # Asked for by name: the patterns speak of what lies below.
        excluded = _Ignore(base, excluded.spec)
    ignores = {base: _inherited(base) if respect_gitignore else ()}
    for current, folders, names in os.walk(base, onerror=unreadable):
        here = Path(current)
        rules = ignores.pop(here)
        if respect_gitignore:
            rules = (*rules, *_ignore_file(here, here / ".gitignore"))
        folders[:] = sorted(each for each in folders if not _ignored(here / each, True, (*rules, excluded)))
        ignores.update({here / each: rules for each in folders})
        for name in sorted(names):
            if not name.endswith(".py") or _ignored(here / name, False, (*rules, excluded)):
                continue
            if (here / name).is_file():  # not a pipe, whose end may never come, nor a link to nowhere
                yield folder / (here / name).relative_to(base)


@dataclass(frozen=True, slots=True)
class _Ignore:
    """One set of gitignore patterns and the folder that they are relative to."""

    folder: Path
    spec: GitIgnoreSpec

    def verdict(self, path: Path, *, is_dir: bool) -> bool | None:
        """True to leave out, False to take in, None where no pattern speaks."""
        if path == self.folder:
            return None
        name = path.relative_to(self.folder).as_posix() + ("/" if is_dir else "")
        return self.spec.check_file(name).include


def _ignored(path: Path, is_dir: bool, rules: Sequence[_Ignore]) -> bool:
    """The last pattern that speaks decides; the project's exclusions come last and are not negotiable by .gitignore."""
    for rule in reversed(rules):
        verdict = rule.verdict(path, is_dir=is_dir)
        if verdict is not None:
            return verdict
    return False


def _inherited(folder: Path) -> tuple[_Ignore, ...]:
    """What the repository around a folder ignores; nothing where it ignores the folder itself, which was asked for."""
    above = []
    for parent in folder.parents:
        above.append(parent)
        if (parent / ".git").exists():
            break
    else:
        if not (folder / ".git").exists():
            return ()
    if (folder / ".git").exists():
        return _ignore_file(folder, folder / ".git" / "info" / "exclude")
    top = above[-1]
    rules = _ignore_file(top, top / ".git" / "info" / "exclude")
    for parent in reversed(above):
        rules = (*rules, *_ignore_file(parent, parent / ".gitignore"))
    return () if _ignored(folder, True, rules) else rules


def _ignore_file(folder: Path, file: Path) -> tuple[_Ignore, ...]:
    try:
        lines = file.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError:
        return ()
    # Like git, which takes no offence at what is no pattern.
    return (_Ignore(folder, _spec([line for line in lines if _is_pattern(line)])),)


def _is_pattern(line: str) -> bool:
    try:
        _spec([line])
    except SourceError:
        return False
    return True


def _spec(patterns: Sequence[str]) -> GitIgnoreSpec:
    """Raises `SourceError`."""
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise SourceError(f"exclude: {error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
