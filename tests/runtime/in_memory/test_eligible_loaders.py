"""`accel.prefetch` over loaders whose batches are looked up whole, and how the runtime leaves them to torch."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from autoaccel import runtime as accel
from autoaccel.runtime import environment
from autoaccel.runtime.in_memory import eligible_loaders
from autoaccel.runtime.in_memory.batch_fetcher import WholeBatchFetcher
from autoaccel.runtime.loading import prefetcher
from autoaccel.runtime.loading.loader_settings import WorkerCount
from tests.runtime.in_memory.comparing import content, found, same, seed, states, whole

X = torch.arange(60.0).view(20, 3)
PAIR = TensorDataset(X, torch.arange(20))
PAIR_BATCHES = [[X[:10], torch.arange(10)], [X[10:], torch.arange(10, 20)]]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    kept: list[str] = []

    def note(topic: str, decision: environment.Decision) -> None:
        kept.append(f"{topic}: {decision.value} ({decision.reason})")

    monkeypatch.setattr(eligible_loaders, "note", note)
    return kept


def test_prefetch_looks_batches_up_whole(notes: list[str]) -> None:
    loader = DataLoader(PAIR, batch_size=6, shuffle=True)
    wrapped = accel.prefetch(loader, "cpu")
    assert wrapped is not loader
    assert (len(wrapped), wrapped.batch_size, wrapped.dataset) == (4, 6, PAIR)
    batches = iter(wrapped)
    assert type(batches) is _SingleProcessDataLoaderIter
    assert isinstance(batches._dataset_fetcher, WholeBatchFetcher)
    assert notes == ["resident TensorDataset[20]: the host (batches are looked up whole)"]


def _as_scripts_of_earlier_versions_say_it(loader: Any) -> Any:
    return accel.prefetch(loader, move=())


@pytest.mark.parametrize("verb", [accel.in_memory, _as_scripts_of_earlier_versions_say_it])
def test_the_verb(verb: Callable[[Any], Any], notes: list[str]) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(PAIR, batch_size=6, shuffle=True)

    seed()
    want = [content(batch) for _ in range(2) for batch in make()]
    seed()
    wrapped = verb(make())
    assert repr(wrapped).startswith("in_memory(<torch")
    assert (len(wrapped), wrapped.batch_size) == (4, 6)
    assert isinstance(iter(wrapped)._dataset_fetcher, WholeBatchFetcher)
    seed()
    assert [content(batch) for _ in range(2) for batch in verb(make())] == want
    assert set(notes) == {"resident TensorDataset[20]: the host (batches are looked up whole)"}


@pytest.mark.parametrize("verb", [accel.in_memory, _as_scripts_of_earlier_versions_say_it])
def test_the_verb_hands_back_what_is_not_understood(verb: Callable[[Any], Any], notes: list[str]) -> None:
    for loader in (DataLoader(Unknown()), [1, 2], iter([1])):
        assert verb(loader) is loader
    assert notes == ["resident Unknown[3]: False (its __getitem__ calls `hash`)"]


@pytest.mark.parametrize("switch", ["resident", "prefetch", "all", "amp, resident"])
def test_the_switches(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = DataLoader(PAIR)
    wrapped = accel.prefetch(loader, "cpu")
    monkeypatch.setenv("AUTOACCEL_DISABLE", switch)
    assert accel.prefetch(loader, "cpu") is accel.in_memory(loader) is loader
    assert not isinstance(iter(wrapped)._dataset_fetcher, WholeBatchFetcher)


class Unknown(Dataset[int]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        return hash(index)


def test_what_is_not_understood_is_handed_back(notes: list[str]) -> None:
    for loader in (DataLoader(Unknown()), [1, 2], iter([1])):
        assert accel.prefetch(loader, "cpu") is loader
    assert notes == ["resident Unknown[3]: False (its __getitem__ calls `hash`)"]


def test_chosen_workers_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetcher, "managed", lambda loader: True)
    monkeypatch.setattr(torch.utils.data.DataLoader, "_get_iterator", _refused(DataLoader._get_iterator))

    def make() -> DataLoader[Any]:
        return DataLoader(PAIR, batch_size=4, shuffle=True, num_workers=WorkerCount(2), persistent_workers=True)

    seed()
    want = [[content(batch) for batch in DataLoader(PAIR, batch_size=4, shuffle=True)] for _ in range(1)]
    after = states()
    seed()
    loader = make()
    assert [[content(batch) for batch in accel.prefetch(loader, "cpu")]] == want
    assert states() == after
    assert loader._iterator is None
    assert loader.num_workers == 2


def _refused(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def get(loader: Any) -> Any:
        assert loader.num_workers == 0
        return plain(loader)

    return get


def test_several_loops_at_once() -> None:
    """Nested, zipped, left early and begun again: as with torch's own iterators."""

    def loops(wrap: Callable[[Any], Any]) -> list[Any]:
        seed()
        one = wrap(DataLoader(PAIR, batch_size=3, shuffle=True))
        other = wrap(DataLoader(random_split(PAIR, [8, 12])[0], batch_size=2, shuffle=True))
        seen: list[Any] = []
        for batch in one:
            seen.append(content(batch))
            for inner in one:
                seen.append(content(inner))
                break
            seen += [content([left, right]) for left, right in zip(one, other)]  # noqa: B905 - of any length
        seen.append(content(next(iter(other))))
        return [*seen, states()]

    def plain(loader: Any) -> Any:
        return loader

    assert loops(lambda loader: accel.prefetch(loader, "cpu")) == loops(plain)


