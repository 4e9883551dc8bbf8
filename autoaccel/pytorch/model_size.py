"""How many parameters a model has, where all its layers are in sight and literals give their sizes.

The answer is not less than the number; None where it is not known. Models whose work is not told by their parameters,
such as convolutions and products of activations, count as not known.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from autoaccel.analysis.classes import external_lineage, lineage, methods
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value
from autoaccel.dataflow.call_arguments import given_as, given_values, unpacks
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.library_models.autocast_operations import LOWER
from autoaccel.pytorch.forwards import WITHOUT_PARAMETERS
from autoaccel.pytorch.integers import Frame, at_most

_CONTAINERS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList"})
_ADDING = frozenset({"add_module", "register_module", "append", "extend", "insert", "__setitem__"})
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_PRODUCTS = LOWER["cpu"] | LOWER["cuda"] | {"dot", "inner", "outer", "tensordot"}
_MULTIPLYING = (ast.BinOp, ast.AugAssign, ast.Call)
_DATA = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DEVICE, Kind.DTYPE, Kind.FUNCTION})
_MADE_OF_SIZES = frozenset(f"torch.{name}" for name in "ones zeros rand randn empty Tensor FloatTensor".split())
_HARMLESS = ("torch.nn.init.", "torch.manual_seed", "builtins.")
_BUILTINS = frozenset("super len int float str print isinstance range".split())


SMALL: Final = 2000
"""Parameters with which a model is too small to gain by low precision or by compiling, on the CPU as far as batches
have a few thousand rows.

