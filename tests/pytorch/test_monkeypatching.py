"""Functions of a library that are monkey-patched."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.pytorch.monkeypatching import intercepted, monkeypatched, monkeypatched_in_text, patches

OLD = "torch.cuda.amp.GradScaler"
NAMES = (OLD, "torch.amp.GradScaler")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("torch.cuda.amp.GradScaler = Mine", True),
        ("torch.cuda.amp.GradScaler.step = step", True),
        ("setattr(torch.cuda.amp, name, Mine)", True),
        ("monkeypatch.setattr(amp, 'GradScaler', Mine)", True),
        ("mock.patch('torch.cuda.amp.GradScaler')", True),
        ("sys.modules['torch.cuda.amp'] = mine", True),
        ("module = torch.cuda.amp", True),
        ("from torch.cuda import amp\namp.GradScaler = Mine", True),
        ("self.GradScaler = torch.cuda.amp.GradScaler()", False),
        ("hasattr(torch.cuda.amp, 'GradScaler')", False),
        ("print('GradScaler')", False),
        ("def f(scaler: 'torch.amp.GradScaler'): ...", False),
        ("'''torch.cuda.amp.GradScaler'''", False),
    ],
)
def test_monkeypatched(text: str, found: bool) -> None:
    assert (monkeypatched(load(f"import torch\n{text}\n"), NAMES) is not None) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import torch\ntorch.zeros = zeros", True),
        ("import torch as th\nth.zeros = zeros", True),
        ("setattr(torch, name, zeros)  # zeros", True),
        ("setattr(torch, 'zeros', f)", True),
        ("mock.patch.object(torch, 'zeros')", True),
        ("mock.patch('torch.zeros')", True),
        ("monkeypatch.setattr('torch.zeros', f)", True),
        ("self.zeros = torch.zeros(3)", False),
        ("x = torch.zeros == f", False),
        ("setattr(torch, 'ones', zeros)", False),
        ("zeros = torch.zeros(3)", False),
        ("self.torch.zeros = 3", False),
        ("install(torch)  # zeros", True),
        ("compat.install(numpy, torch)", True),
        ("install(lib=torch)", True),
        ("for each in (numpy, torch):\n    each.zeros = zeros", True),
        ("library = torch\nlibrary.zeros = zeros", True),
        ("TEXT = 'install(torch) import numpy, torch, zeros'", False),
        ("print(torch, torch.zeros(3))", False),
        ("import numpy, torch, zeros", False),
        ("getattr(torch, name)", False),
        ("isinstance(torch.zeros(3), torch.Tensor)", False),
    ],
)
def test_monkeypatched_in_text(tmp_path: Path, text: str, found: bool) -> None:
    path = tmp_path / "main.py"
    path.write_text("import compat\n")
    (tmp_path / "compat.py").write_text(text)
    script = load("import compat\n", path, Project([path]))
    assert (monkeypatched_in_text(script, ("torch.zeros",)) is not None) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("F.cross_entropy = mine", True),
        ("torch.Tensor.backward = mine", True),
        ("setattr(F, name, mine)", True),
        ("optimizer.step = mine", True),
        ("model.zero_grad = mine", True),
        ("torch.backends.cudnn.benchmark = True", False),
        ("options.step = 3", False),
        ("self.step = mine", False),
        ("optimizer.step()", False),
        ("setattr(options, name, 3)", False),
    ],
)
def test_patches(text: str, found: bool) -> None:
    script = load(f"""
import torch
import torch.nn.functional as F

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{text}
""")
    assert (next(iter(patches(script)), None) is not None) is found


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("class Count(TorchFunctionMode): ...", True),
        ("class Counted(torch.Tensor):\n    def __torch_function__(cls, *given): ...", True),
        ("class Counted(torch.Tensor):\n    __torch_dispatch__ = count", True),
        ("class Plain(torch.Tensor): ...", False),
    ],
)
def test_intercepted(text: str, seen: bool) -> None:
    assert (intercepted(load(f"import torch\n{text}\n")) is not None) is seen


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import torch.optim as opt\nopt.Adam = Mine", True),
        ("from torch import optim as opt\nopt.Adam = Mine", True),
        ("from torch import optim\noptim.Adam = Mine", True),
        ("import torch as th\nth.optim.Adam = Mine", True),
        ("import torch.optim as opt\nself.opt.Adam = Mine", False),
        ("import torch.optim as opt\nmine = opt.Adam", False),
        ("import other.optim as opt\nopt.Adam = Mine", False),
    ],
)
def test_functions_of_modules_with_names_of_their_own(text: str, found: bool) -> None:
    assert (monkeypatched_in_text(load(text), ("torch.optim.Adam",)) is not None) is found
