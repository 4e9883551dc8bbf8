"""What datasets do per sample that decides whether workers are safe and worth it."""

from __future__ import annotations

import pytest

from autoaccel.analysis import Script, load
from autoaccel.dataflow.abstract_values import ClassRef, Value
from autoaccel.pytorch import datasets
from autoaccel.pytorch.loader_calls import loader_calls

IMPORTS = """\
import random
import h5py
import numpy as np
import torch
from torch.utils.data import (
    DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info, random_split
)
"""


def source(text: str, expression: str = "Data()") -> tuple[Script, Value]:
    script = load(f"{IMPORTS}{text}\nDataLoader({expression})\n")
    (made,) = loader_calls(script)
    (value,) = datasets.origins(script, made.settings["dataset"])
    return script, value


def own_class(init: str, item: str) -> ClassRef:
    methods = f"    def __init__(self):\n        {init}\n    def __getitem__(self, i):\n        {item}\n"
    _, value = source(f"LOADED = {{}}\nclass Data(Dataset):\n{methods}")
    assert value.cls is not None
    return value.cls


@pytest.mark.parametrize(
    ("init", "item", "kept"),
    [
        ("self.rng = np.random.default_rng(0)", "return self.rng.normal()", True),
        ("self.g = torch.Generator().manual_seed(0)", "return torch.rand(3, generator=self.g)", True),
        ("rng = np.random.default_rng(0); self.x = rng.normal(size=9)", "return self.x[i]", False),
        ("self.rng = np.random.default_rng(0); self.x = self.rng.normal(size=9)", "return self.x[i]", False),
        ("pass", "return np.random.default_rng(i).normal()", False),
        ("self.x = np.random.RandomState(0).rand(9, 3).astype('f')", "return self.x[i]", False),
        ("self.x = [random.Random(0).random() for _ in range(9)]", "return self.x[i]", False),
        ("self.g = torch.Generator().manual_seed(0).manual_seed(1)", "return torch.rand(3, generator=self.g)", True),
        ("self.x = torch.randn(9, generator=torch.Generator().manual_seed(0))", "return self.x[i]", False),
        ("self.x = torch.rand(9, generator=torch.Generator())", "return self.x[i]", False),
        ("self.draw = partial(torch.rand, generator=torch.Generator())", "return self.draw(3)", True),
        ("self.rngs = np.random.default_rng(0).spawn(9)", "return self.rngs[i].normal()", True),
        ("self.draw = np.random.RandomState(0).rand", "return self.draw(3)", True),
        ("self.rng = (0, np.random.RandomState(0))[1]", "return self.rng.rand(3)", True),
        ("pass\n    rng = np.random.default_rng(0)", "return self.rng.normal()", True),
        (
            "pass\n    def draw(self, rng=np.random.default_rng(0)):\n        return rng.random()",
            "return self.draw()",
            True,
        ),
        ("self.engine = torch.quasirandom.SobolEngine(2)", "return self.engine.draw(1)", True),
        ("self.rng = random.SystemRandom()", "return self.rng.random()", False),
    ],
)
def test_keeps_generator(init: str, item: str, kept: bool) -> None:
    assert datasets.keeps_generator(own_class(init, item)) is kept


@pytest.mark.parametrize(
    ("init", "held"),
    [
        ("self.f = h5py.File('x')", True),
        ("self.f = open('x')", True),
        ("with open('x') as f: self.x = f.read()", False),
    ],
)
def test_holds_file(init: str, held: bool) -> None:
    assert datasets.holds_file(own_class(init, "return 1")) is held


@pytest.mark.parametrize(
    ("item", "cheap"),
    [
        ("return self.x[i], self.y[i]", True),
        ("return torch.tensor(self.x[i]).float()", True),
        ("return self.transform(self.x[i])", False),
        ("return [v for v in self.x[i]]", False),
        ("return self.frame.iloc[i]", False),
        ("return np.load(self.x[i])", False),
    ],
)
def test_only_indexes(item: str, cheap: bool) -> None:
    _, value = source(f"class Data(Dataset):\n    def __getitem__(self, i):\n        {item}\n")
    assert datasets.only_indexes(value) is cheap


def test_origins_see_through_splits() -> None:
    _, value = source("full = TensorDataset(torch.zeros(9))\ntrain, test = random_split(full, [6, 3])", "train")
    assert value.name == "torch.utils.data.TensorDataset"


@pytest.mark.parametrize(("body", "stream"), [("yield 1", True), ("yield get_worker_info().id", True)])
def test_is_iterable(body: str, stream: bool) -> None:
    _, value = source(f"class Data(IterableDataset):\n    def __iter__(self):\n        {body}\n")
    assert datasets.is_iterable(value) is stream


@pytest.mark.parametrize(
    ("transform", "pure"),
    [
        ("T.ToTensor()", True),
        ("T.Compose([T.Resize(8), T.ToTensor(), T.Normalize((0.5,), (0.5,))])", True),
        ("T.Compose([T.RandomCrop(8), T.ToTensor()])", False),
        ("T.Lambda(lambda x: x + torch.randn(1))", False),
    ],
)
def test_is_pure_vision(transform: str, pure: bool) -> None:
    script, value = source(
        f"import torchvision\nimport torchvision.transforms as T\nt = {transform}",
        "torchvision.datasets.MNIST('x', transform=t)",
    )
    assert datasets.is_pure_vision(script, value) is pure


@pytest.mark.parametrize(
    ("expression", "hub"),
    [
        ("load_dataset('x')['train']", True),
        ("load_dataset('x', streaming=True)['train']", False),
        ("other()['train']", False),
    ],
)
def test_from_hub(expression: str, hub: bool) -> None:
    script = load(f"{IMPORTS}from datasets import load_dataset\nDataLoader({expression})\n")
    (made,) = loader_calls(script)
    assert datasets.from_hub(script, made.settings["dataset"]) is hub
