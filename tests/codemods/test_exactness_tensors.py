"""create-on-device, as-tensor and stacked-arrays change how a tensor is made, and not the tensor."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from autoaccel.rewriting import engine
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods import as_tensor, create_on_device, stacked_arrays

HEAD = """\
import numpy as np
import torch
from torch.autograd import Variable

device = torch.device(chosen)
cuda = False
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
LongTensor = torch.cuda.LongTensor if cuda else torch.LongTensor
n, patch = 4, (1, 2)
reference = torch.arange(24.0).reshape(2, 3, 4).to(memory_format=torch.contiguous_format).transpose(0, 2)
images = torch.zeros(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
weight = torch.zeros(3, dtype=torch.float64, device=device)
rng = np.random.RandomState(0)
rows = [rng.rand(3, 2) for _ in range(5)]


def made():
    return [np.zeros(3, dtype=np.float32) + i for i in range(4)]


"""

CREATED = [
    "torch.zeros(2, 3).to(device)",
    "torch.ones((2, 3), dtype=torch.int32).to(device)",
    "torch.eye(3).to(device, non_blocking=True)",
    "torch.full((2,), 0.1).to(device)",
    "torch.full((2,), 3).to(device=device, copy=True)",
    "torch.full((), True).to(device)",
    "torch.arange(10).to(device)",
    "torch.arange(0, 10, 2, dtype=torch.float32).to(device)",
    "torch.tril_indices(3, 4).to(device)",
    "torch.zeros_like(reference).to(device)",
    "torch.ones_like(images).to(device)",
    "torch.full_like(reference, 2.5).to(device)",
    "torch.zeros_like(reference, dtype=torch.long).to(reference.device)",
    "torch.zeros(3).to(device, torch.float16)",
    "torch.ones(3).to(device=device, dtype=torch.long)",
    "torch.zeros(3).long().to(device)",
    "torch.eye(3).bool().to(device)",
    "torch.ones(3).double().to(device)",
    "torch.full((3,), 1 / 3).to(device, torch.float64)",
    "torch.full((3,), 1 / 3).double().to(device)",
    "torch.full((3,), 1.7).long().to(device)",
    "torch.zeros(3, dtype=torch.int32).to(device, torch.int64)",
    "torch.ones(3).to(weight)",
    "torch.full((3,), 1 / 3).type_as(weight)",
    "torch.tensor([0.1, 0.2]).to(device)",
    "torch.tensor([0.1, 0.2]).double().to(device)",
    "torch.tensor([1, 2], dtype=torch.int16).to(device)",
    "torch.tensor([[True], [False]]).to(device)",
    "torch.tensor(0.1).to(device)",
    "torch.tensor(-3).to(device)",
    "torch.tensor(True).to(device)",
    "torch.tensor(0.1, dtype=torch.float64).to(device)",
    "torch.tensor(0.1, dtype=torch.float16).to(device)",
    "torch.tensor(3).float().to(device)",
    "torch.tensor(np.arange(6.0).reshape(2, 3)).to(device)",
    "torch.tensor(np.full(3, 1 / 3)).to(device, torch.float32)",
    "torch.tensor(np.asfortranarray(np.ones((2, 3)))).to(device)",
    "torch.FloatTensor([[0.1, 1], [2, 3]]).to(device)",
    "torch.LongTensor([1, 2]).to(device)",
    "torch.DoubleTensor([0.1]).to(device)",
    "torch.BoolTensor([True, False]).to(device)",
    "torch.tril(torch.ones(4, 4)).to(device)",
    "torch.triu(torch.ones(4, 4), diagonal=1).bool().to(device)",
    "torch.tril(torch.ones(4, 4)).view(1, 1, 4, 4).to(device)",
    "torch.arange(n).unsqueeze(0).to(device)",
    "torch.arange(n).view(-1, 1).repeat(1, 4).to(device)",
    "torch.arange(6).reshape(2, 3).t().to(device)",
    "torch.arange(n)[None, :].to(device)",
    "torch.arange(n).float().to(device)",
    "torch.ones(1, 1).fill_(2.7).type(torch.long).to(device)",
    "torch.zeros(2).fill_(0.3).to(device, torch.float64)",
    "Variable(torch.zeros(2, 2)).to(device)",
    "Variable(torch.ones(2), requires_grad=False).to(device)",
    "Variable(torch.zeros(2, 2).to(device), requires_grad=True)",
    "torch.zeros(3).to(device).requires_grad_()",
]
ROUNDED = [
    "torch.linspace(0, 1, 101).to(device)",
    "torch.logspace(-2, 1, 7).to(device)",
    "torch.arange(0, 3, 0.1).to(device)",
    "torch.hann_window(16).to(device)",
]
ROUNDED = [f"[{each} for _ in range(2)][-1]" for each in ROUNDED]  # what is made once stays on the host
CHOSEN = [
    "Tensor(n, 1).fill_(1.0)",
    "Tensor(n, 1).fill_(0)",
    "Variable(Tensor(n, *patch).fill_(0.9), requires_grad=False)",
    "Variable(LongTensor(n).fill_(7))",
    "Variable(Tensor(np.ones((n, *patch))), requires_grad=False)",
    "Variable(Tensor(np.zeros(patch)), requires_grad=True)",
]
TAKEN_OVER = [
    "torch.tensor(np.stack(rows))",
    "torch.tensor(np.concatenate(rows), dtype=torch.float32)",
    "torch.tensor(np.array([1, 2, 3]))",
    "torch.tensor(np.arange(6).reshape(2, 3).T)",
    "torch.tensor(np.stack(rows).astype(np.float32))",
    "torch.tensor(np.stack(rows).transpose(1, 0, 2) / 255)",
    "torch.tensor(np.ones((2, 2), dtype=bool), requires_grad=False)",
    "torch.tensor(np.broadcast_to(np.ones(3), (4, 3)).copy())",
    "torch.tensor(np.random.randint(5, size=3))",
    "torch.tensor(np.zeros((2, 3)).sum(axis=1))",
    "torch.tensor(np.exp(np.stack(rows)))",
    "torch.tensor(np.stack(rows) > 0.5)",
]
STACKED = [
    "torch.tensor([np.zeros(3) + i for i in range(4)])",
    "torch.tensor([np.arange(3) for _ in range(4)])",
    "torch.tensor([np.ones(2, dtype=np.uint8) for _ in range(4)])",
    "torch.tensor([np.asfortranarray(np.ones((2, 3))) for _ in range(4)])",
    "torch.tensor([np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1) for _ in range(2)])",
    "torch.tensor([np.arange(4)[::-1] for _ in range(2)])",
    "torch.tensor([np.zeros(3).mean(axis=0) for _ in range(4)])",
    "torch.tensor([[np.ones(2, dtype=np.float32)] for _ in range(2)], dtype=torch.float32)",
    "torch.tensor((np.zeros(2, dtype=np.float32), np.ones(2)), dtype=torch.float64)",
    "torch.tensor([np.full(3, 1 / 3) for _ in range(2)], dtype=torch.float32)",
    "torch.tensor([np.full(3, 1e300) for _ in range(2)], dtype=torch.float32)",
    "torch.tensor([np.full(3, 1 / 3) for _ in range(2)], dtype=torch.bfloat16)",
    "torch.tensor([np.ones(3) for _ in range(2)], requires_grad=True)",
    "torch.FloatTensor([np.eye(4)[[0, 2]] for _ in range(2)])",
    "torch.LongTensor([np.array([1.7, -1.7]) for _ in range(2)])",
    "torch.as_tensor(made(), dtype=torch.float32)",
]


def run(source: str, device: str) -> torch.Tensor:
    torch.manual_seed(0)
    np.random.seed(0)
    scope: dict[str, Any] = {"chosen": device}  # not in the text: what names "meta" is left alone
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of slow lists and of legacy types: that is why there are rules
        exec(source, scope)
    result = scope["result"]
    assert isinstance(result, torch.Tensor)
    return result


def both(expression: str, rule: Rule, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    source = HEAD + f"result = {expression}\n"
    result = engine.rewrite(source, Path("train.py"), [rule])
    assert not result.errors
    assert result.after != source, f"{rule.name} has nothing to say about {expression}"
    return run(source, device), run(result.after, device)


def assert_same(before: torch.Tensor, after: torch.Tensor) -> None:
    assert after.dtype == before.dtype
    assert after.device == before.device
    assert after.shape == before.shape
    assert after.stride() == before.stride()
    assert after.requires_grad == before.requires_grad
    assert after.is_leaf == before.is_leaf
    assert type(after) is type(before)
    if before.device.type != "meta":
        assert torch.equal(after, before)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("expression", [*CREATED, *ROUNDED])
def test_created_on_device(expression: str, device: str) -> None:
    assert_same(*both(expression, create_on_device.RULE, device))


@pytest.mark.parametrize("expression", CHOSEN)
def test_chosen_by_tensor_type(expression: str) -> None:
    assert_same(*both(expression, create_on_device.RULE))


@pytest.mark.parametrize("expression", TAKEN_OVER)
def test_array_taken_over(expression: str) -> None:
    assert_same(*both(expression, as_tensor.RULE))


@pytest.mark.parametrize("expression", STACKED)
def test_stacked(expression: str) -> None:
    before, after = both(expression, stacked_arrays.RULE)
    assert_same(before, after)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("expression", CREATED)
@pytest.mark.parametrize("moved", [".to(device", ".cuda("])
def test_created_on_gpu(expression: str, moved: str) -> None:
    if moved == ".cuda(":
        if ".to(device)" not in expression:
            pytest.skip("`.cuda()` takes no type")
        expression = expression.replace(".to(device)", ".cuda()")
    assert_same(*both(expression, create_on_device.RULE, "cuda:0"))


class TestWhyNot:
    """The reasons for leaving things alone, as torch gives them. If one of these fails, a rule may do more."""

    def test_a_moved_tensor_is_no_leaf(self) -> None:
        assert not torch.zeros(2, requires_grad=True).to("meta").is_leaf
        assert torch.zeros(2, requires_grad=True, device="meta").is_leaf
        assert not torch.nn.Parameter(torch.zeros(2)).to("meta").is_leaf

    def test_no_device_is_the_cpu(self) -> None:
        assert torch.zeros(2, device=None).device.type == "cpu"
        assert torch.device("cuda", None) == torch.device("cuda")  # type: ignore[call-overload]

    def test_folding_a_cast_changes_values(self) -> None:
        third = 1 / 3
        assert not torch.equal(torch.full((1,), third).double(), torch.full((1,), third, dtype=torch.float64))
        assert not torch.equal(torch.tensor([0.1]).double(), torch.tensor([0.1], dtype=torch.float64))
        assert not torch.equal(torch.arange(0, 100, 0.1).double(), torch.arange(0, 100, 0.1, dtype=torch.float64))

    def test_a_generator_belongs_to_its_device(self) -> None:
        torch.manual_seed(0)
        on_host = torch.randn(3).double()
        torch.manual_seed(0)
        assert not torch.equal(on_host, torch.randn(3, dtype=torch.float64))

    def test_an_expanded_tensor_is_not_what_a_copy_of_it_is(self) -> None:
        assert (
            torch.zeros(1, 4).expand(3, 4).to("meta").stride() != torch.zeros(1, 4, device="meta").expand(3, 4).stride()
        )

    def test_as_tensor_shares_memory(self) -> None:
        array = np.ones(3)
        torch.as_tensor(array).div_(255)
        assert array[0] == pytest.approx(1 / 255)

    @pytest.mark.parametrize("keyword", ["requires_grad", "pin_memory"])
    def test_as_tensor_has_fewer_keywords(self, keyword: str) -> None:
        with pytest.raises(TypeError):
            torch.as_tensor(np.ones(3), **{keyword: True})  # type: ignore[arg-type]

    def test_shared_memory_cannot_be_resized(self) -> None:
        with pytest.raises(RuntimeError, match="resiz"):
            torch.as_tensor(np.ones(3)).resize_(8)

    def test_numpy_and_torch_disagree_about_python_numbers(self) -> None:
        numbers = [math.pi, math.e]
        assert torch.tensor(numbers).dtype == torch.float32
        assert torch.as_tensor(np.array(numbers)).dtype == torch.float64

    def test_numpy_and_torch_disagree_about_mixed_arrays(self) -> None:
        mixed = [np.ones(2, dtype=np.int64), np.ones(2, dtype=np.float32)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert torch.tensor(mixed).dtype == torch.float32
        assert torch.as_tensor(np.array(mixed)).dtype == torch.float64

    def test_stack_keeps_another_layout(self) -> None:
        columns = [np.asfortranarray(np.ones((2, 3))) for _ in range(2)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = torch.tensor(columns).stride()
        assert torch.as_tensor(np.array(columns)).stride() == expected
        assert torch.as_tensor(np.stack(columns)).stride() != expected

    def test_a_legacy_size_is_not_data(self) -> None:
        assert torch.FloatTensor((2, 3)).tolist() == [2.0, 3.0]
        assert torch.FloatTensor(torch.Size([2, 3])).shape == (2, 3)
