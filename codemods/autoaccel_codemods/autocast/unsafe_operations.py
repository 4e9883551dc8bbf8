"""What does not work in low precision: operations that refuse it or lose by it, in the code under autocast."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autoaccel.analysis.classes import external_lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.bounds import CASTS
from autoaccel.dataflow.call_arguments import given_as, given_values
from autoaccel.dataflow.completeness import Incomplete, ScriptNode
from autoaccel.dataflow.syntax_index import breadth_first, is_constant, last_name
from autoaccel.library_models import autocast_operations
from autoaccel.library_models.tensor_operations import NO_LOW_PRECISION_KERNELS, WRITING_ROWS
from autoaccel.library_models.tensor_views import VIEWS
from autoaccel.pytorch.kept_state import is_layer_weight
from autoaccel_codemods.autocast import filled_numbers, skip_reasons
from autoaccel_codemods.autocast.blockers import PRECISION, SPARSE, Problem, is_custom_function, place, problem_at
from autoaccel_codemods.autocast.value_origins import is_computed

_REMOVED = frozenset(f"torch.{name}" for name in "symeig eig solve lstsq".split())  # refused it as long as they were
# What raises in a region when its operands differ in precision: autocast has no rule for it, on the CPU or on CUDA.
_ONE_PRECISION = frozenset().union(*autocast_operations.SAME_DTYPE.values())
_INDEXED = frozenset(f"{name}{end}" for name in _ONE_PRECISION & WRITING_ROWS for end in ("", "_"))
_NORMS = frozenset(
    "torch.batch_norm torch.instance_norm torch.nn.functional.batch_norm torch.nn.functional.instance_norm".split()
)
_NORMALISING = re.compile(r"(native_)?(batch|group|instance|layer)_norm")  # of weights in float32, but for `_NORMS`
_POSITIONS = frozenset("meshgrid cartesian_prod embedding_bag".split())  # seldom have a computed operand
_GIVEN = frozenset(f"torch.{name}" for name in "arange linspace logspace tensor as_tensor zeros ones full".split())
_MIXED_DTYPES_RAISE = frozenset(
    name for name in _ONE_PRECISION - _INDEXED - {"put"} if not _NORMALISING.fullmatch(name)
) | {
    "chain_matmul",
    "lerp_",
    "put_",
    "set_",
}
_LOWERED = frozenset().union(*autocast_operations.LOWER.values())
_IN_PLACE = frozenset(f"{name}_" for name in _LOWERED)  # autocast leaves these as they are
_ANOMALIES = re.compile(r"detect_anomaly\((?!\s*(?:mode\s*=\s*)?False)")
_AT_LEAST = frozenset("clamp clamp_ clamp_min clamp_min_ clip clip_ maximum relu".split())
_HALF_ROUNDS_TO_ZERO = 2.0**-25  # half of the smallest number above 0


def in_code(code: list[ScriptNode], file: Script, report_at: ast.AST, *, in_float32: bool = False) -> Iterator[Problem]:
    """Reasons in code that comes under autocast, or `in_float32` is given its results alone; `report_at` in the script
    `file` stands for code of other files."""
    for script, node, part in _parts(code):
        reason = (None if in_float32 else _raises(script, part)) or _is_wrong(script, part)
        if reason is None or (script is file and not isinstance(node, ast.FunctionDef) and _is_cast(script, part)):
            continue
        yield problem_at(script, part, reason, file, report_at)


def needs_float32(code: list[ScriptNode]) -> bool:
    """Whether code may raise, or be wrong, in low precision alone: on the same numbers in float32 it works."""
    return any(_raises(script, part) is not None for script, _, part in _parts(code))


def _parts(code: list[ScriptNode]) -> Iterator[tuple[Script, ast.AST, ast.AST]]:
    """What may be unsafe in code, with the function or statement that it is a part of."""
    for script, node in code:
        if isinstance(node, ast.FunctionDef):
            if node.name not in ("__init__", "__new__") and not node.name.startswith(("init_", "_init", "reset_")):
                yield from ((script, node, part) for part in breadth_first(node))
        else:
            yield from ((script, node, part) for part in script.in_scope(node, ast.Call))


def _raises(script: Script, node: ast.AST) -> str | None:
    """Why code does not work in low precision, as it does in float32."""
    if (test := tested(node)) is not None:
        return skip_reasons.INSISTS if insists(script, test) else None
    if not isinstance(node, ast.Call):
        return None
    name = last_name(node.func)
    if _refuses(script, node):
        return skip_reasons.NO_KERNEL.format(name=script.qualname(node.func) or name)
    if _raises_on_mixed_dtypes(script, node):
        return skip_reasons.ONE_PRECISION.format(name=name)
    if _computed_norm(script, node):
        return skip_reasons.COMPUTED_WEIGHTS.format(name=name)
    if name == "bincount" and _is_weighted(script, node):
        return skip_reasons.DOUBLE_COUNTS
    if (beyond := filled_numbers.beyond_bfloat16(script, node)) is not None:
        return skip_reasons.BEYOND_BFLOAT16.format(number=beyond)
    return skip_reasons.CUSTOM_FUNCTION if _is_custom(script, node) else None


def _is_wrong(script: Script, node: ast.AST) -> str | None:
    """Why code is not for what a region has computed, whatever precision it is in by then."""
    if not isinstance(node, ast.Call):
        return None
    function, name, qualified = node.func, last_name(node.func), script.qualname(node.func)
    if qualified is not None and PRECISION.match(qualified):
        return skip_reasons.MODEL_MIXED_PRECISION
    if qualified is not None and SPARSE.match(qualified):
        return skip_reasons.SPARSE
    if _is_running_statistic(function):
        return skip_reasons.RUNNING_AVERAGES
    if not isinstance(function, ast.Attribute):
        return None
    if name in ("half", "double", "bfloat16") and not node.args:
        return skip_reasons.MODEL_CONVERTS.format(method=name)
    if name == "backward" and qualified is None and not script.callees(node):
        return skip_reasons.MODEL_BACKWARD
    return None


def tested(node: ast.AST) -> ast.expr | None:
    """What an `assert` holds, or an `if` that raises asks."""
    raises = isinstance(node, ast.Assert) or (isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise))
    return node.test if raises else None  # type: ignore[attr-defined]


def insists(script: Script, test: ast.expr) -> bool:
    """`assert x.dtype == torch.float32`."""
    parts = [each for each in breadth_first(test) if isinstance(each, ast.Attribute)]
    return any(each.attr == "dtype" for each in parts) and is_float32(script, test)


def is_float32(script: Script, test: ast.expr) -> bool:
    """Whether a test names float32, as a type or as that of tensors."""
    return any(
        script.qualname(each) in _FULL | _FULL_TENSORS
        for each in breadth_first(test)
        if isinstance(each, ast.Attribute)
    )


def _is_running_statistic(function: ast.expr) -> bool:
    """`self.cluster_size.data.mul_(…)`: a buffer that a forward pass averages into."""
    match function:
        case ast.Attribute(value=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")), attr="data"), attr=name):
            return name.endswith("_")
        case _:
            return False


def _refuses(script: Script, call: ast.Call) -> bool:
    """`torch.quantile(x, 0.5)`, `x.inverse()`: no kernels for low precision, on the CPU or on CUDA, where autocast
    does not cast it either, and a region may hand it some."""
    operands = given_values(call)
    qualified = script.qualname(call.func)
    if qualified in _REMOVED:
        return True
    if qualified == _CTC or any(value.name == "torch.nn.CTCLoss" for value in script.values(call.func)):
        tables, name, operands = autocast_operations.REFUSING, _CTC, operands[:1]  # the others are whole numbers
    elif qualified is not None:
        tables, name = autocast_operations.REFUSING, qualified
    elif isinstance(call.func, ast.Attribute) and script.kind(call.func.value) in (None, Kind.TENSOR, Kind.PARAMETER):
        if script.callees(call):
            return False
        tables, name = autocast_operations.REFUSING_METHODS, call.func.attr
        operands.insert(0, call.func.value)
    else:
        return False
    return any(
        name in names and not all(_in_float32(script, operand, device) for operand in operands)
        for device, names in tables.items()
    )


def _is_cast(script: Script, part: ast.AST) -> bool:
    """Whether a call in the region itself is given float32 where it would refuse what it is given."""
    return isinstance(part, ast.Call) and last_name(part.func) in NO_LOW_PRECISION_KERNELS and _refuses(script, part)


def _in_float32(script: Script, expression: ast.expr, device: str, depth: int = CASTS) -> bool:
    """Whether a value is surely no tensor in low precision in a region on a device: cast, computed in float32, or
    nothing that the region computes, as what a loader gives."""
    if _is_made_in_float32(script, expression, device, depth):
        return True
    trained = isinstance(expression, ast.Attribute) and is_layer_weight(script, expression)
    return not trained and not is_computed(script, expression)


def _is_made_in_float32(script: Script, expression: ast.expr, device: str, depth: int) -> bool:
    match expression:
        case ast.Constant() | ast.Call(func=ast.Attribute(attr="float" | "double"), args=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[dtype]) if script.qualname(dtype) in _FULL:
            return True
        case ast.Call() if (viewed := _viewed(script, expression)) is not None:
            return _in_float32(script, viewed, device, depth)
        case ast.Call():
            qualified = script.qualname(expression.func)
            if qualified is None and (script.callees(expression) or not isinstance(expression.func, ast.Attribute)):
                return False
            known = qualified is None or qualified.startswith("torch.")
            return known and last_name(expression.func) in autocast_operations.FLOAT32[device]
        case ast.UnaryOp(operand=operand):
            return _in_float32(script, operand, device, depth)
        case ast.BinOp(left=left, op=op, right=right) if not isinstance(op, ast.MatMult):
            return all(_in_float32(script, each, device, depth) for each in (left, right))
        case ast.Name() if depth and (definitions := script.definitions(expression)):
            return all(
                each.how == "assign"
                and not each.path
                and each.value is not None
                and _in_float32(script, each.value, device, depth - 1)
                for each in definitions
            )
        case _:
            return script.kind(expression) in (Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE)


def _viewed(script: Script, call: ast.Call) -> ast.expr | None:
    """What a call gives in another shape, in the same precision: `x.transpose(0, 1)`, `torch.transpose(x, 0, 1)`."""
    if last_name(call.func) not in _SAME_PRECISION or any(script.values(each).kinds & _OTHER for each in call.args):
        return None
    qualified = script.qualname(call.func)
    if qualified is not None:
        return call.args[0] if qualified.startswith("torch.") and call.args else None
    if isinstance(call.func, ast.Attribute) and not script.callees(call):
        return call.func.value if script.kind(call.func.value) in (None, Kind.TENSOR) else None
    return None


_CTC = "torch.nn.functional.ctc_loss"
_SAME_PRECISION = VIEWS | {"contiguous", "clone"}
_OTHER = frozenset({Kind.DTYPE})


_FULL = frozenset({"torch.float", "torch.float32", "torch.double", "torch.float64"})
_FULL_TENSORS = frozenset({"torch.FloatTensor", "torch.cuda.FloatTensor"})


def _raises_on_mixed_dtypes(script: Script, call: ast.Call) -> bool:
    """`torch.dot(a, b)` and `a.dot(b)`; arrays have no such trouble."""
    name = last_name(call.func)
    written_to = any(each.arg == "out" for each in call.keywords)
    if name not in _MIXED_DTYPES_RAISE | _IN_PLACE and not (name in _LOWERED and written_to):
        return False
    if last_name(call.func) in _POSITIONS and all(_is_counted(script, operand) for operand in call.args):
        return False
    qualified = script.qualname(call.func)
    if qualified is not None:
        return qualified.startswith("torch.")
    return isinstance(call.func, ast.Attribute) and script.kind(call.func.value) in (None, Kind.TENSOR)


def _is_counted(script: Script, operand: ast.expr) -> bool:
    """Whether a tensor surely is made here of numbers, not computed: no region has changed its precision."""
    return isinstance(operand, ast.Call) and script.qualname(operand.func) in _GIVEN


def _is_weighted(script: Script, call: ast.Call) -> bool:
    """`torch.bincount(x, w)`, `x.bincount(weights=w)`; NumPy has no low precision."""
    qualified = script.qualname(call.func)
    if qualified is not None and not qualified.startswith("torch."):
        return False
    return len(call.args) > (qualified is not None) or given_as(call, "weights") is not None


def written_by_index(script: Script, index: ast.expr) -> bool:
    """Whether an index may be a tensor, list or mask: torch then insists on equal types; numbers and slices convert."""
    match index:
        case ast.Tuple(elts=elements):
            return any(written_by_index(script, each) for each in elements)
        case ast.Slice() | ast.Constant() | ast.UnaryOp(operand=ast.Constant()) | ast.JoinedStr():
            return False
        case ast.List() | ast.Compare():
            return True
        case ast.BinOp(left=left, right=right):
            return written_by_index(script, left) or written_by_index(script, right)
        case _:
            kinds = script.values(index).kinds
            return bool(kinds & {Kind.TENSOR, Kind.BATCH, Kind.ARRAY, Kind.SEQUENCE, Kind.UNKNOWN})


def _computed_norm(script: Script, call: ast.Call) -> bool:
    """`F.batch_norm(x, mean, var, weight, …)` whose weight is neither a parameter nor made of one, as in AdaIN."""
    if script.qualname(call.func) not in _NORMS:
        return False
    weight = call.args[3] if len(call.args) > 3 else next((e.value for e in call.keywords if e.arg == "weight"), None)
    if weight is None or is_constant(weight, None):
        return False
    if any(isinstance(part, ast.expr) and script.kind(part) is Kind.PARAMETER for part in breadth_first(weight)):
        return False
    cls = script.enclosing_class(call)
    lineage = set() if cls is None else set(external_lineage(script.class_ref(cls)))
    return not any(base.startswith("torch.nn.") and base != "torch.nn.Module" for base in lineage)


def needs_range(code: list[ScriptNode], file: Script) -> str | None:
    """Which numbers in code, and where, float16 cannot hold: `masked_fill(mask, -1e9)`, gram matrices of feature maps,
    `log(p + 1e-8)`. Those that meet low precision by themselves are `float16_range`'s."""
    for script, node in code:
        parts: list[ast.Call | ast.BinOp] = [*script.within(node, ast.Call), *script.within(node, ast.BinOp)]
        for part in parts:
            if (reason := _beyond_float16(script, part)) is not None:
                return place(script, part, reason, file)
    return None


