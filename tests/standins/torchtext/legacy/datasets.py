"""Premise, hypothesis, label."""

from __future__ import annotations

from dataclasses import dataclass

from ..corpus import pairs  # noqa: TID252 - the absolute name exists on a script's search path alone
from .data import Field


@dataclass
class Example:
    values: dict[str, str]
    fields: dict[str, Field]

    def of(self, field: Field) -> list[str]:
        return [self.values[name] for name, owner in self.fields.items() if owner is field]


class SNLI:
    @classmethod
    def splits(cls, text: Field, label: Field) -> tuple[list[Example], list[Example], list[Example]]:
        fields = {"premise": text, "hypothesis": text, "label": label}
        labels = ("entailment", "neutral", "contradiction")

        def part(split: str) -> list[Example]:
            return [
                Example({"premise": first, "hypothesis": second, "label": labels[len(first) % 3]}, fields)
                for first, second in pairs(split)
            ]

        return part("train"), part("valid"), part("test")
