"""Who sees that gradients are off, or that a function is decorated: what is looked up by its name, or in its frame."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from autoaccel.analysis.script import Script
from autoaccel.pytorch.forwards import forward_calls
from autoaccel.pytorch.gradients import trains
from autoaccel.pytorch.hidden_gradients import code_run_by
from autoaccel.pytorch.object_references import connected_files

_ASKED = ("is_grad_enabled", "is_inference_mode_enabled")
_INTROSPECTION = re.compile(  # `re` looks for the letters that it can begin with, so that none begins with `\b`
    r"get(?:full)?argspec|__(?:code|(?:kw)?defaults)__|f(?<=\bf)_back\b|_getframe|currentframe|inspect\.stack"
    r"|inspect import[^\n]*\bstack\b|stacklevel"
)
_GRAPHS = re.compile(r"saved_tensors_hooks|next_functions|torchviz|make_dot|autograd\.graph\b|autograd\.profiler")
_COMPILED = re.compile(r"\bcompile\b")
_COMPILED_FOR_ONE_MODE = re.compile(
    r"reduce-overhead|max-autotune|cudagraph|set_stance|error_on_recompile|fail_on_recompile", re.IGNORECASE
)
_AUTOCAST = re.compile(r"(^|\.)(autocast|custom_fwd)$")


def asks_for_mode(script: Script, region: Iterable[ast.AST]) -> str | None:
    """Whether code that an evaluation may enter asks whether gradients are on."""
    places: list[tuple[Script, ast.Name | ast.Attribute]] = []
    for other in connected_files(script):
        for mention in other.syntax_index.mentions(*_ASKED, *other.import_aliases(_ASKED)):
            if isinstance(mention.ctx, ast.Load):
                places.append((other, mention))
    if not places:
        return None
    parts = list(code_run_by(script, [*region]))
    called = {
        each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")
        for other, part in parts
        for each in (call.func for call in other.within(part, ast.Call))
    }
    for other, mention in places:
        scope = other.function(mention)
        if any(home_file is other and other.inside(mention, part) for home_file, part in parts):
            return f"`{other.source(mention)}` is asked for in it"
        if scope is not None and (isinstance(scope, ast.Lambda) or scope.name in called):
            return f"`{other.source(mention)}` may be asked for in it"
    return None


def is_introspected(script: Script) -> bool:
    """Whether the project looks at the code, the defaults or the frames of functions, of which a decorator has its
    own. Raises `Incomplete`."""
    return any(_INTROSPECTION.search(text) for text in script.project.related_texts(script))


def inspects_graphs(script: Script) -> bool:
    """Whether the project looks at what autograd records. Raises `Incomplete`."""
    return any(_GRAPHS.search(text) for text in script.project.related_texts(script))


def compiles_for_one_mode(script: Script) -> bool:
    """Whether the project compiles models in a way that tells grad modes apart: it refuses to compile them again, or
    keeps outputs in the memory of a CUDA graph, which the next call without gradients takes back. Raises
    `Incomplete`."""
    texts = list(script.project.related_texts(script))
    return any(map(_COMPILED.search, texts)) and any(map(_COMPILED_FOR_ONE_MODE.search, texts))


def shares_weight_cache(script: Script, node: ast.AST, function: ast.AST | None) -> bool:
    """Whether an evaluation runs in an autocast region of the script's own that also trains: before torch 2.11 the
    casts that autocast caches under `no_grad` have no graph, and are used again."""
    return any(_trains_besides(other, block, inner) for other, block, inner in _regions(script, node, function))


def _regions(script: Script, node: ast.AST, function: ast.AST | None) -> Iterator[tuple[Script, ast.AST, ast.AST]]:
    """The autocast regions around an evaluation or the calls that lead to it, with what lies in them."""
    pending: list[tuple[Script, ast.AST]] = [(script, node)] if function is None else [*script.callers(function)]
    seen: set[ast.AST] = set()
    while pending:
        other, inner = pending.pop()
        if inner in seen:
            continue
        seen.add(inner)
        for ancestor in other.ancestors(inner):
            if isinstance(ancestor, ast.With):
                if any(_is_autocast(other, item.context_expr) for item in ancestor.items):
                    yield other, ancestor, inner
            elif isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
                if any(_is_autocast(other, each) for each in ancestor.decorator_list):
                    yield other, ancestor, inner
                pending.extend(other.callers(ancestor))
                break


def _is_autocast(script: Script, manager: ast.expr) -> bool:
    function = manager.func if isinstance(manager, ast.Call) else manager
    name = function.attr if isinstance(function, ast.Attribute) else None
    if not _AUTOCAST.search(script.qualname(function) or name or ""):
        return False
    settings = manager.keywords if isinstance(manager, ast.Call) else []
    return not any(
        each.arg in ("enabled", "cache_enabled") and isinstance(each.value, ast.Constant) and not each.value.value
        for each in settings
    )


def _trains_besides(script: Script, block: ast.AST, evaluation: ast.AST) -> bool:
    """Whether a region trains, or runs models, besides what leads to an evaluation in it."""
    if any(call is not evaluation and not script.inside(call, evaluation) for call in forward_calls(script, block)):
        return True
    return any(
        trains(other, function) for call in script.in_scope(block, ast.Call) for other, function in script.callees(call)
    )
