"""What makes low precision unsafe for a training step: in the step itself, in its file, in the models that it runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from autoaccel.analysis import name_lookups
from autoaccel.analysis.classes import external_lineage
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import breadth_first, walk_scope
from autoaccel.library_models import autocast_operations
from autoaccel.library_models.tensor_operations import NO_LOW_PRECISION_KERNELS
from autoaccel.pytorch import implicit_calls
from autoaccel.pytorch.step_effects import Effect, call_effects, calls_in, effects, reads_gradient
from autoaccel_codemods.autocast import skip_reasons

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.completeness import ScriptNode

Problem = tuple[ast.AST, str]

_PRECISION = re.compile(
    r"^(torch\.(cuda\.|cpu\.)?amp\.(autocast|GradScaler)|torch\.amp\.autocast|apex\..*|torch\.distributed\.fsdp\.sharded_grad_scaler\..*)$"
)
_SHARDED = re.compile(
    r"^torch\.distributed\.(fsdp\..*|_composable\..*|_tensor\..*|tensor\..*|rpc(\..*)?|optim\.DistributedOptimizer|pipelining\..*"
    r"|autograd(\..*)?)$|^horovod\.|^torch_xla\.|^fairscale\.|^torch\.distributed\.pipeline"
)
_REMOVED = frozenset(f"torch.{name}" for name in "symeig eig solve lstsq".split())  # refused it as long as they were
_POLICY = re.compile(r"^(gym|gymnasium|procgen|dm_env|stable_baselines3|pettingzoo|minigrid|mujoco\w*)(\.|$)")
_SPARSE = re.compile(
    r"^torch\.(sparse(\..*)?|sparse_\w+_tensor|spmm|smm|hspmm|sspaddmm)$|^torch_sparse(\..*)?$"
    r"|^torch_geometric\.(\w+\.)+(ToSparseTensor|SparseTensor|to_torch_\w+_tensor)$"
)
_OWN_WAYS = re.compile(
    r"^(opacus|higher|backpack|torchopt|learn2learn|asdl|kfac|curvlinops|MinkowskiEngine|torchsparse|spconv)(\.|$)"
)
_LOW = re.compile(r"^torch\.((cuda\.)?(Half|BFloat16)Tensor|float16|half|bfloat16)$")
_SPELLED = frozenset("fp16 float16 half bf16 bfloat16 torch.float16 torch.half torch.bfloat16 torch.HalfTensor".split())
_FLOAT32 = frozenset({"torch.float32", "torch.float", "torch.FloatTensor", "torch.cuda.FloatTensor"})
_CAPTURED = frozenset({"torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables"})
_COMPILED = frozenset({"torch.compile", "torch.jit.script", "torch.jit.trace", "torch.compiler.disable"})
_HOOKS = frozenset(
    {"register_hook", "register_full_backward_hook", "register_backward_hook", "register_post_accumulate_grad_hook"}
)
# What raises in a region when its operands differ in precision: autocast has no rule for it, on the CPU or on CUDA.
_ONE_PRECISION = frozenset().union(*autocast_operations.SAME_DTYPE.values())
_WRITES = frozenset(
    "scatter scatter_add scatter_reduce index_add index_copy index_put index_reduce masked_scatter".split()
)
INDEXED = frozenset(f"{name}{end}" for name in _ONE_PRECISION & _WRITES for end in ("", "_"))
_NORMS = frozenset(
    "torch.batch_norm torch.instance_norm torch.nn.functional.batch_norm torch.nn.functional.instance_norm".split()
)
_NORMALISING = re.compile(r"(native_)?(batch|group|instance|layer)_norm")  # of weights in float32, but for `_NORMS`
_POSITIONS = frozenset("meshgrid cartesian_prod embedding_bag".split())  # seldom have a computed operand
_GIVEN = frozenset(f"torch.{name}" for name in "arange linspace logspace tensor as_tensor zeros ones full".split())
_MIXED_DTYPES_RAISE = frozenset(
    name for name in _ONE_PRECISION - INDEXED - {"put"} if not _NORMALISING.fullmatch(name)
) | {
    "chain_matmul",
    "lerp_",
}
_HALF_LIMIT = 65504.0


def in_file(script: Script, report_at: ast.AST) -> Iterator[Problem]:
    """Reasons that hold for a whole file: its own mixed precision, other default types, sharding, gradient hooks."""
    mentions: list[ast.Name | ast.Attribute] = [*script.find(ast.Name), *script.find(ast.Attribute)]
    for node in mentions:
        qualified = script.qualname(node)
        if qualified is None or not isinstance(node.ctx, ast.Load):
            continue
        reason = _name_reason(qualified)
        if reason is not None:
            yield node, reason
            break
    if any("fsdp" in name.lower() for name in script.used_names):
        yield report_at, skip_reasons.SHARDED
    for imported in _imported(script):
        if _POLICY.match(imported):
            yield report_at, skip_reasons.POLICY_GRADIENTS
            break
        if _OWN_WAYS.match(imported):
            yield report_at, skip_reasons.OWN_GRADIENTS.format(library=imported.split(".")[0])
            break
    for call in script.find(ast.Call):
        reason = _call_reason(script, call)
        if reason is not None:
            yield call, reason
            break
    for constant in script.find(ast.Constant):
        if constant.value in _SPELLED and isinstance(script.parent(constant), ast.Call | ast.keyword | ast.List):
            yield constant, skip_reasons.OWN_LOW_PRECISION
            break


def in_relatives(script: Script, report_at: ast.AST) -> Iterator[Problem]:
    """Conversions of models, hooks of gradients and functions with gradients of their own, in a file and in those that
    share its objects."""
    yield from unseen_hooks(script, report_at)
    for other in script.project.related(script):
        for node, why in _gradient_code(other):
            yield (node, why) if other is script else (report_at, f"{why} ({_file(other)}, line {node.lineno})")
        for call in other.find(ast.Call) if other is not script else ():
            if isinstance(call.func, ast.Attribute) and other.qualname(call.func) is None:
                converts = call.func.attr in ("half", "bfloat16", "double", "to") and may_be_module(
                    other, call.func.value
                )
                reason = _conversion(other, call, call.func) if converts else None
                if reason is not None:
                    yield report_at, f"{reason} ({_file(other)}, line {call.lineno})"


def unseen_hooks(script: Script, report_at: ast.AST) -> Iterator[Problem]:
    """Forward hooks that are no functions in sight, such as callable objects."""
    for other, hook in implicit_calls.hooks(script):
        if not isinstance(hook, ast.FunctionDef | ast.Lambda):
            yield hook if other is script else report_at, skip_reasons.UNSEEN_HOOK


def _file(script: Script) -> str:
    return "another file" if script.path is None else script.path.name


def _gradient_code(script: Script) -> Iterator[tuple[ast.expr, str]]:
    """What a file does with gradients on their way, whichever model it may be handed."""
    for mention in name_lookups.mentions(script, _HOOKS):
        yield mention, skip_reasons.GRADIENT_HOOKS
    for mention in script.syntax_index.mentions("apply"):
        called = script.parent(mention)
        if isinstance(called, ast.Call) and called.func is mention:
            continue  # which is looked at where it is reached
        if isinstance(mention, ast.Attribute) and _is_custom_function(script, mention):
            yield mention, skip_reasons.CUSTOM_FUNCTION


@lru_cache(maxsize=10_000)
def _name_reason(qualified: str) -> str | None:
    if _PRECISION.match(qualified):
        return skip_reasons.OWN_MIXED_PRECISION
    if _SHARDED.match(qualified):
        return skip_reasons.SHARDED
    if _LOW.match(qualified):
        return skip_reasons.OWN_LOW_PRECISION
    if _SPARSE.match(qualified):
        return skip_reasons.SPARSE
    if qualified in _CAPTURED:
        return skip_reasons.CAPTURED
    return skip_reasons.ANOMALY_DETECTION if qualified == "torch.autograd.detect_anomaly" else None


def _imported(script: Script) -> Iterator[str]:
    return (each.target for each in script.reaching_definitions.imports if each.target and not each.level)


def _call_reason(script: Script, call: ast.Call) -> str | None:
    qualified = script.qualname(call.func)
    if qualified == "torch.set_default_tensor_type" or qualified == "torch.set_default_dtype":
        if not call.args or not _is_float32(script, call.args[0]):
            return skip_reasons.OTHER_DEFAULT
    function = call.func
    if not isinstance(function, ast.Attribute) or qualified is not None:
        return None
    return _conversion(script, call, function)


def _conversion(script: Script, call: ast.Call, function: ast.Attribute) -> str | None:
    """Why a call may make a model, or what goes into it, something else than float32: `model.half()`, `x.to(dtype)`."""
    if function.attr in ("half", "bfloat16") and not call.args:
        return skip_reasons.CONVERTED_BY_METHOD.format(method=function.attr)
    if function.attr == "double" and not call.args and may_be_module(script, function.value):
        return skip_reasons.CONVERTED_BY_METHOD.format(method="double")
    if function.attr not in ("to", "type", "to_empty") or not may_be_module(script, function.value):
        return None
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("dtype", "other")]
    for argument in (*call.args, *named):
        kinds = script.values(argument).kinds
        said = argument in named or re.search(r"dtype|precision|getattr\(torch", script.source(argument))
        unsure = Kind.UNKNOWN in kinds and said
        if (Kind.DTYPE in kinds or unsure) and not _is_float32(script, argument):
            return skip_reasons.CONVERTED
    return None


def _is_float32(script: Script, dtype: ast.expr) -> bool:
    """Whether a type surely is float32."""
    if isinstance(dtype, ast.Constant):
        return dtype.value in ("torch.FloatTensor", "torch.cuda.FloatTensor")
    names = [value.name for value in script.values(dtype)]
    return bool(names) and all(name in _FLOAT32 for name in names)


def may_be_module(script: Script, expression: ast.expr) -> bool:
    """Whether an expression may be a module: what is not known is one if it is used like one, or made nothing of."""
    kinds = script.values(expression).kinds
    if Kind.MODULE in kinds:
        return True
    if Kind.UNKNOWN not in kinds:
        return False
    conversion = script.parent(script.parent(expression) or expression) or expression
    if isinstance(script.parent(conversion), ast.Expr):
        return True
    text = script.source(expression)
    return any(
        script.source(each) == text and _is_used_as_module(script, each)
        for kind in (ast.Name, ast.Attribute)
        for each in script.find(kind)
    )


def _is_used_as_module(script: Script, expression: ast.expr) -> bool:
    match script.parent(expression):
        case ast.Call(func=function):
            return function is expression
        case ast.Attribute(attr="parameters" | "train" | "eval" | "state_dict" | "load_state_dict" | "zero_grad"):
            return True
        case _:
            return False


def in_step(script: Script, scope: ast.AST) -> Iterator[Problem]:
    """Reasons in the functions of the step and in what they call."""
    if Effect.DOUBLE in effects(script, scope):
        yield _first_double(script, scope), skip_reasons.SECOND_DERIVATIVE
    for decorator in getattr(scope, "decorator_list", ()):
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        if script.qualname(function) in _COMPILED:
            yield decorator, skip_reasons.COMPILED_STEP
    for call in calls_in(script, scope):
        for keyword in call.keywords:
            if keyword.arg == "error_if_nonfinite" and not _false(keyword.value):
                yield call, skip_reasons.FINITE_GRADIENTS
    for other, node in _reading(script, scope):
        for call in calls_in(other, node):
            if (other.qualname(call.func) or "").startswith("torch.distributed.") and _passes_gradients(other, call):
                yield node if other is script else scope, skip_reasons.EXCHANGED_GRADIENTS
    for statement in script.find(ast.With):
        if (script.function(statement) or script.tree) is scope:
            for item in statement.items:
                expression = item.context_expr
                function = expression.func if isinstance(expression, ast.Call) else expression
                if script.runtime_name(function) or _precision_context(script, expression):
                    yield statement, skip_reasons.OWN_MIXED_PRECISION


def _reading(script: Script, scope: ast.AST) -> list[ScriptNode]:
    """The function itself and those that it calls which read gradients."""
    found: list[ScriptNode] = [(script, scope)]
    for call in calls_in(script, scope):
        if Effect.GRADIENTS in call_effects(script, call):
            found += script.callees(call)
    return found


def _passes_gradients(script: Script, call: ast.Call) -> bool:
    return any(
        isinstance(part, ast.Attribute) and reads_gradient(script, part)
        for argument in call.args
        for part in breadth_first(argument)
    )


def _precision_context(script: Script, expression: ast.expr) -> bool:
    """`with ctx:` where ctx may be an autocast region."""
    text = script.source(expression).lower()
    return "autocast" in text or re.search(r"\bamp\b|\bamp_ctx\b", text) is not None


def _first_double(script: Script, scope: ast.AST) -> ast.AST:
    for call in calls_in(script, scope):
        if Effect.DOUBLE in call_effects(script, call):
            return call
    return scope


def _false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


# -- code under autocast


def in_code(code: list[ScriptNode], file: Script, report_at: ast.AST) -> Iterator[Problem]:
    """Reasons in code that comes under autocast; `report_at` in the script `file` stands for code of other files."""
    for script, node in code:
        if isinstance(node, ast.FunctionDef) and (
            node.name in ("__init__", "__new__") or node.name.startswith(("init_", "_init", "reset_"))
        ):
            continue
        for part in breadth_first(node) if isinstance(node, ast.FunctionDef) else walk_scope(node):
            reason = _unsafe(script, part)
            if reason is None or (script is file and not isinstance(node, ast.FunctionDef) and _is_cast(script, part)):
                continue
            if script is file:
                yield part, reason
            else:
                yield report_at, f"{reason} ({_file(script)}, line {getattr(part, 'lineno', 1)})"


def _unsafe(script: Script, node: ast.AST) -> str | None:
    match node:
        case ast.Call():
            qualified = script.qualname(node.func)
            if _refuses(script, node):
                return skip_reasons.NO_KERNEL.format(name=qualified or _name(node))
            if qualified is not None:
                if _PRECISION.match(qualified):
                    return skip_reasons.MODEL_MIXED_PRECISION
                if _SPARSE.match(qualified):
                    return skip_reasons.SPARSE
            if _raises_on_mixed_dtypes(script, node):
                return skip_reasons.ONE_PRECISION.format(name=_name(node))
            if _custom_function(script, node):
                return skip_reasons.CUSTOM_FUNCTION
            if _computed_norm(script, node):
                return skip_reasons.COMPUTED_WEIGHTS.format(name=_name(node))
            if (
                isinstance(node.func, ast.Attribute)
                and node.func.attr in ("half", "double", "bfloat16")
                and not node.args
            ):
                return skip_reasons.MODEL_CONVERTS.format(method=node.func.attr)
            if _is_running_statistic(node.func):
                return skip_reasons.RUNNING_AVERAGES
            if _log_of_complement(script, node):
                return skip_reasons.LOG_OF_COMPLEMENT
            if (
                isinstance(node.func, ast.Attribute)
                and node.func.attr == "backward"
                and qualified is None
                and not script.callees(node)
            ):
                return skip_reasons.MODEL_BACKWARD
    return None


def _is_running_statistic(function: ast.expr) -> bool:
    """`self.cluster_size.data.mul_(…)`: a buffer that a forward pass averages into."""
    match function:
        case ast.Attribute(value=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")), attr="data"), attr=name):
            return name.endswith("_")
        case _:
            return False


def _refuses(script: Script, call: ast.Call) -> bool:
    """`torch.quantile(x, 0.5)`, `x.inverse()`: no kernels for low precision, on the CPU or on CUDA, where autocast
    does not cast it either."""
    operands = [*call.args, *(keyword.value for keyword in call.keywords)]
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
    return isinstance(part, ast.Call) and _name(part) in NO_LOW_PRECISION_KERNELS and _refuses(script, part)


def _in_float32(script: Script, expression: ast.expr, device: str, depth: int = 3) -> bool:
    """Whether a value is surely no tensor in low precision in a region on a device: cast, or computed in float32."""
    match expression:
        case ast.Constant() | ast.Call(func=ast.Attribute(attr="float" | "double"), args=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[dtype]) if script.qualname(dtype) in _FULL:
            return True
        case ast.Call():
            qualified = script.qualname(expression.func)
            if qualified is None and (script.callees(expression) or not isinstance(expression.func, ast.Attribute)):
                return False
            known = qualified is None or qualified.startswith("torch.")
            return known and _name(expression) in autocast_operations.FLOAT32[device]
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


_CTC = "torch.nn.functional.ctc_loss"
_FULL = frozenset({"torch.float", "torch.float32", "torch.double", "torch.float64"})


def _raises_on_mixed_dtypes(script: Script, call: ast.Call) -> bool:
    """`torch.dot(a, b)` and `a.dot(b)`; arrays have no such trouble."""
    if _name(call) not in _MIXED_DTYPES_RAISE:
        return False
    if _name(call) in _POSITIONS and all(_is_made(script, operand) for operand in call.args):
        return False
    qualified = script.qualname(call.func)
    if qualified is not None:
        return qualified.startswith("torch.")
    return isinstance(call.func, ast.Attribute) and script.kind(call.func.value) in (None, Kind.TENSOR)


def _is_made(script: Script, expression: ast.expr) -> bool:
    """Whether a tensor is surely counted or given, not computed: no region has changed its precision."""
    match expression:
        case ast.Call():
            return script.qualname(expression.func) in _GIVEN
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return all(_is_made(script, each) for each in elements)
        case ast.Name() if definitions := script.definitions(expression):
            return all(
                each.how == "assign" and not each.path and each.value is not None and _is_made(script, each.value)
                for each in definitions
            )
        case _:
            return script.kind(expression) in (Kind.NUMBER, Kind.PARAMETER)


def _log_of_complement(script: Script, call: ast.Call) -> bool:
    """`torch.log(1 - p)`: in low precision p rounds to 1 much earlier."""
    operand: ast.expr | None = None
    if script.qualname(call.func) in ("torch.log", "torch.log2", "torch.log10") and call.args:
        operand = call.args[0]
    elif isinstance(call.func, ast.Attribute) and call.func.attr == "log" and not call.args:
        operand = call.func.value
    match operand:
        case ast.BinOp(op=ast.Sub(), left=ast.Constant(), right=ast.expr()):
            return True
        case _:
            return False


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


def _custom_function(script: Script, call: ast.Call) -> bool:
    """`MyFunction.apply(…)` of a project's autograd function without `custom_fwd`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "apply" and _is_custom_function(script, call.func)


