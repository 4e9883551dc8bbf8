"""What functions that an evaluation enters store for later: a memoised forward pass, a slice of a learned table."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.classes import is_plain_object, lineage, methods
from autoaccel.analysis.imported_names import imported
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.definitions import Definition
from autoaccel.library_models.graph_operations import (
    ENDING_ATTRIBUTES,
    ENDING_BUILTINS,
    ENDING_FUNCTIONS,
    ENDING_LIBRARIES,
    ENDING_METHODS,
    SHOWING_METHODS,
    keeps_nothing,
)
from autoaccel.pytorch.object_references import attribute_reads, connected_files
from autoaccel.pytorch.whole_numbers import is_whole

_WITHOUT_GRAPH = frozenset(
    {Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DEVICE, Kind.DTYPE, Kind.ARRAY, Kind.MODULE, Kind.OPTIMIZER}
    | {Kind.LOSS_FUNCTION, Kind.SCHEDULER, Kind.SCALER, Kind.LOADER, Kind.DATASET, Kind.BATCH, Kind.FUNCTION}
    | {Kind.CLASS, Kind.EXTERNAL}
)
_COMPUTING = ("torch.nn.utils.prune", "torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm")
_LAYER_WEIGHTS = ("weight", "bias")


def is_layer_weight(script: Script, expression: ast.Attribute) -> bool:
    """Whether an attribute surely is a parameter of a layer: `self.embedding.weight`, `rnn.weight_hh_l0`."""
    return expression.attr.partition("_")[0] in _LAYER_WEIGHTS and script.kind(expression.value) is Kind.MODULE


def reads_of_computed_weights(script: Script) -> Iterator[tuple[Script, ast.expr]]:
    """The reads of weights that a hook of torch computes in each forward pass, and leaves in the layer.

    Raises `Incomplete` where torch keeps them from one forward pass to the next."""
    files = connected_files(script)
    if any(True for each in files for _ in each.calls("torch.nn.utils.parametrize.cached")):
        raise Incomplete("what parametrizations compute is kept")
    names = {name for each in files for name in imported(each)}
    cached = any(keyword.arg == "cache_size" for each in files for keyword in each.find(ast.keyword))
    if cached or any(each.syntax_index.mentions("with_cache") for each in files) or _transforms_of_pyro(names):
        raise Incomplete("a transform of distributions keeps what it has computed")
    mentioned = any(each.syntax_index.mentions("prune", "weight_norm", "spectral_norm") for each in files)
    if mentioned or any(name.startswith(_COMPUTING) for name in names):
        yield from attribute_reads(script, None, "weight", called=False)


def _transforms_of_pyro(names: set[str]) -> bool:
    """Whether transforms are imported that keep their last result unless they are told otherwise."""
    return any(name.startswith("pyro.distributions") for name in names)


def stored_values(script: Script, function: ast.AST) -> Iterator[ast.expr]:
    """The values that may carry a graph and that a function stores where they outlive it.

    Nested functions are left out: those that are called are entered."""
    for assigned in script.in_scope(function, ast.Assign):
        if any(_outlives(script, target, function) for target in assigned.targets):
            yield from _carrying(script, assigned.value)
    changed: list[ast.AnnAssign | ast.AugAssign] = [*script.in_scope(function, ast.AnnAssign)]
    for each in (*changed, *script.in_scope(function, ast.AugAssign)):
        if each.value is not None and _outlives(script, each.target, function):
            yield from _carrying(script, each.value)
    for call in script.in_scope(function, ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "setattr":
            for argument in call.args[2:]:
                yield from _carrying(script, argument)
        elif isinstance(call.func, ast.Attribute) and _collects(script, call.func, function):
            for argument in given_values(call):
                yield from _carrying(script, argument)


def _outlives(script: Script, target: ast.expr, function: ast.AST) -> bool:
    """Whether what is assigned to a target is there after the function has returned."""
    match target:
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            return any(_outlives(script, each, function) for each in targets)
        case ast.Starred(value=value):
            return _outlives(script, value, function)
        case ast.Name():
            return any(each.how == "global" or each.scope.node is not function for each in script.definitions(target))
        case ast.Subscript(value=value) | ast.Attribute(value=value):
            return not _is_made_here(script, value, function)
        case _:
            return True


def _is_made_here(script: Script, owner: ast.expr, function: ast.AST) -> bool:
    """Whether an object surely is made anew in a function: `out = []`, `result = {}`, `torch.zeros(n)`."""
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    if not isinstance(owner, ast.Name):
        return False
    definitions = script.definitions(owner)
    return bool(definitions) and all(
        each.how == "assign"
        and each.scope.node is function
        and not each.path
        and isinstance(each.value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.Call)
        and (not isinstance(each.value, ast.Call) or keeps_nothing(script.qualname(each.value.func) or ""))
        for each in definitions
    )


def _collects(script: Script, method: ast.Attribute, function: ast.AST) -> bool:
    """Whether a method may keep its arguments in an object that outlives the function."""
    if script.qualname(method) is not None or script.parent(method) is None:
        return False
    call = script.parent(method)
    if isinstance(call, ast.Call) and script.callees(call):
        return False
    owners = script.values(method.value).kinds
    if owners <= {Kind.TENSOR, Kind.PARAMETER, Kind.BATCH, Kind.ARRAY, Kind.STRING, Kind.NUMBER}:
        return method.attr.endswith("_")
    if owners == {Kind.MODULE}:
        return method.attr in ("register_buffer", "register_parameter", "__setattr__")
    if method.attr in ENDING_METHODS | SHOWING_METHODS or script.kind(method) in (Kind.MODULE, Kind.LOSS_FUNCTION):
        return False
    root = method.value
    while isinstance(root, ast.Subscript):
        root = root.value
    if isinstance(root, ast.Attribute):
        return script.kind(root) not in (Kind.MODULE, Kind.LOSS_FUNCTION)
    return isinstance(root, ast.Name) and bool(script.definitions(root)) and not _is_own(script, root, function)


def _is_own(script: Script, name: ast.Name, function: ast.AST) -> bool:
    """Whether a name is bound by the function alone, to no part of something else; a list that it is given is followed
    from the caller."""
    return all(
        each.scope.node is function
        and each.how != "global"
        and not isinstance(each.value, ast.Attribute | ast.Subscript)
        and not (
            isinstance(each.value, ast.Name) and any(_is_of_module(part) for part in script.definitions(each.value))
        )
        for each in script.definitions(name)
    )


def _is_of_module(definition: Definition) -> bool:
    return definition.how == "global" or definition.scope.parent is None


def _carrying(script: Script, value: ast.expr) -> Iterator[ast.expr]:
    if may_carry_graph(script, value, set()):
        yield value


def may_carry_graph(script: Script, value: ast.expr, seen: set[Definition]) -> bool:
    """Whether an expression of a function may have a graph that does not stem from what the function is given; also
    where that is not known. `seen` are the bindings that were looked at."""
    if script.values(value).kinds <= _WITHOUT_GRAPH:
        return False
    match value:
        case ast.Constant() | ast.Compare() | ast.JoinedStr() | ast.Lambda() | ast.UnaryOp(op=ast.Not()):
            return False
        case ast.Name():
            for definition in script.definitions(value):
                if definition in seen or definition.how == "param":
                    continue
                seen.add(definition)
                if definition.value is None or may_carry_graph(script, definition.value, seen):
                    return True
                if definition.how == "aug" and _may_have_carried(script, definition, seen):
                    return True
            return False
        case ast.Attribute(value=owner, attr=name):
            if name in ENDING_ATTRIBUTES or script.qualname(value) is not None:
                return False
            given = isinstance(owner, ast.Name) and _is_given(script, owner) and owner.id != "self"
            return not given and not is_whole(script, value)
        case ast.Call(func=function):
            return _call_may_carry(script, value, function, seen)
        case ast.BinOp(left=left, right=right):
            return may_carry_graph(script, left, seen) or may_carry_graph(script, right, seen)
        case ast.Subscript(value=part):
            return not is_whole(script, value) and may_carry_graph(script, part, seen)
        case ast.UnaryOp(operand=part) | ast.Starred(value=part) | ast.Await(value=part):
            return may_carry_graph(script, part, seen)
        case ast.NamedExpr(value=part) | ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
            return may_carry_graph(script, part, seen)
        case ast.DictComp(value=part):
            return may_carry_graph(script, part, seen)
        case ast.IfExp(body=body, orelse=orelse):
            return may_carry_graph(script, body, seen) or may_carry_graph(script, orelse, seen)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.BoolOp(values=parts):
            return any(may_carry_graph(script, each, seen) for each in parts)
        case ast.Dict(values=parts):
            return any(may_carry_graph(script, each, seen) for each in parts)
        case _:
            return True


def _may_have_carried(script: Script, added: Definition, seen: set[Definition]) -> bool:
    """Whether what is added to may have a graph."""
    before = [each for each in added.scope.definitions.get(added.name, ()) if each not in seen and each.how != "param"]
    seen.update(before)
    return any(each.value is None or may_carry_graph(script, each.value, seen) for each in before)


def _call_may_carry(script: Script, call: ast.Call, function: ast.expr, seen: set[Definition]) -> bool:
    name = script.qualname(function)
    arguments = given_values(call)
    made = script.values(call)
    if made and all(value.node is call and _is_made_plainly(value) for value in made):
        # An object that is made; what its constructor keeps, and its other methods, is asked for there.
        return any(may_carry_graph(script, each, seen) for each in arguments)
    if name is not None:
        if name in ENDING_FUNCTIONS or name.startswith((*ENDING_LIBRARIES, "numpy.")):
            return False
        return not keeps_nothing(name) or any(may_carry_graph(script, each, seen) for each in arguments)
    if isinstance(function, ast.Name) and not script.definitions(function):
        if function.id in ENDING_BUILTINS:
            return False
        return any(_is_object_itself(each) or may_carry_graph(script, each, seen) for each in arguments)
    if isinstance(function, ast.Attribute) and not script.callees(call):
        if function.attr in ENDING_METHODS:
            return False
        if script.kind(function) not in (Kind.MODULE, Kind.LOSS_FUNCTION):
            owner = function.value
            return _is_object_itself(owner) or any(may_carry_graph(script, each, seen) for each in (owner, *arguments))
    return True


def _is_made_plainly(value: Value) -> bool:
    """Whether nothing makes an object but its constructor: no decorator of its class, `__new__` or metaclass."""
    if value.cls is None or not is_plain_object(value) or any(True for _ in methods(value.cls, "__new__")):
        return False
    return not any(each.node.decorator_list or each.node.keywords for each in lineage(value.cls))


def _is_object_itself(expression: ast.expr) -> bool:
    """Whether an expression is `self` or `super()`, whose methods out of sight compute of what the object holds."""
    function = expression.func if isinstance(expression, ast.Call) else expression
    return isinstance(function, ast.Name) and function.id == ("self" if function is expression else "super")


def _is_given(script: Script, name: ast.Name) -> bool:
    definitions = script.definitions(name)
    return bool(definitions) and all(each.how == "param" for each in definitions)
