"""The texts that a path may be, as far as they are written: what it begins with, what it ends with, or all of it.

Followed through names, attributes, arguments, formatted text, `os.path.join`, `/` of paths, and lists of files that
`glob` makes. What is not known may be any text.
"""

from __future__ import annotations

import ast
import posixpath
import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import class_info, lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.call_arguments import unpacks
from autoaccel.dataflow.definitions import Definition, ElementPath
from autoaccel.dataflow.query import fixpoint
from autoaccel.dataflow.syntax_index import last_name

_JOINS = frozenset(f"pathlib.{name}" for name in "Path PurePath PosixPath PurePosixPath".split()) | {"os.path.join"}
_SAME = frozenset(
    """os.path.abspath os.path.realpath os.path.normpath os.path.expanduser os.fspath str open autoaccel.runtime.path
    autoaccel_runtime.path""".split()
)
_SAME_METHODS = frozenset("resolve absolute expanduser as_posix open".split())
_LISTS = frozenset("sorted list tuple reversed set iter".split())
_CONVERSION = re.compile(r"%(?:(%)|(\(\w*\))?[-+ #0]*[\d*]*(?:\.[\d*]+)?([a-zA-Z]))")
_MOST = 16  # texts for one path; more are any


@dataclass(frozen=True, slots=True)
class PathText:
    """A text: whole, or with something unknown between its head and its tail."""

    head: str
    tail: str
    whole: bool = False

    def __add__(self, other: PathText) -> PathText:
        if self.whole and other.whole:
            return whole(self.head + other.head)
        head = self.head + other.head if self.whole else self.head
        return PathText(head, self.tail + other.tail if other.whole else other.tail)

    def may_be(self, other: PathText) -> bool:
        """Whether both may name one file."""
        one, two = _plain(self), _plain(other)
        alike = one.head.startswith("/") is two.head.startswith("/")
        if alike and one.whole and two.whole:
            return one.head == two.head
        if not alike:  # the working directory decides how the relative one begins
            one, two = (each if each.head.startswith("/") else _anywhere(each) for each in (one, two))
        return _agree(one, two, one.head, two.head) and _agree(one, two, one.tail[::-1], two.tail[::-1])


def whole(text: str) -> PathText:
    """A text of which nothing is unknown."""
    return PathText(text, text, whole=True)


ANYTHING = PathText("", "")
Texts = tuple[PathText, ...]
_UNKNOWN: Texts = (ANYTHING,)


def _plain(path: PathText) -> PathText:
    """A path without `./` and `//`; what comes before `..` says nothing, and what is not known may be `.`."""
    if path.whole:
        return whole(posixpath.normpath(path.head))
    head, tail = (re.sub(r"(?<![^/])(?:\./+)+|(?<=/)/+", "", text) for text in (path.head, path.tail))
    if re.search(r"(?:^|/)\.\.(?:/|$)", tail):
        return PathText("", re.split(r"(?:^|/)\.\.(?:/|$)", tail)[-1])
    head = "" if re.search(r"[^./]/+\.\.", head) else head
    return PathText(head, tail if head else tail.lstrip("/"))


def _anywhere(path: PathText) -> PathText:
    """A relative path in some folder."""
    known = path.tail if not path.whole else re.sub(r"^(?:\.\./)*", "", path.head)
    return PathText("", "" if known in (".", "..") else known)


def _agree(first: PathText, second: PathText, one: str, two: str) -> bool:
    """Whether two beginnings may be those of one text."""
    if (first.whole and len(one) < len(two)) or (second.whole and len(two) < len(one)):
        return False
    return one.startswith(two) or two.startswith(one)


def inside(folder: PathText) -> PathText:
    """What lies in a folder, however deep."""
    return folder + whole("/") + ANYTHING


@fixpoint((), _UNKNOWN)
def path_texts(script: Script, expression: ast.expr, of_elements: bool = False) -> Texts:
    """The texts that an expression may be, or those that the elements of a collection may be."""
    return _few(_elements(script, expression) if of_elements else _texts(script, expression))


def _few(found: Iterator[PathText] | Sequence[PathText]) -> Texts:
    texts = tuple(dict.fromkeys(found))
    return _UNKNOWN if len(texts) > _MOST or ANYTHING in texts else texts


