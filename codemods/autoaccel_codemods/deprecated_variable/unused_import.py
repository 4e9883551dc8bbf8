"""Whether the import of `Variable` may go with the last use of its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from autoaccel.analysis import Script
from autoaccel.analysis.imported_names import imported_elsewhere
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.edits import Code, Edit, Finding, InsertBefore, RemoveStatement, Skipped
from autoaccel.pytorch.introspection import name_looked_up, names_a_type
from autoaccel.rewriting.rule import Rule

_MODULES = ("torch.autograd", "torch.autograd.variable")


def findings(script: Script, rule: Rule, done: Mapping[ast.expr, Finding]) -> Iterator[Finding | Skipped]:
    """The imports of the class that nobody needs once the uses that are `done` have gone."""
    for statement in script.find(ast.ImportFrom):
        for alias in statement.names:
            if statement.level or statement.module not in _MODULES or alias.name != "Variable":
                continue
            local = alias.asname or alias.name
            uses = [
                name
                for name in script.find(ast.Name)
                if name.id == local and any(each.node is statement for each in script.definitions(name))
            ]
            deleted = any(name.id == local and isinstance(name.ctx, ast.Del) for name in script.find(ast.Name))
            if deleted or any(use not in done for use in uses):
                continue  # it was said of the use
            problem = _problem(script, statement, local)
            if problem is not None:
                yield rule.skip(statement, problem)
            else:
                needs = tuple(dict.fromkeys(done[use] for use in uses))
                edits = _without(statement, alias)
                yield rule.finding(statement, f"`{local}` is imported for nothing", *edits, needs=needs)


def _problem(script: Script, statement: ast.ImportFrom, local: str) -> str | None:
    """Why somebody may need the name."""
    public = script.function(statement) is None
    if len(script.block(statement)) < 2 or isinstance(script.parent(statement), ast.Try):
        return "the block around it needs a statement"
    if public and script.path is not None and script.path.name == "__init__.py":
        return "a package offers it to others"
    if public and script.is_notebook:
        return "cells that are yet to be written may use it"
    texts = (each for each in script.find(ast.Constant) if isinstance(each.value, str) and local in each.value)
    if any(names_a_type(script, each) for each in texts):
        return "an annotation names it"
    try:
        if public and imported_elsewhere(script, local):
            return "other files import it from here"
        return name_looked_up(script, local, public=public)
    except Incomplete as incomplete:
        return str(incomplete)


def _without(statement: ast.ImportFrom, alias: ast.alias) -> tuple[Edit, ...]:
    kept = [ast.unparse(each) for each in statement.names if each is not alias]
    if not kept:
        return (RemoveStatement(statement),)
    code = Code(f"from {statement.module} import {', '.join(kept)}")
    return InsertBefore(statement, code), RemoveStatement(statement)
