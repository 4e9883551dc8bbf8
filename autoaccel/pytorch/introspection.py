"""Who asks for the class of an object, or looks a name up while the program runs: `isinstance`, `type(x)`, `globals()`.

A rule that writes one name of a library for another must know that nobody tells the objects apart that they make, and
that nobody reads the name of a variable or import that it takes away.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from autoaccel.analysis.attributes import may_be_instance
from autoaccel.analysis.name_lookups import MODULES_AT_RUN_TIME
from autoaccel.analysis.namespaces import namespaces
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.python_names import LOOKING, TEXT_RUNNERS

_TESTS = frozenset({"isinstance", "issubclass"})
_TYPES_AT_RUN_TIME = re.compile(
    r"\b(singledispatch\w*|pydantic|typeguard|beartype|jaxtyping|get_type_hints|__annotations__|jsonargparse|tyro"
    r"|omegaconf|signature)\b"
)
_ANNOTATIONS = re.compile(r"\b(__annotations__|get_type_hints|get_annotations)\b")
_LOOKUPS = frozenset({"globals", "locals", *TEXT_RUNNERS})
_FRAMES = re.compile(r"\b(f_globals|f_locals|currentframe|_getframe|sys\.modules)\b")
_LISTING = ("vars", "dir", "getmembers")
_SHOWING = ("dir", "getmembers", "save", "dump", "dumps")
_BY_NAME = frozenset("getattr attrgetter methodcaller vars getmembers import_module __import__".split())
_MODULE_LOOKUPS = frozenset({"vars", "getmembers", *TEXT_RUNNERS})


def class_inspected(
    script: Script, names: Collection[str], *, beside: Collection[ast.AST] = (), handed: bool = True
) -> str | None:
    """Why it may matter which of these classes an object is of. Raises `Incomplete`.

    Calls, annotations and base classes ask nobody for a class, and neither do the nodes `beside`; who is `handed` the
    class may."""
    lasts = {name.rpartition(".")[2] for name in names}
    for last in sorted(lasts):
        for other in script.project.with_word(script, last):
            aliases = sorted({*lasts, *other.import_aliases(tuple(sorted(lasts)))})
            spelled = [each for each in other.syntax_index.mentions(*aliases) if not _is_torchs(other, each)]
            found: set[ast.Name | ast.Attribute] = {*spelled}
            found.update(node for node, name in other.qualified_attributes if name in names)
            found.update(node for node, name in other.qualified_names if name in names)
            mentions = other.syntax_index.in_order([*found])
            for node in sorted(mentions, key=lambda each: isinstance(each, ast.Name)):  # attributes first
                known = other.qualname(node) in names
                if node in beside or not isinstance(node.ctx, ast.Load):
                    continue
                if _asks(other, node, handed=handed and (known or isinstance(node, ast.Name))):
                    return f"its class is asked for in {line_of(script, other, node)}"
    return None


def _is_torchs(script: Script, node: ast.expr) -> bool:
    return (script.qualname(node) or "").startswith("torch.")


def annotations_read(script: Script) -> bool:
    """Whether somebody may read which annotations a module has. Raises `Incomplete`."""
    return any(_ANNOTATIONS.search(text) for text in script.project.related_texts(script))


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
    return any(last_name(each.func) in _TESTS for each in script.ancestors(node) if isinstance(each, ast.Call))


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


def object_inspected(script: Script, variables: Collection[str]) -> str | None:
    """Why it may matter of which class the object is that these variables hold: `type(scaler)`, a copy of the object
    in a file, a library that is handed it. Raises `Incomplete`."""
    for variable in sorted(variables):
        for other in script.project.with_word(script, variable):
            for node in other.syntax_index.mentions(variable, *other.import_aliases((variable,))):
                parent = other.parent(node)
                if isinstance(parent, ast.keyword):
                    parent = other.parent(parent)
                match parent:
                    case ast.Attribute(attr="__class__"):
                        return f"its class is asked for in {line_of(script, other, node)}"
                    case ast.Call(func=ast.Name(id="type"), args=[_]) if not _is_of_name(other, parent):
                        return f"its class is asked for in {line_of(script, other, node)}"
                    case ast.Dict() if node in parent.values:
                        return f"it may be saved as an object in {line_of(script, other, node)}"
                    case ast.Call() if parent.func is not node and _leaves(other, parent):
                        return f"it is handed to `{other.source(parent.func)}` in {line_of(script, other, node)}"
            for call in other.syntax_index.calls_named("type"):
                if _tells_apart(other, call):
                    return f"its class may be asked for in {line_of(script, other, call)}"
    return None


def instances_listed(ref: ClassRef) -> bool:
    """Whether an attribute that is added to the objects of a class shows: `vars(self).items()`, `torch.save(trainer)`.

    Who only asks for one name, or adds some, shows none. Raises `Incomplete`."""
    for other in ref.script.project.related(ref.script):
        shown = [owner for table, owner in namespaces(other) if not _asks_by_name(other, table)]
        for call in other.syntax_index.calls_named(*_SHOWING):
            shown += call.args[:1]
        if any(owner is not None and may_be_instance(other, owner, ref, unknown=False) for owner in shown):
            return True
    return False


def _asks_by_name(script: Script, table: ast.expr) -> bool:
    """`self.__dict__["step"]`, `vars(self).update(options)`"""
    match script.parent(table):
        case ast.Subscript(value=value):
            return value is table
        case ast.Attribute(attr=method):
            return method in ("update", "get", "setdefault", "pop", "__setitem__")
        case ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return True
        case _:
            return not isinstance(getattr(table, "ctx", ast.Load()), ast.Load)


def attributes_listed(script: Script, kind: Kind) -> str | None:
    """Why an attribute that is added to an object of torch's may show: `vars(optimizer)`. Raises `Incomplete`."""
    for other in script.project.related(script):
        listed = [call.args[0] for call in other.syntax_index.calls_named(*_LISTING) if len(call.args) == 1]
        listed += [each.value for each in other.syntax_index.mentions("__dict__") if isinstance(each, ast.Attribute)]
        for each in listed:
            if kind in other.values(each).kinds:
                return f"what `{other.source(each)}` has is listed in {line_of(script, other, each)}"
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