def _texts(script: Script, expression: ast.expr) -> Iterator[PathText]:
    match expression:
        case ast.Constant(value=str() as text):
            yield whole(text)
        case ast.JoinedStr(values=parts):
            yield from _joined("", [path_texts(script, part) for part in parts])
        case ast.FormattedValue(value=value, format_spec=None) | ast.NamedExpr(value=value):
            yield from path_texts(script, value)
        case ast.IfExp(body=one, orelse=other):
            yield from (*path_texts(script, one), *path_texts(script, other))
        case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Mod(), right=right):
            yield from _joined("", [*_percent(script, text, right.elts if isinstance(right, ast.Tuple) else [right])])
        case ast.BinOp(left=left, op=ast.Add() | ast.Div() as op, right=right):
            between = "/" if isinstance(op, ast.Div) else ""
            yield from _joined(between, [path_texts(script, left), path_texts(script, right)])
        case ast.Subscript(value=collection):
            yield from path_texts(script, collection, of_elements=True)
        case ast.Call():
            yield from _called(script, expression)
        case ast.Name() | ast.Attribute():
            yield from _bound(script, expression, of_elements=False)
        case _:
            yield ANYTHING


def _elements(script: Script, expression: ast.expr) -> Iterator[PathText]:
    match expression:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            yield from (text for each in elements for text in path_texts(script, each))
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
            yield from path_texts(script, element)
        case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, op=ast.Add(), right=other):
            yield from (text for each in (one, other) for text in path_texts(script, each, of_elements=True))
        case ast.Subscript(value=collection, slice=ast.Slice()):
            yield from path_texts(script, collection, of_elements=True)
        case ast.Call():
            yield from _listed(script, expression)
        case ast.Name() | ast.Attribute():
            yield from (*_bound(script, expression, of_elements=True), *_added(script, expression))
        case _:
            yield ANYTHING


def _called(script: Script, call: ast.Call) -> Iterator[PathText]:
    """The texts that a call gives."""
    name = script.qualname(call.func) or (call.func.id if isinstance(call.func, ast.Name) else "")
    if unpacks(call):
        yield ANYTHING
    elif name in _JOINS:
        yield from _joined("/", [path_texts(script, each) for each in call.args])
    elif name in _SAME and call.args:
        yield from path_texts(script, call.args[0])
    elif name or not isinstance(call.func, ast.Attribute):
        yield from _returned(script, call)
    else:
        match call.func:
            case ast.Attribute(attr="joinpath", value=owner):
                yield from _joined("/", [path_texts(script, each) for each in (owner, *call.args)])
            case ast.Attribute(attr="format", value=ast.Constant(value=str() as text)):
                yield from _joined("", [*_braces(script, text, call.args)])
            case ast.Attribute(attr=method, value=owner) if method in _SAME_METHODS:
                yield from path_texts(script, owner)
            case _:
                yield from _returned(script, call)


def _returned(script: Script, call: ast.Call) -> Texts:
    callees = script.callees(call)
    given = [(file, each.value) for file, callee in callees for each in file.in_scope(callee, ast.Return)]
    found = [text for file, value in given if value is not None for text in path_texts(file, value)]
    return _few(found) if found else _UNKNOWN


def _listed(script: Script, call: ast.Call) -> Texts:
    """The texts that are the elements of what a call gives."""
    name = script.qualname(call.func) or (call.func.id if isinstance(call.func, ast.Name) else "")
    match call:
        case ast.Call(args=[pattern, *_]) if name in ("glob.glob", "glob.iglob"):
            return tuple(_matching(each) for each in path_texts(script, pattern))
        case ast.Call(func=ast.Attribute(attr="glob" | "rglob", value=owner), args=[pattern]) if not name:
            found = _joined("/", [path_texts(script, owner), _UNKNOWN, path_texts(script, pattern)])
            return tuple(_matching(each) for each in found)
        case ast.Call(func=ast.Attribute(attr="iterdir", value=owner)) if not name:
            return tuple(inside(each) for each in path_texts(script, owner))
        case ast.Call(args=[collection, *_]) if name in _LISTS:
            return path_texts(script, collection, of_elements=True)
        case _:
            return _UNKNOWN


