"""Models whose backward pass is differentiated again, which that of compiled code cannot be."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel_codemods.compile.blockers import model_classes

Place = tuple[Script, ast.expr]

_GRAD = "torch.autograd.grad"
_BACKWARD = "torch.autograd.backward"
_PLAIN_OPTIONS = frozenset({"outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs"})
_MOST_PLAIN = 4  # outputs, inputs, grad_outputs, retain_graph
_TENSORS = frozenset({Kind.TENSOR, Kind.BATCH, Kind.PARAMETER, Kind.NUMBER, Kind.SEQUENCE})
_WITHOUT_GRAPH = frozenset(Kind) - {Kind.TENSOR, Kind.SEQUENCE, Kind.MAPPING, Kind.ITERATOR, Kind.OBJECT, Kind.UNKNOWN}


@once
def differentiated_again(script: Script) -> frozenset[ast.AST] | None:
    """Constructors and classes of the models that lie between what a file differentiates, with a graph of the
    gradients, and what it differentiates by; None where they cannot be told.

    A gradient is followed back through the names, functions and models that made it, from function to caller.
    """
    found: set[ast.AST] = set()
    graphs = (script.parent(keyword) for keyword in script.find(ast.keyword) if keyword.arg == "create_graph")
    kept = [each for each in graphs if isinstance(each, ast.Call) and not _is_off(given_as(each, "create_graph"))]
    by_hand = (each for each in script.calls(_GRAD) if not _is_first_order(each))
    for call in script.syntax_index.in_order([*dict.fromkeys((*kept, *by_hand))]):
        outputs = _outputs(script, call)
        models = None if outputs is None else _between(script, outputs, _inputs(script, call))
        if not models:
            return None
        found |= models
    return frozenset(found)


def is_among(value: Value, nodes: Collection[ast.AST]) -> bool:
    """Whether a model is one of those, or holds one."""
    if not nodes:
        return False
    if value.node in nodes:
        return True
    classes = [each.node for each in model_classes(value.cls)] if value.cls is not None else []
    if any(each in nodes for each in classes):
        return True
    places = [each for each in (value.node, *classes) if each is not None]
    return any(part in nodes for place in places for part in breadth_first(place))


def _is_first_order(call: ast.Call) -> bool:
    """Whether gradients surely carry no graph, as `autograd.grad(loss, x)` gives them: they end where they are made."""
    plain = all(each.arg in _PLAIN_OPTIONS for each in call.keywords) and len(call.args) <= _MOST_PLAIN
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    return plain and not starred and (given_as(call, "create_graph") is None or _is_off(given_as(call, "create_graph")))


def _is_off(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and not value.value


def _outputs(script: Script, call: ast.Call) -> ast.expr | None:
    if script.qualname(call.func) in (_GRAD, _BACKWARD):
        return call.args[0] if call.args else given_as(call, "outputs") or given_as(call, "tensors")
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
    return call.func.value if is_method and isinstance(call.func, ast.Attribute) else None


def _inputs(script: Script, call: ast.Call) -> frozenset[str]:
    """What it is differentiated by, as the script writes it: nothing before that matters."""
    given = call.args[1] if len(call.args) > 1 and script.qualname(call.func) == _GRAD else given_as(call, "inputs")
    parts = given.elts if isinstance(given, ast.Tuple | ast.List) else [given]
    return frozenset(script.source(each) for each in parts if isinstance(each, ast.Name | ast.Attribute))


def _between(script: Script, outputs: ast.expr, inputs: frozenset[str]) -> set[ast.AST] | None:
    """The constructors and classes of the models that made some tensors; None where any of it is not seen."""
    found: set[ast.AST] = set()
    home = script.function(outputs)
    pending: list[Place] = [(script, outputs)]
    seen: set[ast.expr] = set()
    entered: set[ast.AST] = set()  # by calls on the way, whose arguments are looked at
    while pending:
        file, node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, ast.Name | ast.Attribute):
            if file is script and file.function(node) is home and file.source(node) in inputs:
                continue
            found.update(_models(file.values(node)))  # handed to what is not seen: `functional_call(model, …)`
            before = _made_of(file, node, entered)
        elif isinstance(node, ast.Call):
            owner = file.values(node.func.value) if isinstance(node.func, ast.Attribute) else ()
            found.update(_models((*file.values(node.func), *owner)))
            functions = [each for each in file.callees(node) if Kind.FUNCTION in file.values(node.func).kinds]
            entered.update(function for _, function in functions)
            pending += [place for each in functions for place in _returned(*each)]
            before = _given(file, node)
        else:
            before = [(file, each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        if before is None:
            return None
        pending += before
    return found


def _made_of(file: Script, node: ast.Name | ast.Attribute, entered: set[ast.AST]) -> list[Place] | None:
    """What a name or an attribute was made of; None where that is not seen."""
    values = file.values(node)
    if file.qualname(node) is not None or (values and values.kinds <= _WITHOUT_GRAPH):
        return []
    if isinstance(node, ast.Attribute):  # `x.T`; what another object holds may have been made anywhere
        return [(file, node.value)] if file.values(node.value).kinds <= _TENSORS else None
    found: list[Place] = []
    for each in file.definitions(node):
        function = each.scope.node
        if each.how == "param" and function in entered:
            continue
        if each.how == "param":
            if not isinstance(function, ast.FunctionDef) or file.callers(function).missing is not None:
                return None
            found += arguments_for(file, function, each.name)
        elif each.value is not None:
            found.append((file, each.value))
        else:
            return None
    return found if file.definitions(node) else None


def _models(values: Iterable[Value]) -> Iterator[ast.AST]:
    """Constructors and classes of models."""
    for value in values:
        if value.kind is Kind.MODULE:
            yield from () if value.node is None else (value.node,)
            yield from () if value.cls is None else (value.cls.node,)


def _returned(file: Script, function: ast.FunctionDef) -> Iterator[Place]:
    for each in file.in_scope(function, ast.Return):
        if each.value is not None:
            yield file, each.value


def _given(file: Script, call: ast.Call) -> list[Place] | None:
    """What the result of a call is made of, beside what is seen where it leads; None where nothing tells."""
    given: list[Place] = [(file, each) for each in (*call.args, *(keyword.value for keyword in call.keywords))]
    if file.qualname(call.func) is not None or file.callees(call) or Kind.MODULE in file.values(call.func).kinds:
        return given
    if not isinstance(call.func, ast.Attribute):
        return None
    owner = file.values(call.func.value).kinds
    if Kind.MODULE in owner:
        return given
    return [*given, (file, call.func.value)] if owner <= _TENSORS else None
