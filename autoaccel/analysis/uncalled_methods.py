"""Methods that nobody calls: what they look up by computed names, they call nobody by."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from autoaccel.analysis.classes import derived_classes, external_lineage
from autoaccel.analysis.shown_objects import is_shown
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.query import once

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef

_CALLING_ANY = re.compile(r"\b(?:import|from)\b[^\n#]*\b(?:fire|jsonargparse|defopt|ray|rpyc|Pyro\d|xmlrpc|cmd)\b")
"""Libraries that call methods of what they are given by names which come from outside of the program."""
_PLAIN_BASES = frozenset({"object", "builtins.object", "abc.ABC"})


def is_in_uncalled_method(script: Script, node: ast.AST) -> bool:
    """Whether code is in a method that the whole project names nowhere but where it is defined, of a class that no
    library gets to see, neither as a base nor its objects, and that no computed name reaches."""
    method = script.function(node)
    cls = script.parent(method) if method is not None else None
    if not isinstance(method, ast.FunctionDef) or not isinstance(cls, ast.ClassDef) or method.decorator_list:
        return False
    if method.name.startswith(("__", "test")) or not _is_named_once(script, method.name):
        return False
    ref = script.class_ref(cls)
    derived = derived_classes(ref)
    if derived.missing is not None or not all(map(_is_called_in_sight, (ref, *derived))) or is_shown(ref):
        return False
    callers = script.callers(method)
    return not callers.seen and callers.missing is None


def _is_called_in_sight(ref: ClassRef) -> bool:
    """Whether a class is none of those whose methods libraries call: what they derive from, decorate or collect."""
    marked = ref.node.decorator_list or ref.node.keywords or ref.node.name.startswith("Test")
    return not marked and _PLAIN_BASES.issuperset(external_lineage(ref))


@once
def _is_named_once(script: Script, name: str) -> bool:
    """Whether a name stands in the whole project once, and no library is used that runs whatever methods there are."""
    word = re.compile(rf"\b{name}\b")
    try:
        texts = [*script.project.texts_with_word(script, name)]
        calling_any = any(_CALLING_ANY.search(text) for text in script.project.related_texts(script))
    except Incomplete:
        return False
    return not calling_any and sum(len(word.findall(text)) for text in texts) == 1
