"""HTML and SVG as text, escaped unless it is known to be markup."""

from __future__ import annotations

import html
import re

from autoaccel.reports.benchmark.quantities import bound

# HTML has no place for these, escaped or not: control characters and lone surrogates (file names that are no text).
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")
_VOID = frozenset({"br", "hr", "link", "meta"})
_SHAPES = frozenset({"circle", "line", "path", "rect", "use"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    return text if isinstance(text, Markup) else Markup(html.escape(_UNSPEAKABLE.sub("�", text)))


def joined(*parts: str, between: str = "") -> Markup:
    return Markup(escaped(between).join(escaped(part) for part in parts))


def element(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """`class_` and `stroke_width` are spelled as Python wants it; an attribute that is None is left out."""
    head = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{head}>")
    if name in _SHAPES and not children:
        return Markup(f"<{name}{head}/>")
    return Markup(f"<{name}{head}>{joined(*children)}</{name}>")


def paragraph(*sentences: str, kind: str | None = None) -> Markup:
    return element("p", bound(" ".join(sentences)), class_=kind)


def _value(value: str | float) -> str:
    return escaped(value) if isinstance(value, str) else pixels(value)


def pixels(value: float) -> str:
    """A coordinate: a tenth of a pixel is as fine as anybody sees."""
    text = f"{value:.1f}"
    return "0" if text in ("0.0", "-0.0") else text.removesuffix(".0")
