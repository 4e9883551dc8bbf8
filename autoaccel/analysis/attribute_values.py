"""What attributes may be: those of project classes, of modules, and of values of libraries."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.analysis import attributes, namespaces
from autoaccel.analysis.attributes import Stored
from autoaccel.analysis.classes import class_info, has_in_body, lineage
from autoaccel.analysis.constructor_branches import is_never_run
from autoaccel.analysis.parameter_values import used_as
from autoaccel.analysis.rebound_names import rebound_names
from autoaccel.dataflow.abstract_values import (
    ANY,
    BOUND,
    NOTHING,
    ClassRef,
    Kind,
    Value,
    Values,
    arithmetic,
    made,
    union,
)
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import fixpoint
from autoaccel.dataflow.value_parts import element, part
from autoaccel.library_models import member_values

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script


def members(script: Script, owner: ast.expr, name: str, node: ast.expr) -> Values:
    """`owner.name`, which `node` reads."""
    return union(member(script, each, name, node) for each in having(script.inference.possible(owner), name))


def member(script: Script, owner: Value, name: str, node: ast.expr) -> Values:
    """An attribute of one value."""
    if owner.kind is Kind.OBJECT and owner.how == "module" and owner.script is not None:
        return of_module(owner.script, name)
    if owner.cls is not None:
        own = attribute_of(owner.cls, name, instance=owner.kind is not Kind.CLASS)
        if own is not None:
            return own
    return member_values.attribute(owner, name, node, script)


def of_module(module: Script, name: str) -> Values:
    """An attribute of a module: what it binds the name to, or the module of a package that has the name."""
    inner = None if _binds(module, name) else module.project.submodule(module, name)
    return module.inference.exported(name) if inner is None else made(Kind.OBJECT, inner.tree, inner, how="module")


def _binds(module: Script, name: str) -> bool:
    names = module.module_scope.definitions
    bound = name in names or "__getattr__" in names or name in rebound_names(module)
    return bound or module.project.star_import(module, name) is not None


def having(owners: Values, name: str) -> Values:
    """Of several objects those whose attribute may be read: of a module that surely lacks it, reading it raises."""
    if len(owners) < 2 or namespaces.is_dunder(name):
        return owners
    return Values(each for each in owners if not _lacks(each, name)) or owners


def _lacks(owner: Value, name: str) -> bool:
    module = owner.script if owner.kind is Kind.OBJECT and owner.how == "module" else None
    if module is None or _binds(module, name) or module.project.submodule(module, name) is not None:
        return False
    return namespaces.names(module) is not None


def attribute_of(ref: ClassRef, name: str, *, instance: bool = True) -> Values | None:
    """`self.name` of a project class: everything that its methods, its bases and its class body assign to it; None
    where they assign nothing."""
    return _own_attribute(ref, name, instance)


@fixpoint(NOTHING, ANY)
def _own_attribute(ref: ClassRef, name: str, instance: bool) -> Values | None:
    info = class_info(ref)
    body = [value for value, _ in info.attributes.get(name, ()) if isinstance(value, Definition)]
    method = any(each.how == "def" for each in body)
    # Options that are put into a namespace may take the place of methods; nobody gives them twice.
    stores = [each for each in attributes.stores(ref, name) if method or each.how != "namespace"]
    if len(stores) > 1:
        stores = [each for each in stores if not _is_never_run(each)]
    if not body and not stores:
        several = len(info.bases) > 1
        for base in [*lineage(ref)][1:] if several else info.bases:
            if several and not _has_own(base, name):
                continue
            inherited = attribute_of(base, name, instance=instance)
            if inherited is not None:
                return inherited
        return None
    added = [each for each in stores if each.how == "add"]
    found = union(map(ref.script.inference.definition, body))
    if instance:
        found = _bound(found)
    for each in stores:
        if each not in added:
            stored = stored_values(each)
            if instance and any(value.kind is Kind.FUNCTION for value in stored):
                of_class = each.of_class
                stored = stored if of_class is False else _bound(stored) if of_class else _bound(stored) | ANY
            found |= stored
    for each in added:
        assert each.value is not None
        found |= arithmetic(found, stored_values(each), each.value, each.script)
    if found and all(value.kind in (Kind.UNKNOWN, Kind.NONE) for value in found):
        found = _by_use(ref, name) or found
    return found


def _is_never_run(stored: Stored) -> bool:
    receiver = stored.receiver
    return receiver is not None and is_never_run(stored.script, stored.script.statement(receiver))


def _has_own(ref: ClassRef, name: str) -> bool:
    """Whether a class itself, and not a base of it, has an attribute."""
    return has_in_body(ref, name) or any(attributes.stores(ref, name))


def _by_use(ref: ClassRef, name: str) -> Values:
    """What the uses of `self.name` in all methods of the class prove."""
    script = ref.script
    attributes = script.within(ref.node, ast.Attribute)
    reads = [each for each in attributes if each.attr == name and isinstance(each.value, ast.Name)]
    kind = used_as(script, name, reads)
    if kind is None:
        return NOTHING
    first = next(iter(script.syntax_index.by_depth(reads)), None)
    return made(kind, first, script)


def stored_values(stored: Stored) -> Values:
    """What a store to an attribute stores."""
    if stored.value is None:
        return ANY
    value = stored.script.inference.possible(stored.value)
    return part(element(value, stored.value, stored.script) if stored.how == "for" else value, stored.path)


def _bound(values: Values) -> Values:
    """These values as an instance has them whose class has them: functions are methods."""
    if all(value.kind is not Kind.FUNCTION for value in values):
        return values
    return Values(value._replace(path=BOUND) if value.kind is Kind.FUNCTION else value for value in values)
