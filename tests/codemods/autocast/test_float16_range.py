"""Numbers that float16 cannot hold, where they meet low precision: told apart as torch computes them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from autoaccel.analysis import load
from autoaccel.edits import Finding
from autoaccel_codemods import autocast

TRAINING = """\
import torch
from torch import nn
import torch.nn.functional as F

FAR = -1e9
POWER = -10 ** 9
NEAR = -1e4


class Scorer(nn.Module):
    most = -1e8

    def __init__(self, far=-1e9):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.far = far
        self.register_buffer("bias", torch.tensor(-1e9))

    def forward(self, x, mask):
        scores = self.layer(x)
        {body}
        return scores

    @staticmethod
    def masked(scores, mask, number):
        return torch.where(mask, number, scores)


device = torch.device("cuda")
model = Scorer().to(device)
optimizer = torch.optim.Adam(model.parameters())
for x, mask, y in loader:
    x, mask, y = x.to(device), mask.to(device), y.to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x, mask), y)
    loss.backward()
    optimizer.step()
"""

BEYOND = {
    "where-number": "scores = torch.where(mask, -1e9, scores)",
    "where-method": "scores = scores.where(~mask, -1e9)",
    "where-whole-number": "scores = torch.where(mask, -1000000, scores)",
    "where-no-dimensions": "scores = torch.where(mask, torch.tensor(-1e9), scores)",
    "where-attribute": "scores = torch.where(mask, self.far, scores)",
    "where-of-the-class": "scores = torch.where(mask, self.most, scores)",
    "where-buffer": "scores = torch.where(mask, self.bias, scores)",
    "where-parameter": "scores = self.masked(scores, mask, FAR)",
    "ones-by-number": "scores = torch.where(mask, -9e15 * torch.ones_like(scores), scores)",
    "number-by-ones": "scores = torch.where(mask, torch.ones_like(scores) * FAR, scores)",
    "power": "scores = torch.where(mask, torch.ones_like(scores) * POWER, scores)",
    "zeros-less": "scores = torch.where(mask, torch.zeros_like(scores) - 1e9, scores)",
    "mask-of-its-type": "scores = scores + mask.to(scores.dtype) * -1e9",
    "mask-type-as": "scores = scores - 1e9 * mask.type_as(scores)",
    "cast-to-its-type": "scores = scores + (mask.float() * -1e9).to(scores.dtype)",
    "made-of-its-type": "scores = torch.where(mask, torch.tensor(-1e9, dtype=scores.dtype), scores)",
    "written-by-mask": "scores[mask] = -1e9",
    "written-by-number": "scores[0] = FAR",
    "added-in-place": "scores = scores * 1.0\n        scores -= 1e9",
    "padded": "scores = F.pad(scores, (1, 1), value=-1e9)[:, 1:-1]",
    "no-nan": "scores = torch.nan_to_num(scores, neginf=-1e9) + torch.nan_to_num(scores / 0, posinf=1e9)",
    "methods": "scores = scores.mul(1e6)",
    "divisor-rounds-to-zero": "scores = scores / 1e-9",
    "masked": "scores = scores.masked_fill(mask, FAR)",
    "new-tensor": "scores = torch.where(mask, scores.new_tensor(-1e9), scores)",
}
WITHIN = {
    "fits": "scores = torch.where(mask, NEAR, scores)",
    "infinite": "scores = torch.where(mask, float('-inf'), scores).clamp(min=-100.0)",
    "its-own-limit": "scores = torch.where(mask, torch.finfo(scores.dtype).min, scores)",
    "float32-tensor": "scores = torch.where(mask, torch.full((2, 8), -1e9), scores)",
    "float32-mask": "scores = scores + (1 - mask.float()) * -1e9",
    "float32-scores": "scores = torch.where(mask, -1e9, scores.float())",
    "true-or-false": "scores = scores + mask * -1e9",
    "sizes": "scores = scores.view(-1, 2, 4).expand(-1, 2, 4).reshape(-1, 8)\n        many = torch.zeros(100000)",
    "compared": "scores = scores * (scores < 1e9)",
    "of-the-host": "seed = 123456 * 2\n        scores = scores + 1",
}


REASONS = {
    "it cannot hold `self.far` (line 21)": "scores = scores.masked_fill(mask, self.far)",
    "it rounds `1e-8` to zero (line 21)": "scores = (scores.sigmoid() + 1e-8).log()",
    "it rounds `1e-9` to zero (line 21)": "scores = scores.clamp(min=1e-9).log()",
    "products of features with themselves may not fit it (line 21)": "scores = scores @ scores.T",
}


def _message(body: str) -> str:
    script = load(TRAINING.replace("{body}", body))
    (found,) = (each for each in autocast.check(script) if isinstance(each, Finding))
    return found.message


def _is_finite(body: str) -> bool:
    """Whether a model computes finite numbers under autocast to float16."""
    names: dict[str, type[nn.Module]] = {}
    exec(TRAINING.split("device =")[0].replace("{body}", body), names)
    torch.manual_seed(0)
    mask = torch.tensor([[True] * 8, [True, False] * 4])
    try:
        with torch.autocast("cpu", torch.float16):
            scores = names["Scorer"]()(torch.rand(2, 8) + 1, mask)
    except RuntimeError as error:
        if "without overflow" not in str(error):
            raise
        return False
    return bool(scores.isfinite().all())


@pytest.mark.parametrize("body", BEYOND.values(), ids=BEYOND)
def test_a_number_that_float16_cannot_hold(body: str) -> None:
    assert "; no float16: it cannot hold `" in _message(body)
    assert not _is_finite(body)


@pytest.mark.parametrize("body", WITHIN.values(), ids=WITHIN)
def test_numbers_that_it_holds_or_that_stay_in_float32(body: str) -> None:
    assert "float16" not in _message(body)
    assert _is_finite(body)


@pytest.mark.parametrize(("reason", "body"), REASONS.items(), ids=REASONS)
def test_the_message_says_why_there_is_no_float16(reason: str, body: str) -> None:
    assert _message(body) == f"the training step runs in float32; no float16: {reason}"
