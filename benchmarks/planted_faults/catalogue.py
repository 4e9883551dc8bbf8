"""The faults that are planted, each with the script it is for and what is wrong."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.planted_faults.planting import Planted, Scene, UnplantableError

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parents[1] / "fixtures" / "scripts"
_MODULES = (
    "autocasting",
    "tensors",
    "loading",
    "compiling",
    "gradients",
    "introduction",
    "training_together",
    "by_hand",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong finding. `verify` must end with a difference and name it."""

    name: str
    """`topic/what`, unique."""
    script: str
    """A script of `fixtures/scripts` or of `scripts` beside this file, without its suffix."""
    wrong: str
    """What is wrong, as a phrase."""
    plant: Callable[[Scene], Planted]
    file: str = ""
    """The file of the script's project that the finding is in; the script itself unless said otherwise."""
    arguments: tuple[str, ...] = ()
    ranks: int = 0
    """By how many processes the script runs that `distribute` makes; 0: it is what `rewrite` makes, by one."""
    unseen: str = ""
    """Why this cannot show on a CPU, whatever is rehearsed; such a fault is counted as missed."""
    by_hand: tuple[str, str] = ("", "")
    """Text of the script and what stands in its place in a version that somebody wrote: for `--against`."""
    style: tuple[tuple[str, str], ...] = ()
    """What else is written otherwise in that version, and right."""

    @property
    def path(self) -> Path:
        """The script."""
        own = HERE / "scripts" / f"{self.script}.py"
        return own if own.exists() else FIXTURES / f"{self.script}.py"

    @property
    def other_version(self) -> str:
        """The script as somebody wrote it by hand. Raises `UnplantableError`."""
        text = self.path.read_text(encoding="utf-8")
        for old, new in (self.by_hand, *self.style):
            if old not in text:
                raise UnplantableError(f"nothing reads {old!r}")
            text = text.replace(old, new)
        return text

    @property
    def planted_in(self) -> Path:
        return self.path.with_name(self.file) if self.file else self.path


_FAULTS: dict[str, Fault] = {}


def fault(
    name: str,
    script: str,
    wrong: str,
    *,
    file: str = "",
    arguments: tuple[str, ...] = (),
    ranks: int = 0,
    unseen: str = "",
) -> Callable[[Callable[[Scene], Planted]], Callable[[Scene], Planted]]:
    """Enter a function that plants a fault into the catalogue."""

    def enter(plant: Callable[[Scene], Planted]) -> Callable[[Scene], Planted]:
        assert name not in _FAULTS, name
        _FAULTS[name] = Fault(name, script, wrong, plant, file, arguments, ranks, unseen)
        return plant

    return enter


def slip(name: str, script: str, wrong: str, by_hand: tuple[str, str], style: tuple[tuple[str, str], ...] = ()) -> None:
    """Enter a version that somebody wrote by hand: what is wrong in it, and what is right in another style."""
    assert name not in _FAULTS, name
    _FAULTS[name] = Fault(name, script, wrong, _as_it_is, by_hand=by_hand, style=style)


def _as_it_is(_: Scene) -> Planted:
    raise UnplantableError("it is a version of its own")


def faults(only: tuple[str, ...] = ()) -> Iterator[Fault]:
    """All faults, or those whose name contains one of these texts."""
    for module in _MODULES:
        importlib.import_module(f"benchmarks.planted_faults.{module}")
    return (each for each in _FAULTS.values() if not only or any(text in each.name for text in only))
