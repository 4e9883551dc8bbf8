"""Asks torch what autocast does with each operation, and writes `autoaccel/library_models/autocast_operations.py`.

    python -m tools.autocast_operations

Which operations autocast knows, the dispatcher tells, for the CPU and for CUDA in any build of torch. What it does
with them shows when they are called with fake tensors of a device: which casts come first. Which precisions an
operation has no kernels for is what torch's own tests know (`op_db`), of CUDA on a machine without it, too; on the CPU
it is tried.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import logging
import sys
import textwrap
import types
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

TARGET = Path(__file__).parents[1] / "autoaccel" / "library_models" / "autocast_operations.py"
KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
LOW, SINGLE = torch.bfloat16, torch.float32
SAMPLES, MOST = 8, 200  # of each operation: some of the first, evenly spaced

HEAD = '''"""What autocast does with each operation of torch {version}, on the CPU and on CUDA.

Written by `python -m tools.autocast_operations`, which asks torch; `tests/test_autocast_operations.py` tells when torch
has moved on.
"""

from __future__ import annotations

from typing import Final

Names = frozenset[str]

# fmt: off
'''


def tables() -> dict[str, tuple[str, dict[str, set[str]]]]:
    """Names by device for each table, with what the table is."""
    found: dict[str, dict[str, set[str]]] = {
        policy: {device: set() for device in KEYS} for policy in ("lower", "float32")
    }
    for device, key in KEYS.items():
        for operator in torch._C._dispatch_get_registrations_for_dispatch_key(key):
            policy = policy_of(operator, device)
            if policy is not None and not _base(operator).startswith("_"):
                found[policy][device].add(_base(operator))
    functions, methods = refusing(found["float32"])
    mixed = needing_one_precision()
    return {
        "LOWER": ("Operations whose operands are cast to the low precision.", found["lower"]),
        "FLOAT32": ("Operations that compute in float32, whatever they are given.", found["float32"]),
        "REFUSING": ("Functions that raise in a region when they are given low precision.", functions),
        "REFUSING_METHODS": ("Methods of tensors that do.", methods),
        "SAME_DTYPE": ("Operations that raise in a region when their operands differ in precision.", mixed),
    }


# -- what autocast does


class _Casts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.to: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._to_copy.default:
            self.to.append(kwargs.get("dtype"))
        return func(*args, **(kwargs or {}))


def policy_of(operator: str, device: str) -> str | None:
    """`lower`, `float32`, or None for an operator that is refused, or computes in the widest precision it is given."""
    low_casts, low_result = _call(operator, device, itertools.repeat(LOW))
    single_casts, _ = _call(operator, device, itertools.repeat(SINGLE))
    if LOW in single_casts:
        return "lower"
    return "float32" if SINGLE in low_casts or low_result is SINGLE else None


def _call(operator: str, device: str, dtypes: Iterator[torch.dtype]) -> tuple[list[Any], torch.dtype | None]:
    """The casts that come before an operator, and the precision of its result; it need not take what it is given."""
    name, _, overload = operator.partition("::")[2].partition(".")
    function = getattr(getattr(torch.ops.aten, name), overload or "default")
    fakes, casts = FakeTensorMode(), _Casts()

    def tensor() -> torch.Tensor:
        meta = torch.empty(2, 2, dtype=next(dtypes), device="meta")
        return FakeTensor(fakes, meta, torch.device(device))

    positional, named = [], {}
    for argument in function._schema.arguments:
        if argument.kwarg_only:
            named[argument.name] = _value(argument.type, tensor)
        else:
            positional.append(_value(argument.type, tensor))
    before = torch.get_autocast_dtype(device)
    torch.set_autocast_enabled(device, True)
    torch.set_autocast_dtype(device, LOW)
    result = None
    try:
        with fakes, casts:
            result = function(*positional, **named)
    except Exception:  # it was cast before it looked
        pass
    finally:
        torch.clear_autocast_cache()
        torch.set_autocast_enabled(device, False)
        torch.set_autocast_dtype(device, before)
    return casts.to, result.dtype if isinstance(result, torch.Tensor) else None


def _value(kind: Any, tensor: Callable[[], torch.Tensor]) -> Any:
    match kind.kind():
        case "TensorType":
            return tensor()
        case "OptionalType":
            return tensor() if kind.getElementType().kind() == "TensorType" else None
        case "ListType" if kind.getElementType().kind() == "TensorType":
            return [tensor(), tensor()]
        case "ListType":
            return [None if kind.getElementType().kind() == "OptionalType" else _value(kind.getElementType(), tensor)]
        case name:
            plain: dict[str, Any] = {"BoolType": False, "FloatType": 1.0, "StringType": "linear"}
            return plain.get(name, 1 if name in ("IntType", "SymIntType", "NumberType") else None)


def _base(operator: str) -> str:
    return operator.partition("::")[2].partition(".")[0]


# -- what has no kernels


def refusing(lifted: dict[str, set[str]]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Functions and methods that take float32, not low precision, and are not lifted to it."""
    functions: dict[str, set[str]] = {device: set() for device in KEYS}
    methods: dict[str, set[str]] = {device: set() for device in KEYS}
    for operation in operations():
        for device in KEYS:
            if SINGLE not in operation.supported_dtypes(device):
                continue
            if _lacks(operation, device) and not _is_named(operation, lifted[device]):
                raises = any(map(_count, _samples(operation)))
            else:
                raises = device == "cpu" and _raises(operation, _all_low, region=True)
            for name in (operation.name, *(alias.name for alias in operation.aliases)) if raises else ():
                if _is_function(name):
                    functions[device].add(f"torch.{name.removeprefix('torch.')}")
                if hasattr(torch.Tensor, name) and not name.startswith("_"):
                    methods[device].add(name)
    return functions, methods


