"""Evaluate without gradients.

Outside training nobody calls `backward`, and yet autograd keeps every intermediate result of every forward pass for it.
Under `torch.no_grad()` memory is freed as soon as it is used, and no graph is built.

A function that only evaluates gets the decorator; where training and evaluation share a function, the loop or the
statements that evaluate are wrapped, and so are they where a project looks at the code or the frames of its functions.
Of a function that trains under a flag (`run_epoch(loader, optimizer=None)`), those calls are wrapped whose constants
say that they do not; in a loop over phases the statement gets `torch.set_grad_enabled(phase == "train")`.

A tensor that is printed whole no longer shows a `grad_fn`.

Most operations give the same bits with and without gradients; its findings are `exact`. Some take another path where
none are recorded, on the CPU or everywhere, and round the last bits otherwise:
- `nn.LSTM` in float32 and bfloat16 on a CPU, where oneDNN has kernels for inference alone (`nn.GRU`, `nn.RNN`,
  `nn.LSTMCell`, float64 and projections have none), and singular values, `eigvalsh`, spectral and nuclear norms and
  `lstsq`, whose vectors are computed for the gradient only: `equivalent`; so are `scaled_dot_product_attention` with a
  computed mask, matrix products with computed operands and parametrized weights, whose kernel is chosen by whether
  an operand requires a gradient;
- `nn.TransformerEncoder(Layer)`, and `nn.MultiheadAttention` and decoder layers with `batch_first=True`, which have a
  fused path in evaluation mode that also zeroes padded positions: `numerics`; so are models that are not in sight, as
  they may hold one.

Left alone:
- code that needs gradients in evaluation mode: adversarial examples, saliency, forces, a frozen network in a loss, also
  where it may be entered out of sight: by callbacks, context managers, special methods (where the batches of a loop
  come from such code, the body of the loop alone is wrapped);
- results that may reach a backward pass, also by way of what is kept: in lists, files (but for figures such as the best
  loss, which are compared), attributes, closures, defaults, by the model itself, for its next forward pass, by a
  criterion that is not in sight, or by a generator that waits for its next turn;
- functions whose callers are not known, and which return tensors: others may reach them by a name that they compute,
  or override what they call;
- code that sets the grad mode itself, or is called in one;
- generators, which would switch gradients off for those who iterate over them;
- code that asks whether gradients are on, or looks at what autograd has recorded;
- evaluations that share autocast's cache of weights with training (before torch 2.11 a cast that was made without
  gradients is used again with them);
- a single forward pass whose result is detached at once: its graph is gone with the line;
- encoders of `nn.TransformerEncoder` with padded positions, which their fused path leaves at zero, unless a single
  position is read of what they give, or the loss has an `ignore_index`;
- modules that only try themselves out, tools over graphs (`torch.fx`), models that are handed to a timer.

Before:
    def test(model, loader):
        model.eval()
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()

After:
    @torch.no_grad()
    def test(model, loader):
        model.eval()
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from autoaccel.analysis import Script
from autoaccel.analysis.classes import external_lineage
from autoaccel.analysis.imported_names import imported
from autoaccel.dataflow.qualified_names import canonical
from autoaccel.dataflow.syntax_index import position, walk_scope
from autoaccel.edits import (
    AddDecorator,
    Code,
    Edit,
    Finding,
    RemoveArgument,
    Skipped,
    Tier,
    WrapStatements,
)
from autoaccel.pytorch.evaluation_calls import evaluation_calls
from autoaccel.pytorch.evaluation_passes import (
    EVALUATES,
    OWN_GRADIENTS,
    EvaluationPass,
    evaluations,
    evaluations_with_backward,
)
from autoaccel.pytorch.gradients import GOES_BACKWARD
from autoaccel.pytorch.run_once_code import runs_once
from autoaccel.rewriting.rule import Rule, UnderDeterminism
from autoaccel_codemods.no_grad_eval.display_only_forwards import display_only_forwards
from autoaccel_codemods.no_grad_eval.grad_mode_seen import (
    asks_for_mode,
    compiles_for_one_mode,
    inspects_graphs,
    is_introspected,
    shares_weight_cache,
)
from autoaccel_codemods.no_grad_eval.rounding import tier_without_gradients, zeroes_padding

RULE = Rule(
    code="AA501",
    name="no-grad-eval",
    tier=Tier.EXACT,
    needles=(b"eval", b"valid", b"test", b"predict", b"infer", b".backward(", b"torch.load", b"_epoch("),
    # What trains, or loads what was trained; else nothing shows that it does not train somewhere else.
    pattern=(
        *(*EVALUATES, "torch.load", GOES_BACKWARD),
        *(r"train(?:_\w*)?\(", r"fit\w*\(", r"learn\(", r"Trainer\w*\(", r"(?:_epoch|\brun)\("),
    ),
    references=("https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation",),
    addresses=("evaluation",),
    under_determinism=UnderDeterminism.REPEATED,
    order=50,
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """Gradients are switched off around an evaluation, or it is left alone for the first reason that is found.

    Evaluations are found by `autoaccel.pytorch.evaluation_passes`, with the reasons of their own, and here by:
        display_only_forwards  forward passes amid training whose results are only looked at
        grad_mode_seen         whether somebody would see that gradients are off, or that a function is decorated
        rounding               how exact it is to run the models without gradients: the tier of the finding
    """
    passes = (*evaluations(script), *evaluation_calls(script), *display_only_forwards(script))
    for function in evaluations_with_backward(script):
        if not any(script.inside(found.node, function) for found in passes):
            yield RULE.skip(function, OWN_GRADIENTS)
    for found in passes:
        if found.covered:
            continue
        problem = found.problem or _framework(script, found) or _graph_tool(script) or _undecorated(script, found)
        spelling, imports = script.spell("torch.no_grad" if found.trains_if is None else "torch.set_grad_enabled")
        below = problem is None and _is_imported_below(script, found.node, spelling)
        if problem is None and found.function is not None and (below or is_introspected(script)):
            found = _within(found)
        elif below and script.function(found.node) is None:
            problem = "torch is imported only below it"
        problem = problem or _leak(script, found) or _mode_seen(script, found) or _shadowed(script, found, spelling)
        problem = problem or _detached(script, found)
        if problem is None and zeroes_padding(script, found.forwards):
            problem = "without gradients `nn.TransformerEncoder` leaves zeros at padded positions, which may be read"
        if problem is not None:
            yield RULE.skip(found.node, problem)
            continue
        yield RULE.finding(
            found.node,
            "this evaluation records gradients",
            _guard(found, spelling),
            *_volatile(script, found),
            *imports,
            tier=tier_without_gradients(script, found.forwards),
        )


def _is_imported_below(script: Script, node: ast.AST, spelling: str) -> bool:
    """Whether torch is imported only when a function has been made already, and decorated, or statements have run."""
    imports = script.module_scope.definitions.get(spelling.partition(".")[0], ())
    return bool(imports) and all(position(each.node) > position(node) for each in imports)


def _within(found: EvaluationPass) -> EvaluationPass:
    """The same for the statements of a function, whose code and frames are looked at."""
    assert found.function is not None
    match found.function.body:
        case [ast.Expr(value=ast.Constant()), first, *_] | [first, *_]:
            return replace(found, function=None, first=first, last=found.function.body[-1])
    return found


def _mode_seen(script: Script, found: EvaluationPass) -> str | None:
    """Why somebody would see that gradients are off."""
    if shares_weight_cache(script, found.node, found.function):
        return "it shares autocast's cache of weights with training"
    if compiles_for_one_mode(script):
        return "a model that the script compiles would be compiled again without gradients"
    region = [found.function] if found.function is not None else _statements(script, found)
    return asks_for_mode(script, region)


def _shadowed(script: Script, found: EvaluationPass, spelling: str) -> str | None:
    """Where the name of torch means something else."""
    root = spelling.partition(".")[0]
    module = [each.target for each in script.module_scope.definitions.get(root, ()) if each.target is not None]
    if len(set(module)) > 1 and len({canonical(each) for each in module}) > 1:
        return f"`{root}` is imported from several places"
    inner = found.function or found.first
    assert inner is not None
    for around in script.ancestors(inner):
        scope = script.reaching_definitions.scopes.get(around)
        if scope is not None and around is not script.tree and root in scope.definitions:
            if not isinstance(around, ast.ClassDef) or script.parent(inner) is around:
                return f"`{root}` means something else there"
    return None


def _guard(found: EvaluationPass, spelling: str) -> Edit:
    if found.function is not None:
        return AddDecorator(found.function, Code(f"{spelling}()"))
    assert found.first is not None
    assert found.last is not None
    return WrapStatements(found.first, found.last, Code(f"with {spelling}({found.trains_if or ''})"))


def _parts(script: Script, found: EvaluationPass) -> Iterator[ast.AST]:
    if found.function is not None:
        yield from walk_scope(found.function)
        return
    for statement in _statements(script, found):
        yield from walk_scope(statement)


def _statements(script: Script, found: EvaluationPass) -> list[ast.stmt]:
    assert found.first is not None
    assert found.last is not None
    block = script.block(found.first)
    return block[block.index(found.first) : block.index(found.last) + 1]


def _framework(script: Script, found: EvaluationPass) -> str | None:
    """Methods that a framework calls, which has set the grad mode by then."""
    owner = script.parent(found.function) if found.function is not None else None
    if not isinstance(owner, ast.ClassDef):
        return None
    bases = tuple(external_lineage(script.class_ref(owner)))
    own = any(name.split(".")[0] in ("lightning", "pytorch_lightning", "ignite", "fastai") for name in bases)
    return "its framework switches gradients off" if own else None


def _graph_tool(script: Script) -> str | None:
    """Tools that run a model to look at its graph, where the grad mode is part of what they record."""
    tool = any(name == "torch.fx" or name.startswith("torch.fx.") for name in imported(script))
    tool = tool or inspects_graphs(script)
    return "the file records or transforms the graphs of models" if tool else None


def _undecorated(script: Script, found: EvaluationPass) -> str | None:
    """Functions on which the decorator would fail, or do nothing: a coroutine runs after the call has returned."""
    if isinstance(found.function, ast.AsyncFunctionDef):
        return "no_grad does not reach into a coroutine"
    decorators = [] if found.function is None else found.function.decorator_list
    names = (script.qualname(each.func if isinstance(each, ast.Call) else each) for each in decorators)
    if any(name is not None and name.startswith("torch.jit.") for name in names):
        return "TorchScript compiles no decorated functions"
    return None


def _leak(script: Script, found: EvaluationPass) -> str | None:
    """A `with` block in a generator stays open while its consumer runs; the decorator does not."""
    if found.function is None and any(isinstance(part, ast.Yield | ast.YieldFrom) for part in _parts(script, found)):
        return "no_grad would leak to whoever consumes this generator"
    return None


def _detached(script: Script, found: EvaluationPass) -> str | None:
    """Why statements gain nothing: their graphs are gone before the next one, and there is no next time."""
    readers = [script.parent(each) for each in found.forwards]
    at_once = all(isinstance(each, ast.Attribute) and each.attr in ("detach", "data") for each in readers)
    if found.function is None and at_once and all(runs_once(script, each) for each in found.forwards):
        return "its result is detached at once, and it runs only once"
    return None


def _volatile(script: Script, found: EvaluationPass) -> Iterator[RemoveArgument]:
    """`Variable(x, volatile=True)` said the same before torch 0.4, and says nothing today."""
    for part in _parts(script, found):
        if isinstance(part, ast.Call) and script.qualname(part.func) == "torch.autograd.Variable":
            for keyword in part.keywords:
                if keyword.arg == "volatile" and isinstance(keyword.value, ast.Constant):
                    yield RemoveArgument(part, keyword)
