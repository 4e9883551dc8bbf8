"""Mixed precision of a script that is off as it stands: by a flag, or unless the command line asks for it."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from autoaccel.analysis.literal_flags import is_off
from autoaccel.analysis.parsed_options import is_off_by_default
from autoaccel.analysis.script import Script
from autoaccel.dataflow.call_arguments import given_as
from autoaccel_codemods.autocast import skip_reasons

_REGIONS = frozenset({"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast"})


def reason(script: Script, otherwise: str) -> str:
    """Why a script's own mixed precision does nothing, if all its regions are off; else what is said `otherwise`."""
    found = [_off(script, call) for call in script.calls(*_REGIONS)]
    first = found[0] if found else None
    return otherwise if first is None or None in found else first


def _off(script: Script, region: ast.Call) -> str | None:
    """Why a region is never entered, or not enabled."""
    told = (_off_by(script, flag) for flag in _flags(script, region))
    return next((each for each in told if each is not None), None)


def _flags(script: Script, region: ast.Call) -> Iterator[ast.expr]:
    """What must be on for a region to do anything."""
    if (enabled := given_as(region, "enabled")) is not None:
        yield enabled
    for child, above in itertools.pairwise((region, *script.ancestors(region))):
        match above:
            case ast.If(test=test, body=body) if child in body:
                yield test
            case ast.IfExp(test=test, body=body) if child is body:
                yield test
            case ast.FunctionDef() | ast.Lambda() | ast.ClassDef():
                return


def _off_by(script: Script, flag: ast.expr) -> str | None:
    if is_off(script, flag):
        return skip_reasons.SWITCHED_OFF.format(flag=script.source(flag))
    if is_off_by_default(script, flag):
        return skip_reasons.NOT_ASKED_FOR.format(flag=script.source(flag))
    match flag:
        case ast.BoolOp(op=ast.And(), values=parts):
            return next((told for each in parts if (told := _off_by(script, each)) is not None), None)
        case ast.Name():
            definitions = script.definitions(flag)
            plain = len(definitions) == 1 and definitions[0].how == "assign" and not definitions[0].path
            value = definitions[0].value if plain else None
            return None if value is None or isinstance(value, ast.Name) else _off_by(script, value)
        case _:
            return None
