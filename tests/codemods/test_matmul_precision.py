"""What `matmul-precision` asks of texts, and of another rule."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autoaccel.analysis import load
from autoaccel.edits import Skipped
from autoaccel.pytorch.training_steps import TrainingStep
from autoaccel_codemods import autocast, matmul_precision
from autoaccel_codemods.autocast import step_problems
from autoaccel_codemods.autocast.blockers import Problem

SKIPPED = """\
import torch
from torch.nn import DataParallel

model = DataParallel(torch.nn.Linear(3, 3)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in batches:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = torch.linalg.norm(y)", "linalg"),
        ("torch.linalg.svd(x)", "linalg"),
        ("u = svd(x)", "svd("),
        ("x.svd(some=True)", "svd("),
        ("my_svd(x)", None),
        ("solve(a, b)", "solve("),
        ("resolve(name)", None),
        ("eig(x)", "eig("),
        ("torch.eigh(x)", "eigh("),
        ("weigh(x)", None),
        ("torch.inverse(x)", "inverse("),
        ("torch.pinverse(x)", "pinverse("),
        ("x.double()", ".double("),
        ("torch.func.grad(f)", "torch.func"),
        ("torch.functional.norm(x)", None),
        ("torch.autograd.grad(y, x)", "autograd.grad"),
        ("from torch.autograd import functional", None),
        ("lstsq", "lstsq"),
        ("cholesky", "cholesky"),
        ("backward(create_graph=True)", "create_graph"),
        ("torch.float64", "float64"),
        ("np.float64", None),
        ("x.astype(numpy.float64)", None),
        ("running_corrects.double() / len(dataset)", None),
        ("model.double()", ".double("),
        ("np.linalg.norm(a - b)", None),
        ("numpy.linalg.norm(a - b)", None),
        ("x.np.linalg.norm(a)\ntorch.linalg.norm(a)", "linalg"),
        ("np.linalg.solve(a, b)", "solve("),
        ("import functorch", "functorch"),
        ("LBFGS", "LBFGS"),
    ],
)
def test_what_needs_every_digit(text: str, found: str | None) -> None:
    match = matmul_precision._DIGITS.search(text)
    assert (match and match[0]) == found


def test_what_autocast_says_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    problems = step_problems.problems

    def counted(step: TrainingStep) -> Iterator[Problem]:
        asked.append(step)
        return problems(step)

    monkeypatch.setattr(step_problems, "problems", counted)
    script = load(SKIPPED)
    assert all(isinstance(each, Skipped) for each in autocast.RULE.run(script))
    assert [*matmul_precision.RULE.run(script)]
    assert len(asked) == 1


INVERSE = "class Scaler:\n    def inverse(self, x): return x * self.std\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("preds.eq(y.view_as(preds)).double().sum()", None),
        ("correct = (preds.argmax(1) == y).sum().double()", None),
        ("(loss if a > b else c).double()", "double"),
        ("torch.where(a > b, x, y).double()", "double"),
        ("((a > b) * loss).double()", "double"),
        ("preds.eq(y).double()\nloss.double()", "double"),
        (INVERSE + "scaler.inverse(preds)", None),
        (INVERSE + "torch.inverse(x)", "inverse"),
        (INVERSE + "matrix.inverse()", "inverse"),
        (INVERSE + "import torch as t\nt.inverse(x)", "inverse"),
        (INVERSE + "from torch import inverse\ninverse(x)", "inverse"),
        ("scaler.inverse(preds)", "inverse"),
    ],
)
def test_digits(text: str, found: str | None) -> None:
    assert matmul_precision._digits(load(text)) == found
