"""What operations of torch give: modules of its library, functions, methods, distributions."""

from __future__ import annotations

import ast
from collections.abc import Callable

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import STAR, ElementPath
from autoaccel.library_models.tensor_operations import (
    ALWAYS_PAIRS,
    FLOATING,
    KEEPING,
    LOSSES,
    NO_TENSOR,
    WHOLE,
    WITH_INDICES,
)
from autoaccel.library_models.tensor_views import PIECES
from autoaccel.pytorch import module_containers
from autoaccel_codemods.autocast.tensor_content import NO_TENSOR_KINDS, Content, mixed, present

Read = Callable[[ast.expr, ElementPath], Content]
"""What (a part of) an operand holds."""

_TYPES = frozenset(
    """float32 float64 float16 bfloat16 float double half int8 int16 int32 int64 uint8 int long short bool dtype
    FloatTensor DoubleTensor LongTensor IntTensor BoolTensor""".split()
)
_FILLED = frozenset("zeros ones empty eye".split())
# Which of the operands have a say in the type of the result.
_MIXING: dict[str, slice] = {"where": slice(-2, None), "einsum": slice(1, None)} | dict.fromkeys(
    "add sub mul maximum minimum add_ sub_ mul_ pow max min".split(), slice(2)
)
_LIKE_FACTORIES = frozenset("zeros_like ones_like empty_like rand_like randn_like".split())
_SEQUENCES = frozenset("stack cat concat concatenate hstack vstack dstack meshgrid".split())
_PASSING = frozenset(
    f"torch.nn.{name}" for name in "Identity Dropout Flatten Unflatten PixelShuffle ReLU Threshold ZeroPad2d".split()
)
_DISCRETE = frozenset("Categorical Multinomial".split())
_CONTINUOUS = frozenset(
    """Normal Beta Gamma Dirichlet Uniform Laplace LogNormal MultivariateNormal Exponential Bernoulli Poisson Gumbel
    RelaxedOneHotCategorical OneHotCategorical Independent StudentT Cauchy Geometric""".split()
)


def of_library(script: Script, call: ast.Call, qualified: str, path: ElementPath, read: Read) -> Content:
    """A function of a library."""
    if not qualified.startswith(("torch.", "copy.")):
        return Content.WHOLE if script.kind(call) in NO_TENSOR_KINDS else Content.UNKNOWN
    if qualified.startswith("torch.utils."):
        return Content.UNKNOWN
    return _of_operation(script, call, qualified.rsplit(".", 1)[-1], call.args, path, read)


def of_method(script: Script, call: ast.Call, function: ast.Attribute, path: ElementPath, read: Read) -> Content:
    """A method of a tensor, of a module or of a distribution."""
    name = function.attr
    owners = script.values(function.value)
    if any(owner.kind is Kind.MODULE for owner in owners):
        if name == "forward":
            return of_module(script, function.value, call.args, path, read)
        if script.kind(function) is Kind.MODULE:
            return of_module(script, function, call.args, path, read)
        return Content.UNKNOWN
    if name in ("sample", "rsample"):
        return _of_distribution(script, function.value)
    return _of_operation(script, call, name, [function.value, *call.args], path, read)


def of_module(script: Script, function: ast.expr, arguments: list[ast.expr], path: ElementPath, read: Read) -> Content:
    """A module of a library: torch's give decimals; of others only what a loss is computed from surely is."""
    values = module_containers.modules(script, function)
    names = [value.name or "" for value in values if value.kind is Kind.MODULE and value.cls is None]
    if not names or len(names) < len(values):
        return Content.UNKNOWN
    if all(name in _PASSING for name in names) and len(arguments) == 1:
        return read(arguments[0], path)
    if all(name.startswith("torch.nn.") or (name.startswith("torchvision.models.") and not path) for name in names):
        pooled = any("MaxPool" in name for name in names)
        recurrent = any(name.endswith((".LSTM", ".GRU", ".RNN", ".LSTMCell", "Attention")) for name in names)
        if recurrent and not path:
            return Content.STRUCTURE
        return Content.UNKNOWN if pooled and path else Content.FLOATING
    return Content.UNKNOWN


def _of_distribution(script: Script, distribution: ast.expr) -> Content:
    """Draws: classes are whole numbers."""
    made: list[ast.expr | None] = [distribution]
    if isinstance(distribution, ast.Name):
        made = [each.value for each in script.definitions(distribution)]
    names = [script.qualname(each.func) or "" if isinstance(each, ast.Call) else "" for each in made]
    if names and all(name.startswith("torch.distributions.") for name in names):
        last = {name.rsplit(".", 1)[-1] for name in names}
        if last <= _CONTINUOUS:
            return Content.FLOATING
        if last <= _DISCRETE:
            return Content.WHOLE
    return Content.UNKNOWN


def _of_operation(
    script: Script, call: ast.Call, name: str, operands: list[ast.expr], path: ElementPath, read: Read
) -> Content:
    """A function or method of tensors; `operands` begin with the tensor (or the tensors) it works on."""
    if name in NO_TENSOR or name in WHOLE:
        return Content.WHOLE
    if name in FLOATING | LOSSES:
        return Content.FLOATING
    if any(each.arg == "dtype" for each in call.keywords):
        return Content.UNKNOWN
    if name in ("to", "type") and any(_names_type(script, each) for each in operands[1:]):
        return Content.UNKNOWN
    if name in _FILLED:
        return Content.FLOATING
    if not operands:
        return Content.UNKNOWN
    if name in WITH_INDICES and is_pair(script, call):
        if not path:
            return Content.STRUCTURE
        return read(operands[0], path[1:]) if path[0] == 0 else Content.WHOLE
    if name in _SEQUENCES:
        if isinstance(operands[0], ast.Tuple | ast.List):
            return mixed(read(each, ()) for each in operands[0].elts)
        return read(operands[0], (STAR,))
    if name in PIECES:
        return read(operands[0], ()) if path else Content.STRUCTURE
    if name == "where" and len(operands) == 1:
        return Content.WHOLE
    if name in _MIXING:
        return mixed(read(each, ()) for each in operands[_MIXING[name]])
    if name in KEEPING | _LIKE_FACTORIES:
        inner = operands[0]
        if isinstance(inner, ast.Tuple | ast.List):
            return Content.UNKNOWN
        return present(read(inner, path if name in ("Variable", "values") else ()))
    return Content.UNKNOWN


def is_pair(script: Script, call: ast.Call) -> bool:
    """Whether `x.max(1)` gives values and indices; `torch.max(a, b)` compares two tensors."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name in ALWAYS_PAIRS:
        return True
    if any(keyword.arg in ("dim", "axis") for keyword in call.keywords):
        return True
    own = call.args[1:] if script.qualname(call.func) is not None else call.args
    return bool(own) and (
        script.kind(own[0]) is Kind.NUMBER
        or (isinstance(own[0], ast.UnaryOp) and isinstance(own[0].operand, ast.Constant))
    )


def _names_type(script: Script, node: ast.expr) -> bool:
    return script.kind(node) is Kind.DTYPE or (isinstance(node, ast.Attribute) and node.attr in _TYPES)
