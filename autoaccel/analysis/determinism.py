"""Whether a script asks for the same results in each run: of all algorithms, or of cuDNN's."""

from __future__ import annotations

import ast
import re

from autoaccel.analysis.script import Script
from autoaccel.dataflow.syntax_index import is_constant

_CUDNN = "torch.backends.cudnn.deterministic"
_DEVICES = re.compile("cuda|gpu|device", re.IGNORECASE)


def of_all_algorithms(script: Script) -> bool:
    """Whether it asks for deterministic algorithms everywhere: then only exact rewrites are welcome."""
    calls = script.calls("torch.use_deterministic_algorithms")
    return any(not (call.args and is_constant(call.args[0], False)) for call in calls)


def is_asked_for(script: Script) -> bool:
    """Whether it asks at all."""
    return of_all_algorithms(script) or bool(_of_cudnn(script))


def is_on_demand(script: Script) -> bool:
    """Whether it asks only where an option says so: `if args.seed is not None: cudnn.deterministic = True`."""
    return not of_all_algorithms(script) and all(
        any(isinstance(above, ast.If) and _is_of_options(above.test) for above in script.ancestors(each))
        for each in _of_cudnn(script)
    )


def _of_cudnn(script: Script) -> list[ast.Attribute]:
    """Where the setting of cuDNN's is given what is not False."""
    return [
        each
        for each in script.syntax_index.stored("deterministic")
        if script.qualname(each) == _CUDNN and not is_constant(getattr(script.parent(each), "value", None), False)
    ]


def _is_of_options(test: ast.expr) -> bool:
    """Whether a test is of attributes, as options are, and of constants; which devices there are is no option."""
    parts = [*ast.walk(test)]
    attributes = [part.attr for part in parts if isinstance(part, ast.Attribute)]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    calls = any(isinstance(part, ast.Call) for part in parts)
    return bool(attributes) and not calls and not any(map(_DEVICES.search, (*attributes, *names)))
