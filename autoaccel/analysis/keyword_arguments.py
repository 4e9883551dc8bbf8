"""Mappings that are unpacked into calls: which keys they may have, and which values they surely have."""

from __future__ import annotations

import ast
import itertools

from autoaccel.analysis import attributes, name_lookups
from autoaccel.analysis.call_sites import arguments_for, may_be_left_out
from autoaccel.analysis.classes import derived_classes, has_in_body, lineage
from autoaccel.analysis.rebound_names import rebound_names
from autoaccel.analysis.script import Script
from autoaccel.dataflow.bounds import MAPPINGS
from autoaccel.dataflow.call_arguments import unpacks
from autoaccel.dataflow.definitions import Definition


def mapping_items(script: Script, expression: ast.expr) -> dict[str, ast.expr] | None:
    """The keys and values of a mapping that is written down once and never changed; None for any other."""
    match expression:
        case ast.Dict(keys=keys, values=values):
            names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            return dict(zip(names, values, strict=True)) if len(names) == len(values) else None
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            found = {keyword.arg: keyword.value for keyword in keywords if keyword.arg is not None}
            return found if len(found) == len(keywords) else None
        case ast.Name():
            definitions = script.definitions(expression)
            if len(definitions) != 1 or definitions[0].how != "assign" or definitions[0].path:
                return None
            value = definitions[0].value
            if _bound_from_outside(script, definitions[0]):
                return None
            if isinstance(value, ast.Name) or value is None or not _has_one_name(script, value):
                return None
            return mapping_items(script, value) if _only_read(script, definitions[0]) else None
        case ast.Attribute():
            stored = _stored_once(script, expression)
            return None if stored is None else mapping_items(script, stored)
        case _:
            return None


def _stored_once(script: Script, attribute: ast.Attribute) -> ast.Dict | ast.Call | None:
    """The mapping that `self.options` is: the only one that a class is given, in its own file, and that everybody only
    unpacks or reads items of; None for any other."""
    cls, name = attributes.own_class(script, attribute.value), attribute.attr
    if cls is None:
        return None
    ref = script.class_ref(cls)
    stores = [*itertools.islice(attributes.stores(ref, name), 2)]
    if len(stores) != 1 or stores[0].script is not script or stores[0].path or stores[0].how != "assign":
        return None
    value = stores[0].value
    derived = derived_classes(ref)
    files = script.project.files_naming(script, name, attribute=True)
    if not isinstance(value, ast.Dict | ast.Call) or derived.missing is not None or files.missing is not None:
        return None
    if not _has_one_name(script, value) or any(name_lookups.reads_member(file, ref, name) for file in files):
        return None
    if any(has_in_body(each, name) for each in (*lineage(ref), *derived)):
        return None
    if any(name in pattern.kwd_attrs for file in files for pattern in file.find(ast.MatchClass)):
        return None
    reads = [(file, each) for file in files for each in file.syntax_index.mentions(name)]
    return value if all(_is_read(file, each) for file, each in reads if _is_loaded_attribute(each)) else None


def _has_one_name(script: Script, value: ast.expr) -> bool:
    """Whether an assignment binds its value to one target alone: not `options = self.options = {…}`."""
    match script.parent(value):
        case ast.Assign(targets=targets):
            return len(targets) == 1
        case ast.AnnAssign():
            return True
        case _:
            return False


def _is_loaded_attribute(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)


def _is_read(script: Script, mapping: ast.expr) -> bool:
    """Whether a mapping is unpacked into a call here, or one of its items read."""
    match script.parent(mapping):
        case ast.keyword(arg=None) | ast.Subscript(ctx=ast.Load()):
            return True
        case _:
            return False


def _bound_from_outside(script: Script, definition: Definition) -> bool:
    """Whether another file may bind the name to something else: `config.OPTIONS = {…}`."""
    return definition.scope.parent is None and definition.name in rebound_names(script)


def _only_read(script: Script, definition: Definition) -> bool:
    return all(_is_read(script, use) for use in script.uses(definition))


