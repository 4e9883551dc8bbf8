"""Where a loop can tell a pinned batch from the one that was made."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.loader_calls import iterations, loader_calls
from autoaccel_codemods.loader_workers.pin_memory import told_apart

HEAD = """\
import torch
from torch.utils.data import DataLoader, default_collate
device = torch.device("cuda")
def pair(samples):
    return torch.stack(samples), torch.stack(samples)
def both(samples):
    x = torch.stack(samples)
    return [x, x]
def cut(samples):
    return table[samples[0] : samples[-1]]
def named(samples):
    return {"x": torch.stack(samples), "ids": tuple(samples), "size": [1, (2, 3)]}
def own(samples):
    return Batch(samples)
class Batch(dict):
    pass
def read(given):
    return table[given["ids"]]
def look(given):
    return given["x"]
def follow(given):
    a, b = given
def compare(given):
    return given == (1, 2)
"""


@pytest.mark.parametrize(
    ("options", "lines", "told"),
    [
        ("", "x.zero_()", None),
        ("collate_fn=default_collate", "x.zero_(); f(x)", None),
        ("batch_size=8", "x.zero_()", None),
        ("batch_size=None", "x.zero_()", "copy"),
        ("batch_size=None", "x[0] = 1", "copy"),
        ("batch_size=None", "a = x.to(device); a.zero_()", None),
        ("batch_size=None", "x['a'] = x['a'].to(device)", None),
        ("collate_fn=cut", "x.numpy()[:] = 0", "copy"),
        ("collate_fn=cut", "torch.relu_(x)", "copy"),
        ("collate_fn=cut", "a = x + 1; a += 1", None),
        ("collate_fn=both", "x[0].zero_()", "copy"),
        ("collate_fn=both", "x[0].to(device)", None),
        ("collate_fn=pair", "x[0].zero_()", None),
        ("collate_fn=pair", "a, b = x; f(a, len(x))", None),
        ("collate_fn=pair", "follow(x)", None),
        ("collate_fn=pair", "compare(x)", "list"),
        ("collate_fn=pair", "f(x)", "list"),
        ("collate_fn=pair", "isinstance(x, (list, tuple))", None),
        ("collate_fn=pair", "isinstance(x, list)", "list"),
        ("collate_fn=pair", "x += (1,)", "list"),
        ("collate_fn=both", "x + [1]", None),
        ("collate_fn=named", "f(x['x']); a, b = x['ids']; len(x['size'])", None),
        ("collate_fn=named", "table[x['ids']]", "list"),
        ("collate_fn=named", "ids = x['ids']; table[ids]", "list"),
        ("collate_fn=named", "for k in x: f(x[k])", "list"),
        ("collate_fn=named", "for k, v in x.items(): isinstance(v, tuple)", "list"),
        ("collate_fn=named", "table[x.get('ids')]", "list"),
        ("collate_fn=named", "x['size'][1] + (4,)", "list"),
        ("collate_fn=named", "x['size'][0] + 4", None),
        ("collate_fn=named", "f(x)", "list"),
        ("collate_fn=named", "f(**x)", "list"),
        ("collate_fn=named", "read(x)", "list"),
        ("collate_fn=named", "look(x)", None),
        ("collate_fn=own", "x['a'].to(device)", "class of their own"),
        ("collate_fn=unknown", "x['a'].to(device)", None),
        ("collate_fn=unknown", "x.images.to(device)", "class of their own"),
        ("collate_fn=unknown", "x['a'].images.to(device)", "class of their own"),
        ("collate_fn=lambda s: torch.stack(s)", "f(x)", None),
        ("collate_fn=lambda s: unknown(s)", "f(x)", "list"),
    ],
)
def test_told_apart(options: str, lines: str, told: str | None) -> None:
    script = load(f"{HEAD}loader = DataLoader(data, {options})\nfor x in loader:\n    {lines}\n")
    (made,) = loader_calls(script)
    reason = told_apart(script, made, iterations(script, made.call))
    assert reason is None if told is None else told in (reason or "")
