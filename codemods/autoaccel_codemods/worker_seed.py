"""Seed the generators of datasets in workers.

A generator that a dataset keeps (`np.random.default_rng(0)`, `random.Random(0)`, `torch.Generator()`) is copied into
each worker: all would draw the same numbers, and the same ones in every pass. So `loader-workers` (AA201) gives such a
loader no workers, and the training step waits for each batch. With `worker_init_fn=accel.seed_worker` each worker goes
on from a seed of its own, another one in each pass, which follows from that of the script, from torch's and from the
worker's number. What is drawn has the same distribution and is drawn independently, as without workers; the numbers are
others, therefore `equivalent`. Without workers nothing changes.

NumPy's and Python's shared generators need none of this: torch seeds them in its workers.

Left alone:
- loaders whose workers the script chooses: theirs draw the same numbers as it is, and to end that would change what is
  trained on. It is reported; the change, `worker_init_fn=accel.seed_worker`, is yours;
- loaders with a `worker_init_fn` of their own, and what `loader-workers` leaves alone for other reasons;
- generators that are not made and kept by the dataset, or by a transform that it holds, in `__init__`: outer ones,
  class attributes, defaults of parameters, those that are handed in or that collation draws from;
- generators that other code names as well: it may draw from them, seed them, or save where they stand;
- a dataset that may be made again and again: each time it would begin with the same numbers;
- engines of sequences that are not independent (`SobolEngine`).

Before:
    self.rng = np.random.default_rng(0)
    ...
    loader = DataLoader(dataset, batch_size=100, shuffle=True)

After:
    loader = DataLoader(dataset, batch_size=100, shuffle=True, num_workers=accel.num_workers(),
                        worker_init_fn=accel.seed_worker, persistent_workers=accel.num_workers() > 0)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.analysis.classes import class_info, derived_classes, lineage
from autoaccel.dataflow.abstract_values import ClassRef, Value
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.edits import Finding, Skipped, Tier
from autoaccel.pytorch import datasets
from autoaccel.pytorch.loader_calls import LoaderCall, loader_calls, repeats
from autoaccel.pytorch.loader_changes import LoaderState, loader_state
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.loader_workers.worker_safety import (
    STARTED_AGAIN,
    added_argument,
    chooses_workers,
    kept_workers,
    refusal,
    worker_edits,
)

RULE = Rule(
    code="AA203",
    name="worker-seed",
    tier=Tier.EQUIVALENT,
    needles=(b"DataLoader",),
    references=("https://docs.pytorch.org/docs/stable/data.html#randomness-in-multi-process-data-loading",),
    addresses=("loader",),
    order=31,
)
_SEEDED = frozenset(
    "numpy.random.default_rng numpy.random.RandomState numpy.random.Generator random.Random torch.Generator".split()
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    for made in loader_calls(script):
        if "dataset" in made.settings and made.problem is None:
            state = loader_state(script, made, in_workers=True)
            if state.generator_reads:
                yield from _findings(script, made, state)


def _findings(script: Script, made: LoaderCall, state: LoaderState) -> Iterator[Finding | Skipped]:
    own = made.settings.get("worker_init_fn")
    if own is not None or "worker_init_fn" in made.possible:
        if own is None or script.runtime_name(own) != "seed_worker":
            yield RULE.skip(made.call, "it has a worker_init_fn of its own")
        return
    if chooses_workers(made):
        file, read = state.generator_reads[0]
        drawn = f"any workers that it has draw the same numbers from `{file.source(read)}`, in each pass"
        yield RULE.skip(made.call, f"{drawn}; `worker_init_fn={script.accel}.seed_worker` would train on others")
        return
    reason = refusal(script, made, seeded=True) or _not_owned(script, made, state)
    if reason is not None:
        yield RULE.skip(made.call, reason)
        return
    edits = (*worker_edits(script, made), *added_argument(script, made, "worker_init_fn", "seed_worker"))
    first = RULE.finding(made.call, "its samples draw from a generator that each worker can seed anew", *edits)
    yield first
    kept = kept_workers(script, made, seeded=True)
    if isinstance(kept, str):
        yield RULE.skip(made.call, kept)
    elif kept is not None:
        yield RULE.finding(made.call, STARTED_AGAIN, *kept, needs=(first,))


def _not_owned(script: Script, made: LoaderCall, state: LoaderState) -> str | None:
    """Why it is not sure that a worker finds the generators that samples draw from, or that nobody else uses them."""
    holders = _holders(script, made.settings["dataset"])
    for file, read in state.generator_reads:
        what = f"no workers: its samples draw from `{file.source(read)}`"
        function = file.function(read)
        cls = file.parent(function) if isinstance(function, ast.FunctionDef) else None
        if not isinstance(cls, ast.ClassDef) or not isinstance(read, ast.Attribute) or cls not in holders:
            return f"{what}, which its dataset does not hold"
        ref = file.class_ref(cls)
        family = derived_classes(ref)
        if family.missing is not None:
            return f"{what}, and {family.missing}"
        related = list(dict.fromkeys(base for each in (ref, *family) for base in lineage(each)))
        if not all(_makes_its_own(each, read.attr) for each in related):
            return f"{what}, which may have been made elsewhere"
        if (line := _named_elsewhere(state, {each.node for each in related}, read.attr)) is not None:
            return f"{what}, which is named in line {line} as well"
    for value in datasets.origins(script, made.settings["dataset"]):
        if value.node is None or value.script is None or repeats(value.script, value.node, value.script, script.tree):
            return "no workers: its dataset may be made again, and would begin with the same numbers each time"
    return None


def _holders(script: Script, dataset: ast.expr) -> set[ast.AST]:
    """The classes of a dataset and of what its attributes hold, in which a worker looks for generators."""
    found: set[ast.AST] = set()
    seen: set[Value] = set()
    pending = list(datasets.origins(script, dataset))
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        pending += [item for _, items in value.items for item in items]
        if value.cls is None:
            if isinstance(value.node, ast.Call) and value.script is not None:  # `Compose([Noise(), Flip()])`
                pending += [each for given in given_values(value.node) for each in value.script.values(given)]
            continue
        for each in lineage(value.cls):
            found.add(each.node)
            for bindings in class_info(each).attributes.values():
                held = [binding for binding, path in bindings if isinstance(binding, ast.expr) and not path]
                pending += [part for binding in held for part in each.script.values(binding)]
    return found


def _makes_its_own(cls: ClassRef, name: str) -> bool:
    """Whether a class binds an attribute to nothing but a generator that its `__init__` makes, if it does at all."""
    return all(
        isinstance(binding, ast.expr)
        and not path
        and _is_new(cls.script, binding)
        and getattr(cls.script.function(binding), "name", "") == "__init__"
        for binding, path in class_info(cls).attributes.get(name, ())
    )


def _is_new(script: Script, expression: ast.expr) -> bool:
    """`default_rng(seed)`, `Generator(PCG64(seed))`, `torch.Generator().manual_seed(seed)`"""
    match expression:
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="manual_seed")):
            return script.qualname(inner.func) == "torch.Generator" and not given_values(inner)
        case ast.Call(func=function):
            name = script.qualname(function)
            given = given_values(expression)
            if name == "torch.Generator":
                return not given
            return name in _SEEDED and all(_is_number(script, each) for each in given)
        case _:
            return False


def _is_number(script: Script, expression: ast.expr) -> bool:
    """Whether an argument is no generator that is used elsewhere, too: a seed, or a bit generator that is new."""
    match expression:
        case ast.Call(func=function):
            return (script.qualname(function) or "").startswith("numpy.random.")
        case _:
            return not script.qualname(expression)


def _named_elsewhere(state: LoaderState, classes: set[ast.AST], name: str) -> int | None:
    """The line of code that makes no samples and names a generator: by its name, on whatever object that is not known
    to be of another class."""
    for file in state.script.project.related(state.script):
        for node in file.syntax_index.mentions(name):
            function = file.function(node)
            if not isinstance(node, ast.Attribute) or function in state.inputs.code:
                continue
            cls = file.parent(function) if function is not None else None
            owned = isinstance(node.value, ast.Name) and isinstance(cls, ast.ClassDef) and node.value.id == "self"
            if owned and (cls not in classes or getattr(function, "name", "") == "__init__"):
                continue
            return node.lineno
        for constant in file.find(ast.Constant):
            if constant.value == name:
                return constant.lineno
    return None
