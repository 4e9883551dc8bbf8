"""Whether a model stays a model of its own: no part of another one, and no other one a part of it.

Followed from where it is made through names, attributes of plain objects, parameters and results of the project's
functions. What is not seen to leave it alone counts as what makes it a part of something else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from autoaccel.analysis.callables import called_name
from autoaccel.analysis.classes import is_plain_object
from autoaccel.analysis.name_lookups import hands_on_names, reads_any_name, runs_text
from autoaccel.analysis.passed_functions import bound_to
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.definitions import Definition
from autoaccel.pytorch.object_references import attribute_reads, possible_classes

Place = tuple[Script, ast.expr]

_SAME_MODEL = frozenset("to cuda cpu xpu float half double bfloat16 train eval requires_grad_".split())
_ASKED = frozenset(
    """parameters named_parameters buffers named_buffers state_dict load_state_dict zero_grad training
    __class__ __name__""".split()
)
_LOOKED_AT = frozenset(
    """builtins.isinstance builtins.print builtins.id builtins.type builtins.str builtins.repr builtins.hasattr
    torch.save copy.deepcopy""".split()
)


def stays_separate(script: Script, made: ast.expr) -> bool:
    """Whether what an expression makes is, wherever it goes, only called, moved, and asked for its parameters."""
    pending: list[Place] = [(script, made)]
    seen: set[ast.expr] = set()
    try:
        for at, part in pending:  # grows while it is walked
            if part not in seen:
                seen.add(part)
                pending += _goes_to(at, part)
    except Incomplete:
        return False
    return True


_UNSEEN = Incomplete("it may become a part of another model")


def _goes_to(script: Script, part: ast.expr) -> Iterable[Place]:
    """The expressions that stand for it next. Raises `Incomplete` where it may go anywhere."""
    around = script.parent(part)
    match around:
        case ast.Call(func=function) if function is part:
            return ()
        case ast.Call():
            return _passed(script, around, part)
        case ast.keyword():
            call = script.parent(around)
            assert isinstance(call, ast.Call)
            return _passed(script, call, around)
        case ast.Attribute(attr=name, ctx=ast.Load()):
            call = script.call_of(around)
            if name in _SAME_MODEL and call is not None:
                return ((script, call),)
            if name in _ASKED:
                return ()
        case ast.Assign(targets=targets):
            return [place for each in targets for place in _stored(script, each)]
        case ast.Tuple(elts=elements):
            match script.parent(around):
                case ast.Assign(targets=[ast.Tuple(elts=targets)]) as statement if statement.value is around and len(
                    targets
                ) == len(elements):
                    return _stored(script, targets[elements.index(part)])
        case ast.Return():
            returning = script.function(around)
            if isinstance(returning, ast.FunctionDef) and not returning.decorator_list:
                return script.callers(returning).all()
        case ast.IfExp(test=test):
            return () if part is test else ((script, around),)
        case ast.Expr() | ast.Compare() | ast.If():
            return ()
    raise _UNSEEN


def _passed(script: Script, call: ast.Call, argument: ast.expr | ast.keyword) -> Iterable[Place]:
    """Where what a call is given goes on, in functions of the project."""
    if called_name(script, call.func) in _LOOKED_AT and not script.is_project_name(call.func):
        return ()
    used = argument.value if isinstance(argument, ast.keyword) else argument
    bound = None if Kind.UNKNOWN in script.values(call.func).kinds else bound_to(script, used)
    if bound is None:
        raise _UNSEEN
    return [place for where, definition in bound for place in _reads(where, definition)]


def _stored(script: Script, target: ast.expr) -> Iterable[Place]:
    """The reads of what is bound here."""
    match target:
        case ast.Name():
            return [place for each in script.definitions(target) for place in _reads(script, each)]
        case ast.Attribute(value=owner, attr=name) if all(map(is_plain_object, script.values(owner))):
            return attribute_reads(script, possible_classes(script, owner), name, called=True)
        case _:
            raise _UNSEEN


def _reads(script: Script, definition: Definition) -> Iterable[Place]:
    """All reads of a name. Raises `Incomplete` where other files, or names that are computed, may read it."""
    scope = definition.scope.node
    if isinstance(scope, ast.ClassDef):
        raise _UNSEEN
    if scope is script.tree:
        seen = not script.project.importer_paths(script) and not reads_any_name(script)
    else:
        seen = not hands_on_names(script, scope) and not runs_text(script, scope)
    if not seen:
        raise _UNSEEN
    return ((script, use) for use in script.uses(definition))
