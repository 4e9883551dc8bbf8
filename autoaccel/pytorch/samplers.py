"""Samplers of a project, whose `__iter__` chooses indices: by counting and drawing, or by what a model says."""

from __future__ import annotations

import ast
import re

from autoaccel.analysis.callables import called_name
from autoaccel.analysis.classes import external_lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.query import once
from autoaccel.library_models.graph_operations import ENDING_FUNCTIONS, ENDING_METHODS
from autoaccel.library_models.library_values import SAMPLERS
from autoaccel.library_models.python_names import CONTAINER_CHANGES, NAMESPACES, TEXT_RUNNERS

_COUNTING = ("numpy.", "random.", "math.", "copy.", "bisect.", "heapq.", "time.")
_CHAINING = frozenset(
    """itertools.chain itertools.chain.from_iterable itertools.islice itertools.cycle itertools.repeat itertools.count
    itertools.zip_longest itertools.product itertools.combinations itertools.permutations itertools.batched
    collections.Counter collections.deque collections.OrderedDict""".split()
)
_RUNNING = re.compile(
    r"numpy\.(vectorize|apply_\w+|frompyfunc|fromfunction|piecewise)|builtins\.(map|filter|sum|getattr|super)"
)
_DRAWING = frozenset(
    f"torch.{name}"
    for name in """randperm randint multinomial arange tensor as_tensor LongTensor Generator zeros ones empty full rand
    randn initial_seed manual_seed""".split()
)
_METHODS = ENDING_METHODS | CONTAINER_CHANGES
_METHODS |= frozenset(
    """shuffle permutation choice choices sample randint integers random uniform normal seed manual_seed random_ copy
    keys values items index count get split join format extendleft appendleft popleft initial_seed""".split()
)
_OF_INTEGERS = frozenset("range int len min max slice round abs divmod".split())
_NO_TENSOR = frozenset(
    {Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.ARRAY, Kind.SEQUENCE, Kind.MAPPING, Kind.ITERATOR}
)


@once
def only_draws_indices(script: Script, function: ast.AST) -> bool:
    """Whether a function surely is the `__iter__` of a sampler, and neither it nor what it calls runs a model or does
    anything to a tensor that may have a graph."""
    cls = script.parent(function)
    if not isinstance(function, ast.FunctionDef) or function.name != "__iter__" or not isinstance(cls, ast.ClassDef):
        return False
    if not _is_sampler(script, cls):
        return False
    code, seen = [(script, function)], {function}
    for file, each in code:  # grows while it is walked
        for call in file.within(each, ast.Call):
            if not _is_harmless(file, call):
                return False
            entered = [(other, callee) for other, callee in file.callees(call) if callee not in seen]
            code += entered
            seen.update(callee for _, callee in entered)
        if not all(_is_counted(file, operation) for operation in file.within(each, ast.BinOp)):
            return False
        if not all(_is_plain(file, sum_.value) for sum_ in file.within(each, ast.AugAssign)):
            return False
    return True


def _is_sampler(script: Script, cls: ast.ClassDef) -> bool:
    """Whether a class derives from one of torch's samplers: `Sampler`, `Sampler[int]`."""
    generic = (script.qualname(base.value) for base in cls.bases if isinstance(base, ast.Subscript))
    return any(SAMPLERS.match(name or "") for name in (*generic, *external_lineage(script.class_ref(cls))))


def _is_harmless(script: Script, call: ast.Call) -> bool:
    """Whether a call runs no model, and records no graph by itself; what it enters of the project is looked at."""
    if script.values(call.func).kinds & {Kind.MODULE, Kind.LOSS_FUNCTION}:
        return False
    if script.callees(call):
        return True
    if any(each.arg in ("key", "default_factory", None) and not _is_in_sight(each.value) for each in call.keywords):
        return False
    name = called_name(script, call.func)
    if name is not None:
        if name.startswith("builtins."):
            return name.removeprefix("builtins.") not in (*TEXT_RUNNERS, *NAMESPACES) and not _RUNNING.match(name)
        counting = name.startswith(_COUNTING) and not _RUNNING.match(name)
        return counting or name in _CHAINING | _DRAWING | ENDING_FUNCTIONS
    return isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS


def _is_in_sight(function: ast.expr) -> bool:
    """Whether a function that a call runs is looked at with the code around it."""
    return isinstance(function, ast.Lambda)


def _is_counted(script: Script, operation: ast.BinOp) -> bool:
    """Whether a sum or product is none of tensors: of what surely is something else, or where only an index can be."""
    if all(_is_plain(script, each) for each in (operation.left, operation.right)):
        return True
    around = script.parent(operation)
    while isinstance(around, ast.BinOp | ast.UnaryOp):
        around = script.parent(around)
    match around:
        case ast.Slice():
            return True
        case ast.Call(func=ast.Name(id=name) as function):
            return name in _OF_INTEGERS and not script.definitions(function)
        case ast.Call(func=ast.Attribute(attr="manual_seed" | "seed")):
            return True
        case _:
            return False


def _is_plain(script: Script, operand: ast.expr) -> bool:
    match operand:
        case ast.BinOp(left=left, right=right):
            return _is_plain(script, left) and _is_plain(script, right)
        case ast.UnaryOp(operand=inner):
            return _is_plain(script, inner)
        case ast.Constant() | ast.Compare() | ast.List() | ast.Tuple() | ast.ListComp() | ast.JoinedStr():
            return True
        case _:
            kinds = script.values(operand).kinds
            return bool(kinds) and kinds <= _NO_TENSOR
