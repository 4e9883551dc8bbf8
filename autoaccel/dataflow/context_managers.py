"""Context managers that may swallow an exception: behind their `with`, its body may have run halfway."""

from __future__ import annotations

import ast
import sys

from autoaccel.dataflow.bounds import MANAGERS
from autoaccel.dataflow.syntax_index import SyntaxIndex, last_name, walk_scope

# What torch, Python and libraries offer under these names never hides an exception.
_LETTING_THROUGH = frozenset(
    """no_grad enable_grad inference_mode set_grad_enabled autocast detect_anomaly set_detect_anomaly profile
    record_function emit_nvtx emit_itt device stream graph sdpa_kernel sdp_kernel fork_rng saved_tensors_hooks
    save_on_cpu no_sync join summon_full_params set_multithreading_enabled set_stance
    nullcontext closing chdir redirect_stdout redirect_stderr catch_warnings open urlopen tqdm trange Progress
    Pool ThreadPool ThreadPoolExecutor ProcessPoolExecutor Manager Lock RLock Semaphore Condition get_lock
    TemporaryDirectory NamedTemporaryFile TemporaryFile SpooledTemporaryFile ZipFile TarFile GzipFile HDFStore
    errstate printoptions option_context SummaryWriter localcontext Session""".split()
)
_LIBRARIES = sys.stdlib_module_names | frozenset(
    """torch torchvision numpy pandas scipy tqdm rich PIL h5py tensorboard tensorboardX tensorflow requests apex
    accelerate lightning lightning_fabric pytorch_lightning deepspeed fairscale horovod autoaccel""".split()
)
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def may_swallow(index: SyntaxIndex, manager: ast.expr, depth: int = MANAGERS) -> bool:
    """Whether a block may go on behind a `with` after an exception; true of everything that the file does not show."""
    match manager:
        case ast.IfExp(body=body, orelse=orelse):
            return may_swallow(index, body, depth) or may_swallow(index, orelse, depth)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            kinds = index.find(ast.ClassDef), index.find(ast.FunctionDef), index.find(ast.AsyncFunctionDef)
            made = [each for known in kinds for each in known if each.name == name]
            if made:
                return any(_made_swallows(index, each, depth) for each in made)
            return name not in _LETTING_THROUGH or not _is_of_library(index, manager.func)
        case ast.Name(id=name) | ast.Attribute(attr=name) if depth:
            values = [
                each.value
                for each in index.find(ast.Assign)
                if any(isinstance(to, ast.Name | ast.Attribute) and last_name(to) == name for to in each.targets)
            ]
            return not values or any(may_swallow(index, each, depth - 1) for each in values)
        case _:
            return True


def _is_of_library(index: SyntaxIndex, function: ast.expr) -> bool:
    """Whether a name is Python's or comes from a library, not from a file that is not looked at here; of what methods
    belong to, only imports tell."""
    root = function
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return True
    imports: list[ast.Import | ast.ImportFrom] = [*index.find(ast.Import), *index.find(ast.ImportFrom)]
    sources = [
        (each.level, each.module or "") if isinstance(each, ast.ImportFrom) else (0, alias.name)
        for each in imports
        for alias in each.names
        if (alias.asname or alias.name.partition(".")[0]) in (root.id, "*")
    ]
    return all(not level and module.partition(".")[0] in _LIBRARIES for level, module in sources)


def _made_swallows(index: SyntaxIndex, made: ast.ClassDef | _FUNCTIONS, depth: int) -> bool:
    """Whether an instance of a class, or what a function gives, may swallow."""
    if isinstance(made, ast.ClassDef):
        ends = [each for each in made.body if isinstance(each, _FUNCTIONS) and each.name in ("__exit__", "__aexit__")]
        return not ends or any(_gives_truth(each) for each in ends)
    if any(last_name(each) in ("contextmanager", "asynccontextmanager") for each in made.decorator_list):
        return any(_hides(index, each, depth) for each in walk_scope(made))
    returned = [each.value for each in walk_scope(made) if isinstance(each, ast.Return) and each.value is not None]
    if not returned or made.decorator_list or not depth:
        return True
    return any(may_swallow(index, each, depth - 1) for each in returned)


def _gives_truth(method: _FUNCTIONS) -> bool:
    parts = [*walk_scope(method)]
    if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in parts):
        return True
    values = [each.value for each in parts if isinstance(each, ast.Return) and each.value is not None]
    return any(not (isinstance(each, ast.Constant) and not each.value) for each in values)


def _hides(index: SyntaxIndex, block: ast.AST, depth: int) -> bool:
    """Whether a block of a generator keeps an exception that comes in by its `yield`."""
    match block:
        case ast.Try() | ast.TryStar():
            kept = any(not isinstance(each.body[-1], ast.Raise) for each in block.handlers)
            ways = [*block.finalbody, *(part for each in block.handlers for part in each.body)]
            left = any(isinstance(part, ast.Return) for each in ways for part in ast.walk(each))
            return (kept or left) and any(map(_yields, block.body))
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            return any(map(_yields, body)) and (
                not depth or any(may_swallow(index, each.context_expr, depth - 1) for each in items)
            )
        case _:
            return False


def _yields(statement: ast.stmt) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(statement))
