"""Statements that stay outside of the regions: losses, and last parts of models, that work in float32 alone.

They are given float32, and lose no digits but of what they are given.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.tensor_operations import LINEAR_ALGEBRA
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel.pytorch.step_effects import Effect, call_effects, may_run_model
from autoaccel_codemods.autocast import lost_digits, unsafe_operations
from autoaccel_codemods.autocast.backward_slice import variables
from autoaccel_codemods.autocast.blockers import Problem
from autoaccel_codemods.autocast.changed_arguments import changes_arguments
from autoaccel_codemods.autocast.float_tensors import content
from autoaccel_codemods.autocast.hoists import FreeNames, Hoist, names_for
from autoaccel_codemods.autocast.tensor_content import Content

_OF_DECIMALS = frozenset(
    f"torch.nn.functional.{name}" for name in ("log_softmax", "softmax", "cross_entropy", "kl_div")
)


def read_by_name(script: Script, statement: ast.stmt, reduced: Collection[str]) -> list[ast.expr]:
    """Where a statement reads by a name what a region leaves in low precision."""
    names = script.in_scope(statement, ast.Name)
    return [each for each in names if isinstance(each.ctx, ast.Load) and each.id in reduced]


def _must_be_floating(script: Script, part: ast.expr) -> bool:
    """Whether an expression is one tensor with decimals, or raises: logits of `log_softmax(logits / 4, dim=1)`."""
    match script.parent(part):
        case ast.BinOp(left=left, op=ast.Div(), right=right) as outer if left is part:
            return script.kind(right) is Kind.NUMBER and _must_be_floating(script, outer)
        case ast.Call(func=function, args=[first, *_]) if first is part:
            return script.qualname(function) in _OF_DECIMALS
        case _:
            return False


class Float32Statements:
    """Those of one step, and the problems with them; `reduced` grows while its statements are gone through."""

    def __init__(self, script: Script, reduced: set[str], names: FreeNames, report_at: ast.AST) -> None:
        self.statements: set[ast.stmt] = set()
        self.problems: list[Problem] = []
        self._script = script
        self._reduced = reduced
        self._names = names
        self._report_at = report_at

    def lifted(self, statement: ast.stmt) -> list[ast.expr]:
        """What a statement is given in float32 that computes something of what regions leave in low precision, by
        names: a loss, or the last part of a model, `output = head(features, labels)`; nothing of others."""
        if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Return):
            return []
        script = self._script
        read = (each for each in script.in_scope(statement, ast.Attribute) if isinstance(each.ctx, ast.Load))
        parts = read_by_name(script, statement, self._reduced)
        parts += [each for each in read if script.source(each) in self._reduced]  # `self.features`
        if not parts or set(map(script.source, parts)) != variables(script, statement) & self._reduced:
            return []
        code = reachable_code(script, [statement])
        if not self._wants_float32(code):
            return []
        if any(content(script, each) is not Content.FLOATING and not _must_be_floating(script, each) for each in parts):
            return []
        self._keep(statement, code)
        return parts

    def hoists(self, statement: ast.stmt) -> list[Hoist]:
        """What is taken out of a statement that computes such a loss of what it has a model compute itself,
        `loss = criterion(model(images), targets)`; nothing where it does not."""
        script = self._script
        if not isinstance(statement, ast.Assign) or variables(script, statement) & self._reduced:
            return []
        outer = statement.value
        if not isinstance(outer, ast.Call) or not self._wants_float32(code := self._entered(outer)):
            return []
        given = given_values(outer)
        models = [each for each in given if isinstance(each, ast.Call) and Effect.FORWARD in call_effects(script, each)]
        rest = (each for each in given if each not in models)
        if any(may_run_model(script, call) for each in rest for call in script.within(each, ast.Call)):
            return []
        if any(content(script, each) is not Content.FLOATING for each in models):
            return []
        if self._wants_float32(reachable_code(script, models)):
            return []
        self._keep(statement, code)
        return [Hoist(each, self._names.choose(statement, *names_for(statement))) for each in models]

    def computes_both(self, call: ast.Call) -> bool:
        """Whether a function that is called runs models, and computes such a loss."""
        if self._script.kind(call.func) not in (Kind.FUNCTION, None):
            return False
        return Effect.FORWARD in call_effects(self._script, call) and self._wants_float32(self._entered(call))

    def _entered(self, call: ast.Call) -> list[ScriptNode]:
        """A call and the code that it enters, its arguments aside."""
        entered = self._script.callees(call)
        return [(self._script, call), *(part for file, each in entered for part in reachable_code(file, [each]))]

    def _wants_float32(self, code: list[ScriptNode]) -> bool:
        """Whether code may raise or be wrong in low precision, and is right on a copy in float32."""
        if any(changes_arguments(*each) for each in code):
            return False
        if any(last_name(call.func) in LINEAR_ALGEBRA for file, node in code for call in file.within(node, ast.Call)):
            return False  # of a matrix that a region has computed no digits come back
        lost = lost_digits.in_code(code, self._script, self._report_at)
        return unsafe_operations.needs_float32(code) or any(True for _ in lost)

    def _keep(self, statement: ast.stmt, code: list[ScriptNode]) -> None:
        for look in (lost_digits, unsafe_operations):
            self.problems += look.in_code(code, self._script, self._report_at, in_float32=True)
        self.statements.add(statement)
