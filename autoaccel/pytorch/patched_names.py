"""What is done with names of a library besides calling them, in a script and in the files that share its objects:
functions that are replaced, classes that are asked for.

A rule that writes one name of a library for another must know that both stand for what the library defines, and that
nobody tells the objects apart that they make.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache
from typing import TYPE_CHECKING

from autoaccel.analysis.name_lookups import MODULES_AT_RUN_TIME
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.qualified_names import canonical

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_SETTERS = frozenset({"setattr", "delattr", "patch", "object", "setitem", "dict"})
_READERS = frozenset({"hasattr", "getattr"})
_TESTS = frozenset({"isinstance", "issubclass"})
_TYPES_AT_RUN_TIME = re.compile(
    r"\b(singledispatch\w*|pydantic|typeguard|beartype|jaxtyping|get_type_hints|__annotations__|jsonargparse|tyro"
    r"|omegaconf|signature)\b"
)
_LOOKUPS = frozenset({"globals", "locals", "eval", "exec"})
_FRAMES = re.compile(r"\b(f_globals|f_locals|currentframe|_getframe|sys\.modules)\b")
_MODULE_LOOKUPS = frozenset({"vars", "getmembers", "eval", "exec"})


def replaced(script: Script, names: Collection[str]) -> str | None:
    """Why one of these functions may not be the library's own. Raises `Incomplete`."""
    modules = {name.rpartition(".")[0] for name in names}
    for last in sorted({name.rpartition(".")[2] for name in (*names, *modules)}):
        for other in script.project.with_word(script, last):
            place = next(_replacing(other, names, modules), None)
            if place is not None:
                return f"it may be replaced in {_line(script, other, place)}"
    return None


def _replacing(script: Script, names: Collection[str], modules: Collection[str]) -> Iterator[ast.expr]:
    """Where a function is bound to something else, or its module is handed to who knows whom."""
    lasts = {name.rpartition(".")[2] for name in names}
    mentions: list[ast.Name | ast.Attribute] = [*script.find(ast.Attribute), *script.find(ast.Name)]
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
            elif text.value in lasts and _last_name(script.parent(text)) in _SETTERS:
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
            return Kind.UNKNOWN in script.values(base).kinds
        case _:
            return False


def patched(script: Script, names: Collection[str]) -> str | None:
    """Why one of these functions or methods may not be the library's own, as far as texts tell: `torch.zeros = zeros`,
    `torch.Tensor.cuda = …`, `mock.patch("torch.zeros")`. Cheaper than `replaced`. Raises `Incomplete`."""
    for name in names:
        owner, _, last = name.rpartition(".")
        for text in script.project.texts_with_word(script, last):
            if last in text and _is_patched(_under_own_names(text, owner), owner, last):
                return f"`{name}` is replaced by something else"
    return None


def _is_patched(text: str, owner: str, last: str) -> bool:
    if _assigning(owner, last).search(text):
        return True
    return ("setattr" in text or "patch" in text) and _patching(owner, last).search(text) is not None


def intercepted(script: Script) -> str | None:
    """Why calls of torch may be seen by others than torch. Raises `Incomplete`."""
    for word in ("TorchFunctionMode", "TorchDispatchMode"):
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
def _patching(owner: str, last: str) -> re.Pattern[str]:
    module = f"(?:{re.escape(owner)}|{re.escape(owner.rpartition('.')[2])})"
    return re.compile(
        rf"setattr\(\s*{module}\s*,\s*(?:['\"]{last}['\"]|[^'\"\s])"
        rf"|patch\.object\(\s*{module}\s*,\s*['\"]{last}['\"]|patch\(\s*['\"]{re.escape(owner)}\.{last}['\"]"
        rf"|setattr\(\s*['\"]{re.escape(owner)}\.{last}['\"]"
    )


def _under_own_names(text: str, owner: str) -> str:
    """A text in which `import torch as th` has given way to `torch`."""
    root = owner.partition(".")[0]
    for alias in dict.fromkeys(re.findall(rf"\bimport[ \t]+{root}[ \t]+as[ \t]+(\w+)", text)):
        text = re.sub(rf"(?<![\w.]){alias}\b", root, text)
    return text


