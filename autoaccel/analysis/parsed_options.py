"""What options of the command line are, `opt = parser.parse_args()`: texts, numbers and flags."""

from __future__ import annotations

import ast

from autoaccel.analysis.attributes import may_be_stored
from autoaccel.analysis.script import Script
from autoaccel.dataflow.call_arguments import given_as
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
    declared = _declaration(script, option)
    default = None if declared is None else given_as(declared, "default")
    return default if isinstance(default, ast.Constant) else None


def is_off_by_default(script: Script, option: ast.expr) -> bool:
    """Whether an option is false unless the command line says otherwise: `default=False`, `action="store_true"`."""
    declared, default = _declaration(script, option), default_of(script, option)
    action = None if declared is None else given_as(declared, "action")
    is_flag = isinstance(action, ast.Constant) and action.value == "store_true"
    return not default.value if default is not None else is_flag


def _declaration(script: Script, option: ast.expr) -> ast.Call | None:
    """The one line of the file that declares an option."""
    if not isinstance(option, ast.Attribute) or not is_parsed_option(script, option):
        return None
    declared = [call for call in script.syntax_index.calls_named("add_argument") if _is_for(call, option.attr)]
    return declared[0] if len(declared) == 1 else None


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
