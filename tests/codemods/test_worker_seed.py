"""A rewritten script whose dataset keeps generators, trained: with workers no noise comes twice."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from autoaccel.rewriting import engine  # noqa: E402
from autoaccel_codemods import loader_workers, worker_seed  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

SCRIPT = """
import random
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, Subset

torch.manual_seed(0)

class Noise:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, x):
        return x + torch.randn(x.shape, generator=self.generator)

class Rows(Dataset):
    def __init__(self, count, noise):
        self.count, self.noise = count, noise
        self.shared = np.random.default_rng(1)
        self.flips = random.Random(2)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        x = torch.full((2,), float(index)) * (1 if self.flips.random() < 0.5 else -1)
        noise = self.noise(torch.zeros(2) + self.shared.normal())
        return x + noise, noise[0]

loader = DataLoader(Subset(Rows(24, Noise(3)), range(24)), batch_size=4)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
losses, noises = [], []
for epoch in range(3):
    for x, noise in loader:
        noises += noise.tolist()
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""


def trained(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "rows"}
    exec(compile(text, "rows.py", "exec"), namespace)
    if (iterator := namespace["loader"]._iterator) is not None:
        iterator._shutdown_workers()  # they persist, and hold the pipes of whatever the suite has started
    return namespace


@pytest.fixture(scope="module")
def rewritten() -> str:
    result = engine.rewrite(SCRIPT, None, [loader_workers.RULE, worker_seed.RULE])
    assert "worker_init_fn=accel.seed_worker" in result.after
    assert "persistent_workers=accel.num_workers() > 0" in result.after
    assert {record.code for record in result.applied} == {"AA203"}
    return result.after


@pytest.mark.parametrize("name", ["AUTOACCEL_DISABLE", None])
def test_without_workers_it_trains_the_same(rewritten: str, name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name or "AUTOACCEL_NUM_WORKERS", "all" if name else "0")
    plain, after = trained(SCRIPT), trained(rewritten)
    assert after["losses"] == plain["losses"]
    assert all(map(torch.equal, after["model"].parameters(), plain["model"].parameters()))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_with_workers_no_noise_comes_twice(rewritten: str, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_NUM_WORKERS", str(workers))
    after = trained(rewritten)
    assert after["loader"].num_workers == workers
    assert len(set(after["noises"])) == len(after["noises"]) == 72
    assert trained(rewritten)["losses"] == after["losses"], "the script is seeded"
    unseeded = trained(rewritten.replace("accel.seed_worker", "None"))
    assert workers == 1 or len(set(unseeded["noises"])) < 72, "what this is for"
