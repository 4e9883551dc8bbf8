"""Run Adam in one kernel.

By default Adam computes the update of each parameter by a dozen operations, each of which goes through memory; on a GPU
it does so for all parameters together. The fused kernel goes through memory once. `accel.optimizer` returns the same
optimizer and tries the kernel when the script trains, step against step; checkpoints stay those of the plain script.
Results differ by rounding. On a GPU, scripts that set `cudnn.deterministic` get it untried, and so the same results in
each run.

Left alone:
- optimizers whose implementation is chosen: `fused`, `foreach`, `capturable` or `differentiable`; where these may stand
  in `**options`, when the script runs;
- scripts that capture CUDA graphs themselves, register hooks on an optimizer's steps, or list all that it has;
- optimizers that a framework steps;
- when the script runs: training in several processes, deterministic algorithms, parameters that are not float32, and
  gradients that are laid out in memory otherwise than their parameters, which the kernel does not bear.

Before:
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

After:
    optimizer = accel.optimizer(optim.Adam(model.parameters(), lr=1e-3))
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script, computed_members
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.edits import Code, Finding, Replace, Skipped, Tier
from autoaccel.pytorch import cuda_graphs
from autoaccel.pytorch.introspection import attributes_listed
from autoaccel.pytorch.monkeypatching import monkeypatched_in_text
from autoaccel.rewriting.rule import Rule, UnderDeterminism

RULE = Rule(
    code="AA602",
    name="fused-optimizer",
    tier=Tier.EQUIVALENT,
    needles=(b"Adam", b"getattr(optim", b"getattr(torch.optim", b"optim.__dict__", b"optim,"),
    pattern="torch",
    references=("https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html",),
    addresses=("optimizer",),
    under_determinism=UnderDeterminism.REPEATED,
)
_NAMES = ("torch.optim.Adam", "torch.optim.AdamW")
_CHOICES = frozenset({"fused", "foreach", "capturable", "differentiable"})
_HOOKS = ("register_step_pre_hook", "register_optimizer_step_pre_hook")


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    named = dict.fromkeys((*script.calls(*_NAMES), *_chosen(script)))
    calls = [call for call in named if not _is_given(script, call)]
    problem = _problem(script) if calls else None
    for call in calls:
        # what stands in `**options` is asked when the script runs
        if chosen := [each.arg for each in call.keywords if each.arg in _CHOICES]:
            if chosen != ["fused"]:
                yield RULE.skip(call, f"the script chooses its implementation by {chosen[0]}=")
        elif problem is not None:
            yield RULE.skip(call, problem)
        else:
            name = script.source(call.func)
            edit = Replace(call, Code(f"{script.accel}.optimizer({{0}})", (call,)))
            yield RULE.finding(
                call, f"`{name}` updates each parameter by many operations", edit, *script.import_runtime
            )


def _chosen(script: Script) -> Iterator[ast.Call]:
    """Calls of optimizers that are chosen by a name or a condition, of which Adam may be one:
    `getattr(optim, name)(parameters)`, `OPTIMIZERS[name](parameters)`, `cls = optim.Adam if … else optim.SGD`."""
    for call in script.find(ast.Call):
        if script.qualname(call.func) is not None:
            continue
        values = script.values(call)
        made = _made_by_helper(script, call) or call
        own = [value.name for value in values if value.kind is Kind.OPTIMIZER and value.node is made and not value.cls]
        if len(values) == len(own) and not set(own).isdisjoint(_NAMES):
            yield call


def _made_by_helper(script: Script, call: ast.Call) -> ast.Call | None:
    """The call by which a function of the project makes a member of what it is handed, and not optimizers alone:
    `config.init_obj("optimizer", torch.optim, parameters)`; None for other calls."""
    for value in script.values(call.func):
        if value.kind is Kind.FUNCTION and value.script is not None and value.node is not None:
            _, _, made = computed_members.of_parameter(value.script, value.node) or (None, None, None)
            if made is not None and value.script.kind(made) is not Kind.OPTIMIZER:
                return made
    return None


def _is_given(script: Script, call: ast.Call) -> bool:
    """Whether an optimizer is handed to the runtime already."""
    around = script.parent(call)
    return isinstance(around, ast.Call) and script.runtime_name(around.func) == "optimizer"


def _problem(script: Script) -> str | None:
    """Why no optimizer of a file is to be touched."""
    if script.frameworks:
        return (
            f"{min(script.frameworks)} steps the optimizer, and may clip what it scales: `fused=True` is for you to try"
        )
    if cuda_graphs.captures(script):
        return cuda_graphs.REASON
    try:
        for hook in _HOOKS:
            if any(hook in text for text in script.project.texts_with_word(script, hook)):
                return f"`{hook}` may change gradients before the step"
        return monkeypatched_in_text(script, _NAMES) or attributes_listed(script, Kind.OPTIMIZER)
    except Incomplete as incomplete:
        return str(incomplete)
