"""Whether a part of a batch may be an object that moves itself."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.dataflow.definitions import ElementPath
from autoaccel.pytorch.batch_objects import makes_tensors, may_move_themselves
from autoaccel.pytorch.loader_calls import loader_calls

TEXT = """\
import torch
from torch.utils.data import DataLoader, Dataset

class Boxes:
    def __init__(self, x):
        self.x = x
    def to(self, device):
        return Boxes(self.x.to(device))

class Listed(list):
    def to(self, device):
        return Listed(x.to(device) for x in self)

class Tensors(Dataset):
    def __getitem__(self, index):
        return torch.zeros(3), {"x": torch.zeros(3)}

class Objects(Dataset):
    def __getitem__(self, index):
        return torch.zeros(3), Boxes(torch.zeros(3))

class Lists(Dataset):
    def __getitem__(self, index):
        return Listed([1])

def zipped(batch):
    return tuple(zip(*batch))

def stacked(batch):
    return torch.stack([x for x, _ in batch])

def boxed(batch):
    batch = list(zip(*batch))
    batch[0] = Boxes(torch.stack(batch[0]))
    return tuple(batch)

class Zip:
    def __call__(self, batch):
        return zipped(batch)
"""
FIRST, SECOND, INNER = (0,), (1,), (1, "*", "*")


@pytest.mark.parametrize(
    ("loader", "path", "expected"),
    [
        ("Tensors()", FIRST, False),
        ("Objects()", SECOND, False),  # which torch does not put together
        ("Lists()", FIRST, True),
        ("Objects(), batch_size=None", SECOND, True),
        ("Tensors(), batch_size=None", FIRST, False),
        ("Tensors(), collate_fn=zipped", SECOND, False),
        ("Objects(), collate_fn=zipped", SECOND, True),
        ("Objects(), collate_fn=zipped", INNER, True),
        ("Objects(), collate_fn=Zip()", SECOND, True),
        ("Tensors(), collate_fn=Zip()", SECOND, False),
        ("Objects(), collate_fn=lambda batch: batch", SECOND, True),
        ("Objects(), collate_fn=stacked", (), False),
        ("Tensors(), collate_fn=boxed", FIRST, True),
        ("Tensors(), collate_fn=boxed", INNER, False),
        ("unseen(), collate_fn=zipped", SECOND, True),
        ("unseen(), collate_fn=stacked", (), False),
        ("Tensors(), collate_fn=unseen", SECOND, True),
        ("Objects(), collate_fn=unseen", SECOND, True),
    ],
)
def test_may_move_themselves(loader: str, path: ElementPath, expected: bool) -> None:
    script = load(f"from lib import unseen\n{TEXT}\nDataLoader({loader})\n")
    (made,) = loader_calls(script)
    assert may_move_themselves(script, made, path, "to") is expected
    assert not may_move_themselves(script, made, path, "cuda")


@pytest.mark.parametrize(("collate", "expected"), [("stacked", True), ("zipped", False), ("unseen", False)])
def test_makes_tensors(collate: str, expected: bool) -> None:
    script = load(f"from lib import unseen\n{TEXT}\nDataLoader(Tensors(), collate_fn={collate})\n")
    (made,) = loader_calls(script)
    assert makes_tensors(script, made) is expected