def needing_one_precision() -> dict[str, set[str]]:
    """Operations that take either precision and not both at once, and are not cast to one."""
    known = set(map(_base, torch._C._dispatch_get_registrations_for_dispatch_key(KEYS["cuda"])))
    found: dict[str, set[str]] = {device: set() for device in KEYS}
    for operation in operations():
        module, _, name = operation.name.rpartition(".")
        if module not in ("", "linalg", "nn.functional") or name.startswith("_"):
            continue
        if LOW not in operation.supported_dtypes("cpu"):
            continue
        if _raises(operation, _one_low, region=True):
            found["cpu"].add(name)
        # What CUDA has no rule for meets the check that it meets on a CPU without a region.
        if _is_whole(operation) and not _is_named(operation, known) and _raises(operation, _one_low, region=False):
            found["cuda"].add(name)
    return found


@functools.cache
def operations() -> list[Any]:
    """torch's own descriptions of its operations, in their plain variants."""
    try:
        importlib.import_module("expecttest")
    except ImportError:  # torch's tests compare texts with it, which nobody does here
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        vars(sys.modules["expecttest"])["TestCase"] = unittest.TestCase
    from torch.testing._internal import common_cuda

    for name in vars(common_cuda):
        if name.startswith("SM") and name.endswith("OrLater"):
            setattr(common_cuda, name, True)  # the descriptions ask which CUDA device there is
    from torch.testing._internal.common_methods_invocations import op_db

    plain = {operation.name for operation in op_db if not operation.variant_test_name}
    return [each for each in op_db if not each.variant_test_name or each.name not in plain]


def _lacks(operation: Any, device: str) -> bool:
    """Whether there is no kernel, forward or backward, for a precision that regions have on a device."""
    forward = operation.supported_dtypes(device)
    backward = operation.supported_backward_dtypes(device) if operation.supports_autograd else set()
    lows = {LOW} if device == "cpu" else {LOW, torch.float16}
    return not lows <= forward or (SINGLE in backward and not lows <= backward)


def _is_named(operation: Any, names: Iterable[str]) -> bool:
    """Whether autocast knows an operation by one of its names: `grid_sampler` for `nn.functional.grid_sample`."""
    own = {operation.aten_name.rpartition(".")[2], operation.name.rpartition(".")[2], operation.name.replace(".", "_")}
    return any(name in (each, f"{each}r") for name in names for each in own)