def _is_custom_function(script: Script, apply: ast.Attribute) -> bool:
    for value in script.values(apply.value):
        if value.kind is Kind.CLASS and value.cls is not None:
            if "torch.autograd.Function" in set(external_lineage(value.cls)):
                forward = [
                    each for each in value.cls.node.body if isinstance(each, ast.FunctionDef) and each.name == "forward"
                ]
                if not any(
                    "custom_fwd" in ast.unparse(decorator) for each in forward for decorator in each.decorator_list
                ):
                    return True
    return False


def _computed_norm(script: Script, call: ast.Call) -> bool:
    """`F.batch_norm(x, mean, var, weight, …)` whose weight is neither a parameter nor made of one, as in AdaIN."""
    if script.qualname(call.func) not in _NORMS:
        return False
    weight = call.args[3] if len(call.args) > 3 else next((e.value for e in call.keywords if e.arg == "weight"), None)
    if weight is None or (isinstance(weight, ast.Constant) and weight.value is None):
        return False
    if any(isinstance(part, ast.expr) and script.kind(part) is Kind.PARAMETER for part in breadth_first(weight)):
        return False
    cls = script.enclosing_class(call)
    lineage = set() if cls is None else set(external_lineage(script.class_ref(cls)))
    return not any(base.startswith("torch.nn.") and base != "torch.nn.Module" for base in lineage)


