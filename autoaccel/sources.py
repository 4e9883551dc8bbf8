"""The text of files: read and written faithfully, replaced atomically."""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

BYTE_ORDER_MARK = codecs.BOM_UTF8.decode("utf-8")

# Patches and what is inserted are made of these: an encoding that spells them otherwise (UTF-7, UTF-16) is of no use.
_ASCII = "\t\n\r\x0b\x0c" + "".join(map(chr, range(ord(" "), ord("~") + 1)))

# What a container shows for owners whom it does not know: given to a file, it would be somebody else.
_NOBODY = 65534


class SourceError(ValueError):
    """A file that cannot be read, decoded or written; the message is one line: what and where."""


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file, with its own line endings; a byte order mark is kept apart, because no parser wants it."""

    data: bytes
    text: str
    encoding: str
    mark: str = ""
    problem: str = ""
    """Why the file is left alone, if it is."""
    notes: tuple[str, ...] = ()
    """What is to be said of it: a line each, with the place."""

    def encode(self, text: str) -> bytes:
        """The bytes of a new text of this file."""
        return (self.mark + text).encode(self.encoding)

    def parts(self, text: str) -> dict[str, str]:
        """A text of this file as people see it, in parts; by what is said behind the name of the file."""
        return {"": self.mark + text}

    def row(self, cell: int | None, line: int) -> int:
        """The line of the file that is a line of the text, or of one of its parts."""
        del cell
        return line


def decode(data: bytes, name: Path | str) -> Source:
    """Decode as Python does: byte order mark, then coding comment, then UTF-8. Raises `SourceError`."""
    if not data.startswith(codecs.BOM_UTF8) and b"coding" not in _first_two_lines(data):
        # Nothing declares an encoding, and what is valid UTF-8 gives its bytes back: nearly every file is done here.
        with contextlib.suppress(UnicodeDecodeError):
            return Source(data, data.decode("utf-8"), "utf-8")
    return _decode_declared(data, name)


def _first_two_lines(data: bytes) -> bytes:
    """All that may declare an encoding."""
    end = data.find(b"\n")
    end = data.find(b"\n", end + 1) if end >= 0 else -1
    return data if end < 0 else data[:end]


def _decode_declared(data: bytes, name: Path | str) -> Source:
    """`decode` without its short cut."""
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
        mark = BYTE_ORDER_MARK if encoding == "utf-8-sig" else ""
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
    return decode(data(path), path)


def data(path: Path) -> bytes:
    """The bytes of a file. Raises `SourceError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: cannot read: {_reason(error)}") from error


def write(path: Path, source: Source, text: str) -> None:
    """`write_data` of a new text of `source`. Raises `SourceError`, and then nothing was written."""
    write_data(path, source.encode(text))


def write_data(path: Path, data: bytes) -> None:
    """Write a file, keeping its mode, owner, group and hard links; folders are made.

    The file is replaced atomically; it is written in place if it has other names, or an owner who cannot be given to
    the new one. Raises `SourceError`, and then nothing was written.
    """
    import tempfile

    target = Path(os.path.realpath(path))  # the file that a link points to, not the link
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        old = target.stat() if target.exists() else None
        mode = old.st_mode if old is not None else None
        if mode is not None and not stat.S_ISREG(mode):
            # A rename would put a file in the place of a device, such as /dev/null, or of a pipe.
            raise OSError("is a directory" if stat.S_ISDIR(mode) else "not a regular file")
        if mode is not None and not os.access(target, os.W_OK):
            raise PermissionError(None, "Permission denied")
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        temporary = Path(name)
        with open(handle, "wb") as file:  # noqa: PTH123 - an open descriptor
            file.write(data)
        alone = old is None or (old.st_nlink == 1 and _gets_owner(temporary, old))
        temporary.chmod(mode if mode is not None else 0o666 & ~_umask())
        if alone:
            temporary.replace(target)
        else:
            _write_in_place(target, data)
    except OSError as error:
        raise SourceError(f"{path}: cannot write: {_reason(error)}") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()  # there only where something went wrong, an interruption included


def replace(path: Path, source: Source, text: str) -> None:
    """`write` onto the file that was read, unless somebody else has changed it since. Raises `SourceError`."""
    if data(path) != source.data:
        raise SourceError(f"{path}: left alone, it was changed while it was being rewritten")
    write(path, source, text)


def _gets_owner(path: Path, of: os.stat_result) -> bool:
    """Give a file the owner and group of another; only the superuser can, but for a group of one's own."""
    own = path.stat()
    if (own.st_uid, own.st_gid) == (of.st_uid, of.st_gid):
        return True
    if _NOBODY in (of.st_uid, of.st_gid):
        return False
    try:
        os.chown(path, of.st_uid, of.st_gid)
    except OSError:  # not allowed, or, in a container, to somebody whom it does not know
        return False
    return True


def _write_in_place(path: Path, data: bytes) -> None:
    """Write what there is room for: a new file of it has been written. If that fails nevertheless, the old content
    comes back."""
    before = path.read_bytes()
    try:
        path.write_bytes(data)
    except BaseException:
        path.write_bytes(before)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
