"""Find misused distributed training.

- `DistributedSampler` shuffles by its epoch. Where nobody calls `set_epoch`, every epoch has the first one's order. The
  call is added where the loop over epochs and the sampler stand side by side; it changes the training, so this rule has
  to be selected. Elsewhere it is only reported.
- `nn.DataParallel` copies the model to every device at every step: `autoaccel distribute` gives each device a process.
- `torch.distributed.launch` is deprecated: `torchrun` takes its place, and sets `LOCAL_RANK` instead of an argument.

Left alone:
- samplers that do not shuffle, programs that call `set_epoch` anywhere;
- without an edit: samplers that are made under a condition, loops without a name for the epoch, loops in functions.

Before:
    for epoch in range(epochs):
        for images, labels in loader:

After:
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from autoaccel.analysis import Script
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.edits import Code, Finding, InsertBefore, Skipped, Tier
from autoaccel.pytorch.loader_loops import loader_loops
from autoaccel.rewriting.rule import Rule

RULE = Rule(
    code="AA803",
    name="distributed-pitfalls",
    tier=Tier.OPT_IN,
    needles=(b"DistributedSampler", b"DataParallel", b"torch.distributed.launch", b"local_rank", b"local-rank"),
    references=(
        "https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler",
        "https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
)
_SAMPLER: Final = ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler")
_LAUNCH: Final = "torch.distributed.launch"
_RANKS: Final = frozenset({"--local_rank", "--local-rank"})


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    yield from _samplers(script)
    for call in script.calls("torch.nn.DataParallel"):
        yield RULE.finding(
            call, "the model is copied to every device at every step; `autoaccel distribute` gives each one a process"
        )
    for text in script.find(ast.Constant):
        if isinstance(text.value, str) and not isinstance(script.parent(text), ast.Expr) and _LAUNCH in text.value:
            yield RULE.finding(text, "torch.distributed.launch is deprecated: start by `torchrun`")
    for call in script.syntax_index.calls_named("add_argument"):
        if any(isinstance(each, ast.Constant) and each.value in _RANKS for each in call.args):
            yield RULE.finding(call, "`torchrun` passes no such argument: it sets LOCAL_RANK in the environment")


def _samplers(script: Script) -> Iterator[Finding]:
    """Samplers that shuffle every epoch alike."""
    if any(each.syntax_index.mentions("set_epoch") for each in script.project.related(script)):
        return
    for call in script.calls(*_SAMPLER):
        if is_constant(given_as(call, "shuffle"), False):
            continue
        message = "every epoch has the order of the first: `set_epoch` is called nowhere"
        place = _epoch_loop(script, call)
        if place is None:
            yield RULE.finding(call, message)
        else:
            name, epoch, loop = place
            yield RULE.finding(call, message, InsertBefore(loop, Code(f"{name}.set_epoch({epoch})")))


def _epoch_loop(script: Script, call: ast.Call) -> tuple[str, str, ast.For] | None:
    """The names of a sampler and of the epoch, and the loop over the sampler's loader right in that over epochs."""
    assign = script.parent(call)
    if not isinstance(assign, ast.Assign) or len(assign.targets) != 1 or not isinstance(assign.targets[0], ast.Name):
        return None
    name, owner = assign.targets[0].id, script.function(call)
    bindings = script.reaching_definitions.scopes[owner or script.tree].definitions.get(name, [])
    loops = [each.node for each in loader_loops(script) if _has_sampler(script, each.loader, name)]
    if len(bindings) != 1 or len(loops) != 1 or script.function(loops[0]) is not owner:
        return None
    match script.parent(loops[0]):
        case ast.For(target=ast.Name(id=epoch), iter=ast.Call(func=ast.Name(id="range"))) as outer:
            is_beside = script.block(assign) is script.block(outer) and loops[0] in outer.body
            return (name, epoch, loops[0]) if is_beside and assign.lineno < outer.lineno else None
        case _:
            return None


def _has_sampler(script: Script, loader: ast.expr, name: str) -> bool:
    """Whether a loader surely is one that is made with a sampler of this name."""
    made = script.creations(loader)
    return len(made) == 1 and all(
        isinstance(given := given_as(call, "sampler"), ast.Name) and given.id == name and file is script
        for file, call in made
    )
