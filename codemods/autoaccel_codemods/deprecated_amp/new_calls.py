"""Calls in the new spelling, with their layout and comments."""

from __future__ import annotations

import ast

from autoaccel.analysis import Script
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.edits import AddArguments, AddImport, Code, Edit, Replace, literal
from autoaccel_codemods.deprecated_amp.amp_uses import CUSTOM, Use

# The positional parameters of the old functions; those of GradScaler have kept their order.
_PARAMETERS = {"autocast": ("enabled", "dtype", "cache_enabled")}


def call_edits(
    script: Script, call: ast.Call, use: Use, spelling: str, defaults: tuple[tuple[str, str], ...]
) -> tuple[Edit, ...] | str:
    """What turns a call into the new spelling, with those of `defaults` written out that it leaves to the function; or
    why it cannot be."""
    if defaults and any(each.arg is None for each in call.keywords):
        return "its precision may be among **kwargs"
    written = {each.arg for each in call.keywords} | {*_PARAMETERS.get(use.name, ())[: len(call.args)]}
    added = [(name, *_spell(script, value)) for name, value in defaults if name not in written]
    imports = [each for _, _, needed in added for each in needed]
    if not call.args and call.keywords and call.end_lineno != call.lineno:
        parameter = "device" if use.name == "GradScaler" else "device_type"
        arguments = [(parameter, _quoted(script, use)), *((name, text) for name, text, _ in added)]
        more = AddArguments(call, tuple((name, Code(text)) for name, text in arguments))
        return Replace(use.node, Code(spelling)), more, *imports
    code = _spelled_anew(script, call, use, spelling, "".join(f", {name}={text}" for name, text, _ in added))
    return code if isinstance(code, str) else (Replace(call, code), *imports)


def _spell(script: Script, value: str) -> tuple[str, tuple[AddImport, ...]]:
    return script.spell(value) if "." in value else (value, ())


def device_argument(script: Script, use: Use) -> str:
    return f"device_type={_quoted(script, use)}" if use.name in CUSTOM else _quoted(script, use)


def _quoted(script: Script, use: Use) -> str:
    return f"{script.quote}{use.device}{script.quote}"


def _spelled_anew(script: Script, call: ast.Call, use: Use, spelling: str, defaults: str) -> Code | str:
    """The call in the new spelling, with `defaults` written out; its layout and comments are taken over as text, with
    its arguments in the holes."""
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return "it has arguments that are not spelled out"
    names = _PARAMETERS.get(use.name, ("",) * len(call.args))
    if len(call.args) > len(names):
        return "it has more arguments than the function takes"
    device = device_argument(script, use) + defaults
    text = script.source(call).encode()
    opening = text.index(b"(", _offset(text, call, call.func, end=True)) + 1
    values = given_values(call)
    if not values:
        return Code(f"{spelling}({device}{literal(text[opening:].decode())}")
    # A function that is handed to `custom_fwd` must stay its first argument.
    last = use.name in CUSTOM and bool(call.args)
    every: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    start = min(_offset(text, call, each) for each in every)
    pieces = [spelling, "(", literal(text[opening:start].decode()), "" if last else f"{device}, "]
    for index, value in enumerate(values):
        pieces.append(literal(text[start : _offset(text, call, value)].decode()))
        pieces.append(f"{names[index]}=" if index < len(call.args) and names[index] else "")
        pieces.append(f"{{{index}}}")
        start = _offset(text, call, value, end=True)
    pieces.extend([f", {device}" if last else "", literal(text[start:].decode())])
    # New code is indented like the block in which it comes to stand.
    return Code("".join(pieces).replace("\n" + " " * script.statement(call).col_offset, "\n"), tuple(values))


def _offset(text: bytes, call: ast.Call, node: ast.expr | ast.keyword, *, end: bool = False) -> int:
    """Where `node` begins or ends in the source text of the call, in bytes."""
    line, column = (node.end_lineno, node.end_col_offset) if end else (node.lineno, node.col_offset)
    assert line is not None
    assert column is not None
    if line == call.lineno:
        return column - call.col_offset
    return sum(len(each) + 1 for each in text.split(b"\n")[: line - call.lineno]) + column
