"""What is added to the loop of an epoch, by the place in it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Additions:
    """Lines by their place in the loop of an epoch."""

    start: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)
    loss: list[str] = field(default_factory=list)
    backward: list[str] = field(default_factory=list)
    stepped: list[str] = field(default_factory=list)
    end: list[str] = field(default_factory=list)