def _matching(pattern: PathText) -> PathText:
    """What matches a pattern of `glob`."""
    head, tail = re.split(r"[*?\[]", pattern.head)[0], re.split(r"[*?\]]", pattern.tail)[-1]
    return pattern if pattern.whole and head == pattern.head else PathText(head, tail)


def _percent(script: Script, text: str, given: Sequence[ast.expr]) -> Iterator[Texts]:
    """`"%s/%d.png" % (folder, number)`"""
    values, end = iter(given), 0
    for each in _CONVERSION.finditer(text):
        yield (whole(text[end : each.start()]),)
        end = each.end()
        value = None if each[1] or each[2] else next(values, None)
        if each[1]:
            yield (whole("%"),)
        else:
            yield path_texts(script, value) if value is not None and each[3] == "s" else _UNKNOWN
    yield (whole(text[end:]),)


def _braces(script: Script, text: str, given: Sequence[ast.expr]) -> Iterator[Texts]:
    """`"{}/{}.png".format(folder, number)`"""
    values = iter(given)
    try:
        for literal, field, spec, _ in string.Formatter().parse(text):
            yield (whole(literal),)
            if field is not None:
                value = None if field or spec else next(values, None)
                yield path_texts(script, value) if value is not None else _UNKNOWN
    except ValueError:
        yield _UNKNOWN


def _joined(between: str, parts: Sequence[Texts]) -> Texts:
    """Texts one behind the other; of joined paths, one that begins at the root takes the place of those before it."""

    def both(first: Texts, second: Texts) -> Texts:
        from_root = [each for each in second if between and each.head.startswith("/")]
        rest = [each for each in second if each not in from_root]
        return _few([*from_root, *(one + whole(between) + two for one in first for two in rest)])

    return reduce(both, parts) if parts else _UNKNOWN


def _bound(script: Script, expression: ast.Name | ast.Attribute, *, of_elements: bool) -> Iterator[PathText]:
    """What a name or an attribute was bound to."""
    bindings: list[tuple[Script, ast.expr | Definition, ElementPath]]
    if isinstance(expression, ast.Name):
        bindings = [(script, each, ()) for each in script.definitions(expression)]
    else:
        bindings = [
            (ref.script, *each)
            for owner in script.values(expression.value)
            for ref in (lineage(owner.cls) if owner.cls is not None else ())
            for each in class_info(ref).attributes.get(expression.attr, ())
        ]
    if not bindings:
        yield ANYTHING
    for file, binding, path in bindings:
        if path:
            yield ANYTHING
        elif isinstance(binding, ast.expr):
            yield from path_texts(file, binding, of_elements)
        else:
            yield from _of(file, binding, of_elements=of_elements)


def _of(script: Script, made: Definition, *, of_elements: bool) -> Iterator[PathText]:
    match made.how:
        case "param":
            if made.value is not None:
                yield from path_texts(script, made.value, of_elements)
            for where, each in arguments_for(script, made.scope.node, made.name):
                yield from path_texts(where, each, of_elements)
            if script.callers(made.scope.node).missing is not None:
                yield ANYTHING
        case "assign" | "walrus" | "with" | "global" if made.value is not None and not made.path:
            yield from path_texts(script, made.value, of_elements)
        case "for" if made.value is not None and not made.path and not of_elements:
            yield from path_texts(script, made.value, of_elements=True)
        case _:
            yield ANYTHING


def _added(script: Script, collection: ast.Name | ast.Attribute) -> Iterator[PathText]:
    """What is put into a collection of this name: `files.append(path)`, `self.files += glob(…)`."""
    name = last_name(collection)
    for call in script.syntax_index.calls_named("append", "add", "extend", "update", "insert"):
        if isinstance(call.func, ast.Attribute) and last_name(call.func.value) == name and call.args:
            yield from path_texts(script, call.args[-1], call.func.attr in ("extend", "update"))
    for statement in script.find(ast.AugAssign):
        if last_name(statement.target) == name:
            yield from path_texts(script, statement.value, of_elements=True)
