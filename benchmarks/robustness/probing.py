"""Edits at random places of any file, and a look at the result that does not trust the code that made it.

Few files of a package have anything to rewrite; with probes the writer meets all of their syntax. What a probe adds is
known by its name: taken away again, the tree must be the one from before.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator

from autoaccel.edits import (
    AddArguments,
    AddDecorator,
    AddImport,
    CannotApplyError,
    Code,
    Edit,
    InsertAfter,
    InsertBefore,
    Replace,
    Tier,
    WrapStatements,
)
from autoaccel.rewriting import check
from autoaccel.rewriting.apply import apply
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.plan import plan
from autoaccel.rewriting.rule import Rule

PROBE = "autoaccel_probe"
_EACH = 3  # edits of a kind in a file
_RULE = Rule("AA999", "probe", Tier.EXACT, ())


def problems(text: str, seed: int) -> Iterator[str]:
    """What is wrong with a text after random edits. `cannot edit` is not a defect: the file stays as it is."""
    tree = ast.parse(text)
    places = Places(text, tree)
    chance = random.Random(seed)
    findings = [_RULE.finding(tree, "probe", edit) for edit in _edits(tree, chance)]
    able = plan(findings, places).findings
    if not able:
        return
    try:
        after = apply(places, able)
    except CannotApplyError as error:
        yield f"cannot edit: {error}"
        return
    wrong = check.problem(places, able, after)
    if wrong is not None:
        yield f"self-check: {wrong}"
        return
    try:
        found = _without_probes(ast.parse(after))
    except SyntaxError as error:
        yield f"unparsable: {error}"
        return
    if ast.dump(found) != ast.dump(ast.parse(text)):
        yield "another program: without the probes the tree is not the one from before"
    if PROBE not in after:
        yield "no probe: an accepted edit was not made"


def _edits(tree: ast.Module, chance: random.Random) -> list[Edit]:
    blocks = [block for node in ast.walk(tree) for block in _blocks(node)]
    statements = [statement for block in blocks for statement in block]
    patterns = {
        child for node in ast.walk(tree) if isinstance(node, ast.pattern | ast.JoinedStr) for child in ast.walk(node)
    }
    values = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call | ast.Attribute | ast.BinOp | ast.Compare | ast.Subscript | ast.IfExp | ast.Lambda)
        and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        and node not in patterns
    ]
    calls = [node for node in values if isinstance(node, ast.Call)]
    functions = [node for node in statements if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    line = Code(f"{PROBE}()")

    def some(nodes: list[ast.AST]) -> list[ast.AST]:
        return chance.sample(nodes, min(_EACH, len(nodes)))

    edits: list[Edit] = [AddImport(PROBE)]
    edits += [InsertBefore(node, line) for node in some([*statements]) if isinstance(node, ast.stmt)]
    edits += [InsertAfter(node, line) for node in some([*statements]) if isinstance(node, ast.stmt)]
    for node in some([*statements]):
        block = next(block for block in blocks if node in block)
        first = block.index(node)  # type: ignore[arg-type]  # it is one of the block's statements
        last = min(first + chance.randrange(3), len(block) - 1)
        edits.append(WrapStatements(block[first], block[last], Code(f"if {PROBE}")))
    edits += [Replace(node, Code(f"{PROBE}({{0}})", (node,))) for node in some([*values]) if isinstance(node, ast.expr)]
    edits += [AddArguments(node, ((PROBE, Code("1")),)) for node in some([*calls]) if isinstance(node, ast.Call)]
    edits += [AddDecorator(node, Code(PROBE)) for node in some([*functions]) if isinstance(node, ast.FunctionDef)]
    return edits


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of a node, without what must stay first in them: docstrings, imports from `__future__`."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if not isinstance(block, list) or not block or not isinstance(block[0], ast.stmt):
            continue
        start = int(name == "body" and isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant))
        for index, statement in enumerate(block):
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                start = index + 1
        if block[start:]:
            yield block[start:]


class _Remover(ast.NodeTransformer):
    """Takes away what probes have added."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.keywords = [each for each in node.keywords if each.arg != PROBE]
        return node.args[0] if _is_probe(node.func) and node.args else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Call) and _is_probe(node.value.func) and not node.value.args:
            return None
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.body if _is_probe(node.test) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [each for each in node.decorator_list if not _is_probe(each)]
        return self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        return None if node.names[0].name == PROBE else node


def _is_probe(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == PROBE


def _without_probes(tree: ast.Module) -> ast.AST:
    return _Remover().visit(tree)  # type: ignore[no-any-return]  # a module stays one
