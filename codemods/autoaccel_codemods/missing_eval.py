"""Find evaluation in training mode.

A model is made in training mode: until someone calls `eval()`, `Dropout` drops, and `BatchNorm` normalizes by the batch
and moves its running statistics. Where an evaluation runs such a model and nothing in the program ever calls it, the
figures depend on the batches, and the evaluation itself changes the model. To call it changes these figures, and what
training goes on from: this rule has to be selected, and only reports; the change is yours.

Left alone:
- programs that call `eval()` or `train(mode)`, or read `training`, of any model anywhere;
- models whose class is not in sight, or has no module that behaves differently in training;
- forward passes that record gradients outside of functions which are called `evaluate`, `test`, `validate`.

Before:
    model.train()
    for images, labels in train_loader:
        ...
    with torch.no_grad():
        for images, labels in test_loader:
            correct += (model(images).argmax(1) == labels).sum().item()

After:
    model.train()
    for images, labels in train_loader:
        ...
    model.eval()
    with torch.no_grad():
        for images, labels in test_loader:
            correct += (model(images).argmax(1) == labels).sum().item()
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from autoaccel.analysis.classes import lineage
from autoaccel.analysis.name_lookups import mentions
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.edits import Finding, Skipped, Tier
from autoaccel.pytorch.evaluation_passes import evaluations
from autoaccel.pytorch.gradients import sets_grad_mode
from autoaccel.pytorch.loader_loops import loader_loops
from autoaccel.pytorch.module_containers import held
from autoaccel.rewriting.rule import Rule

if TYPE_CHECKING:
    from autoaccel.analysis import Script
    from autoaccel.dataflow.abstract_values import Value

RULE = Rule(
    code="AA502",
    name="missing-eval",
    tier=Tier.OPT_IN,
    needles=(b"torch",),
    references=("https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval",),
)
_BY_MODE: Final = frozenset(
    f"torch.nn.{name}"
    for name in """AlphaDropout BatchNorm1d BatchNorm2d BatchNorm3d Dropout Dropout1d Dropout2d Dropout3d
    FeatureAlphaDropout SyncBatchNorm""".split()
)
_SWITCHES: Final = ("eval", "train", "training")


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    regions = list(_evaluating(script))
    if not regions or any(_switches(each) for each in (script, *script.project.related(script))):
        return
    seen: set[ast.AST] = set()
    for region in regions:
        for call in script.in_scope(region, ast.Call):
            if call in seen or script.kind(call.func) is not Kind.MODULE:
                continue
            seen.add(call)
            module = next((name for each in script.values(call.func) if (name := _by_mode(each, set()))), None)
            if module is not None:
                model = script.source(call.func)
                yield RULE.finding(call, f"`{model}` runs in training mode: its {module} needs `{model}.eval()`")


def _evaluating(script: Script) -> Iterator[ast.AST]:
    """Evaluations, and loops over loaders for which gradients are off."""
    for each in evaluations(script):
        if each.function is not None:
            yield each.function
        elif each.first is not None and each.last is not None:
            block = script.block(each.first)
            yield from block[block.index(each.first) : block.index(each.last) + 1]
    for loop in loader_loops(script):
        around = [each for each in script.ancestors(loop.node) if isinstance(each, ast.With)]
        if any(sets_grad_mode(script, item.context_expr) for each in around for item in each.items):
            yield loop.node


def _switches(script: Script) -> bool:
    """Whether a file calls `eval` or `train(mode)`, reads `training`, or computes such a name."""
    for mention in mentions(script, _SWITCHES):
        call = script.call_of(mention)
        is_train = isinstance(mention, ast.Attribute) and mention.attr == "train"
        to_training = is_train and call is not None and not (call.args or call.keywords)
        if not to_training and not isinstance(mention, ast.Name):
            return True
    looked_up = (each.args for each in script.syntax_index.calls_named("getattr") if len(each.args) > 1)
    return any(script.kind(each[0]) is Kind.MODULE and not isinstance(each[1], ast.Constant) for each in looked_up)


def _by_mode(module: Value, seen: set[ast.AST]) -> str | None:
    """The first module within one, by the calls in the bodies of its classes, that behaves differently in training."""
    if module.cls is None:
        if module.name is not None and module.name in _BY_MODE:
            return module.name.rpartition(".")[2]
        return next((found for each in held(module) if (found := _by_mode(each, seen))), None)
    for ref in lineage(module.cls):
        if ref.node in seen:
            continue
        seen.add(ref.node)
        for call in ref.script.within(ref.node, ast.Call):
            for value in ref.script.values(call):
                if value.kind is Kind.MODULE and (found := _by_mode(value, seen)):
                    return found
    return None