class Counting(Dataset[Any]):
    """Understood, and it counts how often it is asked all the same."""

    def __init__(self) -> None:
        self.x = np.arange(12.0)

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Any:
        return self.x[i]


def test_only_the_first_batch_is_asked_for_sample_by_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    plain: Any = torch.utils.data._utils.fetch._MapDatasetFetcher.fetch

    def fetch(self: Any, indices: Any) -> Any:
        asked.append(indices)
        return plain(self, indices)

    monkeypatch.setattr(torch.utils.data._utils.fetch._MapDatasetFetcher, "fetch", fetch)
    loader = DataLoader(Counting(), batch_size=4)
    for _ in range(3):
        assert len(list(whole(loader))) == 3
    assert asked == [[0, 1, 2, 3]]


@pytest.mark.parametrize("wrong", ["values", "dtype", "draws", "fails", "strides"])
def test_a_first_batch_that_differs_leaves_the_loader_to_torch(wrong: str, notes: list[str]) -> None:
    seed()
    want = [content(batch) for _ in range(2) for batch in DataLoader(PAIR, batch_size=4, shuffle=True)]
    after = states()
    seed()
    loader = DataLoader(PAIR, batch_size=4, shuffle=True)
    batches = whole(loader)
    lookup = found(loader).lookup()
    assert lookup is not None
    part: Any = lookup.sample[0]  # type: ignore[index]

    def step(values: torch.Tensor) -> torch.Tensor:
        if wrong == "draws":
            random.random()
        if wrong == "fails":
            raise RuntimeError("no")
        changed = {"values": values + 1, "dtype": values.double(), "strides": values.t().contiguous().t()}
        return changed.get(wrong, values)

    part.steps = (step,)
    if wrong == "strides":
        part.finish = step
    seen = [content(batch) for batch in batches]
    assert "the first batch, looked up whole, had" in notes[-1]
    assert found(loader).given_up
    assert eligible_loaders.in_memory_loader(loader, torch.device("cpu"), "all").begin() is None  # type: ignore[union-attr]
    seen += [content(batch) for batch in iter(loader)]
    assert seen == want
    assert states() == after


def test_an_index_outside_raises_as_it_does() -> None:
    def outcome(iterate: Callable[[Any], Any]) -> tuple[int, str]:
        seen = 0
        try:
            for _ in iterate(DataLoader(PAIR, batch_size=2, sampler=[1, 2, 3, 99])):
                seen += 1
        except IndexError as failure:
            return seen, str(failure)
        return seen, ""

    assert outcome(whole) == outcome(iter)
    assert outcome(iter)[1]


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("indices", [[True, False], [torch.tensor(1)], [1.0], ["a"]], ids=str)
def test_indices_that_are_not_numbers(indices: list[Any]) -> None:
    def outcome(iterate: Callable[[Any], Any]) -> Any:
        try:
            return [content(batch) for batch in iterate(DataLoader(PAIR, batch_size=2, sampler=indices))]
        except (IndexError, TypeError, RuntimeError) as failure:
            return repr(failure)

    assert outcome(whole) == outcome(iter)


def test_negative_indices() -> None:
    loader = DataLoader(PAIR, batch_size=2, sampler=[3, -1, 4, 5])
    assert content(list(whole(loader))) == content(list(loader))


def test_modes_see_every_operation() -> None:
    """Under a mode (a default device is one) batches come as torch makes them."""

    class Seeing(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    seen: list[str] = []
    loader = DataLoader(PAIR, batch_size=10)
    assert content(list(whole(loader))) == content(list(loader))
    with Seeing():
        assert content(list(whole(loader))) == content([[part.clone() for part in batch] for batch in PAIR_BATCHES])
    assert seen.count("stack") == 4
    with torch.inference_mode():
        assert next(whole(loader))[0].is_inference() is next(iter(loader))[0].is_inference()


def test_another_collate_function_for_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    collate = torch.utils.data._utils.collate
    monkeypatch.setitem(collate.default_collate_fn_map, torch.Tensor, lambda batch, **_: torch.stack(batch) + 1)
    loader = DataLoader(PAIR)
    assert accel.prefetch(loader, "cpu") is loader
    assert "function of the script" in found(loader).given_up


def test_another_collate_function_for_the_next_pass() -> None:
    loader = DataLoader(PAIR, batch_size=3)
    prefetched = accel.prefetch(loader, "cpu")
    list(prefetched)
    prefetched.collate_fn = len
    assert list(prefetched) == list(loader) and set(loader) <= {1, 2, 3}
    assert "function of the script" in found(loader).given_up


def test_nothing_outlives_the_loader() -> None:
    dataset = TensorDataset(torch.zeros(4, 1))
    loader = DataLoader(dataset)
    known = len(eligible_loaders._in_memory_loaders)
    list(whole(loader))
    watched = weakref.ref(dataset)
    del loader, dataset
    gc.collect()
    assert watched() is None
    assert len(eligible_loaders._in_memory_loaders) <= known


def test_loaders_that_are_equal_or_cannot_be_hashed() -> None:
    class Equal(DataLoader[Any]):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return True

    same(lambda: Equal(PAIR, batch_size=4))
    same(lambda: Equal(TensorDataset(X), batch_size=2))
