"""Tables and commands of the page. Wide tables scroll in a box of their own."""

from __future__ import annotations

from collections.abc import Sequence

from autoaccel.reports.benchmark.markup import Markup, element, joined


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True, caption: str = "", kind: str = ""
) -> Markup:
    """The first cell of a row is what the others are about; `numbers` are set flush right; `kind` may be
    `stacks`: on narrow screens the first cell stands above the others."""
    flush = "number" if numbers else None
    first, *others = head
    return element(
        "div",
        element(
            "table",
            *((element("caption", caption),) if caption else ()),
            element(
                "thead",
                element(
                    "tr",
                    element("th", first, scope="col") if first else element("td"),
                    *(element("th", each, scope="col", class_=flush) for each in others),
                ),
            ),
            element(
                "tbody",
                *(
                    element(
                        "tr", element("th", name, scope="row"), *(element("td", cell, class_=flush) for cell in cells)
                    )
                    for name, *cells in rows
                ),
            ),
            class_=kind or None,
        ),
        class_="scrolls",
        tabindex="0",
        role="region",
        aria_label=caption or " and ".join(each for each in head if each),
    )


def hidden_table(summary: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A table that is there for those who ask for it."""
    return element("details", element("summary", summary), table(head, rows))


def command(text: str) -> Markup:
    """A command to be copied, which breaks between its words only, not behind each hyphen."""
    words = (element("span", word, class_="word") for word in text.split(" "))
    return element("pre", element("code", joined(*words, between=" ")))