def _beyond_float16(script: Script, part: ast.Call | ast.BinOp) -> str | None:
    match part:
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            tiny = next(filter(_tiny, (right, left)), None)
        case ast.BinOp(op=ast.MatMult(), left=left, right=right) if _transposed(script, right, left):
            return skip_reasons.GRAM
        case ast.Call() if (number := filled_numbers.beyond_float16(script, part)) is not None:
            return skip_reasons.BEYOND_FLOAT16.format(number=number)
        case ast.Call() if last_name(part.func) in ("bmm", "mm", "matmul") and _gram(script, part):
            return skip_reasons.GRAM
        case ast.Call() if last_name(part.func) in _AT_LEAST:
            tiny = next(filter(_tiny, given_values(part)), None)
        case _:
            tiny = None
    return None if tiny is None else skip_reasons.ROUNDED_TO_ZERO.format(number=script.source(tiny))


def sees_gradients(code: list[ScriptNode]) -> bool:
    """Whether code sees gradients on their way, which are not those of the program while they are scaled."""
    return any(_is_custom(script, call) for script, node in code for call in script.within(node, ast.Call))


def _is_custom(script: Script, call: ast.Call) -> bool:
    """`Clamped.apply(x)` of a custom autograd function."""
    function = call.func
    return isinstance(function, ast.Attribute) and function.attr == "apply" and is_custom_function(script, function)


