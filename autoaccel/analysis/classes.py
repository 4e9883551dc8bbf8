"""The classes of the project: their bases, what derives from them, and what their instances are."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import Answer, Incomplete
from autoaccel.dataflow.definitions import Definition, ElementPath
from autoaccel.dataflow.qualified_names import canonical
from autoaccel.dataflow.query import fixpoint, once
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models import library_values

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef, Value

Binding = tuple[ast.expr | Definition, ElementPath]


@dataclass(frozen=True, slots=True)
class ClassInfo:
    """What a project class is made of: resolved project bases, names of external bases, attribute bindings."""

    bases: tuple[ClassRef, ...]
    external_bases: tuple[str, ...]
    attributes: dict[str, list[Binding]]


_UNSEEN = "?"  # in the place of a base class that is not known
_UNKNOWN_CLASS = ClassInfo((), (_UNSEEN,), {})
_UNSEEN_CLASSES: Answer[ClassRef] = Answer(missing="classes that are not seen may derive from it")


@fixpoint(_UNKNOWN_CLASS, _UNKNOWN_CLASS)
def class_info(ref: ClassRef) -> ClassInfo:
    bases: list[ClassRef] = []
    names: list[str] = []
    for base in ref.node.bases:
        qualified = ref.script.qualname(base)
        if qualified is not None and not ref.script.is_project_name(base):
            names.append(qualified)
            continue
        for value in ref.script.inference.possible(base):
            if value.cls is not None:
                bases.extend([] if value.cls.node is ref.node else [value.cls])
            else:
                names.append(value.name or _UNSEEN)
    return ClassInfo(tuple(bases), tuple(names), _attributes(ref))


def lineage(ref: ClassRef) -> Iterator[ClassRef]:
    """A class and its project bases, in the order in which Python looks an attribute up."""
    return iter(_linearized(ref, frozenset()) if class_info(ref).bases else (ref,))


def _linearized(ref: ClassRef, below: frozenset[ast.ClassDef]) -> list[ClassRef]:
    """C3; where the bases agree on no order, as where one of several is meant, nearest first."""
    below |= {ref.node}
    bases = [each for each in class_info(ref).bases if each.node not in below]
    rows = [_linearized(each, below) for each in bases]
    if len(rows) < 2:
        return [ref, *(rows[0] if rows else ())]
    rows.append(bases)
    found = [ref]
    while rows := [row for row in rows if row]:
        later = {each.node for row in rows for each in row[1:]}
        head = next((row[0] for row in rows if row[0].node not in later), rows[0][0])
        found.append(head)
        rows = [[each for each in row if each.node is not head.node] for row in rows]
    return found


def methods(ref: ClassRef, *names: str) -> Iterator[tuple[Script, ast.FunctionDef]]:
    """The methods of a class and of its project bases, as Python looks them up; of these names, if any are given."""
    for each in lineage(ref):
        for part in each.node.body:
            if isinstance(part, ast.FunctionDef) and (not names or part.name in names):
                yield each.script, part


def has_in_body(ref: ClassRef, name: str) -> bool:
    """Whether the body of a class binds a name, as a method or an attribute of the class."""
    return any(isinstance(value, Definition) for value, _ in class_info(ref).attributes.get(name, ()))


def owner_name(file: Script, function: ast.AST) -> str | None:
    """What a method calls its own object."""
    if not isinstance(function, ast.FunctionDef) or not isinstance(file.parent(function), ast.ClassDef):
        return None
    return function.args.args[0].arg if function.args.args else None


def external_lineage(ref: ClassRef) -> Iterator[str]:
    """Qualified names of the external classes that a class derives from."""
    for each in lineage(ref):
        yield from class_info(each).external_bases


@fixpoint(Answer(), _UNSEEN_CLASSES)
def derived_classes(ref: ClassRef) -> Answer[ClassRef]:
    """The project classes that derive from one, over any number of others; none where there may be more."""
    found: dict[ClassRef, None] = {}
    pending = [ref]
    while pending:
        base = pending.pop()
        files, names = base.script.project.files_deriving(base.script, base.node.name)
        if files.missing is not None:
            return _UNSEEN_CLASSES
        for other in files:
            if _makes_classes(other, base.node.name):
                return _UNSEEN_CLASSES
            for cls in other.find(ast.ClassDef):
                bases = [each for each in cls.bases if _may_stand_for(other, each, names)]
                values = [value for each in bases for value in other.inference.possible(each)]
                unknown = any(
                    value.kind is Kind.UNKNOWN
                    or (value.kind is Kind.EXTERNAL and other.project.is_from_elsewhere(other, value.name or ""))
                    for value in values
                )
                if unknown and (_names(other, cls.bases, base.node.name) or _computes_base(other, cls)):
                    return _UNSEEN_CLASSES
                if any(value.cls is not None and value.cls.node is base.node for value in values):
                    each = other.class_ref(cls)
                    if each not in found and each is not ref:
                        found[each] = None
                        pending.append(each)
    return Answer(tuple(found))


def _may_stand_for(script: Script, expression: ast.expr, names: frozenset[str]) -> bool:
    """Whether an expression may be what goes by some names: an import of what its file defines as a class under
    another name, and binds by nothing else, is not. Told by the text of that file, which is not parsed."""
    if not isinstance(expression, ast.Name) or expression.id in names:
        return True
    definitions = script.definitions(expression)
    return not definitions or any(each.how != "import" or not _is_another_class(script, each) for each in definitions)


def _is_another_class(script: Script, definition: Definition) -> bool:
    located = script.project.locate(script, definition.target or "", definition.level)
    if located is None or len(located[1]) != 1:
        return False
    name, text = re.escape(located[1][0]), script.project.text(located[0]) or ""
    bound = rf"^[ \t]*{name}[ \t]*(?:[:=,)]|$)|\bas[ \t]+{name}\b|\bimport\b.*\b{name}\b|\bglobals\b"
    is_class = re.search(rf"^class[ \t]+{name}\b", text, re.MULTILINE) is not None
    return is_class and re.search(bound, text, re.MULTILINE) is None


def instance_kind(ref: ClassRef) -> Kind:
    """The kind of a project class's instances; unknown where it derives from a class that cannot be seen."""
    plain = True
    for name in external_lineage(ref):
        kind = library_values.class_kind(canonical(name))
        if kind == "MODULE" and ref.node.name.endswith(("Loss", "Criterion", "loss")):
            return Kind.LOSS_FUNCTION
        if kind is not None:
            return Kind[kind]
        plain = plain and library_values.is_known_class(name)
    return Kind.OBJECT if plain else Kind.UNKNOWN


