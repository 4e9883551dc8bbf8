"""Wrong rules, each of which the net must find: who looks for faults must be seen to find some."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.edits import (
    AddArguments,
    AddDecorator,
    AddImport,
    Code,
    Finding,
    Replace,
    Skipped,
    Tier,
    WrapStatements,
)
from autoaccel.rewriting.rule import Rule

Found = Iterator[Finding | Skipped]

NO_GRAD = Rule("AA991", "no-grad-training", Tier.EXACT, (b".backward(",))
LEARNING_RATE = Rule("AA992", "other-learning-rate", Tier.EXACT, (b"lr=",))
READ_AHEAD = Rule("AA993", "read-ahead", Tier.EXACT, (b"loader",))
FLOAT_INDEX = Rule("AA994", "float-index", Tier.NUMERICS, (b".argmax(",))
LOW_EXIT = Rule("AA995", "low-precision-exit", Tier.NUMERICS, (b".numpy()",))
BY_HASH = Rule("AA996", "by-hash", Tier.EXACT, (b".zeros(",))
EVALUATION_ALWAYS = Rule("AA997", "eval-mode", Tier.EXACT, (b".train()",))

WORKERS = Rule("AA998", "workers-everywhere", Tier.EQUIVALENT, (b"DataLoader(",))

RULES = {
    each.name: each
    for each in (NO_GRAD, LEARNING_RATE, READ_AHEAD, FLOAT_INDEX, LOW_EXIT, BY_HASH, EVALUATION_ALWAYS, WORKERS)
}

_RUNTIME = AddImport("autoaccel", "runtime", "accel")


@NO_GRAD.check
def no_grad(script: Script) -> Found:
    """Functions that have a forward pass and no backward of their own are taken for evaluation."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and "model(" in ast.unparse(node):
            if ".backward(" not in ast.unparse(node):
                yield NO_GRAD.finding(node, "planted", AddDecorator(node, Code("torch.no_grad()")), AddImport("torch"))


@LEARNING_RATE.check
def learning_rate(script: Script) -> Found:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.keyword) and node.arg == "lr" and ast.unparse(node.value) == "0.1":
            yield LEARNING_RATE.finding(node.value, "planted", Replace(node.value, Code("0.1000001")))


@READ_AHEAD.check
def read_ahead(script: Script) -> Found:
    """All batches are made before the first step: wrong where steps change data, samplers or random numbers."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.For) and ast.unparse(node.iter) in ("loader", "self.loader"):
            yield READ_AHEAD.finding(node, "planted", Replace(node.iter, Code("list({0})", (node.iter,))))


@FLOAT_INDEX.check
def float_index(script: Script) -> Found:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.value).endswith(".argmax(1)"):
            yield FLOAT_INDEX.finding(node, "planted", Replace(node.value, Code("({0}).float()", (node.value,))))


@LOW_EXIT.check
def low_exit(script: Script) -> Found:
    """A region around what takes numbers to NumPy."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "model(x)":
            header = Code("with accel.autocast()")
            parent = script.syntax_index.parent(node)
            if not isinstance(parent, ast.With):
                yield LOW_EXIT.finding(node, "planted", WrapStatements(node, node, header), _RUNTIME)


@BY_HASH.check
def by_hash(script: Script) -> Found:
    """What comes first in a set."""
    calls = {ast.unparse(node): node for node in ast.walk(script.tree) if isinstance(node, ast.Call)}
    for text in list(set(calls))[:1]:
        node = calls[text]
        if ".zeros(" in ast.unparse(script.tree) and not text.startswith("(lambda"):
            yield BY_HASH.finding(node, "planted", Replace(node, Code("(lambda value: value)({0})", (node,))))


@EVALUATION_ALWAYS.check
def evaluation_always(script: Script) -> Found:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Call) and ast.unparse(node) in ("model.train()", "self.model.train()"):
            changed = Code("{0}.eval()", (node.func.value,)) if isinstance(node.func, ast.Attribute) else Code("None")
            yield EVALUATION_ALWAYS.finding(node, "planted", Replace(node, changed))


@WORKERS.check
def workers(script: Script) -> Found:
    """Whatever the dataset, the sampler and the loop do to one another."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "DataLoader":
            if not any(each.arg in (None, "num_workers", "pin_memory") for each in node.keywords):
                count = (("num_workers", Code("accel.num_workers()")),)
                yield WORKERS.finding(node, "planted", AddArguments(node, count), _RUNTIME)
