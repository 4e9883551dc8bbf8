"""Batches that are fetched one step early are those of the loader, and draws of random numbers stay where they were."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.wrong_rewrites.fetching import FetchedAhead


class Rows(Dataset[int]):
    def __init__(self, *, draws: bool) -> None:
        self.draws = draws
        self.events: list[str] = []

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if index % 2 == 0:
            self.events.append(f"fetch {index // 2}")
        return int(torch.randint(9, ())) if self.draws else index


def events(*, draws: bool) -> tuple[list[str], list[list[int]]]:
    rows, batches = Rows(draws=draws), []
    for step, batch in enumerate(FetchedAhead(DataLoader(rows, batch_size=2))):
        rows.events.append(f"step {step}")
        batches.append(batch.tolist())
    return rows.events, batches


def test_the_next_batch_is_fetched_before_the_step() -> None:
    order, batches = events(draws=False)
    assert order == ["fetch 0", "step 0", "fetch 1", "fetch 2", "step 1", "fetch 3", "step 2", "step 3"]
    assert batches == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_what_draws_is_fetched_when_the_loop_asks() -> None:
    torch.manual_seed(0)
    expected = [batch.tolist() for batch in DataLoader(Rows(draws=True), batch_size=2)]
    torch.manual_seed(0)
    order, batches = events(draws=True)
    assert order == [f"{what} {number}" for number in range(4) for what in ("fetch", "step")]
    assert batches == expected


def test_what_is_no_loader_is_iterated_as_it_is() -> None:
    seen: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(3):
            seen.append(number)
            yield number

    for number in FetchedAhead(numbers()):
        assert seen[-1] == number
