"""Branches of constructors that no call takes: `if length is None: … else: self.loader = endless(loader)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.analysis.classes import derived_classes, lineage
from autoaccel.analysis.constant_arguments import SpecializedCall, is_made_otherwise
from autoaccel.dataflow.call_arguments import unpacks
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import last_name

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_CLASSES = (
    *("__class__", "__mro__", "mro", "__base__", "__bases__", "__subclasses__", "__defaults__", "__kwdefaults__"),
    *("__new__", "__code__"),
)
_MAKING = frozenset({"__new__", "__init_subclass__", "__class_getitem__", "__reduce__", "__getattribute__"})


@once
def is_never_run(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement of a constructor stands in a branch that no call of it takes: `if length is None: … else: …`,
    where all calls are seen, and none passes a length."""
    function = script.function(statement)
    if not isinstance(function, ast.FunctionDef) or function.name != "__init__" or function.decorator_list:
        return False
    if not any(isinstance(each, ast.If) and script.inside(each, function) for each in script.ancestors(statement)):
        return False
    cls = script.parent(function)
    callers = script.callers(function)
    if callers.missing is not None or any(unpacks(call) for _, call in callers):
        return False
    if not isinstance(cls, ast.ClassDef) or _may_be_made_otherwise(script, cls):
        return False
    calls = [SpecializedCall(other, call, script, function) for other, call in callers]
    for each in calls:
        each.enter(function.body)
    return bool(calls) and all(each.leaves_out(script, statement) for each in calls)


def _may_be_made_otherwise(script: Script, cls: ast.ClassDef) -> bool:
    """Whether objects of a class, or of one that derives from it, may be made, or made anew, by what are no calls of
    its name: by their own class, by methods of classes, by another base, by hooks."""
    ref = script.class_ref(cls)
    deriving, files = derived_classes(ref), script.project.files_naming(script, None, attribute=True)
    classes = (*lineage(ref), *deriving)
    if deriving.missing is not None or files.missing is not None:
        return True
    if any(len(each.node.bases) > 1 or each.node.decorator_list or is_made_otherwise(each) for each in classes):
        return True
    methods = [each for owner in classes for each in owner.node.body if isinstance(each, ast.FunctionDef)]
    if any(each.name in _MAKING for each in methods) or any(_names_class(other) for other in files):
        return True
    return any(last_name(mark) == "classmethod" for each in methods for mark in each.decorator_list)


def _names_class(script: Script) -> bool:
    """Whether a file calls constructors of objects that are there, or reaches the classes of objects."""
    for mention in script.syntax_index.mentions(*_CLASSES):
        if last_name(script.parent(mention) or mention) not in ("__name__", "__qualname__"):
            return True
    for mention in script.syntax_index.mentions("__init__"):
        match mention:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))) if script.call_of(mention):
                if getattr(script.function(mention), "name", None) != "__init__":
                    return True
            case ast.Attribute(value=owner) if script.is_project_name(owner) or script.qualname(owner) is None:
                return True
    if any(each.value == "__init__" for each in script.find(ast.Constant)):
        return True
    looked_at = (ast.Compare, ast.Attribute, ast.FormattedValue)
    asked = (each for each in script.syntax_index.calls_named("type") if len(each.args) == 1)
    return any(not isinstance(script.parent(each), looked_at) for each in asked)
