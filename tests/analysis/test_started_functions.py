"""Arguments that functions get through processes and threads."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load

IMPORTS = "import threading\nimport torch.multiprocessing as mp\nfrom torch.utils.data import DataLoader\n"
BODY = "def train(rank, batches):\n    for x, y in batches:\n        x = x.to(rank)\nloader = DataLoader([1])\n"


@pytest.mark.parametrize(
    ("start", "known"),
    [
        ("mp.Process(target=train, args=(0, loader)).start()", True),
        ("mp.spawn(train, args=(loader,), nprocs=2)", True),
        ("mp.spawn(train, (loader,))", True),
        ("threading.Thread(target=train, args=(0, loader)).start()", True),
        ("mp.Process(target=train, args=[0, loader]).start()", True),
        ("mp.Process(target=train, kwargs={'rank': 0, 'batches': loader}).start()", True),
        ("mp.Process(target=train, args=(0,), kwargs={'batches': loader}).start()", True),
        ("mp.Process(target=train, kwargs=options).start()", False),
        ("mp.spawn(train, args=(*rest, loader))", False),
        ("mp.spawn(other, args=(loader,))", False),
    ],
)
def test_loader_of_a_started_function(start: str, known: bool) -> None:
    script = load(f"{IMPORTS}{BODY}{start}\n")
    loop = next(script.find(ast.For))
    assert bool(script.creations(loop.iter)) is known