Measured with torch 2.13 on a CPU that has bfloat16: training in it is 0.5 to 0.9 times as fast with up to 2,000
parameters and 1,024 rows (perceptrons, LSTMs over ten words), 1.0 times with 8,192 rows; it begins to win with 7,850
parameters and 512 rows. A step of such perceptrons takes 0.15 to 0.5 ms, which is below what the runtime compiles for.
"""


def parameters_of(models: Iterable[Value]) -> int | None:
    """The parameters of the largest of several possible models, if they are known of each."""
    known = [parameters(each) for each in models]
    numbers = [each for each in known if each is not None]
    return max(numbers) if numbers and len(numbers) == len(known) else None


def parameters(model: Value, frame: Frame | None = None) -> int | None:
    """The parameters of a model at most, made where its value says."""
    script, made = model.script, model.node
    if script is None or not isinstance(made, ast.Call) or model.kind is not Kind.MODULE or unpacks(made):
        return None
    if model.cls is not None:
        return _of_class(model.cls, Frame(_constructor(model.cls), script, made, frame))
    if model.name in _CONTAINERS:
        return None if _grows(script, made) else _sum(_of_element(script, each, frame) for each in given_values(made))
    return _of_layer(script, model.name or "", made, frame)


def _grows(script: Script, made: ast.Call) -> bool:
    """Whether a container gets layers after it was made, in the file that makes it: `model.append(layer)`."""
    functions = (each.func for each in script.find(ast.Call))
    adding = (each.value for each in functions if isinstance(each, ast.Attribute) and each.attr in _ADDING)
    return any(value.node is made for owner in adding for value in script.values(owner).unordered())


def multiplies(nodes: Iterable[ScriptNode]) -> bool:
    """Whether some code multiplies matrices, or convolves, other than by the layers of a model."""
    parts = ((script, part) for script, node in nodes for part in script.syntax_index.within_any(node, _MULTIPLYING))
    return any(_is_product(script, part) for script, part in parts)


def _is_product(script: Script, part: ast.AST) -> bool:
    match part:
        case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            qualified = script.qualname(part.func)
            called = name if qualified is None else qualified.rpartition(".")[2]
            return called in _PRODUCTS and script.kind(part.func) is not Kind.MODULE
        case _:
            return False


def _sum(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for each in numbers:
        if each is None:
            return None
        total += each
    return total


def _of_element(script: Script, expression: ast.expr, frame: Frame | None) -> int | None:
    """The parameters of what a container is given."""
    if isinstance(expression, ast.List | ast.Tuple):
        return _sum(_of_element(script, each, frame) for each in expression.elts)
    values = [*script.values(expression)]
    return parameters(values[0], frame) if len(values) == 1 else None


# -- layers of torch


def _of_layer(script: Script, name: str, made: ast.Call, frame: Frame | None) -> int | None:
    if name in WITHOUT_PARAMETERS:
        return 0
    layer = name.removeprefix("torch.nn.")

    def size(parameter: str, index: int, default: int | None = None) -> int | None:
        given = given_as(made, parameter) or (made.args[index] if index < len(made.args) else None)
        return default if given is None else at_most(script, given, frame)

    match layer:
        case "Linear":
            return _product(size, ("in_features", 0), ("out_features", 1), bias=1)
        case "Embedding":
            return _product(size, ("num_embeddings", 0), ("embedding_dim", 1))
        case "BatchNorm1d" | "LayerNorm":
            count = size("num_features" if layer == "BatchNorm1d" else "normalized_shape", 0)
            return None if count is None else 2 * count
        case "RNN" | "GRU" | "LSTM":
            return _of_recurrent(made, _GATES[layer], size)
        case "RNNCell" | "GRUCell" | "LSTMCell":
            taken, hidden = size("input_size", 0), size("hidden_size", 1)
            gates = _GATES[layer.removesuffix("Cell")]
            return None if taken is None or hidden is None else gates * hidden * (taken + hidden + 2)
        case _:
            return 0 if layer.endswith("Loss") and name.startswith("torch.nn.") else None


def _product(
    size: Callable[[str, int], int | None], first: tuple[str, int], second: tuple[str, int], bias: int = 0
) -> int | None:
    rows, columns = size(*first), size(*second)
    return None if rows is None or columns is None else (rows + bias) * columns


def _of_recurrent(made: ast.Call, gates: int, size: Callable[[str, int, int | None], int | None]) -> int | None:
    taken, hidden, layers = size("input_size", 0, None), size("hidden_size", 1, None), size("num_layers", 2, 1)
    if taken is None or hidden is None or layers is None or given_as(made, "proj_size") is not None:
        return None
    both = given_as(made, "bidirectional")
    directions = 1 if both is None and len(made.args) < 7 else 2
    return layers * directions * gates * hidden * (max(taken, directions * hidden) + hidden + 2)


# -- classes of the project


def _constructor(cls: ClassRef) -> ast.FunctionDef | None:
    return next((method for _, method in methods(cls, "__init__")), None)


def _of_class(cls: ClassRef, frame: Frame) -> int | None:
    """The parameters that a constructor makes, where every call and attribute in it is known."""
    script, node = cls.script, cls.node
    if len([*lineage(cls)]) != 1 or {*external_lineage(cls)} != {"torch.nn.Module"} or _is_extended(cls):
        return None
    built = frame.function
    if built is None:
        return 0
    if _is_open(built, frame.outer):
        return None
    if multiplies([(script, node)]) or any(script.within(built, kind) for kind in (ast.For, ast.While, ast.Lambda)):
        return None
    if any(True for _ in script.within(built, ast.comprehension)):
        return None
    outside = (call for call in script.within(node, ast.Call) if not script.inside(call, built))
    if any(_makes_parameters(script, call) for call in outside):
        return None
    if not all(_is_data(script, each, frame) for each in _attributes(script, built)):
        return None
    return _sum(_of_call(script, call, frame) for call in script.within(built, ast.Call))


def _is_open(built: ast.FunctionDef, frame: Frame | None) -> bool:
    """Whether a constructor runs within itself."""
    return frame is not None and (frame.function is built or _is_open(built, frame.outer))


def _is_extended(cls: ClassRef) -> bool:
    """Whether something outside of a class sets attributes of its objects: `model.fc = nn.Linear(512, 10)`."""
    for part in cls.script.find(ast.Attribute):
        if isinstance(part.ctx, ast.Store) and not cls.script.inside(part, cls.node):
            if any(value.cls is not None and value.cls.node is cls.node for value in cls.script.values(part.value)):
                return True
    return False


def _makes_parameters(script: Script, call: ast.Call) -> bool:
    name = script.qualname(call.func) or ""
    if name in WITHOUT_PARAMETERS or name.startswith(("torch.nn.functional.", "torch.nn.init.", "torch.nn.utils.")):
        return False
    made = script.values(call).kinds & {Kind.MODULE, Kind.PARAMETER}
    built = isinstance(call.func, ast.Attribute) and call.func.attr in ("add_module", "register_parameter", "setattr")
    return built or (name.startswith("torch.nn.") and bool(made))


def _attributes(script: Script, built: ast.FunctionDef) -> Iterator[ast.expr]:
    """What a constructor stores as it is, and does not make."""
    statements: list[ast.Assign | ast.AnnAssign] = [
        *script.within(built, ast.Assign),
        *script.within(built, ast.AnnAssign),
    ]
    for statement in statements:
        if statement.value is not None and not isinstance(statement.value, ast.Call):
            yield statement.value


def _is_data(script: Script, expression: ast.expr, frame: Frame) -> bool:
    """Whether what is stored holds no parameters."""
    if isinstance(expression, ast.Constant) or at_most(script, expression, frame) is not None:
        return True
    if isinstance(expression, ast.List | ast.Tuple):
        return all(_is_data(script, each, frame) or isinstance(each, ast.Call) for each in expression.elts)
    return script.values(expression).kinds <= _DATA and bool(script.values(expression))


def _of_call(script: Script, call: ast.Call, frame: Frame) -> int | None:
    """The parameters that a call in a constructor makes."""
    name = script.qualname(call.func) or ""
    if name in _CONTAINERS:  # what it is made of is made by calls, too
        return 0 if all(isinstance(each, ast.Call | ast.List) for each in given_values(call)) else None
    if name == "torch.nn.Parameter":
        return _of_parameter(script, call, frame)
    if name in _MADE_OF_SIZES or name.startswith(_HARMLESS):
        return 0
    if name.startswith("torch.nn."):
        return None if unpacks(call) else _of_layer(script, name, call, frame)
    match call.func:
        case ast.Name(id=builtin) if builtin in _BUILTINS and not script.definitions(call.func):
            return 0
        case ast.Attribute(attr="__init__"):
            return 0
        case ast.Attribute(value=ast.Name(id="self")) if script.callees(call):  # which makes none: that is seen to
            return 0
        case _:
            values = [*script.values(call)]
            return parameters(values[0], frame) if len(values) == 1 and values[0].cls is not None else None


def _of_parameter(script: Script, call: ast.Call, frame: Frame) -> int | None:
    match call.args:
        case [ast.Call(args=sizes, keywords=[]) as made] if script.qualname(made.func) in _MADE_OF_SIZES:
            if len(sizes) == 1 and isinstance(sizes[0], ast.List | ast.Tuple):
                sizes = sizes[0].elts
            known = [at_most(script, each, frame) for each in sizes]
            numbers = [each for each in known if each is not None]
            return math.prod(numbers) if len(numbers) == len(known) else None
        case _:
            return None
