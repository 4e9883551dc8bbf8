"""What a script does about precision and gradients itself: in a training step, in its file, in those around it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from autoaccel.analysis import name_lookups
from autoaccel.analysis.classes import external_lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import breadth_first, is_constant
from autoaccel.library_models.graph_operations import GRADIENT_HOOKS
from autoaccel.pytorch import implicit_calls
from autoaccel.pytorch.step_effects import Effect, call_effects, calls_in, effects, reads_gradient
from autoaccel_codemods.autocast import skip_reasons

Problem = tuple[ast.AST, str]

PRECISION = re.compile(
    r"^(torch\.(cuda\.|cpu\.)?amp\.(autocast|GradScaler)|torch\.amp\.autocast|apex\..*|torch\.distributed\.fsdp\.sharded_grad_scaler\..*)$"
)
_SHARDED = re.compile(
    r"^torch\.distributed\.(fsdp\..*|_composable\..*|_tensor\..*|tensor\..*|rpc(\..*)?|optim\.DistributedOptimizer|pipelining\..*"
    r"|autograd(\..*)?)$|^horovod\.|^torch_xla\.|^fairscale\.|^torch\.distributed\.pipeline"
)
_ENVIRONMENTS = re.compile(r"^(gym|gymnasium|procgen|dm_env|stable_baselines3|pettingzoo|minigrid|mujoco\w*)(\.|$)")
SPARSE = re.compile(
    r"^torch\.(sparse(\..*)?|sparse_\w+_tensor|spmm|smm|hspmm|sspaddmm)$|^torch_sparse(\..*)?$"
    r"|^torch_geometric\.(\w+\.)+(ToSparseTensor|SparseTensor|to_torch_\w+_tensor)$"
)
_OWN_WAYS = re.compile(
    r"^(opacus|higher|backpack|torchopt|learn2learn|asdl|kfac|curvlinops|MinkowskiEngine|torchsparse|spconv)(\.|$)"
)
_LOW = re.compile(r"^torch\.((cuda\.)?(Half|BFloat16)Tensor|float16|half|bfloat16)$")
_SPELLED = frozenset("fp16 float16 half bf16 bfloat16 torch.float16 torch.half torch.bfloat16 torch.HalfTensor".split())
_FLOAT32 = frozenset({"torch.float32", "torch.float", "torch.FloatTensor", "torch.cuda.FloatTensor"})
_FUNCTIONS = frozenset(f"torch.autograd.{name}" for name in ("Function", "InplaceFunction", "NestedIOFunction"))
_COMPILED = frozenset({"torch.compile", "torch.jit.script", "torch.jit.trace", "torch.compiler.disable"})


def in_file(script: Script, report_at: ast.AST) -> Iterator[Problem]:
    """Reasons that hold for a whole file: its own mixed precision, other default types, sharding, gradient hooks."""
    mentions: list[tuple[ast.Name | ast.Attribute, str]] = [*script.qualified_names, *script.qualified_attributes]
    for node, qualified in mentions:
        reason = _name_reason(qualified) if isinstance(node.ctx, ast.Load) else None
        if reason is not None:
            yield node, reason
            break
    if any("fsdp" in name.lower() for name in script.used_names):
        yield report_at, skip_reasons.SHARDED
    for imported in _imported(script):
        if _ENVIRONMENTS.match(imported):
            yield report_at, skip_reasons.ENVIRONMENT
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
    if any(_ENVIRONMENTS.match(each) for other in script.project.related(script) for each in _imported(other)):
        yield report_at, skip_reasons.ENVIRONMENT
    for other in script.project.related(script):
        for node, why in _gradient_code(other):
            yield problem_at(other, node, why, script, report_at)
        for call in other.find(ast.Call) if other is not script else ():
            if isinstance(call.func, ast.Attribute) and other.qualname(call.func) is None:
                converts = call.func.attr in ("half", "bfloat16", "double", "to") and may_be_module(
                    other, call.func.value
                )
                reason = _conversion(other, call, call.func) if converts else None
                if reason is not None:
                    yield problem_at(other, call, reason, script, report_at)


@once
def acts(script: Script) -> tuple[ast.Call, ...]:
    """Where a script acts in an environment, `state, reward, done, _ = env.step(action)`, of what it resets."""
    called = (call.func for call in script.syntax_index.calls_named("reset"))
    reset = {script.source(each.value) for each in called if isinstance(each, ast.Attribute)}
    found = []
    for call in script.syntax_index.calls_named("step") if reset else ():
        match script.parent(call), call.func:
            case ast.Assign(targets=[ast.Tuple(elts=answers)]), ast.Attribute(value=owner) if len(answers) > 2:
                if call.args and script.source(owner) in reset:
                    found.append(call)
    return tuple(found)


def unseen_hooks(script: Script, report_at: ast.AST) -> Iterator[Problem]:
    """Forward hooks that are no functions in sight, such as callable objects."""
    for other, hook in implicit_calls.hooks(script):
        if not isinstance(hook, ast.FunctionDef | ast.Lambda):
            yield problem_at(other, hook, skip_reasons.UNSEEN_HOOK, script, report_at)


def problem_at(at: Script, node: ast.AST, reason: str, script: Script, report_at: ast.AST) -> Problem:
    """A problem of the analysed script; of one in another file it names the place, and is told at `report_at`."""
    return (node, reason) if at is script else (report_at, place(at, node, reason, script))


def place(at: Script, node: ast.AST, reason: str, script: Script) -> str:
    """A reason and where it lies, seen from the analysed script."""
    file = "another file" if at.path is None else at.path.name
    return f"{reason} ({'' if at is script else f'{file}, '}line {getattr(node, 'lineno', 1)})"


def _gradient_code(script: Script) -> Iterator[tuple[ast.expr, str]]:
    """What a file does with gradients on their way, whichever model it may be handed."""
    for mention in name_lookups.mentions(script, GRADIENT_HOOKS):
        yield mention, skip_reasons.GRADIENT_HOOKS
    for mention in name_lookups.mentions(script, ("retain_grad",)):
        yield mention, skip_reasons.RESULT_GRADIENTS
    for mention in script.syntax_index.mentions("apply"):
        called = script.parent(mention)
        if isinstance(called, ast.Call) and called.func is mention:
            continue  # which is looked at where it is reached
        if isinstance(mention, ast.Attribute) and is_custom_function(script, mention):
            yield mention, skip_reasons.CUSTOM_FUNCTION


@lru_cache(maxsize=10_000)
def _name_reason(qualified: str) -> str | None:
    if PRECISION.match(qualified):
        return skip_reasons.OWN_MIXED_PRECISION
    if _SHARDED.match(qualified):
        return skip_reasons.SHARDED
    if _LOW.match(qualified):
        return skip_reasons.OWN_LOW_PRECISION
    if SPARSE.match(qualified):
        return skip_reasons.SPARSE_MADE
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
    if function.attr.startswith("to_sparse"):
        return skip_reasons.SPARSE_MADE
    return _conversion(script, call, function)


def _conversion(script: Script, call: ast.Call, function: ast.Attribute) -> str | None:
    """Why a call may make a model, or what goes into it, something else than float32: `model.half()`, `x.to(dtype)`."""
    if _is_kept_copy(script, call, function.value):
        return None
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


def _is_kept_copy(script: Script, call: ast.Call, owner: ast.expr) -> bool:
    """Whether what is converted is a copy for a file: `torch.save({"model": deepcopy(model).half()}, path)`."""
    if not (isinstance(owner, ast.Call) and script.qualname(owner.func) == "copy.deepcopy"):
        return False
    around = script.parent(call)
    return isinstance(around, ast.Dict) or (
        isinstance(around, ast.Call) and script.qualname(around.func) == "torch.save"
    )


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
            if keyword.arg == "error_if_nonfinite" and not is_constant(keyword.value, False):
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


def is_custom_function(script: Script, apply: ast.Attribute) -> bool:
    """`MyFunction.apply` of a project's autograd function without `custom_fwd`."""
    for value in script.values(apply.value):
        if value.cls is not None:  # the class, or an object of it, `Fn().apply(x)`
            if not _FUNCTIONS.isdisjoint(external_lineage(value.cls)):
                forward = [
                    each for each in value.cls.node.body if isinstance(each, ast.FunctionDef) and each.name == "forward"
                ]
                if not any(
                    "custom_fwd" in ast.unparse(decorator) for each in forward for decorator in each.decorator_list
                ):
                    return True
    return False
