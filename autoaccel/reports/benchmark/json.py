"""A benchmark for programs: the report as it is, all times in seconds and all memory in bytes."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from autoaccel.reports.json import dumped

if TYPE_CHECKING:
    from autoaccel.measure.benching.report import Report

FORMAT = 1
"""Grows when a key goes or changes its meaning."""


def render(report: Report) -> str:
    return dumped({"format": FORMAT, **_plain(dataclasses.asdict(report))})


def _plain(value: Any) -> Any:
    """JSON knows no infinity: a loss that is none is null."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
