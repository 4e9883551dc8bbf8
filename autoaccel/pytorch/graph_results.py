"""Whether what an operation gives carries the graph of what it is done to.

An answer is None where the graph ends, else whether it is in something that the result holds (True) or the result's own
(False). `held` says the same of what the operation is done to. `GraphNeeded` is raised where a backward pass begins, or
nobody can follow.
"""

from __future__ import annotations

import ast

from autoaccel.analysis.attribute_values import attribute_of
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.library_models.graph_operations import (
    ENDING_ATTRIBUTES,
    ENDING_FUNCTIONS,
    ENDING_LIBRARIES,
    ENDING_METHODS,
    MODE_ATTRIBUTES,
    STARTS_CODE,
    UNCHANGING_FUNCTIONS,
    UNCHANGING_METHODS,
    WRITING_FUNCTIONS,
    is_without_graph,
    keeps_nothing,
)
from autoaccel.pytorch.gradients import asks, is_asking_function, is_backward
from autoaccel.pytorch.graph_states import UNFOLLOWED, GraphNeeded
from autoaccel.pytorch.object_references import connected_files

_PACKING = ("pack_padded_sequence", "pack_sequence", "PackedSequence")
_MAKING_RECORDS = ("namedtuple", "make_dataclass", "SimpleNamespace")


def of_attribute(script: Script, node: ast.Attribute, held: bool) -> bool | None:
    """An attribute of it."""
    if held or _is_own(script, node.value, node.attr):
        return False
    if node.attr == "data" and _may_hold(script, node.value):
        return False
    if node.attr in MODE_ATTRIBUTES or is_asking_function(script, node):
        raise GraphNeeded
    return None if node.attr in ENDING_ATTRIBUTES else False


def _may_hold(script: Script, owner: ast.expr) -> bool:
    """Whether a value may be none of torch's tensors, but hold one as `data`: a named tuple, a packed sequence."""
    values = script.values(owner)
    if values.kinds <= {Kind.TENSOR, Kind.PARAMETER, Kind.BATCH}:  # as packed sequences are, too
        return any((value.name or "").rpartition(".")[2] in _PACKING for value in values)
    files = connected_files(script)
    if any(each.syntax_index.calls_named(*_PACKING) for each in files):
        return True
    made = ((each, call) for each in files for call in each.syntax_index.calls_named(*_MAKING_RECORDS))
    return any("data" in file.source(call) for file, call in made)


def of_method(script: Script, call: ast.Call, name: str, held: bool) -> bool | None:
    """A method of it."""
    assert isinstance(call.func, ast.Attribute)
    if is_backward(script, call) or asks(script, call):
        raise GraphNeeded
    if held:
        return name in ("items", "values", "copy")
    if name in ENDING_METHODS and not _is_own(script, call.func.value, name):
        if name == "numpy" and _is_tried(script, call):
            raise GraphNeeded  # it fails where there is a graph
        return None
    if name in ("sample", "sample_n") and _is_distribution(script, call.func.value):
        return None
    unchanged = name in UNCHANGING_METHODS or name.endswith("_")
    return None if not unchanged and _is_recorded_nowhere(script, call) else False


def of_operator(script: Script, operation: ast.BinOp, held: bool) -> bool | None:
    """A sum, a product, or a text that it is formatted into."""
    formats = isinstance(operation.op, ast.Mod) and (
        isinstance(operation.left, ast.JoinedStr) or script.kind(operation.left) is Kind.STRING
    )
    return None if formats or (not held and _is_recorded_nowhere(script, operation)) else held


def of_library(script: Script, call: ast.Call, name: str, held: bool) -> bool | None:
    """A function of a library that is given it."""
    if name.startswith(STARTS_CODE) or not keeps_nothing(name):
        raise GraphNeeded(UNFOLLOWED)
    if name.startswith("numpy."):
        return True if any(each.arg == "dtype" for each in call.keywords) else None
    if name in WRITING_FUNCTIONS or name in ENDING_FUNCTIONS or name.startswith(ENDING_LIBRARIES):
        return None
    if name == "copy.deepcopy" and _is_tried(script, call):
        raise GraphNeeded  # it fails where there is a graph
    unchanged = name in UNCHANGING_FUNCTIONS or name.endswith("_")
    if not held and not unchanged and _is_recorded_nowhere(script, call):
        return None
    return name.startswith(("collections.", "itertools.", "copy.", "torch.utils.data."))


def _is_recorded_nowhere(script: Script, operation: ast.expr) -> bool:
    """Whether an operation stands where gradients surely are off."""
    for ancestor in script.ancestors(operation):
        if isinstance(ancestor, ast.With):
            if any(is_without_graph(script, item.context_expr) for item in ancestor.items):
                return True
        elif isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return any(is_without_graph(script, each) for each in getattr(ancestor, "decorator_list", ()))
    return False


def _is_own(script: Script, owner: ast.expr, name: str) -> bool:
    """Whether an attribute is one that a class of the project defines."""
    return any(value.cls is not None and attribute_of(value.cls, name) for value in script.values(owner))


def _is_tried(script: Script, call: ast.Call) -> bool:
    """Whether the failure of a call is handled where it stands."""
    statement = script.statement(call)
    around = script.parent(statement)
    return isinstance(around, ast.Try) and statement in around.body and bool(around.handlers)


def _is_distribution(script: Script, expression: ast.expr) -> bool:
    """Whether a value is made by `torch.distributions`, whose `sample` records nothing."""
    if isinstance(expression, ast.Name):
        definitions = script.definitions(expression)
        made = [each.value for each in definitions if each.how == "assign" and not each.path]
        return (
            bool(made)
            and len(made) == len(definitions)
            and all(each is not None and _is_distribution(script, each) for each in made)
        )
    return isinstance(expression, ast.Call) and (script.qualname(expression.func) or "").startswith(
        "torch.distributions."
    )
