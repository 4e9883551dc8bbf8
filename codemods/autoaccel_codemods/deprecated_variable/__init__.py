"""Replace `Variable` by tensors.

Since torch 0.4 a `Variable` is a tensor: `Variable(x)` gives `x.detach()`. Without the wrapper a line says plainly what
it does, to readers and to the other rules. Where `x` surely has no graph, and nobody can tell the two tensors apart,
`x` itself is what is meant; elsewhere `x.detach()` says what happens.

`requires_grad=True` becomes `.requires_grad_()`, `isinstance(x, Variable)` asks for `torch.Tensor`, and
`loss.data.item()` and `loss.data[0]` become `loss.item()`: the index fails since torch 0.5, where a loss has no
dimensions. An assignment that then says `x = x` goes, and so does an import that nobody needs any more.

Left alone:
- `volatile=True`, which torch ignores with a warning, where gradients are on: what it governed is `no-grad-eval`'s
  business, after which it goes;
- what may not be a tensor, and `requires_grad=` that may not be a bool;
- `isinstance(x, Variable)` above a branch for `isinstance(x, torch.Tensor)`;
- `Variable` that is handed on (but to `map`, over a tuple that is written out), subclassed or named in an annotation;
- `x.data[0]` of what may have dimensions, and where the error that it raises may be caught;
- an import of `Variable` that other files, or names that the program computes, may read.

Before:
    images, labels = Variable(images), Variable(labels.cuda())
    loss = criterion(model(images), labels)
    print(loss.data[0])

After:
    images, labels = images, labels.cuda()
    loss = criterion(model(images), labels)
    print(loss.item())
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.edits import Edit, EditComment, Finding, RemoveStatement, Skipped, Tier
from autoaccel.pytorch.monkeypatching import monkeypatched
from autoaccel.pytorch.tensor_origins import VARIABLE
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.deprecated_variable import number_reads, unused_import, wrappers

RULE = Rule(
    code="AA304",
    name="deprecated-variable",
    tier=Tier.EXACT,
    needles=(b"Variable", b".data[0]", b".data.item()"),
    references=("https://docs.pytorch.org/docs/stable/autograd.html#variable-deprecated",),
    order=25,  # what `create-on-device` makes anew has no wrapper either
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """Each use is spelled anew, or left alone for the first reason that is found.

        wrappers       what stands for `Variable(…)` and `isinstance(…, Variable)`
        number_reads   `loss.data[0]`, `loss.data.item()`
        unused_import  whether the import may go with its last use

    Whether a tensor has a graph, and whether it can be told from another over the same memory, is known to
    `autoaccel.pytorch.tensor_origins`.
    """
    uses = list(wrappers.uses(script))
    problem = _replaced(script) if uses else None
    edits = {use: problem or wrappers.edits(script, use) for use in uses}
    empty = dict(wrappers.empty_assignments(script, edits))
    stale = wrappers.stale_comments(script, edits)
    done: dict[ast.expr, Finding] = {}
    for use, made in edits.items():
        statement = script.statement(use)
        if isinstance(made, str):
            yield RULE.skip(use, made)
        elif statement not in empty:
            unsaid = [EditComment(each, "") for each in stale.get(use, ())]
            done[use] = RULE.finding(use, "a `Variable` is a tensor since torch 0.4", *made, *unsaid)
            yield done[use]
    for statement, calls in empty.items():
        removal: list[Edit] = [RemoveStatement(statement)]
        comments = [*wrappers.own_comments(script, statement), *(each for use in calls for each in stale.get(use, ()))]
        removal += [EditComment(each, "") for each in {each.lineno: each for each in comments}.values()]
        found = RULE.finding(calls[0], "a `Variable` is a tensor since torch 0.4", *removal)
        done.update(dict.fromkeys(calls, found))
        yield found
    yield from unused_import.findings(script, RULE, done)
    yield from number_reads.findings(script, RULE)


def _replaced(script: Script) -> str | None:
    try:
        return monkeypatched(script, (VARIABLE,))
    except Incomplete as incomplete:
        return str(incomplete)