def class_asked(
    script: Script, names: Collection[str], *, beside: Collection[ast.AST] = (), handed: bool = True
) -> str | None:
    """Why it may matter which of these classes an object is of. Raises `Incomplete`.

    Calls, annotations and base classes ask nobody for a class, and neither do the nodes `beside`; who is `handed` the
    class may."""
    lasts = {name.rpartition(".")[2] for name in names}
    for last in sorted(lasts):
        for other in script.project.with_word(script, last):
            mentions: list[ast.Name | ast.Attribute] = [*other.find(ast.Attribute), *other.find(ast.Name)]
            aliases = {*lasts, *other.import_aliases(tuple(sorted(lasts)))}
            for node in mentions:
                name = other.qualname(node)
                known = name in names
                own = not (name or "").startswith("torch.")
                spelled = node.attr if isinstance(node, ast.Attribute) else node.id
                if node in beside or not (known or (own and spelled in aliases)) or not isinstance(node.ctx, ast.Load):
                    continue
                if _asks(other, node, handed=handed and (known or isinstance(node, ast.Name))):
                    return f"its class is asked for in {_line(script, other, node)}"
    return None


def _asks(script: Script, node: ast.Name | ast.Attribute, *, handed: bool) -> bool:
    parent = script.parent(node)
    match parent:
        case ast.MatchClass() | ast.Compare():
            return True
        case ast.Call() if parent.func is node:
            return False
        case ast.Attribute():
            return False
        case ast.FunctionDef() | ast.ClassDef() if node in parent.decorator_list:
            return False
        case ast.ClassDef() if node in parent.bases:
            return False
    if names_a_type(script, node):
        return bool(_TYPES_AT_RUN_TIME.search(script.text))
    return handed or _in_test(script, node)


def _in_test(script: Script, node: ast.expr) -> bool:
    """In the second argument of `isinstance`."""
    return any(_last_name(each) in _TESTS for each in script.ancestors(node) if isinstance(each, ast.Call))


def names_a_type(script: Script, node: ast.expr) -> bool:
    """Whether an expression stands in an annotation."""
    child: ast.AST = node
    for ancestor in script.ancestors(node):
        match ancestor:
            case ast.arg():
                return True
            case ast.FunctionDef(returns=returned) | ast.AsyncFunctionDef(returns=returned) if returned is child:
                return True
            case ast.AnnAssign(annotation=annotation) if annotation is child:
                return True
            case ast.stmt() | ast.Call():
                return False
        child = ancestor
    return False


def object_asked(script: Script, variables: Collection[str]) -> str | None:
    """Why it may matter of which class the object is that these variables hold: `type(scaler)`, a copy of the object
    in a file, a library that is handed it. Raises `Incomplete`."""
    for variable in sorted(variables):
        for other in script.project.with_word(script, variable):
            for node in other.tree_index.mentions(variable):
                parent = other.parent(node)
                if isinstance(parent, ast.keyword):
                    parent = other.parent(parent)
                match parent:
                    case ast.Attribute(attr="__class__"):
                        return f"its class is asked for in {_line(script, other, node)}"
                    case ast.Call(func=ast.Name(id="type"), args=[_]) if not _is_of_name(other, parent):
                        return f"its class is asked for in {_line(script, other, node)}"
                    case ast.Dict() if node in parent.values:
                        return f"it may be saved as an object in {_line(script, other, node)}"
                    case ast.Call() if parent.func is not node and _leaves(other, parent):
                        return f"it is handed to `{other.source(parent.func)}` in {_line(script, other, node)}"
            for call in other.tree_index.calls_named("type"):
                if _tells_apart(other, call):
                    return f"its class may be asked for in {_line(script, other, call)}"
    return None


def _is_of_name(script: Script, call: ast.Call) -> bool:
    """`type(x).__name__`, which is the same for both classes."""
    parent = script.parent(call)
    return isinstance(parent, ast.Attribute) and parent.attr == "__name__"


