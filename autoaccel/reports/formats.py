"""The output formats of `lint`, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from autoaccel.reports.context import Context
    from autoaccel.rewriting.record import Report

FORMATS = ("concise",)

# These show how a finding is mended; it costs LibCST to know.
WITH_CHANGES = frozenset({"json", "sarif", "rdjson"})

Render = Callable[[Sequence["Report"], "Context"], str]


def renderer(name: str) -> Render:
    """The function that turns the reports of a run into text in one of `FORMATS`."""
    return cast("Render", importlib.import_module(f"autoaccel.reports.{name}").render)
