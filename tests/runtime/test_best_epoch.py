"""The best epoch is kept by value and brought back; NaN is never the best, and the first rank decides."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from autoaccel import runtime as accel
from autoaccel.runtime import best_epoch


def stopped_at(figures: list[Any], patience: int, direction: str = "min") -> tuple[int | None, float | None]:
    """After how many epochs a loop is stopped, and of which epoch the weights are that it ends with."""
    model = nn.Linear(1, 1)
    nn.init.constant_(model.weight, -1.0)
    stopper = accel.early_stopping(model, patience=patience, direction=direction)
    stopped = None
    for epoch, figure in enumerate(figures, 1):
        with torch.no_grad():
            model.weight.fill_(epoch)  # in place, as optimizers do
        if stopper(figure):
            stopped = epoch
            break
    stopper.restore()
    return stopped, model.weight.item()


@pytest.mark.parametrize(
    ("figures", "patience", "direction", "expected"),
    [
        pytest.param([3, 2, 1], 2, "min", (None, 3), id="better each time"),
        pytest.param([3, 2, 2, 2, 0], 2, "min", (4, 2), id="as good is not better"),
        pytest.param([3, 2, 4, 1, 5, 6], 2, "min", (6, 4), id="patience begins anew"),
        pytest.param([3, 2, 4], 2, "min", (None, 2), id="the loop ends first"),
        pytest.param([0.1, 0.3, 0.2, 0.2], 2, "max", (4, 2), id="larger is better"),
        pytest.param([math.nan, 2, math.nan, 3], 2, "min", (4, 2), id="not a number"),
        pytest.param([math.nan, math.nan], 2, "min", (2, 2), id="never a number"),
        pytest.param([math.inf, 5], 1, "min", (None, 2), id="infinite"),
        pytest.param([math.inf, math.inf], 1, "min", (2, 1), id="infinite twice"),
        pytest.param([torch.tensor(2.0), torch.tensor([3.0])], 1, "min", (2, 1), id="tensors"),
        pytest.param([], 1, "min", (None, -1), id="no epochs"),
    ],
)
def test_when_it_stops(figures: list[Any], patience: int, direction: str, expected: tuple[int | None, float]) -> None:
    assert stopped_at(figures, patience, direction) == expected


def test_a_running_total_is_a_figure() -> None:
    total = accel.total()
    total += torch.tensor(2.0)
    assert stopped_at([total, 3], 1) == (2, 1)


def test_all_of_each_model_comes_back() -> None:
    """Parameters, buffers, and what else its state holds; objects stay the same, for an optimizer holds them."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(2)
            self.seen = [0]

        def get_extra_state(self) -> Any:
            return self.seen

        def set_extra_state(self, state: Any) -> None:
            self.seen = state

    models = Counting(), nn.Linear(2, 2)
    parameters = [parameter for model in models for parameter in model.parameters()]
    stopper = accel.early_stopping(*models, patience=1)
    stopper(1.0)
    before = [tensor.clone() for model in models for tensor in model.state_dict().values() if torch.is_tensor(tensor)]
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(1)
    models[0].norm(torch.randn(4, 2))
    models[0].seen[0] = 5
    assert stopper(2.0)
    stopper.restore()
    after = [tensor for model in models for tensor in model.state_dict().values() if torch.is_tensor(tensor)]
    assert all(map(torch.equal, after, before))
    assert models[0].seen == [0]
    assert all(a is b for a, b in zip(parameters, (p for m in models for p in m.parameters()), strict=True))
    assert all(parameter.requires_grad for parameter in parameters)


def test_without_models_it_only_stops() -> None:
    stopper = accel.early_stopping(patience=1)
    assert [stopper(figure) for figure in (2, 1, 1)] == [False, False, True]
    stopper.restore()


def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", "early_stopping")
    assert stopped_at([1, 2, 3, "no number"], 1) == (None, 4)


def test_the_first_rank_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([True, False, True, False])
    monkeypatch.setattr(best_epoch, "agreed", lambda condition: next(answers))
    assert stopped_at([1, 0, 5, 0], 1) == (2, 1)


def test_it_tells_of_which_epoch_the_weights_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AUTOACCEL_LOG", "info")
    stopped_at([0.5, 0.75, 0.625], 2, "max")
    assert "early stopping: weights of epoch 2 (0.75 was the best figure of 3)" in capsys.readouterr().err


@pytest.mark.parametrize(("patience", "direction"), [(0, "min"), (-1, "max"), (1, "down")])
def test_bad_arguments(patience: int, direction: str) -> None:
    with pytest.raises(ValueError, match=r"accel\.early_stopping: (patience|direction) must be"):
        accel.early_stopping(patience=patience, direction=direction)
