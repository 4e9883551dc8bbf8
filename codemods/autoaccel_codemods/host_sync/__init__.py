"""Add up losses without waiting.

`total += loss.item()` makes the host wait until the device has computed the step, and only then queue the next one.
A running total is added up on the device, in the type and order in which Python would, and is read where the number is
used: it is the same bit for bit. On a CPU, which has nothing to wait for, `.item()` is called as before.

Left alone:
- sums that are read in every iteration: by a progress bar, a comparison;
- loops that wait for the device anyway, also in a function that they call, or that are timed;
- sums in attributes and containers, in names that other functions read, and what is more than a sum of values;
- quotients such as `loss.item() / n`, which a GPU rounds otherwise;
- losses that are appended, compared or checked for NaN;
- scripts with streams, events or copies of their own that rely on who waits when.

Before:
    total = 0.0
    for images, labels in loader:
        …
        total += loss.item()
    print(f"loss {total / len(loader):.3f}")

After:
    total = accel.total(0.0)
    for images, labels in loader:
        …
        total += loss
    print(f"loss {total / len(loader):.3f}")
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.syntax_index import split_lines
from autoaccel.edits import (
    Code,
    Edit,
    Finding,
    InsertAfter,
    InsertBefore,
    RemoveStatement,
    Replace,
    Skipped,
    Tier,
    literal,
)
from autoaccel.pytorch.monkeypatching import intercepted
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.host_sync import reads, sums, waiting
from autoaccel_codemods.host_sync.sums import Sum

RULE = Rule(
    code="AA603",
    name="host-sync",
    tier=Tier.EXACT,
    needles=(b".item()", b"+= float("),
    pattern=r"\+=|\.(?:append|update)\(",
    references=(
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
    ),
    addresses=("sync", "launch"),
    order=95,
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """A sum is kept on the device with all of its additions and reads, or left alone for the first reason found.

    Asked in this order:
        sums     what is added to a name, and what it begins with
        reads    who reads the sum, and where that must give a plain number
        waiting  whether the host waits on purpose, or in the loop all the same
    """
    found: dict[ast.AugAssign, Sum | str] = {}
    for addition, outcome in sums.candidates(script):
        found[addition] = outcome if isinstance(outcome, str) else _problem(script, outcome) or outcome
    kept = waiting.worth_it(script, {key: each for key, each in found.items() if isinstance(each, Sum)})
    for addition, outcome in found.items():
        outcome = kept.get(addition, outcome)
        if isinstance(outcome, str):
            yield RULE.skip(addition, outcome)
        else:
            message = f"the host waits for `{script.source(outcome.additions[0].value)}` in every iteration"
            yield RULE.finding(addition, message, *_edits(script, outcome), *script.import_runtime)
    for noted in sums.noted(script):
        assert isinstance(noted.func, ast.Attribute)
        kind = "a list" if noted.func.attr == "append" else "an object"
        owner = script.source(noted.func.value)
        yield RULE.skip(noted, f"`{owner}` takes a number in every iteration: it is {kind}, not a sum")


def _problem(script: Script, found: Sum) -> str | None:
    return (
        reads.problem(script, found) or waiting.compiled(script) or waiting.own_ordering(script) or intercepted(script)
    )


def _of_its_own(script: Script, shared: ast.Assign, name: str, total: str) -> Iterator[Edit]:
    """Binds a name below a chained assignment, which loses it where that leaves no comment or neighbour behind, or
    becomes one of several values."""
    kept = [each for each in shared.targets if not (isinstance(each, ast.Name) and each.id == name)]
    own = Code(f"{name} = {total}")
    if len(kept) == len(shared.targets) or split_lines(script.text)[shared.lineno - 1].strip() != script.source(shared):
        yield InsertAfter(shared, own)
        return
    plain, names = script.source(shared.value), [*map(script.source, shared.targets)]
    if all(isinstance(each, ast.Name) for each in shared.targets):
        values = (total if each == name else plain for each in names)
        yield InsertBefore(shared, Code(literal(f"{', '.join(names)} = {', '.join(values)}")))
    else:
        yield InsertBefore(shared, Code(literal(" = ".join(map(script.source, (*kept, shared.value))))))
        yield InsertBefore(shared, own)
    yield RemoveStatement(shared)


def _edits(script: Script, found: Sum) -> Iterator[Edit]:
    for start in found.starts:
        number = start.value.value
        total = f"{script.accel}.total({'' if type(number) is int and number == 0 else script.source(start.value)})"
        if start.shared is None:
            yield Replace(start.value, Code(total))
        else:  # the others stay plain numbers
            yield from _of_its_own(script, start.shared, found.name, total)
    for addition in found.additions:
        if addition.value is addition.item:
            yield Replace(addition.item, Code("{0}", (addition.tensor,)))
        else:
            yield Replace(addition.item, Code(f"{script.accel}.item({{0}})", (addition.tensor,)))
    for name in reads.leaving(script, found):
        yield Replace(name, Code("{0}.item()", (name,)))