def is_plain_object(value: Value) -> bool:
    """Whether an object is of a class of the project that has nothing of torch, whatever it derives from."""
    return (
        value.cls is not None
        and instance_kind(value.cls) is Kind.OBJECT
        and not any(name.startswith("torch.") for name in external_lineage(value.cls))
    )


@fixpoint(False, True)
def is_lent(ref: ClassRef, method: str) -> bool:
    """Whether a method may get an object of another class for its `self`: `Trainer.run(proxy)`."""
    try:
        if method not in _members_mentioned(ref):
            return False
        files = ref.script.project.with_word(ref.script, ref.node.name)
    except Incomplete:
        return True
    return any(
        _lends(other, part, ref)
        for other in files
        for part in other.syntax_index.mentions(method)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load)
    )


@once
def _members_mentioned(ref: ClassRef) -> frozenset[str]:
    """The names that are read of a class somewhere, as far as texts tell. Raises `Incomplete`."""
    name = ref.node.name  # what stands before it is looked at behind it: a plain word is searched for fastest
    mention = re.compile(rf"{name}(?<!\w{name})\s*\.\s*(\w+)")
    found = map(mention.findall, ref.script.project.texts_with_word(ref.script, name))
    return frozenset(itertools.chain.from_iterable(found))


def _lends(script: Script, part: ast.Attribute, ref: ClassRef) -> bool:
    """Whether `Trainer.run` gets an object that is none of the class."""
    owners = script.inference.possible(part.value)
    if not any(value.kind is Kind.CLASS and value.node is ref.node for value in owners):
        return False
    match script.parent(part):
        case ast.Call(func=function, args=[ast.expr() as first, *_]) if function is part:
            passed = script.inference.possible(first)
            return not all(
                value.cls is not None and any(each.node is ref.node for each in lineage(value.cls)) for value in passed
            )
        case _:
            return True


def _makes_classes(script: Script, name: str) -> bool:
    """Whether classes are made by `type("Fast", (Base,), {})` with a base of this name."""
    made = script.syntax_index.calls_named("type", "new_class", "make_dataclass")
    return any(_names(script, given_values(call), name) for call in made if len(call.args) > 1)


def _computes_base(script: Script, cls: ast.ClassDef) -> bool:
    """Whether a class derives from what a function or a container of the project gives: `class A(make(x))`."""
    sources = [
        each.func if isinstance(each, ast.Call) else each.value
        for each in cls.bases
        if isinstance(each, ast.Call | ast.Subscript)
    ]
    return any(script.qualname(each) is None or script.is_project_name(each) for each in sources)


def _names(script: Script, expressions: Iterable[ast.expr], name: str) -> bool:
    """Whether a name, or another one that an import gave it, stands in one of some expressions."""
    wanted = {name, *script.import_aliases((name,))}
    return any(last_name(part) in wanted for each in expressions for part in script.within(each, ast.AST))


def _attributes(ref: ClassRef) -> dict[str, list[Binding]]:
    """Bindings of a class's attributes: its body's names and `self.x = …` of its methods."""
    found: dict[str, list[Binding]] = {}
    scope = ref.script.reaching_definitions.scopes.get(ref.node)
    if scope is not None:
        for name, definitions in scope.definitions.items():
            found[name] = [(definition, ()) for definition in definitions]
    for method in ref.node.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) or not method.args.args:
            continue
        receiver = method.args.args[0].arg
        plain, annotated = ref.script.in_scope(method, ast.Assign), ref.script.in_scope(method, ast.AnnAssign)
        assignments: list[ast.Assign | ast.AnnAssign] = [*plain, *annotated]
        for part in sorted(assignments, key=lambda each: (each.lineno, each.col_offset)):
            if isinstance(part, ast.Assign):
                for target in part.targets:
                    _bind(target, part.value, (), receiver, found)
            elif part.value is not None:
                _bind(part.target, part.value, (), receiver, found)
    return found


def _bind(target: ast.expr, value: ast.expr, path: ElementPath, receiver: str, found: dict[str, list[Binding]]) -> None:
    match target:
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name == receiver:
            found.setdefault(attr, []).append((value, path))
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            if isinstance(value, ast.Tuple) and len(value.elts) == len(elements) and not path:
                for element, part in zip(elements, value.elts, strict=True):
                    _bind(element, part, (), receiver, found)
            else:
                for index, element in enumerate(elements):
                    _bind(element, value, (*path, index), receiver, found)