def mapping_keys(script: Script, expression: ast.expr, depth: int = MAPPINGS) -> frozenset[str] | None:
    """Every key that a mapping may have where it is unpacked; None when some are not known.

    Follows literals, `dict(…)`, conditional expressions, and what `update` and item assignment add to a name.
    """
    if depth == 0:
        return None
    match expression:
        case ast.Dict(keys=keys, values=values):
            found: set[str] = set()
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found.add(key.value)
                    continue
                inner = mapping_keys(script, value, depth - 1) if key is None else None
                if inner is None:
                    return None
                found |= inner
            return frozenset(found)
        case ast.IfExp(body=left, orelse=right) | ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _merged(mapping_keys(script, left, depth - 1), mapping_keys(script, right, depth - 1))
        case ast.Call(func=ast.Name(id="dict"), args=args, keywords=keywords):
            parts = [*args, *(keyword.value for keyword in keywords if keyword.arg is None)]
            merged: frozenset[str] | None = frozenset(keyword.arg for keyword in keywords if keyword.arg is not None)
            for part in parts:
                merged = _merged(merged, mapping_keys(script, part, depth - 1))
            return merged
        case ast.Name():
            return _named_keys(script, expression, depth)
        case _:
            return None


def _merged(left: frozenset[str] | None, right: frozenset[str] | None) -> frozenset[str] | None:
    return None if left is None or right is None else left | right


def _named_keys(script: Script, name: ast.Name, depth: int) -> frozenset[str] | None:
    definitions = script.definitions(name)
    found: frozenset[str] | None = frozenset() if definitions else None
    for definition in definitions:
        if _bound_from_outside(script, definition):
            return None
        if definition.how == "param":
            found = _merged(found, _passed_keys(script, definition, depth - 1))
        elif definition.how != "assign" or definition.path or definition.value is None:
            return None
        else:
            found = _merged(found, mapping_keys(script, definition.value, depth - 1))
        for use in script.uses(definition):
            found = _merged(found, _added_keys(script, use, depth))
    return found


def _added_keys(script: Script, use: ast.Name, depth: int) -> frozenset[str] | None:
    """What one use of a mapping's name may add to it."""
    parent = script.parent(use)
    match parent:
        case ast.keyword(arg=None):
            return frozenset()
        case ast.Subscript(ctx=ast.Store(), slice=ast.Constant(value=str() as key)):
            return frozenset({key})
        case ast.Dict():
            unpacked = any(key is None and value is use for key, value in zip(parent.keys, parent.values, strict=True))
            return frozenset() if unpacked else None  # as a value it is handed on
        case ast.Subscript(ctx=ast.Load()) | ast.FormattedValue() | ast.Compare() | ast.BinOp():
            return frozenset()
        case ast.Attribute(attr="update"):
            call = script.parent(parent)
            if not isinstance(call, ast.Call):
                return None
            keys: frozenset[str] | None = frozenset(keyword.arg for keyword in call.keywords if keyword.arg is not None)
            for part in (*call.args, *(keyword.value for keyword in call.keywords if keyword.arg is None)):
                keys = _merged(keys, mapping_keys(script, part, depth - 1))
            return keys
        case ast.Attribute(attr="get" | "items" | "keys" | "values" | "copy" | "pop"):
            return frozenset()
        case ast.Call(func=ast.Attribute(attr="update")) | ast.Call(func=ast.Name(id="print" | "dict" | "len")):
            return frozenset()
        case _:
            return None


def _passed_keys(script: Script, definition: Definition, depth: int) -> frozenset[str] | None:
    """What call sites put into a parameter that is a mapping, or collects keyword arguments."""
    function = definition.scope.node
    arguments = getattr(function, "args", None)
    if depth <= 0 or not isinstance(arguments, ast.arguments):
        return None
    calls = script.callers(function)
    if calls.missing is not None:
        return None
    if definition.node is not arguments.kwarg:
        passed = list(arguments_for(script, function, definition.name))
        given = [mapping_keys(other, expression, depth) for other, expression in passed]
        # some give nothing: it is the default then, or hidden behind `*` or `**`
        if may_be_left_out(script, function, definition.name):
            default = None if any(unpacks(call) for _, call in calls) else definition.value
            given.append(None if default is None else mapping_keys(script, default, depth))
        return frozenset().union(*(keys for keys in given if keys)) if given and None not in given else None
    names = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    found: frozenset[str] | None = frozenset() if calls else None
    for other, call in calls:
        for keyword in call.keywords:
            added = frozenset({keyword.arg}) if keyword.arg else mapping_keys(other, keyword.value, depth)
            found = _merged(found, added)
    return None if found is None else found - names
