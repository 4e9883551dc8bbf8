"""Rewritten streams, trained: by however many workers the losses are those of one process, bit for bit."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from autoaccel.rewriting import engine  # noqa: E402
from autoaccel_codemods import iterable_shards, loader_workers  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

HEAD = """
import csv
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset

torch.manual_seed(0)
"""
TAIL = """
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
losses = []
for epoch in range(3):
    for x in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""
STREAMS = {
    "lines": """
        class Rows(IterableDataset):
            def __init__(self, path):
                self.path = path

            def __iter__(self):
                with open(self.path) as file:
                    reader = csv.reader(file)
                    next(reader)
                    for row in reader:
                        yield torch.tensor([float(each) for each in row])

        loader = DataLoader(Rows("rows.csv"), batch_size=4)
    """,
    "numbers": """
        class Rows(IterableDataset):
            def __init__(self, count):
                self.count = count

            def __iter__(self):
                for index in range(self.count):
                    x = torch.zeros(2)
                    x[index % 2] = index
                    yield x

        loader = DataLoader(Rows(23), batch_size=5, drop_last=True)
    """,
    "batches": """
        class Rows(IterableDataset):
            def __init__(self, blocks):
                self.blocks = blocks

            def __iter__(self):
                for number, block in enumerate(self.blocks):
                    yield torch.tensor(block) * number

        loader = DataLoader(Rows([[[1.0, 2.0], [3.0, 4.0]]] * 9), batch_size=None)
    """,
}


def trained(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "rows"}
    exec(compile(text, "rows.py", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("workers", ["0", "1", "2", "3"])
@pytest.mark.parametrize("name", STREAMS)
def test_trains_the_same(name: str, workers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("a,b\n" + "".join(f"{number},{-number}\n" for number in range(22)))
    plain = HEAD + textwrap.dedent(STREAMS[name]) + TAIL
    result = engine.rewrite(plain, None, [iterable_shards.RULE, loader_workers.RULE])
    assert [record.code for record in result.applied if record.code == "AA204"] == ["AA204"] * 2
    monkeypatch.setenv("AUTOACCEL_NUM_WORKERS", workers)
    before, after = trained(plain), trained(result.after)
    assert after["loader"].num_workers == int(workers)
    assert after["losses"] == before["losses"]
    assert all(map(torch.equal, after["model"].parameters(), before["model"].parameters()))


def test_a_loader_without_its_loop_is_not_rewritten() -> None:
    """Workers of a stream that is not divided would repeat it."""
    text = HEAD + textwrap.dedent(STREAMS["numbers"]) + TAIL
    silenced = text.replace(
        "for index in range(self.count):", "for index in range(self.count):  # autoaccel: ignore[AA204]"
    )
    result = engine.rewrite(silenced, None, [iterable_shards.RULE])
    assert result.after == silenced
