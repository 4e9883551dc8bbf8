"""Totals are Python's numbers, bit for bit: added up on the device (here, in tensors of the host), or at once."""

from __future__ import annotations

import copy
import json
import math
import pickle
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from autoaccel import runtime as accel
from autoaccel.runtime import devices, running_total
from autoaccel.runtime.running_total import Total


@pytest.fixture(params=[False, True], ids=["at-once", "kept"], autouse=True)
def kept(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Both ways; hypothesis asks for a fixture that lasts as long as the test."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param:
            patch.setattr(running_total, "ACCUMULATING", frozenset({"cpu"}))
        yield bool(request.param)


def bits(number: Any) -> tuple[type, bytes | int]:
    return type(number), struct.pack("<d", number) if isinstance(number, float) else number


FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.int32, torch.int64]


@st.composite
def addends(draw: st.DrawFn) -> Any:
    """A tensor with one element, one times a whole number, or a number of the host."""
    numbers = st.floats(allow_nan=False)
    kind = draw(st.sampled_from(["float", "integer", "bool", "host", "scaled"]))
    shape = draw(st.sampled_from([(), (1,), (1, 1)]))
    match kind:
        case "host":
            return draw(st.one_of(st.integers(-(2**70), 2**70), st.floats(-1e9, 1e9)))
        case "bool":
            return torch.tensor(draw(st.booleans())).reshape(shape)
        case "integer":
            dtype = draw(st.sampled_from(INTEGERS))
            limits = torch.iinfo(dtype)
            return torch.tensor(draw(st.integers(limits.min // 64, limits.max // 64)), dtype=dtype).reshape(shape)
        case _:
            made = torch.tensor(draw(numbers), dtype=torch.float64).to(draw(st.sampled_from(FLOATS))).reshape(shape)
            made.requires_grad_(draw(st.booleans()))
            return made if kind == "float" else (made, draw(st.integers(-(2**40), 2**40)))


@given(st.sampled_from([0, 0.0, 7, -0.0, 2.5]), st.lists(st.tuples(addends(), st.booleans()), max_size=8))
def test_it_is_the_number_that_python_adds_up(start: float, steps: list[tuple[Any, bool]]) -> None:
    total: Any = accel.total(start)
    plain: Any = start
    for addend, read in steps:
        if isinstance(addend, tuple):
            tensor, times = addend
            total += accel.item(tensor) * times
            plain += tensor.item() * times
        else:
            total += addend
            plain += addend.item() if isinstance(addend, torch.Tensor) else addend
        assert isinstance(total, Total)
        if read:
            assert bits(total.item()) == bits(plain)
    assert bits(total.item()) == bits(plain)


def test_nothing_is_read_while_it_is_added_up(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    read = torch.Tensor.item

    def counted(tensor: torch.Tensor) -> Any:
        asked.append(1)
        return read(tensor)

    monkeypatch.setattr(torch.Tensor, "item", counted)
    total = accel.total()
    for value in (1.5, 2.5, 3.5):
        total += torch.tensor(value)
        total += 1
        total += accel.item(torch.tensor(value)) * 2
    assert len(asked) == (0 if kept else 6)
    assert total / 2 == 12.75
    assert f"{total:.1f}" == "25.5"
    assert len(asked) == (1 if kept else 6), "read once, however often the number is used"


def test_it_never_changes() -> None:
    total = before = accel.total()
    total += torch.tensor(1)
    between = total
    loss = torch.tensor(2)
    total += loss
    loss.fill_(100)
    total += 4
    assert [before.item(), between.item(), total.item()] == [0, 1, 7]


def test_an_item_does_not_change_either() -> None:
    value = torch.tensor(1.0, dtype=torch.float64)
    item = accel.item(value)
    value.fill_(2.0)
    assert float(item) == 1.0


def test_no_graph_is_kept() -> None:
    weight = torch.ones((), requires_grad=True)
    total = accel.total()
    total += weight * 2
    total += accel.item(weight * 3) * 2
    held = total._pending
    assert held is None or (held.grad_fn is None and not held.requires_grad)
    assert total == 8


def test_what_is_no_scalar_is_refused_as_by_item() -> None:
    for many in (torch.ones(2), torch.ones(0)):
        with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
            accel.item(many)
        total = accel.total()
        with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
            total += many


def test_other_numbers_are_read_at_once() -> None:
    total = accel.total()
    total += torch.tensor(1.0)
    total += np.float32(0.5)
    total += accel.total(2)
    assert bits(total.item()) == bits(3.5)
    total += torch.tensor(1j)
    assert total.item() == 3.5 + 1j
    total += torch.tensor(1.0)
    assert total.item() == 4.5 + 1j
    large = accel.total(2**80)
    large += torch.tensor(1)
    assert large.item() == 2**80 + 1


def test_inference_mode_and_no_grad() -> None:
    total = accel.total()
    weight = torch.ones((), requires_grad=True)
    with torch.inference_mode():
        total += weight * 2
    total += weight
    with torch.no_grad():
        total += weight * 3
    assert total == 6.0


def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", "total")
    total = accel.total()
    total += torch.tensor(1.5)
    assert total._pending is None
    assert total == accel.item(torch.tensor(1.5)) == 1.5


def test_another_stream_waits_for_the_sum(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def __init__(self) -> None:
            self.waited_for: list[Stream] = []

        def wait_stream(self, other: Stream) -> None:
            self.waited_for.append(other)

    class Device:
        current = first = Stream()

        def current_stream(self, device: torch.device) -> Stream:
            return self.current

    module = Device()
    monkeypatch.setattr(devices, "module_of", lambda kind: module)
    total = accel.total()
    total += torch.tensor(1.0)
    total += torch.tensor(2.0)
    module.current = second = Stream()
    total += torch.tensor(4.0)
    assert second.waited_for == ([module.first] if kept else [])
    assert total == 7.0


def test_what_is_traced_is_read_at_once() -> None:
    def add(x: torch.Tensor) -> Any:
        total = accel.total(0.0)
        for part in x:
            total += part
        return total / 2

    x = torch.tensor([0.1, 0.2, 0.3])
    compiled = torch.compile(add, backend="eager")
    assert compiled(x) == add(x) == sum(x.tolist()) / 2
    torch.compiler.reset()


READS: list[Callable[[Any], Any]] = [
    lambda n: (n + 1, 1 + n, n - 0.5, 0.5 - n, n * 3, 3 * n, n / 4, 4 / n, n // 2, 7 // n, n % 2, 7 % n),
    lambda n: (n**2, 2**n, divmod(n, 2), divmod(9, n), -n, +n, abs(n)),
    lambda n: (n < 2, n <= 2, n == 2, n != 2, n > 2, n >= 2, not n, bool(n)),
    lambda n: (int(n), float(n), complex(n), round(n), round(n, 1), math.floor(n), math.ceil(n), math.trunc(n)),
    lambda n: (str(n), repr(n), f"{n}", f"{n:.3f}", f"{n!r:>9}", f"{n=}", "{:8.2f}|{}".format(n, n)),  # noqa: UP032
    lambda n: ("%.2f" % n, "%d" % n, "%s %r" % (n, n)),  # noqa: UP031
    lambda n: (math.sqrt(n), math.isnan(n), hash(n), n.real, n.imag, max(n, 0), min(n, 1)),
    lambda n: (np.float32(2) * n, np.float64(2) / n, n / np.float64(2), np.sqrt(n), np.asarray([n]).dtype),
    lambda n: ((np.arange(3) * n).tolist(), (n + np.arange(3)).tolist(), np.mean([n, n])),
    lambda n: ((torch.arange(3) * n).tolist(), (n / torch.ones(2)).tolist(), (torch.ones(2) - n).tolist()),
    lambda n: ((torch.ones(2) > n).tolist(), (n > torch.ones(2)).tolist(), (torch.ones(2) / n).dtype),
    lambda n: (copy.deepcopy(n), pickle.loads(pickle.dumps(n)), json.dumps(n + 0)),
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("number", [3, 2.75])
def test_it_reads_as_the_number(read: Callable[[Any], Any], number: float) -> None:
    total = accel.total(0.0 if isinstance(number, float) else 0)
    total += torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else torch.int64)
    found, expected = read(total), read(number)
    assert [repr(each) for each in found] == [repr(each) for each in expected]
    assert [type(each) for each in found[:2]] == [type(each) for each in expected[:2]]


def test_whole_numbers_only() -> None:
    total = accel.total()
    total += torch.tensor(2)
    assert ([0] * total, list(range(3))[total], total & 3, 1 << total, ~total) == ([0, 0], 2, 2, 4, -3)
    total += torch.tensor(0.5)
    with pytest.raises(TypeError):
        [0][total]
    with pytest.raises(TypeError):
        total & 1


def test_copies_are_plain_numbers() -> None:
    total = accel.total()
    total += torch.tensor(1.5)
    for made in (copy.copy(total), copy.deepcopy(total), pickle.loads(pickle.dumps(total))):
        assert bits(made) == bits(1.5)


@pytest.mark.gpu
def test_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_total, "ACCUMULATING", frozenset({"cuda"}))
    values = torch.rand(1000)
    expected, total = 0.0, accel.total(0.0)
    for value in values:
        expected += value.item() * 3
        total += accel.item(value.cuda()) * 3
    assert isinstance(total._pending, torch.Tensor)
    assert bits(total.item()) == bits(expected)
