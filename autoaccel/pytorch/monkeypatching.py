"""Functions of a library that are monkey-patched, in a script and in the files that share its objects.

A rule that writes one name of a library for another must know that both stand for what the library defines;
`introspection` says whether somebody tells apart the objects that they make.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache, lru_cache

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.qualified_names import canonical
from autoaccel.dataflow.query import once_all
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.pytorch.introspection import line_of, names_a_type

_SETTERS = frozenset({"setattr", "delattr", "patch", "object", "setitem", "dict"})
_READERS = frozenset({"hasattr", "getattr"})
_ONLY_READING = frozenset("getattr hasattr setattr dir vars print str repr type id isinstance".split())
_SETTINGS = re.compile(r"backends|config")
_METHODS = frozenset({"step", "zero_grad", "backward", "forward"})
_OF_TORCH = frozenset({Kind.OPTIMIZER, Kind.MODULE, Kind.LOSS_FUNCTION, Kind.TENSOR, Kind.SCALER})


def monkeypatched(script: Script, names: Collection[str]) -> str | None:
    """Why one of these functions may not be the library's own. Raises `Incomplete`."""
    modules = {name.rpartition(".")[0] for name in names}
    for last in sorted({name.rpartition(".")[2] for name in (*names, *modules)}):
        for other in script.project.with_word(script, last):
            found_at = next(_replacing(other, names, modules), None)
            if found_at is not None:
                return f"it may be replaced in {line_of(script, other, found_at)}"
    return None


def _replacing(script: Script, names: Collection[str], modules: Collection[str]) -> Iterator[ast.expr]:
    """Where a function is bound to something else, or its module is handed to who knows whom."""
    lasts = {name.rpartition(".")[2] for name in names}
    spelled = script.syntax_index.mentions(*sorted(lasts))
    attributes = [each for each in spelled if isinstance(each, ast.Attribute) and script.qualname(each) is None]
    attributes += [each for each, name in script.qualified_attributes if name in names or name in modules]
    plain = [each for each, name in script.qualified_names if name in names or name in modules]
    mentions: list[ast.Name | ast.Attribute] = [*script.syntax_index.in_order(attributes), *plain]
    for node in mentions:
        name = script.qualname(node)
        if name in modules:
            parent = script.parent(node)
            if not isinstance(parent, ast.Attribute) and not _is_read(parent):
                yield node
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            if name in names or (name is None and node.attr in lasts and _may_be_module(script, node.value)):
                yield node
        elif name in names:
            parent = script.parent(node)
            if isinstance(parent, ast.Attribute) and not isinstance(parent.ctx, ast.Load):  # a method of the class
                yield node
    for text in script.find(ast.Constant):
        if isinstance(text.value, str) and not isinstance(script.parent(text), ast.Expr):
            if (canonical(text.value) in names or text.value in modules) and not names_a_type(script, text):
                yield text
            elif text.value in lasts and last_name(getattr(script.parent(text), "func", None)) in _SETTERS:
                yield text


def _is_read(parent: ast.AST | None) -> bool:
    """`hasattr(torch.amp, "GradScaler")`"""
    match parent:
        case ast.Call(func=ast.Name(id=name), args=[_, ast.Constant(), *_]):
            return name in _READERS
        case _:
            return False


def _may_be_module(script: Script, base: ast.expr) -> bool:
    """Whether an object whose attribute is set may be a module of the library: not the options of a program."""
    match base:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name not in ("self", "cls") and bool(re.search(r"amp|torch|mod", name.lower()))
        case ast.Subscript() | ast.Call():
            return Kind.UNKNOWN in {value.kind for value in script.values(base)}
        case _:
            return False


@once_all
def patches(script: Script) -> Iterator[ast.expr]:
    """Where a file puts something else in the place of a function or a method of torch, whichever: in a module, in a
    class, in an object of torch's."""
    for target in script.find(ast.Attribute):
        if isinstance(target.ctx, ast.Load):
            continue
        name = script.qualname(target) or ""
        if name.startswith("torch.") and not script.is_project_name(target) and not _SETTINGS.search(name):
            yield target
        elif target.attr in _METHODS and not script.values(target.value).kinds.isdisjoint(_OF_TORCH):
            yield target
    for call in script.syntax_index.calls_named("setattr"):
        if call.args and (script.qualname(call.args[0]) or "").partition(".")[0] == "torch":
            yield call


