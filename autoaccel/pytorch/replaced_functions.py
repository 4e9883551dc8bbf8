"""Functions of torch that the runtime has as well, under the same name: `accel.max_pool2d` for `F.max_pool2d`.

The runtime's take the same arguments, and give and refuse the same; so what a rule asks is the same for each of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from autoaccel.analysis import Script
from autoaccel.analysis.script import RUNTIME
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.pytorch import backend_settings
from autoaccel.pytorch.monkeypatching import monkeypatched_in_text

_EXPORTING = re.compile(
    r"torch\.(?:jit|onnx|fx|export|func)\b|jit\.(?:script|trace)|symbolic_trace|functorch|forward[-_](?:ad|mode)|jvp|jacfwd|quantiz"
    r"|\b(?:thop|ptflops|fvcore|captum|torch_pruning)\b|__torch_(?:function|dispatch)__|Torch(?:Function|Dispatch)Mode"
)
"""What looks at the operations or the classes that a model is made of, and knows those of torch."""


def calls(script: Script, *names: str) -> Iterator[ast.Call]:
    """The calls of functions or classes of torch that are not the runtime's already."""
    for call in script.calls(*names):
        function = call.func
        if not (isinstance(function, ast.Attribute) and script.qualname(function.value) in RUNTIME):
            yield call


def problem(script: Script, names: Collection[str]) -> str | None:
    """Why functions and classes of the runtime are not to stand for those of torch."""
    try:
        if (mention := backend_settings.mention(script, _EXPORTING)) is not None:
            return f"`{mention}` may look at the operations that a model is made of"
        return monkeypatched_in_text(script, names)
    except Incomplete as incomplete:
        return str(incomplete)
