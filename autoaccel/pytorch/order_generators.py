"""Generators that the order of samples is drawn from: whether a loader has one of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once
from autoaccel.pytorch.changing_calls import UNCHANGED, is_library, makes_order
from autoaccel.pytorch.loader_calls import loader_calls


@once
def shares_generator(script: Script) -> bool:
    """Whether the generator of an order of samples is not one of its own: `generator=torch.default_generator`, one that
    two loaders have, one that is handed on or asked of a loader."""
    given = [
        keyword.value
        for call in script.find(ast.Call)
        for keyword in call.keywords
        if keyword.arg == "generator" and makes_order(script, call)
    ]
    given += [made.settings["generator"] for made in loader_calls(script) if "generator" in made.settings]
    given = [each for each in given if not isinstance(each, ast.Constant)]
    return any(not _is_own_generator(script, each) for each in given) or (bool(given) and _asks_loaders(script))


def _asks_loaders(script: Script) -> bool:
    """Whether something reads the generator of what may be a loader or a sampler: `loader.generator.get_state()`."""
    try:
        files = script.project.with_word(script, "generator")
    except Incomplete:
        return True
    return any(
        isinstance(read, ast.Attribute) and isinstance(read.ctx, ast.Load) and _may_be_loader(other, read.value)
        for other in files
        for read in other.syntax_index.mentions("generator")
    )


def _may_be_loader(script: Script, owner: ast.expr) -> bool:
    return any(value.cls is None and value.kind not in UNCHANGED - {Kind.LOADER} for value in script.values(owner))


def _is_own_generator(script: Script, value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=None):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr="manual_seed")):
            return _is_own_generator(script, made)
        case ast.Call(func=function):
            return script.qualname(function) == "torch.Generator"
        case ast.Name():
            definitions = script.definitions(value)
            made_here = [each for each in definitions if each.value is not None and each.how == "assign"]
            if not definitions or len(made_here) < len(definitions):
                return False
            if not all(_is_own_generator(script, each.value) for each in made_here if each.value is not None):
                return False
            uses: list[tuple[Script, ast.Name | ast.Attribute]] = []
            uses += ((script, use) for use in script.find(ast.Name) if use.id == value.id)
            if any(each.scope is script.module_scope for each in definitions):
                try:
                    uses += _uses_elsewhere(script, value.id)
                except Incomplete:
                    return False
            return all(
                use is value or not isinstance(use.ctx, ast.Load) or _is_followed(where, use) for where, use in uses
            )
        case _:
            return False


def _uses_elsewhere(script: Script, name: str) -> Iterator[tuple[Script, ast.Name | ast.Attribute]]:
    """Where other files name what a file has at its top level. Raises `Incomplete`."""
    for other in script.project.with_word(script, name)[1:]:
        for use in other.syntax_index.mentions(name, *other.import_aliases((name,))):
            if isinstance(use, ast.Attribute):
                owners = other.values(use.value)
                if Kind.UNKNOWN in owners.kinds or any(value.node is script.tree for value in owners):
                    yield other, use
            elif all(each.how == "import" and _leads_to(other, each, script) for each in other.definitions(use)):
                yield other, use


def _leads_to(other: Script, definition: Definition, script: Script) -> bool:
    found = script.project.imported(other, definition.target or "", definition.level)
    return found is None or found[0] is script


def _is_followed(script: Script, generator: ast.Name | ast.Attribute) -> bool:
    """Whether a use of a generator counts among the changes: `g.manual_seed(0)`, `torch.randperm(n, generator=g)`."""
    match parent := script.parent(generator):
        case ast.Attribute(attr="manual_seed"):
            return True
        case ast.keyword(arg="generator"):
            call = script.parent(parent)
            return (
                isinstance(call, ast.Call)
                and not makes_order(script, call)
                and is_library(script, call)
                and (script.qualname(call.func) or "").startswith("torch.")
            )
        case _:
            return False