def _tells_apart(script: Script, call: ast.Call) -> bool:
    """`type(x)(…)`, `table[type(x)]`, `type(x).__module__` of what may be such an object."""
    if len(call.args) != 1 or not script.values(call.args[0]).kinds & {Kind.SCALER, Kind.UNKNOWN}:
        return False
    match script.parent(call):
        case ast.Call(func=function):
            return function is call
        case ast.Attribute():
            return not _is_of_name(script, call)
        case ast.Subscript() | ast.Dict() | ast.DictComp():
            return True
        case _:
            return False


def _leaves(script: Script, call: ast.Call) -> bool:
    """Whether a call hands its arguments to code out of sight that may look at their classes, or saves them."""
    name = script.qualname(call.func)
    if name is None:
        return isinstance(call.func, ast.Name) and call.func.id == "dict"
    return name == "torch.save" or not (name.startswith(("torch.", "copy.")) or script.is_project_name(call.func))


def looked_up(script: Script, local: str, *, public: bool) -> str | None:
    """Why a name may be read where no name is seen: by `globals()[…]`, and, where it is one of the module's, by
    `getattr` of another file. Raises `Incomplete`."""
    for name in script.find(ast.Name):
        if name.id in _LOOKUPS and not script.definitions(name):
            return f"`{name.id}` may look its name up"
    if _FRAMES.search(script.text):
        return "its name may be looked up while the program runs"
    for text in script.find(ast.Constant):
        if isinstance(text.value, str) and text.value == local and not names_a_type(script, text):
            return "its name is given as a text"
    if not public:
        return None
    homes, missing = script.project.calling(script, local, method=False)
    if missing is not None:
        return missing
    for other in homes:
        if other is not script and any(_reads(other, node) for node in other.tree_index.mentions(local)):
            return "other files use it from here"
    pending, seen = [script], {script}
    for module in pending:
        for other in script.project.importing(module):
            if _looks_into(module, other, local):
                return f"`{_file(other)}` may look its name up"
            if other not in seen and _takes_all(module, other):
                seen.add(other)
                pending.append(other)
    return None


def _takes_all(script: Script, other: Script) -> bool:
    """`from module import *`"""
    return any(_is_module(script, other, target, level) for target, level in other.module_scope.stars)


def _reads(other: Script, node: ast.Name | ast.Attribute) -> bool:
    """`module.name` where the module may be one of the project, wherever that is found."""
    if not isinstance(node, ast.Attribute):
        return False
    if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
        return False
    return not (other.qualname(node) or "").startswith("torch.")


def _looks_into(script: Script, other: Script, local: str) -> bool:
    """Whether another file may read any name of a script: it hands the module on, or computes names."""
    for name in other.find(ast.Name):
        if any(_is_module(script, other, each.target, each.level) for each in other.definitions(name) if each.target):
            parent = other.parent(name)
            if not isinstance(parent, ast.Attribute) or parent.attr == "__dict__":
                return True
    if not MODULES_AT_RUN_TIME.search(other.text):
        return False
    for call in other.find(ast.Call):
        match call:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str() as text), *_]):
                if text == local:
                    return True
            case ast.Call(func=ast.Name(id="getattr" | "attrgetter") | ast.Attribute(attr="attrgetter")):
                return True
            case _ if _last_name(call) in _MODULE_LOOKUPS and not _is_method(call):
                return True
    return any(each.attr == "__dict__" for each in other.find(ast.Attribute)) or any(
        each.value == local for each in other.find(ast.Constant)
    )


def _is_method(call: ast.Call) -> bool:
    """`model.eval()`"""
    return isinstance(call.func, ast.Attribute) and call.func.attr != "getmembers"


def _is_module(script: Script, other: Script, target: str | None, level: int) -> bool:
    located = other.project.locate(other, target or "", level)
    return located is not None and located == (script.path, ())


def _last_name(call: ast.AST | None) -> str | None:
    match call:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
        case _:
            return None


def _file(other: Script) -> str:
    return "another file" if other.path is None else other.path.name


def _line(script: Script, other: Script, node: ast.expr) -> str:
    return f"line {node.lineno}" + (f" of {_file(other)}" if other is not script else "")
