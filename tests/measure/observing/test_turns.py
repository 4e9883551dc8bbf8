"""A script that runs in turns: its clock, its waiting, and what it says; in this process, through real pipes."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch

from autoaccel.measure.observing import turns
from autoaccel.measure.observing.observation import Batch, Events, Observation
from autoaccel.measure.observing.run_record import FAILED, FINISHED, RunFailure
from autoaccel.measure.observing.turns import Turn, Turns, busy_share, samples


class EndedError(Exception):
    """What ends the process in earnest."""


@dataclass
class Watched:
    """As much of an observation as turns need."""

    events: Events = field(default_factory=Events)
    endings: list[object] = field(default_factory=list)

    def end(self, ending: str) -> None:
        raise EndedError(ending)


@dataclass
class Parent:
    """The other ends of the pipes."""

    commands: int
    events: int
    script: Turns
    watched: Watched

    def command(self, **values: object) -> None:
        os.write(self.commands, json.dumps(values).encode() + b"\n")

    def turn(self) -> Turn:
        text = b""
        while not text.endswith(b"\n"):
            text += os.read(self.events, 1)
        return Turn.from_json(text.decode())

    def step(self, loss: float | None = None) -> None:
        """What the script does."""
        if loss is not None:
            for told in self.watched.events.before_backward:
                told([torch.tensor(loss)])
        for each in self.watched.events.after_step:
            each(None)


@pytest.fixture
def parent() -> Iterator[Parent]:
    for_commands, commands = os.pipe()
    events, for_events = os.pipe()
    watched = Watched()
    script = Turns(for_commands, for_events)
    script.install(watched)  # type: ignore[arg-type]
    yield Parent(commands, events, script, watched)
    for pipe in (for_commands, commands, events, for_events):
        with contextlib.suppress(OSError):  # the test has closed it
            os.close(pipe)


def test_the_first_turn_is_one_step(parent: Parent) -> None:
    parent.command(run=3)
    parent.step(2.0)
    turn = parent.turn()
    assert (turn.state, len(turn.times), turn.losses) == (turns.WAITING, 1, ((1, 2.0),))
    assert turn.host_memory > 10**7
    assert (turn.device, turn.device_memory) == ("cpu", 0)


def test_as_many_steps_as_it_is_told(parent: Parent) -> None:
    parent.command(run=3)
    parent.step(4.0)
    parent.turn()
    parent.command(run=1)
    for loss in (3.0, 2.0, 1.0):
        parent.step(loss)
    turn = parent.turn()
    assert len(turn.times) == 3
    assert turn.losses == ((2, 3.0), (3, 2.0), (4, 1.0))
    assert turn.seconds == pytest.approx(sum(turn.times), abs=0.05)


def test_the_clock_stands_still_while_it_waits(parent: Parent, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    read = os.read

    def after_a_while(descriptor: int, size: int) -> bytes:
        now[0] += 100.0
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", after_a_while)
    parent.command(run=2)
    parent.step()
    monkeypatch.setattr(os, "read", read)
    parent.turn()
    parent.command(run=1)
    for _ in range(2):
        now[0] += 1.5
        parent.step()
    turn = parent.turn()
    assert (turn.seconds, turn.times) == (3.0, (1.5, 1.5))


def test_it_ends_when_it_is_told(parent: Parent) -> None:
    parent.command(end=True)
    with pytest.raises(EndedError, match="stopped"):
        parent.step()


def test_it_ends_when_nobody_is_there_any_more(parent: Parent) -> None:
    os.close(parent.commands)
    with pytest.raises(EndedError, match="stopped"):
        parent.step()


def test_the_end_of_the_script_is_told(parent: Parent) -> None:
    parent.command(run=5)
    parent.step()
    parent.turn()
    parent.step()
    parent.script.ended(FINISHED, None)
    turn = parent.turn()
    assert (turn.state, len(turn.times)) == (FINISHED, 1)


def test_a_failure_is_told_once(parent: Parent) -> None:
    failure = RunFailure("RuntimeError", "no luck", "train.py:3", "Traceback")
    parent.script.ended(FAILED, failure)
    parent.script.ended(FAILED, failure)
    turn = parent.turn()
    assert (turn.state, turn.failure) == (FAILED, failure)
    os.set_blocking(parent.events, False)
    with pytest.raises(BlockingIOError):
        os.read(parent.events, 1)


def test_loaders_are_watched(parent: Parent) -> None:
    batch = Batch(0, [torch.zeros(8, 3), torch.zeros(8)], 0.25)
    for told in parent.watched.events.batch:
        told(batch)
        told(batch)
    parent.command(run=1)
    parent.step()
    turn = parent.turn()
    assert (turn.samples, turn.loader) == (16, 0.5)


def test_a_loss_that_is_overwritten_is_kept(parent: Parent) -> None:
    loss = torch.tensor(1.0)
    parent.command(run=1)
    for told in parent.watched.events.before_backward:
        told([loss])
    loss.fill_(7.0)
    for each in parent.watched.events.after_step:
        each(None)
    assert parent.turn().losses == ((1, 1.0),)


def test_it_is_a_part_of_an_observation() -> None:
    """The stand-in above has nothing that the real one has not."""
    assert all(hasattr(Observation, name) for name in ("end",))
    assert {"before_backward", "after_step", "batch"} <= set(Events.__dataclass_fields__)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (torch.zeros(5, 2), 5),
        (torch.tensor(3.0), 1),
        ([torch.zeros(4), "labels"], 4),
        ({"name": ["a"], "image": torch.zeros(6, 1)}, 6),
        (SimpleNamespace(x=torch.zeros(7)), 7),
        ([["a", "b"], 3], 0),
        ([], 0),
        (None, 0),
    ],
)
def test_samples(batch: object, expected: int) -> None:
    assert samples(batch) == expected


def kernel(start: float, end: float) -> SimpleNamespace:
    return SimpleNamespace(device_type="DeviceType.CUDA", time_range=SimpleNamespace(start=start, end=end))


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], None),
        ([kernel(0, 500_000)], 0.5),
        ([kernel(0, 300_000), kernel(200_000, 400_000)], 0.4),
        ([kernel(600_000, 700_000), kernel(0, 300_000), kernel(100_000, 200_000)], 0.4),
        ([kernel(0, 2_000_000)], 1.0),
        ([SimpleNamespace(device_type="DeviceType.CPU", time_range=SimpleNamespace(start=0, end=9))], None),
    ],
)
def test_busy_share(events: list[SimpleNamespace], expected: float | None) -> None:
    assert busy_share(events, 1.0) == (None if expected is None else pytest.approx(expected))
