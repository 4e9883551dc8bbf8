"""Stack arrays before making tensors.

`torch.tensor(list_of_arrays)` visits every element of every array through Python, and torch warns that this is
extremely slow: 64 arrays of 784 numbers take 3.5 ms, or 0.02 ms joined by `numpy.array` first. Shape, type, layout and
values are the same. Only of arrays that have no element because of an axis before the last, such as a `(0, 4)` of
boxes, NumPy keeps the axes behind that as well; where that is not ruled out, findings are `equivalent`.

Left alone:
- lists whose elements are not all known to be arrays: NumPy and torch choose different types for Python numbers;
- lists that may be empty, without `dtype=`: torch makes float32 of them, NumPy float64;
- lists within `try`, with `dtype=`: torch refuses NaN and numbers too large for integers, NumPy converts them;
- tensors in a project that resizes some, by `resize_` or as the `out=` of a function: NumPy's memory cannot be;
- arrays from several places without `dtype=`: of integer and float32 arrays NumPy and torch make different types, too.

Before:
    batch = torch.tensor(frames, dtype=torch.float32)  # [np.load(path) for path in paths]

After:
    batch = torch.as_tensor(np.array(frames), dtype=torch.float32)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.edits import AddImport, Code, Edit, Finding, Replace, Skipped, Tier
from autoaccel.pytorch.arrays import array_elements, may_be_empty, only_last_axis_empty, resizing
from autoaccel.pytorch.device_moves import is_moved
from autoaccel.pytorch.monkeypatching import monkeypatched_in_text
from autoaccel.pytorch.tensor_type_aliases import tensor_type
from autoaccel.rewriting.rule import Rule

RULE = Rule(
    code="AA104",
    name="stacked-arrays",
    tier=Tier.EXACT,
    needles=(b"tensor(", b"Tensor("),
    pattern="torch",
    references=("https://github.com/pytorch/pytorch/issues/13918",),
    addresses=("other", "loader"),
    order=20,
)
_OWN_MEMORY = frozenset({"requires_grad", "pin_memory", "device"})


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    for call in script.find(ast.Call):
        name = script.qualname(call.func)
        if name not in ("torch.tensor", "torch.as_tensor") and tensor_type(script, call.func) is None:
            continue
        data = call.args[0] if call.args else None
        if data is None or isinstance(data, ast.Starred) or any(keyword.arg is None for keyword in call.keywords):
            continue
        elements = array_elements(script, data)
        if elements is None:
            continue
        typed = name not in ("torch.tensor", "torch.as_tensor") or any(each.arg == "dtype" for each in call.keywords)
        if len({each.node for each in elements}) > 1 and not typed:
            yield RULE.skip(call, "arrays from several places may not have the same dtype")
            continue
        if not typed and may_be_empty(script, data):
            yield RULE.skip(call, "of an empty list torch and NumPy make different types")
            continue
        if (problem := monkeypatched_in_text(script, (name or "torch.Tensor", "torch.as_tensor"))) is not None:
            yield RULE.skip(call, problem)
            continue
        if (problem := resizing(script) or _refused_values(script, call, name)) is not None:
            yield RULE.skip(call, problem)
            continue
        message = f"`{script.source(call.func)}` reads a list of arrays element by element"
        exact = all(only_last_axis_empty(script, each) for each in elements)
        tier = Tier.EXACT if exact else Tier.EQUIVALENT
        yield RULE.finding(call, message, *_edits(script, call, data, name), tier=tier)


def _refused_values(script: Script, call: ast.Call, name: str | None) -> str | None:
    """Why values that torch refuses to convert, such as NaN to integers, may matter: the script catches the error."""
    if name not in ("torch.tensor", "torch.as_tensor") or not any(each.arg == "dtype" for each in call.keywords):
        return None
    child: ast.AST = call
    for ancestor in script.ancestors(call):
        if isinstance(ancestor, ast.Try) and ancestor.handlers and child in ancestor.body:
            return "values that do not fit its dtype raise an error, which the script catches"
        child = ancestor
    return None


def _edits(script: Script, call: ast.Call, data: ast.expr, name: str | None) -> Iterator[Edit]:
    function, imports = script.spell("numpy.array")
    if imports:
        alias = script.free_name("np", "numpy")
        function, imports = f"{alias}.array", (AddImport("numpy", None, None if alias == "numpy" else alias),)
    yield from imports
    yield Replace(data, Code(f"{function}({{0}})", (data,)))
    copies = any(keyword.arg in _OWN_MEMORY for keyword in call.keywords) or is_moved(script, call)
    if name == "torch.tensor" and not copies:
        as_tensor, more = script.spell("torch.as_tensor", call.func)
        yield from more
        yield Replace(call.func, Code(as_tensor))
