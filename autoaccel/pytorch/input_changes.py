"""Where a program changes what the batches of a loader are made from, and reads what making them changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import class_info, lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.pytorch import datasets
from autoaccel.pytorch.changing_calls import (
    CHANGING_METHODS,
    UNCHANGED,
    bound_methods,
    changed_by_library,
    changes_object,
    changes_owner,
    drawn_from,
    held_methods,
    is_library,
    is_unknown,
    is_unseen,
    makes_anew,
    possible_changes,
    writes,
)
from autoaccel.pytorch.loader_inputs import IMMUTABLE, LoaderInputs
from autoaccel.pytorch.unseen_modules import calls_of_unseen_modules

_CONTAINERS = frozenset({Kind.SEQUENCE, Kind.MAPPING, Kind.ARRAY})


def changes(inputs: LoaderInputs, scripts: tuple[Script, ...]) -> Iterator[ScriptNode]:
    """Statements and expressions that change one of these inputs."""
    for file in scripts:
        for node in possible_changes(file):
            if _is_change(inputs, file, node) or (isinstance(node, ast.Call) and _may_change(inputs, file, node)):
                yield file, node
        for owner, node in bound_methods(file):
            if inputs.touched(file, owner):
                yield file, node
        for owner, call in held_methods(file):
            if call is not None and inputs.touched(file, owner):
                yield file, call
    yield from _changed_by_unseen_modules(inputs, scripts)
    for (scope, name), file in inputs.names.items():
        for each in file.reaching_definitions.scopes[scope].definitions.get(name, ()):
            if each.how not in ("import", "def", "class", "param"):
                yield file, each.node


def _changed_by_unseen_modules(inputs: LoaderInputs, scripts: tuple[Script, ...]) -> Iterator[ScriptNode]:
    """The calls of modules that are not seen which samples call, too, or which were handed one of the inputs: they may
    keep it, and change it or what they give later."""
    calls = [(file, call, module) for file in scripts for call, module in calls_of_unseen_modules(file)]
    known = {
        module
        for file, call, module in calls
        if file.function(call) in inputs.code or any(inputs.touched(file, each) for each in given_values(call))
    }
    for file, call, module in calls:
        if module in known and file.function(call) not in inputs.code:
            yield file, call


def own_changes(inputs: LoaderInputs) -> Iterator[ScriptNode]:
    """Where the code that makes batches changes what they are made from itself, but for files that it opens late.

    What it only hands to code that is not seen (`cv2.imread(self.paths[i])`) is taken to be read there. Generators that
    it draws from are another question (`LoaderState.generator_reads`).
    """
    for file in dict.fromkeys((*inputs.code.values(), *inputs.possible_code.values())):
        for node in possible_changes(file):
            if not inputs.may_make_batches(file, node) or datasets.opens(file, node) or datasets.fills_new(file, node):
                continue
            if _only_draws(file, node):
                continue
            if _is_change(inputs, file, node):
                yield file, node
    for function, file in inputs.code.items():
        for kind in (ast.Global, ast.Nonlocal):
            yield from ((file, each) for each in file.within(function, kind))


def _only_draws(file: Script, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and bool(drawn_from(file, node)) and not changed_by_library(file, node)


def _is_change(inputs: LoaderInputs, file: Script, node: ast.AST) -> bool:
    """Whether a statement or an expression changes one of these inputs, as far as that is written there."""
    match node:
        case ast.AugAssign(target=ast.Name() as target):
            return inputs.extends(file, target)
        case ast.Call():
            return _changes_by_call(inputs, file, node)
        case ast.Attribute() if _is_added_to(file, node) and inputs.touched(file, node):
            return True  # `self.bank *= 0.9`, of a view of what the dataset holds
        case ast.Attribute(value=owner, attr=attr) if inputs.includes(file, owner):
            return inputs.reads(file, owner, attr)
        case ast.Attribute(value=owner, attr=attr) if inputs.is_own(file, owner, attr):
            return True
        case ast.Subscript(value=owner) if _is_element_added_to(file, node):
            return inputs.touched(file, owner) or inputs.touched(file, node)  # `sample["image"] -= mean`
        case ast.Attribute(value=owner) | ast.Subscript(value=owner):
            return inputs.touched(file, owner)
        case _:
            return False


def _is_added_to(file: Script, attribute: ast.Attribute) -> bool:
    """Whether what an attribute holds may be changed in place by `x.a += …`: no number, which is bound anew."""
    return isinstance(file.parent(attribute), ast.AugAssign) and not file.values(attribute).kinds <= IMMUTABLE


def _is_element_added_to(file: Script, element: ast.Subscript) -> bool:
    """Whether an element of a dict or list may be changed in place by `x["a"] += …`."""
    if not isinstance(file.parent(element), ast.AugAssign):
        return False
    named = isinstance(element.slice, ast.Constant) and isinstance(element.slice.value, str)
    return named or bool(file.values(element.value).kinds & {Kind.SEQUENCE, Kind.MAPPING})


def readings(inputs: LoaderInputs, scripts: tuple[Script, ...]) -> Iterator[ScriptNode]:
    written = {
        target.attr
        for function, file in inputs.code.items()
        for target in file.within(function, ast.Attribute)
        if _is_written(file, target) and not makes_anew(file, target)
    }
    for file in scripts if written else ():
        for attribute in file.find(ast.Attribute):
            if attribute.attr in written and isinstance(attribute.ctx, ast.Load):
                if file.function(attribute) not in inputs.code and inputs.includes(file, attribute.value):
                    yield file, attribute
    for (scope, name), file in inputs.names.items():
        mentions = [each for each in file.syntax_index.mentions(name) if isinstance(each, ast.Name)]
        reads = [each for each in mentions if any(made.scope.node is scope for made in file.definitions(each))]
        if any(file.function(each) in inputs.code and _changes_name(file, each) for each in reads):
            yield from ((file, each) for each in reads if _is_read_outside(inputs, file, each))


def _changes_name(file: Script, name: ast.Name) -> bool:
    """`seen[i] += 1`, `seen.append(i)`"""
    match file.parent(name):
        case ast.Subscript(ctx=ast.Store() | ast.Del()):
            return True
        case ast.Attribute(attr=attr) as method if attr in CHANGING_METHODS:
            return changes_object(file, method) and file.call_of(method) is not None
        case _:
            return False


def _is_read_outside(inputs: LoaderInputs, file: Script, name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load) and file.function(name) not in inputs.code and not _changes_name(file, name)


def _is_written(file: Script, attribute: ast.Attribute) -> bool:
    """`self.task = …`, `self.seen[i] = …`, `self.seen.append(…)`, `self.seen.add_(1)`."""
    if not isinstance(attribute.ctx, ast.Load):
        return True
    match file.parent(attribute):
        case ast.Subscript(ctx=ast.Store() | ast.Del()):
            return True
        case ast.Attribute(attr=attr) as method if attr in CHANGING_METHODS or file.call_of(method) is not None:
            return changes_object(file, method)
        case _:
            return False


def _named_before(file: Script, expression: ast.expr) -> list[tuple[Script, ast.expr]]:
    """An object under the names that it has here and where it comes from, through arguments and `a = b`."""
    found = [(file, expression)]
    for where, each in found:
        for bound in where.definitions(each) if isinstance(each, ast.Name) else ():
            if bound.how == "param":
                given = list(arguments_for(where, bound.scope.node, bound.name))
            else:
                given = [(where, bound.value)] if bound.value is not None and not bound.path else []
            found.extend(place for place in given if place not in found)
    return found


def _changes_by_call(inputs: LoaderInputs, file: Script, call: ast.Call) -> bool:
    """Whether a call changes an input by itself; what the project's own functions do is seen there."""
    drawn = drawn_from(file, call)
    if drawn and not file.callees(call):
        for each in drawn:
            if any(inputs.touched(other, name) for other, name in _named_before(file, each)):
                return True
    if is_library(file, call):
        match call.args:
            case [owner, ast.Constant(value=str() as attr), *_] if inputs.is_own(file, owner, attr):
                return getattr(call.func, "id", "") in ("setattr", "delattr")
        return any(inputs.touched(file, each) for each in changed_by_library(file, call))
    if writes(file, call):
        return inputs.touched(file, call.args[0])
    if not isinstance(call.func, ast.Attribute) or not changes_object(file, call.func):
        return False
    method, owner = call.func.attr, call.func.value
    if file.values(owner).kinds <= UNCHANGED or not _is_input(inputs, file, owner) or file.callees(call):
        return False
    return not _is_held(file, owner, method) and not _gives_picture(file, owner, method)


