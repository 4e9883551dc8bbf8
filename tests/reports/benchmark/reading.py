"""The page as a parser of HTML reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from xml.etree import ElementTree

_VOID = frozenset("br hr link meta".split())
_SVG = re.compile(r"<svg .*?</svg>", re.DOTALL)


@dataclass
class Seen:
    name: str
    attributes: dict[str, str]
    within: tuple[str, ...]
    text: str = ""


@dataclass
class Reader(HTMLParser):
    """Elements in order, each with its own text. An element that is closed out of turn is an error."""

    elements: list[Seen] = field(default_factory=list)
    open: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"{tag} says something twice: {attrs}"
        seen = Seen(tag, {name: value or "" for name, value in attrs}, tuple(each.name for each in self.open))
        self.elements.append(seen)
        if tag not in _VOID:
            self.open.append(seen)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1].name == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for each in self.open:
            each.text += data


def read(text: str) -> list[Seen]:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open, f"never closed: {reader.open}"
    return reader.elements


def drawings(text: str) -> list[ElementTree.Element]:
    """The pictures, read as XML."""
    return [ElementTree.fromstring(found) for found in _SVG.findall(text)]


def section(page: str, title: str) -> str:
    """The markup of a section of the page."""
    return page.split(f"<section><h2>{title}</h2>")[1].split("</section>")[0]


def words(text: str) -> str:
    """What can be read in a piece of markup, no-break spaces as spaces."""
    reader = Reader()
    reader.feed(f"<div>{text}</div>")
    return " ".join(reader.elements[0].text.replace("\xa0", " ").split())