def needs_range(code: list[ScriptNode]) -> bool:
    """Whether code uses numbers that float16 cannot hold: `masked_fill(mask, -1e9)`, gram matrices of feature maps."""
    for script, node in code:
        for call in script.within(node, ast.Call):
            arguments = (*call.args, *(each.value for each in call.keywords))
            if _name(call) in _FILLS and any(map(_large, arguments)):
                return True
            if _name(call) in ("bmm", "mm", "matmul") and _gram(script, call):
                return True
        for part in script.within(node, ast.BinOp):
            if isinstance(part.op, ast.MatMult) and _transposed(script, part.right, part.left):
                return True
    return False


_FILLS = frozenset({"masked_fill", "masked_fill_", "full_like", "fill_"})


def _large(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, float | int) and abs(node.value) > _HALF_LIMIT


def _name(call: ast.Call) -> str:
    return (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else call.func.id
        if isinstance(call.func, ast.Name)
        else ""
    )


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
        case (
            ast.Call(func=ast.Attribute(value=value, attr="t" | "transpose" | "permute"))
            | ast.Attribute(value=value, attr="T" | "mT")
        ):
            return ast.unparse(value) == ast.unparse(first)
        case _:
            return False


__all__ = [
    "Problem",
    "in_code",
    "in_file",
    "in_relatives",
    "in_step",
    "may_be_module",
    "needs_range",
    "written_by_index",
]
