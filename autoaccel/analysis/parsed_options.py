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
    declared: list[ast.Call] = []
    if isinstance(option, ast.Attribute) and is_parsed_option(script, option):
        declared = [call for call in script.syntax_index.calls_named("add_argument") if _is_for(call, option.attr)]
    default = given_as(declared[0], "default") if len(declared) == 1 else None
    return default if isinstance(default, ast.Constant) else None


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