def _may_change(inputs: LoaderInputs, file: Script, call: ast.Call) -> bool:
    """Whether a call may change an input out of sight: one that it is handed, or that has such a method."""
    if is_library(file, call):
        return is_unseen(file, call) and any(inputs.touched(file, each) for each in given_values(call))
    if writes(file, call):
        return False
    if is_unknown(file, call):
        given = given_values(call)
        if any(isinstance(each, ast.Name | ast.Attribute) and inputs.touched(file, each) for each in given):
            return True
    if not isinstance(call.func, ast.Attribute) or changes_owner(call.func.attr):
        return False
    method, owner = call.func.attr, call.func.value
    if file.values(owner).kinds <= UNCHANGED | _CONTAINERS | {Kind.TENSOR, Kind.PARAMETER}:
        return False
    if method in inputs.methods or not _is_input(inputs, file, owner) or file.callees(call):
        return False  # of a class in sight: its own changes are found where they are written
    return not _is_held(file, owner, method)


def _gives_picture(file: Script, owner: ast.expr, method: str) -> bool:
    """`Image.fromarray(row).resize(size)`: a picture of the array, whose methods of these names give other pictures."""
    bound = file.definitions(owner) if isinstance(owner, ast.Name) else ()
    made = [None if each.path or each.how != "assign" else each.value for each in bound] or [owner]
    return method in ("resize", "rotate") and all(
        isinstance(each, ast.Call) and (file.qualname(each.func) or "").startswith("PIL.Image.") for each in made
    )


def _is_input(inputs: LoaderInputs, file: Script, owner: ast.expr) -> bool:
    """Whether a method changes one of these inputs, and no generator that is made for this call alone."""
    return inputs.touched(file, owner) and not datasets.is_drawn_where_made(file, owner)


def _is_held(file: Script, owner: ast.expr, method: str) -> bool:
    """Whether an object holds something under a name, which a call only calls: `self.transform(x)`."""
    return any(
        isinstance(binding, ast.expr)
        for value in file.values(owner)
        for each in (lineage(value.cls) if value.cls is not None else ())
        for binding, _ in class_info(each).attributes.get(method, ())
    )
