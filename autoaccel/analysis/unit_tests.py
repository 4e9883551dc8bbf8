"""Code that tests or measures other code: it runs once, on a few numbers, and is about what stands there."""

from __future__ import annotations

import ast
import re

from autoaccel.analysis.classes import external_lineage
from autoaccel.analysis.imported_names import imported
from autoaccel.analysis.script import Script

# What only tests import. `unittest.mock` also patches things in programs.
_FRAMEWORKS = re.compile(r"(pytest|unittest|torch\.testing\._internal)(\.(?!mock\b)|$)")
_A_SUITE = 3  # so many `test_…` functions in a file of that name are tests, also where the file calls them itself
_FILE = re.compile(r"(test_\w+|\w+_test|conftest)\.py")


def reason_to_keep(script: Script, node: ast.AST) -> str | None:
    """Why a place is left as it is whatever could be gained there; None for most."""
    if any(name.startswith("torch.utils.benchmark") for name in imported(script)):
        return "a benchmark measures what is written"
    return "a unit test has no time to gain" if in_unit_test(script, node) else None


def in_unit_test(script: Script, node: ast.AST) -> bool:
    """Whether a place belongs to a test: a file of tests, or a test case in another file."""
    return is_unit_test_file(script) or any(_is_case(script, outer) for outer in script.ancestors(node))


def is_unit_test_file(script: Script) -> bool:
    """A file that imports a framework for tests, or that pytest would collect: named as one, with several
    `test_…` functions or with some that nothing in it calls."""
    if any(_FRAMEWORKS.match(name) for name in imported(script)):
        return True
    if script.path is None or not _FILE.fullmatch(script.path.name):
        return False
    called = {call.func.id for call in script.find(ast.Call) if isinstance(call.func, ast.Name)}
    named = {each.name for each in script.find(ast.FunctionDef) if each.name.startswith("test_")}
    return len(named) >= _A_SUITE or (bool(named) and not named & called)


def _is_case(script: Script, node: ast.AST) -> bool:
    if not isinstance(node, ast.ClassDef) or not node.bases:
        return False
    return any(name.startswith("unittest.") for name in external_lineage(script.class_ref(node)))
