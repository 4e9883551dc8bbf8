"""What is watched in each mode, in the order in which it is set up."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from autoaccel.measure.observing.observation import Observation, Part
from autoaccel.measure.observing.running import Concerns


def install(
    observation: Observation, script: Path, loaded: Collection[str], concerns: Concerns, pipes: tuple[int, ...]
) -> None:
    """Import torch and hook everything that the request asks for. Raises `ImportError` where there is no torch.

    `loaded` are the project's files that were loaded, up to any moment.
    """
    request = observation.request
    if request.protected:
        from autoaccel.measure.observing import guarding

        guarding.install(request, observation.exchange, observation.stop)
    from autoaccel.measure.observing.printing import Printing

    add(observation, Printing())
    import torch  # noqa: F401 - from here on it may be hooked

    if request.protected:
        guarding.guard_torch()
    if request.rehearse:
        from autoaccel.measure.observing import rehearsal

        rehearsal.install(observation)
    for part in _of_mode(observation, script, loaded, concerns, pipes):
        add(observation, part)


def add(observation: Observation, part: Part) -> None:
    """Install a part; it has its say in the record."""
    part.install(observation)
    observation.parts.append(part)


def _of_mode(
    observation: Observation, script: Path, loaded: Collection[str], concerns: Concerns, pipes: tuple[int, ...]
) -> Iterator[Part]:
    from autoaccel.measure.observing.decisions import Decisions
    from autoaccel.measure.observing.evaluating import Evaluating
    from autoaccel.measure.observing.files import Files
    from autoaccel.measure.observing.loaders import Loaders
    from autoaccel.measure.observing.marking import Marking
    from autoaccel.measure.observing.randomness import Randomness
    from autoaccel.measure.observing.training import Training

    mode = observation.request.mode
    if mode == "profile":
        from autoaccel.measure.observing.profiling import Profiler

        yield Profiler(observation.request.root)
    yield Files(script, loaded, concerns)
    yield Decisions()
    yield Marking() if observation.request.marked else Evaluating() if observation.request.batches else Training()
    if mode != "profile":
        yield Loaders(hashed=mode == "record")
    if mode == "record":
        yield from _record(concerns)
    if mode == "turns":
        from autoaccel.measure.observing.turns import Turns

        yield Turns(*pipes)
    if observation.request.jitter:
        from autoaccel.measure.observing.jitter import Jitter

        yield Jitter()
    # what is imported on the way may draw numbers
    yield Randomness()
    if observation.request.lines:
        from autoaccel.measure.observing.lines import Lines

        yield Lines(concerns)


def _record(concerns: Concerns) -> Iterator[Part]:
    from autoaccel.measure.observing.losses import Losses
    from autoaccel.measure.observing.marks import Marks
    from autoaccel.measure.observing.naming import Names
    from autoaccel.measure.observing.scripting import Scripting
    from autoaccel.measure.observing.state import State

    yield Losses()
    yield Marks()
    yield Scripting()
    yield State(Names(concerns))