def name_looked_up(script: Script, local: str, *, public: bool) -> str | None:
    """Why a name may be read where no name is seen: by `globals()[…]`, and, where it is one of the module's, by
    `getattr` of another file. Raises `Incomplete`."""
    if (lookup := _lookup(script)) is not None:
        return lookup
    for text in script.find(ast.Constant):
        if isinstance(text.value, str) and text.value == local:
            if not names_a_type(script, text) and not _is_label(script, text):
                return "its name is given as a text"
    if not public:
        return None
    files = script.project.files_naming(script, local, attribute=False)
    if files.missing is not None:
        return files.missing
    for other in files:
        mentions = other.syntax_index.mentions(local, *other.import_aliases((local,)))
        if other is not script and any(_reads(other, node) for node in mentions):
            return "other files use it from here"
    pending, seen = [script], {script}
    for module in pending:
        for other in script.project.importers(module):
            if _looks_into(module, other, local):
                return f"`{_file_name(other)}` may look its name up"
            if other not in seen and _takes_all(module, other):
                seen.add(other)
                pending.append(other)
    return None


@once
def _lookup(script: Script) -> str | None:
    """How a file may look up names, whichever they are."""
    for name in script.find(ast.Name):
        if name.id in _LOOKUPS and not script.definitions(name):
            return f"`{name.id}` may look its name up"
    return "its name may be looked up while the program runs" if _FRAMES.search(script.text) else None


def _is_label(script: Script, text: ast.Constant) -> bool:
    """Whether a text is shown, compared, or tells the values of a dictionary apart, and no name is looked up by it:
    `print("loss", loss)`, `mode == "loss"`, `logs["loss"]`, `{"loss": loss}`."""
    match script.parent(text):
        case ast.Call(func=ast.Name(id=function) as called):
            return function in LOOKING - {"hasattr"} and not script.definitions(called)
        case ast.Call(func=ast.Attribute(attr="add_scalar")) as call:
            return not script.callees(call)
        case ast.JoinedStr() | ast.Expr() | ast.Compare():
            return True
        case ast.Tuple() | ast.List() as texts if isinstance(script.parent(texts), ast.Compare):
            return True
        case ast.Dict(keys=keys) if text in keys:
            pass
        case ast.Subscript(value=ast.Name() | ast.Attribute() | ast.Subscript(), slice=key) if key is text:
            pass
        case _:
            return False
    return not any(last_name(each.func) in _BY_NAME for each in script.find(ast.Call)) and not any(
        each.attr == "__dict__" for each in script.find(ast.Attribute)
    )


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
            case _ if last_name(call.func) in _MODULE_LOOKUPS and not _is_method(call):
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


def _file_name(other: Script) -> str:
    return "another file" if other.path is None else other.path.name


def line_of(script: Script, other: Script, node: ast.expr) -> str:
    return f"line {node.lineno}" + (f" of {_file_name(other)}" if other is not script else "")
