"""Which files mention which words: names, attributes, texts."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Sequence
from copy import copy
from pathlib import Path

from autoaccel.analysis.file_sets import members, set_of
from autoaccel.analysis.file_summaries import Summaries
from autoaccel.analysis.import_graph import ImportGraph

_FEW = 8  # files are put together faster than they are kept


class WordIndex:
    """The words of the files of an import graph. `texts` are those of the first ones; of these only attributes and the
    names that are defined or imported somewhere are noted, and other words are looked for in their summaries."""

    def __init__(self, graph: ImportGraph, summaries: Summaries, texts: Sequence[str]) -> None:
        self._graph = graph
        self._summaries = summaries
        self._postings: dict[str, array[int]] = {}
        self._later = 0  # files that came after the first ones, or are no longer as they were
        self._posted_later: dict[str, int] = {}  # all their words
        self._first: dict[str, int] = {}  # by word that many mention and that was asked for: the files in `_postings`
        self._sought: dict[tuple[int, str], bool] = {}
        wanted = {word[1:] for text in texts for word in text.split() if word[0] == ":"}
        wanted.update(each for names in graph.names for name, alias, _ in names for each in (name, alias))
        for number, text in enumerate(texts):
            for word in text.split():
                if word[0] in ".?<" or word in wanted:
                    known = self._postings.get(word)
                    if known is None:
                        known = self._postings[word] = array("I")
                    known.append(number)

    def add(self, number: int, words: Collection[str]) -> None:
        """Note a file that is none of the first ones, or no longer as it was."""
        self._later |= 1 << number
        for word in words:
            self._posted_later[word] = self._posted_later.get(word, 0) | 1 << number

    def without(self, number: int, graph: ImportGraph) -> WordIndex:
        """This index but for one file, which is to be added anew, for another graph."""
        index = copy(self)
        index._graph, index._sought = graph, {}
        index._posted_later = {word: known & ~(1 << number) for word, known in self._posted_later.items()}
        return index

    def having(self, *words: str) -> int:
        """The files that have any of these words."""
        found = 0
        for word in words:
            posting = self._postings.get(word, ())
            first = self._first.get(word)
            if first is None:
                first = set_of(posting)
                if len(posting) > _FEW:
                    self._first[word] = first
            found |= first & ~self._later | self._posted_later.get(word, 0) if self._later else first
        return found

    def mentioning(self, files: int, name: str) -> int:
        """Those of some files that mention a name, or an attribute of that name."""
        found = self.having(name, f".{name}") & files
        if name not in self._postings:  # no name that is defined or imported anywhere
            found |= set_of([each for each in members(files & ~self._later) if self.mentions(each, name)])
        return found

    def mentions(self, number: int, name: str) -> bool:
        """Whether a file mentions a name, or an attribute of that name."""
        if self._later >> number & 1:
            return any(self._posted_later.get(word, 0) >> number & 1 for word in (name, f".{name}"))
        posted = any(
            (at := bisect_left(known, number)) < len(known) and known[at] == number
            for known in (self._postings.get(word, ()) for word in (name, f".{name}"))
        )
        if posted or name in self._postings:
            return posted
        known = self._sought.get((number, name))
        if known is None:  # no name that is defined or imported anywhere
            known = self._summaries.mention(Path(self._graph.paths[number]), name)
            self._sought[number, name] = known
        return known
