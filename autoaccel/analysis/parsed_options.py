"""What settings are: of the command line, `opt = parser.parse_args()`, texts, numbers and flags; and those that the
program writes down, `CONFIG = {"workers": 0}`."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from autoaccel.analysis.attributes import may_be_stored
from autoaccel.analysis.call_sites import arguments_for, may_be_left_out
from autoaccel.analysis.classes import lineage
from autoaccel.analysis.keyword_arguments import mapping_items
from autoaccel.analysis.rebound_names import rebound_names
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value
from autoaccel.dataflow.call_arguments import given_as, unpacks
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.definitions import Definition

_TYPES = frozenset({"int", "float", "str", "bool"})


def is_parsed(definition: Definition) -> bool:
    """`opt = parser.parse_args()`, `opt, rest = parser.parse_known_args()`"""
    match definition.value:
        case ast.Call(func=ast.Attribute(attr="parse_args")):
            return not definition.path
        case ast.Call(func=ast.Attribute(attr="parse_known_args")):
            return definition.path == (0,)
        case _:
            return False


def is_parsed_option(script: Script, expression: ast.expr) -> bool:
    """Whether an expression is a text, number or flag of the command line, which nothing stores anew."""
    match expression:
        case ast.Attribute(value=ast.Name() as root, attr=name):
            found = script.definitions(root)
            declared = [call for call in script.syntax_index.calls_named("add_argument") if _is_for(call, name)]
            plain = bool(declared) and all(map(_is_plain, declared))
            return plain and bool(found) and all(map(is_parsed, found)) and not may_be_stored(script, name)
        case _:
            return False


def default_of(script: Script, option: ast.expr) -> ast.Constant | None:
    """The literal that an option has by default, `args.workers`, if one line alone declares it in the file."""
    declared: list[ast.Call] = []
    if isinstance(option, ast.Attribute) and is_parsed_option(script, option):
        declared = [call for call in script.syntax_index.calls_named("add_argument") if _is_for(call, option.attr)]
    default = given_as(declared[0], "default") if len(declared) == 1 else None
    return default if isinstance(default, ast.Constant) else None


def written_as(script: Script, setting: ast.expr) -> tuple[Script, ast.Constant] | None:
    """The only literal that a setting has, behind names, arguments, dictionaries and classes: `WORKERS = 0`,
    `CONFIG = {"workers": 0}`, `workers: int = 0` of a dataclass. None where it may be another, or is computed."""
    places: list[ScriptNode] = [(script, setting)]
    found: tuple[Script, ast.Constant] | None = None
    for file, place in places:
        if isinstance(place, ast.Constant):
            if found is not None:
                return None
            found = file, place
            continue
        behind = _behind(file, place) or ()
        if not behind:
            return None
        places.extend(each for each in behind if each not in places)
    return found


def _behind(file: Script, setting: ast.AST) -> Iterable[ScriptNode] | None:
    """The expressions that a setting takes its value from; None where there may be others."""
    if not isinstance(setting, ast.expr) or Kind.UNKNOWN in file.values(setting).kinds:
        return None
    match setting:
        case ast.Name():
            return _bound(file, file.definitions(setting))
        case ast.Subscript(value=owner, slice=ast.Constant(value=str() as name)):
            return _stored(file, file.values(owner), name)
        case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[ast.Constant(value=str() as name), *_]):
            return _stored(file, file.values(owner), name)
        case ast.Attribute(value=owner, attr=name) if not may_be_stored(file, name):
            return _stored(file, file.values(owner), name)
        case _:
            return None


def _bound(file: Script, definitions: Iterable[Definition]) -> list[ScriptNode] | None:
    found: list[ScriptNode] = []
    for each in definitions:
        if each.scope.parent is None and each.name in rebound_names(file):
            return None
        behind: list[ScriptNode] | None = None
        if each.whole is not None:
            behind = [(file, each.whole)]
        elif each.how == "param" and file.callers(function := each.scope.node).missing is None:
            behind = [*arguments_for(file, function, each.name)]
            if each.value is not None and (not behind or may_be_left_out(file, function, each.name)):
                behind.append((file, each.value))
        elif each.how == "import":
            other, name = file.project.imported(file, each.target or "", each.level) or (file, None)
            behind = _bound(other, other.module_scope.definitions.get(name, ())) if name is not None else None
        if not behind:
            return None
        found += behind
    return found


def _stored(file: Script, owners: Iterable[Value], name: str) -> list[ScriptNode] | None:
    """What stands under a name in dictionaries, modules, classes and objects, as they were made."""
    found: list[ScriptNode] = []
    for owner in owners:
        behind: list[ScriptNode] | None = None
        where, node = owner.script or file, owner.node
        if owner.how == "module":
            behind = _bound(where, where.module_scope.definitions.get(name, ()))
        elif owner.kind is Kind.MAPPING and isinstance(node, ast.Dict | ast.Call) and not _is_put(file, name):
            given = (mapping_items(where, node) or {}).get(name)
            behind = [(where, given)] if given is not None else None
        elif owner.cls is not None and not (isinstance(node, ast.Call) and (node.args or unpacks(node))):
            given = given_as(node, name) if isinstance(node, ast.Call) else None
            behind = [(where, given)] if given is not None else _of_class(owner.cls, name)
        if not behind:
            return None
        found += behind
    return found


def _of_class(ref: ClassRef, name: str) -> list[ScriptNode] | None:
    """What stands under a name in the body of a class, or of the next one that it derives from."""
    for each in lineage(ref):
        scope = each.script.reaching_definitions.scopes[each.node]
        if name in scope.definitions:
            return _bound(each.script, scope.definitions[name])
    return None


def _is_put(file: Script, key: str) -> bool:
    """Whether the project stores something in a dictionary under this name after it was made."""
    files = file.project.related(file)
    stored = (each for other in files for each in other.find(ast.Subscript) if not isinstance(each.ctx, ast.Load))
    if any(isinstance(each.slice, ast.Constant) and each.slice.value == key for each in stored):
        return True
    changes: list[ast.AST] = [
        each for other in files for each in other.syntax_index.calls_named("update", "setdefault")
    ]
    changes += (each for other in files for each in other.find(ast.AugAssign) if isinstance(each.op, ast.BitOr))
    return any(
        key in (getattr(part, "arg", None), getattr(part, "value", None)) for each in changes for part in ast.walk(each)
    )


def _is_for(call: ast.Call, name: str) -> bool:
    spelled = [*call.args, *(each.value for each in call.keywords if each.arg == "dest")]
    texts = [each.value for each in spelled if isinstance(each, ast.Constant)]
    return any(isinstance(text, str) and text.lstrip("-").replace("-", "_") == name for text in texts)


def _is_plain(call: ast.Call) -> bool:
    settings = {each.arg: each.value for each in call.keywords}
    known = settings.get("type")
    typed = known is None or (isinstance(known, ast.Name) and known.id in _TYPES)
    default, action = (settings.get(each, ast.Constant(value=None)) for each in ("default", "action"))
    return typed and None not in settings and isinstance(default, ast.Constant) and isinstance(action, ast.Constant)