def _is_whole(operation: Any) -> bool:
    """Whether the dispatcher knows an operation that is not made of others, which autocast may have rules for."""
    composite = "CompositeImplicitAutograd"
    overloads = _overloads().get(operation.aten_name, ())
    return any(not torch._C._dispatch_has_kernel_for_dispatch_key(name, composite) for name in overloads)


@functools.cache
def _overloads() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in torch._C._dispatch_get_all_op_names():
        found.setdefault(_base(name), []).append(name)
    return found


def _is_function(name: str) -> bool:
    found: Any = torch
    for part in name.removeprefix("torch.").split("."):
        found = getattr(found, part, None)
    return callable(found) and not name.startswith(("_", "ops."))


# -- trying it on the CPU

Dtypes = Iterator[torch.dtype]


def _all_low(_: int) -> Iterator[Dtypes]:
    yield itertools.repeat(LOW)


def _one_low(number: int) -> Iterator[Dtypes]:
    for which in range(number) if number > 1 else ():
        yield itertools.chain([SINGLE] * which, [LOW], itertools.repeat(SINGLE))


def _raises(operation: Any, patterns: Callable[[int], Iterator[Dtypes]], *, region: bool) -> bool:
    """Whether the operation takes float32 and raises with operands of these precisions, in a region or outside."""
    for sample in _samples(operation):
        number = _count(sample)
        if number and _works(operation, sample, itertools.repeat(SINGLE), region=False):
            if not all(_works(operation, sample, dtypes, region=region) for dtypes in patterns(number)):
                return True
    return False


_sampled: dict[int, list[Any]] = {}


def _samples(operation: Any) -> list[Any]:
    """Some of the arguments that torch tests an operation with."""
    if id(operation) not in _sampled:
        torch.manual_seed(0)
        try:
            found = list(itertools.islice(operation.sample_inputs_func(operation, "cpu", SINGLE, False), MOST))
        except Exception:  # it needs a package that is not here
            found = []
        _sampled[id(operation)] = found[:: max(1, -(-len(found) // SAMPLES))]
    return _sampled[id(operation)]


def _count(sample: Any) -> int:
    """How many tensors of decimals there are."""
    seen: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(tensor)
        return tensor

    _mapped([sample.input, sample.args, sample.kwargs], note)
    return sum(tensor.dtype is SINGLE for tensor in seen)


def _works(operation: Any, sample: Any, dtypes: Dtypes, *, region: bool) -> bool:
    def cast(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(next(dtypes)).clone() if tensor.dtype is SINGLE else tensor.clone()

    first, args, kwargs = (_mapped(part, cast) for part in (sample.input, sample.args, sample.kwargs))
    try:
        with torch.autocast("cpu", dtype=LOW, enabled=region):
            operation(first, *args, **kwargs)
    except Exception:
        return False
    return True


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    match value:
        case torch.Tensor():
            return change(value)
        case dict():
            return {key: _mapped(each, change) for key, each in value.items()}
        case list() | tuple() if not hasattr(value, "_fields"):
            return type(value)(_mapped(each, change) for each in value)
        case _:
            return value


# -- the module


def text() -> str:
    """The module as it is written."""
    parts = [HEAD.format(version=torch.__version__.partition("+")[0])]
    for name, (says, names) in tables().items():
        parts.append(f"{name}: Final[dict[str, Names]] = {{")
        for device in KEYS:
            words = textwrap.wrap(" ".join(sorted(names[device])), 96, break_on_hyphens=False)
            spelled = "\n        ".join(words)
            parts.append(f'    "{device}": frozenset(\n        """{spelled}""".split()\n    ),')
        parts += ["}", f'"""{says}"""', ""]
    return "\n".join(parts)


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    written = text()
    if "--check" not in sys.argv:
        TARGET.write_text(written, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != written:
        sys.exit(f"torch has moved on: run `python -m tools.autocast_operations` and read the difference\n{written}")


if __name__ == "__main__":
    main()
