"""What each file has to do with others: known from before, or told by its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from autoaccel.notebooks import program
from autoaccel.sources import SourceError
from autoaccel.summaries import Summary, summary

Known = Callable[[Path], Summary | None]


class Summaries:
    """The summaries of files: found out before (`known`), or of their texts. `texts` stand in the place of what is on
    disk."""

    def __init__(self, texts: Mapping[Path, str], known: Known | None) -> None:
        self.texts = texts
        self._given = frozenset(map(str, texts))
        self.known = known

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "known": None}  # other processes have the index, or read what they need

    def __call__(self, path: Path) -> Summary:
        known = None if self.known is None or path in self.texts else self.known(path)
        return summary(self.data(path)) if known is None else known

    def mention(self, path: Path, word: str) -> bool:
        """Whether a file mentions a name. Few files have the letters, and only these need to be summed up."""
        if word.encode(errors="surrogatepass") not in self.data(path):
            return False
        return word in self(path).words.split()

    def given_below(self, folder: str) -> list[str]:
        """The files below a folder of which a text is given: they need not be on disk."""
        return [str(path) for path in self.texts if folder in map(str, path.parents)]

    def data_at(self, name: str) -> bytes:
        """`data` of a regular file; thousands of files pass through here."""
        if not name.endswith(".py") or name in self._given:
            return self.data(Path(name))
        try:
            with open(name, "rb") as file:  # noqa: PTH123 - a Path for each would take longer than reading it
                return file.read()
        except OSError:
            return b""

    def data(self, path: Path) -> bytes:
        """The text of a file, of notebooks their code; nothing where it cannot be read."""
        text = self.texts.get(path)
        if text is not None:
            return text.encode(errors="surrogatepass")
        try:
            return program(path.read_bytes(), path) if path.is_file() else b""
        except (OSError, SourceError):  # nobody can import it
            return b""
