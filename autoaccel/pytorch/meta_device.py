"""Where a text makes tensors without data, on the device "meta": moving one is an error, which somebody may handle."""

from __future__ import annotations

import ast
import re

from autoaccel.analysis.script import Script
from autoaccel.dataflow.syntax_index import last_name

_WORDS = ("meta", "init_empty_weights", "FakeTensorMode")
_MAKERS = re.compile(r"\b(init_empty_weights|FakeTensorMode)\b")
_NAMED = re.compile(r"\bmeta\b")
_DEVICE = re.compile(r"dev(ice)?s?($|_)|where|place", re.IGNORECASE)
# Functions and methods, of whatever object, that make no device of a text.
_OF_TEXTS = frozenset(
    """print open len str repr hash getattr hasattr setattr delattr isinstance ValueError KeyError get pop setdefault
    join startswith endswith replace split strip find index count format add_argument add_parser
    create_group create_dataset require_group joinpath with_suffix with_name glob rglob mkdir add_scalar add_text info
    debug warning error getLogger read_csv read_json to_csv to_json drop isin rename merge groupby sort_values
    set_index select_dtypes has_key __getitem__ __contains__ xpath findall iterfind""".split()
)


def makes_tensors_without_data(script: Script) -> bool:
    """Whether a file of the project may ask for the device "meta". Raises `Incomplete`."""
    return any(_asks(text) for word in _WORDS for text in script.project.texts_with_word(script, word))


def _asks(text: str) -> bool:
    if _MAKERS.search(text):
        return True
    if not _NAMED.search(text):
        return False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return True
    around = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == "meta"]
    return any(_may_be_device(around, node) for node in named)


def _may_be_device(around: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether a device may be made of a text where it stands, or of the name that it gets."""
    match around.get(node):
        case ast.Expr() | ast.JoinedStr() | ast.FormattedValue() | ast.BinOp() | ast.Attribute() | ast.Assert():
            return False
        case ast.Subscript(slice=key) if key is node:
            return False
        case ast.Dict(keys=keys, values=values):
            names = [name for name, value in zip(keys, values, strict=True) if value is node]  # none of a key itself
            return not all(isinstance(each, ast.Constant) and not _names_device(each) for each in names)
        case ast.Compare(left=left, comparators=others):
            return any(map(_is_called_device, (left, *others)))
        case ast.List() | ast.Tuple() | ast.Set() | ast.IfExp() | ast.Starred() as outer:
            return _may_be_device(around, outer)
        case ast.Call() as call:
            return not _is_of_texts(call)
        case ast.keyword() as given:
            return not _is_of_texts(around[given])
        case _:
            return True


def _names_device(text: ast.Constant) -> bool:
    return isinstance(text.value, str) and _DEVICE.search(text.value) is not None


def _is_of_texts(call: ast.AST) -> bool:
    """Whether a call makes no device of a text, and keeps it under the name of none: `add_argument("--device", …)`."""
    return (
        isinstance(call, ast.Call)
        and last_name(call.func) in _OF_TEXTS
        and not any(isinstance(each, ast.Constant) and _names_device(each) for each in call.args)
    )


def _is_called_device(expression: ast.expr) -> bool:
    return any(
        _DEVICE.search(each.id if isinstance(each, ast.Name) else each.attr) is not None
        for each in ast.walk(expression)
        if isinstance(each, ast.Name | ast.Attribute)
    )
