"""The edits that a comparison of losses at 5 % lets pass, as findings of a rule that nobody should write.

Each claims to be `exact`; some are planted a second time with a weaker claim.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from autoaccel.edits import AddArguments, Code, Edit, InsertBefore, Replace, Tier
from autoaccel.rewriting.rule import Rule
from benchmarks.planted_faults.catalogue import fault
from benchmarks.planted_faults.planting import Planted, Scene, made_up

HYPOTHETICAL = Rule(code="AA990", name="hypothetical", tier=Tier.EXACT, needles=())


def _edited(name: str, script: str, wrong: str, edit: Callable[[Scene], tuple[ast.AST, Edit]], *others: Tier) -> None:
    """Enter an edit into the catalogue, as a finding of several tiers."""
    for tier in (Tier.EXACT, *others):

        def plant(scene: Scene, tier: Tier = tier) -> Planted:
            node, change = edit(scene)
            return made_up(HYPOTHETICAL, node, wrong, change, tier=tier)

        suffix = "" if tier is Tier.EXACT else f"-said-to-be-{tier.label}"
        fault(f"introduction/{name}{suffix}", script, wrong)(plant)


def _replaced(old: str, new: str, nth: int = 0) -> Callable[[Scene], tuple[ast.AST, Edit]]:
    """Put an expression in the place of another."""

    def edit(scene: Scene) -> tuple[ast.AST, Edit]:
        node = scene.expression(old, nth)
        return node, Replace(node, Code(new))

    return edit


def _argument(call: str, name: str, new: str) -> Callable[[Scene], tuple[ast.AST, Edit]]:
    """Pass another value for an argument that is there, or one more."""

    def edit(scene: Scene) -> tuple[ast.AST, Edit]:
        node = scene.call(call)
        given = next((each.value for each in node.keywords if each.arg == name), None)
        return node, AddArguments(node, ((name, Code(new)),)) if given is None else Replace(given, Code(new))

    return edit


def _zeroed(scene: Scene) -> tuple[ast.AST, Edit]:
    step = scene.statement("optimizer.step()")
    return step, InsertBefore(step, Code("optimizer.zero_grad()"))


_CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), clip)"
_ADAMW = "torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=1e-2)"
_ADAM = "torch.optim.Adam(model.parameters(), lr=3e-3)"
_SGD = "torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)"
_LOADER = "DataLoader(Pixels(), batch_size=16, shuffle=True)"

_edited("no-clipping", "word_language_model", "gradients are not clipped", _replaced(_CLIP, "None"), Tier.NUMERICS)
_edited(
    "no-clipping-of-small-steps",
    "fine_tune",
    "gradients are not clipped, where the learning rate is small",
    _replaced("nn.utils.clip_grad_norm_(model.parameters(), 0.1)", "None"),
    Tier.NUMERICS,
)
_edited("no-weight-decay", "trainer", "weights do not decay", _argument(_ADAMW, "weight_decay", "0.0"), Tier.NUMERICS)
_edited(
    "no-scheduler-step", "notebook_style", "the scheduler never steps", _replaced("sched.step()", "None"), Tier.NUMERICS
)
_edited(
    "last-batch-dropped",
    "pixels",
    "the last batch is dropped",
    _argument(_LOADER, "drop_last", "True"),
    Tier.EQUIVALENT,
)
_edited("evaluation-mode", "mnist", "the model trains in evaluation mode", _replaced("model.train()", "model.eval()"))
_edited("no-shuffling", "pixels", "samples are not shuffled", _argument(_LOADER, "shuffle", "False"), Tier.EQUIVALENT)
_edited(
    "half-learning-rate", "accumulation", "the learning rate is half", _argument(_ADAM, "lr", "1.5e-3"), Tier.NUMERICS
)
_edited("no-momentum", "two_losses", "there is no momentum", _argument(_SGD, "momentum", "0.0"))
_edited("no-zero-grad", "crlf", "gradients are never set to zero", _replaced("optimizer.zero_grad()", "None"))
_edited("zero-grad-before-step", "mixup", "gradients are set to zero before the step", _zeroed)
