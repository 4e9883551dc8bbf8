"""Passes over loaders, as an observed run sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.measure.observing.scripts import Observe

LOADERS = """
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

torch.manual_seed(0)

class Numbers(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return {"x": torch.full((2,), float(index)), "name": f"number {index}", "pair": (index, [index])}

class Stream(IterableDataset):
    def __iter__(self):
        yield from range(7)

def step(weight=torch.ones(1, requires_grad=True)):
    weight.sum().backward()
"""


def test_a_pass_that_is_cut_short_has_the_length_of_what_it_gives(observe: Observe) -> None:
    """Else `epoch * len(loader) + index` would not be the number of the batch that a counter says."""
    record = observe(
        LOADERS
        + """
class Mine(DataLoader):
    def __len__(self):
        return super().__len__()

for loader in (DataLoader(Numbers(), batch_size=2), Mine(Numbers(), batch_size=2), DataLoader(Numbers(), batch_size=8)):
    print(len(loader), len(list(loader)))
""",
        pass_batches=3,
    )
    assert record.printed == ("3 3", "3 3", "2 2")
    assert [each.length for each in record.passes] == [5, 5, 2]


def test_passes_are_told_apart(observe: Observe) -> None:
    record = observe(
        LOADERS
        + """
numbers, stream = DataLoader(Numbers(), batch_size=4, shuffle=True), DataLoader(Stream(), batch_size=2)
for _ in stream:
    pass
for _ in range(2):
    for batch in numbers:
        print(batch["name"])
for one in numbers:
    for other in numbers:
        break
    break
next(iter(stream))
list(zip(numbers, numbers))
"""
    )
    passes = [(each.loader, each.length, len(each.batches), each.complete) for each in record.passes]
    # both sides of a zip are asked for a batch until the first has none
    expected = [(0, None, 4, True), (1, 3, 3, True), (1, 3, 3, True), (1, 3, 1, False), (1, 3, 1, False)]
    expected += [(0, None, 1, False), (1, 3, 3, True), (1, 3, 3, False)]
    assert passes == expected
    assert record.passes[1].batches != record.passes[2].batches  # shuffled
    assert record.passes[0].batches[0] == record.passes[5].batches[0]
    assert len(set(record.passes[1].batches)) == 3


@pytest.mark.parametrize("options", ["", ", num_workers=2", ", num_workers=2, persistent_workers=True"])
def test_workers_hand_out_the_same(observe: Observe, options: str) -> None:
    text = f"""
loader = DataLoader(Numbers(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(0){options})
for _ in range(2):
    for batch in loader:
        pass
step()
"""
    record, plain = observe(LOADERS + text), observe(LOADERS + text.replace(options, ""))
    assert [each.complete for each in record.passes] == [True, True]
    assert record.passes[0].batches == plain.passes[0].batches
    assert record.backwards == 1
    short = observe(LOADERS + text, pass_batches=2)
    assert short.passes[0].batches == record.passes[0].batches[:2]
    assert [(each.complete, each.length) for each in short.passes] == [(False, 3)] * 2


def test_what_is_hashed_is_what_is_in_a_batch(observe: Observe) -> None:
    text = """
import dataclasses, collections
import numpy as np
from torch.nn.utils.rnn import pack_sequence

class Plain:
    def __init__(self, value):
        self.value, self.me = value, self

@dataclasses.dataclass
class Data:
    value: object

Named = collections.namedtuple("Named", "value")
kinds = [
    lambda n: torch.tensor([n]), lambda n: np.array([n]), lambda n: Plain(n), lambda n: Data(n), lambda n: Named(n),
    lambda n: {"a": n}, lambda n: [n], lambda n: str(n), lambda n: pack_sequence([torch.tensor([float(n)])]),
    lambda n: np.array([n, "x"], dtype=object), lambda n: {n}, lambda n: torch.tensor(n, dtype=torch.bfloat16),
]
for kind in kinds:
    for batch in DataLoader([1, 1, 2], batch_size=None, collate_fn=kind):
        pass
"""
    passes = observe(LOADERS + text).passes
    assert len(passes) == 12
    for each in passes:
        first, second, third = each.batches
        assert first == second != third
    assert len({each.batches[0] for each in passes}) == 12


def test_folders_of_workers_are_not_left_behind(observe: Observe) -> None:
    record = observe(
        """
        from multiprocessing import Process, util

        def show():
            print(util.get_temp_dir(), flush=True)

        worker = Process(target=show)
        worker.start()
        worker.join()
        show()
        """
    )
    worker, own = map(Path, record.printed)
    assert worker == own
    assert not worker.exists()


@pytest.mark.parametrize(
    ("sample", "draws"),
    [
        ("0", ()),
        ("torch.rand(())", ("torch",)),
        ("self.rng.random()", ("generator 2 of the dataset",)),
        ("self.steady.random() * 0 + torch.rand(())", ("generator 1 of the dataset", "torch")),
    ],
)
def test_what_datasets_draw_from(observe: Observe, sample: str, draws: tuple[str, ...]) -> None:
    """Their own generators, too: in workers they draw other numbers."""
    record = observe(
        f"""
import random
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __init__(self):
        self.steady, self.rng = random.Random(0), random.Random(0)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {sample}

w = torch.zeros(1, requires_grad=True)
for batch in DataLoader(Numbers()):
    (w * batch.sum()).backward()
"""
    )
    assert [each.draws for each in record.passes] == [draws]


def test_batches_may_be_the_steps(observe: Observe) -> None:
    text = LOADERS + "for _ in range(2):\n    for batch in DataLoader(Numbers(), batch_size=4):\n        pass\n"
    assert observe(text).steps == 0
    assert observe(text, batches=True).steps == 5  # the last one is over when the script is


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("data, batch_size=4", [12, 12]),
        ("data, 4, True", [12, 12]),
        ("dataset=data, batch_size=4, drop_last=True", [12, 12]),
        ("data", [3] * 8),
        ("data, batch_size=None", [1] * 24),
        ("data, batch_sampler=[[0, 1], [2, 3, 4, 5]]", [2, 4]),
        ("data, 1, None, None, [[0, 1], [2, 3, 4, 5]]", [2, 4]),
    ],
)
def test_batches_that_are_larger(observe: Observe, arguments: str, expected: list[int]) -> None:
    record = observe(
        f"""
        import torch
        from torch.utils.data import DataLoader

        data = torch.arange(24.0)
        w = torch.zeros(1, requires_grad=True)
        for batch in DataLoader({arguments}):
            print("batch", batch.numel())
            (w * batch.sum()).backward()
        """,
        batch_scale=3,
    )
    assert record.failure is None
    assert len(record.passes[0].batches) == len(expected)
    assert [line for line in record.printed if "batch" in line] == [f"batch {each}" for each in expected]
