"""Workers draw other numbers from the generators that a dataset keeps, each its own, and the same in a seeded run."""

from __future__ import annotations

import functools
import pickle
import random
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from autoaccel import runtime as accel
from autoaccel.runtime.loading import worker_seeds
from autoaccel.runtime.loading.worker_seeds import kept_generators, state_of

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

GENERATORS: dict[str, Callable[[int], Any]] = {
    "default_rng": np.random.default_rng,
    "mersenne": lambda seed: np.random.Generator(np.random.MT19937(seed)),
    "philox": lambda seed: np.random.Generator(np.random.Philox(seed)),
    "random_state": np.random.RandomState,
    "python": random.Random,
    "torch": lambda seed: torch.Generator().manual_seed(seed),
}


def draw(generator: Any) -> float:
    if isinstance(generator, torch.Generator):
        return float(torch.rand((), generator=generator))
    return float(generator.random() if hasattr(generator, "random") else generator.random_sample())


class Shaken(Dataset[torch.Tensor]):
    """Each sample is what the generator gave for it; `of` makes what holds the generator."""

    def __init__(self, generator: Any, wrap: Callable[[Any], Any] = lambda generator: generator) -> None:
        self.held = wrap(generator)
        self._draw = functools.partial(draw, generator)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self._draw(), dtype=torch.float64)


def numbers(dataset: Dataset[Any], seed: int = 0, passes: int = 2, **settings: Any) -> list[float]:
    """What workers drew, batch by batch, in all passes."""
    torch.manual_seed(seed)
    settings = {"num_workers": 2, "worker_init_fn": accel.seed_worker, "batch_size": 2, **settings}
    loader = DataLoader(dataset, **settings)
    return [each for _ in range(passes) for batch in loader for each in batch.tolist()]


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_no_number_comes_twice(make: Callable[[int], Any]) -> None:
    alike = numbers(Shaken(make(0)), worker_init_fn=None)
    assert len(set(alike)) == 4, "the same in both workers and both passes: what this is for"
    drawn = numbers(Shaken(make(0)))
    assert len(set(drawn)) == 16
    assert numbers(Shaken(make(0))) == drawn, "the run is seeded"
    assert set(numbers(Shaken(make(0)), seed=1)).isdisjoint(drawn)
    assert set(numbers(Shaken(make(1)))).isdisjoint(drawn), "the script's own seed matters"


def test_kept_workers_go_on() -> None:
    assert len(set(numbers(Shaken(random.Random(0)), persistent_workers=True))) == 16


def test_without_workers_nothing_happens() -> None:
    expected = [draw(each) for each in [np.random.default_rng(0)] for _ in range(8)]
    assert numbers(Shaken(np.random.default_rng(0)), passes=1, num_workers=0) == expected


@pytest.mark.parametrize("features", ["all", "workers"])
def test_switched_off(monkeypatch: pytest.MonkeyPatch, features: str) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", features)
    assert numbers(Shaken(random.Random(0))) == numbers(Shaken(random.Random(0)), worker_init_fn=None)


def test_outside_of_a_worker() -> None:
    accel.seed_worker(0)


class Paired(Dataset[torch.Tensor]):
    """A picture and its mask, turned alike."""

    def __init__(self) -> None:
        self.picture, self.mask = np.random.default_rng(3), np.random.default_rng(3)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([self.picture.random(), self.mask.random()])


def test_generators_that_are_alike_stay_alike() -> None:
    torch.manual_seed(0)
    loader = DataLoader(Paired(), batch_size=4, num_workers=2, worker_init_fn=accel.seed_worker)
    pairs = torch.cat(list(loader))
    assert torch.equal(pairs[:, 0], pairs[:, 1])
    assert len(set(pairs[:, 0].tolist())) == 8


class Slotted:
    __slots__ = ("empty", "held")

    def __init__(self, held: Any) -> None:
        self.held = held


class Holder:
    def __init__(self, held: Any) -> None:
        self.held = held

    def method(self) -> None: ...


def closing_over(held: Any) -> Callable[[], Any]:
    return lambda: held


def defaulting_to(held: Any) -> Callable[..., Any]:
    def function(given: Any = held, *, named: Any = held) -> Any: ...

    return function


class Turning(torch.nn.Module):
    """A transform of torchvision's newer kind."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(1, 1))
        self.held = held


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda held: held,
    "object": Holder,
    "slot": Slotted,
    "list": lambda held: [1, held],
    "mapping": lambda held: {"a": (held,)},
    "set": lambda held: {held},
    "deque": lambda held: deque([held]),
    "partial": lambda held: functools.partial(print, held, end=""),
    "bound_method": lambda held: Holder(held).method,
    "drawing_method": lambda held: held.random,
    "closure": closing_over,
    "default": defaulting_to,
    "module": Turning,
    "behind_much_data": lambda held: [[("path", number) for number in range(50_000)], Holder(held)],
    "many_objects": lambda held: [*(Holder(number) for number in range(3000)), Holder(held)],
    "circle": lambda held: (lambda outer: outer.__dict__.update(again=outer, last=held) or outer)(Holder(None)),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_wherever_it_is_held(wrap: Callable[[Any], Any]) -> None:
    generator = random.Random(0)
    owner = Holder(wrap(generator))
    assert kept_generators(owner) == ([generator], True)
    dataset: Dataset[Any] = Subset(ConcatDataset([Shaken(random.Random(1)), Shaken(generator, wrap)]), range(16))
    assert generator in kept_generators(dataset)[0]


def test_one_state_is_one_generator() -> None:
    bits = np.random.PCG64(0)
    assert kept_generators([np.random.Generator(bits), np.random.Generator(bits), bits]) == ([bits], True)


def test_what_the_program_shares_is_left_to_torch() -> None:
    shared = [torch.default_generator, np.random.mtrand._rand, random, np.random, random.random, random.SystemRandom()]
    assert kept_generators(shared) == ([], True)


class Property:
    @property
    def held(self) -> random.Random:
        raise AssertionError("the object's own code is not to be run")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("the object's own code is not to be run")

    def __len__(self) -> int:
        raise AssertionError("the object's own code is not to be run")


def test_no_code_of_an_object_is_run() -> None:
    class Computed(dict[str, Any]):
        def values(self) -> Any:
            raise AssertionError("the object's own code is not to be run")

    assert kept_generators([Property(), Computed()]) == ([], True)


def test_what_cannot_be_seeded_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unseeded(random.Random):
        def getstate(self) -> Any:
            raise NotImplementedError

    assert state_of(Unseeded()) is None
    said = warned(monkeypatch, Shaken(Unseeded()))
    assert said == ["autoaccel: seed_worker: a Unseeded of Shaken cannot be seeded: workers draw the same"]


def test_what_was_not_looked_at_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_seeds, "MOST", 10)
    generator = random.Random(0)
    dataset = Shaken(generator, lambda held: [[Holder(number) for number in range(9)], [Holder([held])]])
    assert len(warned(monkeypatch, dataset)) == 1
    assert kept_generators(dataset) == ([generator], False), "the nearest come first: it is an argument of a partial"


def warned(monkeypatch: pytest.MonkeyPatch, dataset: Any) -> list[str]:
    """What a worker would say of a dataset."""
    info = type("Info", (), {"dataset": dataset})
    monkeypatch.setattr(worker_seeds, "get_worker_info", lambda: info)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        accel.seed_worker(0)
    return [str(each.message) for each in caught]


def test_processes_that_are_spawned_find_it_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(accel.seed_worker)) is accel.seed_worker