def monkeypatched_in_text(script: Script, names: Collection[str]) -> str | None:
    """Why one of these functions or methods may not be the library's own, as far as texts tell: `torch.zeros = zeros`,
    `torch.Tensor.cuda = …`, `mock.patch("torch.zeros")`. Cheaper than `monkeypatched`. Raises `Incomplete`."""
    for name in names:
        owner, _, last = name.rpartition(".")
        for text in script.project.texts_with_word(script, last):
            if last in text and _is_patched(_under_own_names(text, owner), owner, last):
                return f"`{name}` is replaced by something else"
        if "." not in owner:
            for text in script.project.texts_with_word(script, owner):
                own = _under_own_names(text, owner)
                if _bare(owner).search(own) and _hands_on(own, owner):
                    return f"`{owner}` is handed on, to code that may replace `{name}`"
    return None


def _is_patched(text: str, owner: str, last: str) -> bool:
    if _assigning(owner, last).search(text):
        return True
    return ("setattr" in text or "patch" in text) and _patching(owner, last).search(text) is not None


def intercepted(script: Script) -> str | None:
    """Why calls of torch may be seen by others than torch: a mode, a class of tensors. Raises `Incomplete`."""
    for word in ("TorchFunctionMode", "TorchDispatchMode", "__torch_function__", "__torch_dispatch__"):
        if any(word in text for text in script.project.texts_with_word(script, word)):
            return f"a `{word}` may count or change the calls of torch"
    return None


@cache
def _assigning(owner: str, last: str) -> re.Pattern[str]:
    """`torch.Tensor.cuda = …`, `Tensor.cuda: object = …`. A plain word first, which is searched for fastest."""
    whole, module = re.escape(owner), re.escape(owner.rpartition(".")[2])
    alone = rf"(?:(?<![\w.]{module})|(?<={whole})(?<![\w.]{whole}))"
    return re.compile(rf"{module}{alone}\s*\.\s*{last}\s*(?::[^=\n]*)?=(?!=)")


@cache
def _bare(module: str) -> re.Pattern[str]:
    """A module that is mentioned for itself, or in a text: no import, and no part of it."""
    return re.compile(rf"[(\[{{,=:]\s*{module}\s*[,)\]}}\n]")


@lru_cache(maxsize=64)
def _hands_on(text: str, module: str) -> bool:
    """`install(torch)`, `for each in (numpy, torch):`, but not `getattr(torch, name)`, nor a text that says so."""
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    read = {each.value for each in nodes if isinstance(each, ast.Attribute)}
    for call in nodes:
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _ONLY_READING:
            read.update(call.args)
    names = (each for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))
    return any(each.id == module and each not in read for each in names)


@cache
def _patching(owner: str, last: str) -> re.Pattern[str]:
    module = f"(?:{re.escape(owner)}|{re.escape(owner.rpartition('.')[2])})"
    return re.compile(
        rf"setattr\(\s*{module}\s*,\s*(?:['\"]{last}['\"]|[^'\"\s])"
        rf"|patch\.object\(\s*{module}\s*,\s*['\"]{last}['\"]|patch\(\s*['\"]{re.escape(owner)}\.{last}['\"]"
        rf"|setattr\(\s*['\"]{re.escape(owner)}\.{last}['\"]"
    )


def _under_own_names(text: str, owner: str) -> str:
    """A text in which `import torch as th` has given way to `torch`, and `F` to `torch.nn.functional`."""
    for module in dict.fromkeys((owner.partition(".")[0], owner)):
        for alias in dict.fromkeys(_aliases(module).findall(text)):
            text = re.sub(rf"(?<![\w.]){alias}\b", module, text)
    return text


@cache
def _aliases(module: str) -> re.Pattern[str]:
    """`import torch.optim as opt`, `from torch import optim as opt`."""
    parent, _, last = module.rpartition(".")
    spelled = rf"{re.escape(module)}|(?<=from {re.escape(parent)} import ){last}" if parent else module
    return re.compile(rf"import(?<=\bimport)[ \t]+(?:{spelled})[ \t]+as[ \t]+(\w+)")