def looks_for_overflows(script: Script) -> bool:
    """Whether a program asks for gradients that are not finite, as the first ones under a scale of float16 are: by
    their norm, `if torch.isnan(grad_norm): raise …`, or by torch's own look at them, `set_detect_anomaly(True)`."""
    try:
        files = script.project.related(script)
    except Incomplete:
        return True
    calls = ((file, call) for file in files for call in file.syntax_index.calls_named("isnan", "isinf", "isfinite"))
    return any(_ANOMALIES.search(file.text) for file in files) or any(_is_of_gradients(*each) for each in calls)


def _is_of_gradients(script: Script, call: ast.Call) -> bool:
    """Whether a call asks for the norm of gradients, or for one of them."""
    pending: list[ast.AST] = [*given_values(call), *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
    seen: set[ast.AST] = set()
    while pending:
        asked = pending.pop()
        for part in breadth_first(asked) if asked not in seen else ():
            if isinstance(part, ast.Attribute) and part.attr == "grad":
                return True
            if isinstance(part, ast.Call) and last_name(part.func).startswith("clip_grad_norm"):
                return True
            if isinstance(part, ast.Name):
                pending.extend(each.value for each in script.definitions(part) if each.value is not None)
        seen.add(asked)
    return False


def _tiny(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < node.value <= _HALF_ROUNDS_TO_ZERO


def _gram(script: Script, call: ast.Call) -> bool:
    """`f.bmm(f.transpose(1, 2))`: its sums over all positions overflow float16."""
    operands = list(call.args)
    if isinstance(call.func, ast.Attribute) and len(operands) == 1:
        operands.insert(0, call.func.value)
    return len(operands) == 2 and _transposed(script, operands[1], operands[0])


def _transposed(script: Script, second: ast.expr, first: ast.expr) -> bool:
    if isinstance(second, ast.Name):
        definitions = script.definitions(second)
        if len(definitions) == 1 and definitions[0].value is not None and not definitions[0].path:
            second = definitions[0].value
    match second:
        case ast.Call(func=function, args=[value, *_]) if script.qualname(function) in ("torch.t", "torch.transpose"):
            return ast.unparse(value) == ast.unparse(first)
        case (
            ast.Call(func=ast.Attribute(value=value, attr="t" | "transpose" | "permute"))
            | ast.Attribute(value=value, attr="T" | "mT")
        ):
            return ast.unparse(value) == ast.unparse(first)
        case _:
            return False
