"""The output formats of `lint`, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import cast

from autoaccel.reports.context import Context
from autoaccel.rewriting.record import Report

DEFAULT = "full"

FOR_PEOPLE = frozenset({"full", "concise"})
"""These may be coloured, and are in the encoding of the terminal; the others are UTF-8."""

WITH_CHANGES = frozenset({"json", "sarif", "rdjson"})
"""These hold edits that can be applied; it costs LibCST to know them."""

WITH_STATISTICS = frozenset({"full", "concise", "json"})

Render = Callable[[Sequence["Report"], "Context"], str]


def renderer(name: str) -> Render:
    """The function that turns the reports of a run into text in one of `OUTPUT_FORMATS`."""
    return cast("Render", importlib.import_module(f"autoaccel.reports.{name}").render)
