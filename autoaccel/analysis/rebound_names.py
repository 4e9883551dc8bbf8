"""Names of a module that other files bind anew: `engine.log = my_log`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.analysis import attributes, namespaces
from autoaccel.analysis.attributes import Stored
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Answer, Incomplete
from autoaccel.dataflow.query import fixpoint, once

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script


@once
def rebound_names(script: Script) -> frozenset[str]:
    """The names of a module that other files may bind to something else: `engine.log = my_log`."""
    own = script.module_scope.definitions if any(namespaces.own(script)) else ()
    return frozenset({*script.project.names_rebound(script), *own})


@fixpoint(Answer(), Answer(missing="what they are depends on itself"))
def rebindings(script: Script, name: str) -> Answer[Stored]:
    """What other files may bind such a name to."""
    found = [
        Stored(script, value)
        for namespace in namespaces.own(script)
        for value in namespaces.bound_values(script, namespace, name)
    ]
    if namespaces.binds_own(script, name):
        found.append(Stored(script, None, how="namespace"))
    try:
        for other in script.project.files_rebinding(script, name):
            for stored in attributes.stored_as(other, name):
                if stored.receiver is None:
                    found.append(stored)
                    continue
                values = other.inference.possible(stored.receiver)
                if any(value.node is script.tree for value in values) or (
                    Kind.UNKNOWN in values.kinds and is_handed_on(script)
                ):
                    found.append(stored)
    except Incomplete as incomplete:
        return Answer(tuple(found), str(incomplete))
    return Answer(tuple(found))


@fixpoint(False, True)
def is_handed_on(script: Script) -> bool:
    """Whether a module is used as a value: `install(engine)`. Raises `Incomplete`."""
    return any(
        not isinstance(other.parent(mention), ast.Attribute)
        and any(value.node is script.tree for value in other.inference.possible(mention))
        for other in script.project.importers(script)
        for mention in other.find(ast.Name)
        if isinstance(mention.ctx, ast.Load) and any(each.how == "import" for each in other.definitions(mention))
    )
