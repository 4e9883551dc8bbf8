"""Whether a script asks for the same results in each run: of all algorithms, or of cuDNN's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autoaccel.analysis.literal_flags import is_off, is_switched_off
from autoaccel.analysis.script import Script
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.syntax_index import is_constant

_CUDNN = "torch.backends.cudnn.deterministic"
_DEVICES = re.compile("cuda|gpu|device", re.IGNORECASE)


def of_all_algorithms(script: Script) -> bool:
    """Whether it asks for deterministic algorithms everywhere: then only exact rewrites are welcome."""
    return any(True for _ in _of_all(script))


def is_asked_for(script: Script) -> bool:
    """Whether it asks at all."""
    return of_all_algorithms(script) or bool(_of_cudnn(script))


def is_certain(script: Script) -> bool:
    """Whether it asks whatever options say: by `True`, and under no condition."""
    asked: list[tuple[ast.AST, ast.AST | None]] = [*_of_all(script)]
    asked += [(each, getattr(script.parent(each), "value", None)) for each in _of_cudnn(script)]
    choosing = (ast.If, ast.IfExp, ast.BoolOp)
    return any(
        (value is None or is_constant(value, True))
        and not any(isinstance(above, choosing) for above in script.ancestors(node))
        for node, value in asked
    )


def is_on_demand(script: Script) -> bool:
    """Whether it asks only where an option says so: `if args.seed is not None: cudnn.deterministic = True`."""
    return not of_all_algorithms(script) and all(
        any(isinstance(above, ast.If) and _is_of_options(above.test) for above in script.ancestors(each))
        for each in _of_cudnn(script)
    )


def _of_all(script: Script) -> Iterator[tuple[ast.Call, ast.expr | None]]:
    """The calls that may ask for all algorithms, and the argument that says whether they do."""
    for call in script.calls("torch.use_deterministic_algorithms"):
        mode = call.args[0] if call.args else given_as(call, "mode")
        if not (mode is not None and is_off(script, mode)) and not is_switched_off(script, call):
            yield call, mode


def _of_cudnn(script: Script) -> list[ast.Attribute]:
    """Where the setting of cuDNN's is given what is not False."""
    return [
        each
        for each in script.syntax_index.stored("deterministic")
        if script.qualname(each) == _CUDNN and not _is_set_off(script, script.parent(each))
        if not is_switched_off(script, each)
    ]


def _is_set_off(script: Script, statement: ast.AST | None) -> bool:
    value = getattr(statement, "value", None)
    return isinstance(value, ast.expr) and is_off(script, value)


def _is_of_options(test: ast.expr) -> bool:
    """Whether a test is of attributes, as options are, and of constants; which devices there are is no option."""
    parts = [*ast.walk(test)]
    attributes = [part.attr for part in parts if isinstance(part, ast.Attribute)]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    calls = any(isinstance(part, ast.Call) for part in parts)
    return bool(attributes) and not calls and not any(map(_DEVICES.search, (*attributes, *names)))
