"""Where the autocast regions of a training step lie.

A region is a run of sibling statements, from the first forward that a loss depends on to the last statement that makes
the loss. It never holds a backward, an optimizer step, data loading or saving. Binary cross-entropy of probabilities is
refused by autocast on CUDA: its statement stays outside, in float32, and the forwards nested in it are hoisted into the
region before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.syntax_index import walk_scope
from autoaccel.pytorch.gradients import sets_grad_mode
from autoaccel.pytorch.loader_loops import loader_loops
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel.pytorch.step_effects import Effect, call_effects, effects, is_sensitive, may_run_model
from autoaccel.pytorch.training_steps import Backward, TrainingStep, scope_of
from autoaccel_codemods.autocast import blockers, lost_digits, skip_reasons, stored_results, unsafe_operations
from autoaccel_codemods.autocast.backward_slice import Slice, changed, variables
from autoaccel_codemods.autocast.blockers import Problem, in_step
from autoaccel_codemods.autocast.float32_statements import Float32Statements, read_by_name
from autoaccel_codemods.autocast.hoists import FreeNames, Hoist, is_conditional, names_for, whole_expression
from autoaccel_codemods.autocast.sigmoid_bce import out_of_reach, sigmoid_arguments
from autoaccel_codemods.autocast.statement_kinds import (
    draws,
    ends_between,
    is_arithmetic,
    is_on_host,
    starts,
    takes_classes,
)

_NEVER = Effect.BACKWARD | Effect.STEP | Effect.SAVES | Effect.YIELDS
_NEVER_INSIDE = (
    ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.ClassDef
    | ast.Import
    | ast.ImportFrom
    | ast.Return
    | ast.Global
    | ast.Nonlocal
)


@dataclass(slots=True, eq=False)
class Region:
    """Statements `first` … `last` of one block and `hoists` after them; without statements, hoists `before` one."""

    first: ast.stmt | None
    last: ast.stmt | None
    hoists: list[Hoist] = field(default_factory=list)
    before: ast.stmt | None = None

    @property
    def anchor(self) -> ast.stmt:
        statement = self.first or self.before
        assert statement is not None
        return statement

    def statements(self, script: Script) -> list[ast.stmt]:
        """The statements that stand in the region."""
        if self.first is None or self.last is None:
            return []
        block = script.block(self.first)
        return block[block.index(self.first) : block.index(self.last) + 1]

    def nodes(self, script: Script) -> list[ast.AST]:
        """All that runs in the region: its statements, and what is hoisted into it."""
        return [*self.statements(script), *(each.expression for each in self.hoists)]


@dataclass(slots=True, eq=False)
class Regions:
    """All regions of a step, the expressions to be used in float32 outside them (`lifted`: those of them that turn out
    to be in low precision), and the losses that get a name."""

    regions: list[Region] = field(default_factory=list)
    float32_casts: list[ast.expr] = field(default_factory=list)
    lifted: list[ast.expr] = field(default_factory=list)
    losses: dict[Backward, str] = field(default_factory=dict)
    loads: list[tuple[ast.stmt, ast.Call, str]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    reduced: set[str] = field(default_factory=set)
    code: list[ScriptNode] = field(default_factory=list)
    no_float16: str | None = None  # why its numbers may not fit it

    def statements(self, script: Script) -> Iterator[ast.stmt]:
        """Every statement that stands in a region."""
        return (each for region in self.regions for each in region.statements(script))


def place_regions(script: Script, step: TrainingStep, *, narrow: bool = True, apart: bool = False) -> Regions:
    """The regions of a step. The `narrow` ones leave out what gains nothing by them: clearing gradients and counting
    between forward and loss, arithmetic on what the regions give. With `apart`, losses that work in float32 alone stay
    outside as well."""
    return _Planner(script, step, narrow, apart).run()


class _Planner:
    def __init__(self, script: Script, step: TrainingStep, narrow: bool, apart: bool) -> None:
        self.script = script
        self.step = step
        self.narrow = narrow
        self.found = Regions()
        self.loader_loops = {loop.node for loop in loader_loops(script)}
        self.names = FreeNames(script)
        report_at = step.backwards[0].call
        self.apart = Float32Statements(script, self.found.reduced, self.names, report_at) if apart else None
        self.slice = Slice(script, self._unwrappable, None if self.apart is None else self.apart.computes_both)
        self.heavy = {backward.statement: backward for backward in step.backwards if self._heavy(backward.loss)}
        self.probabilities = False  # a binary cross-entropy stays outside

    def run(self) -> Regions:
        for backward in self.step.backwards:
            if not self.slice.add(backward):
                reason = skip_reasons.FORWARD_ELSEWHERE if self.slice.unresolved else skip_reasons.NO_FORWARD
                self.found.problems.append((backward.call, reason))
        blocks: dict[int, list[ast.stmt]] = {}
        for statement in (*self.slice.statements, *self.heavy):
            block = self.script.block(statement)
            blocks.setdefault(id(block), block)
        for block in sorted(blocks.values(), key=lambda block: block[0].lineno):
            self._block(block)
        self.found.regions.sort(key=lambda region: region.anchor.lineno)
        parts = [each.nodes(self.script) for each in self.found.regions]
        inside = [node for part in parts for node in part]
        self._whole_step(inside)
        acts = (call for call in blockers.acts(self.script) if any(self.script.inside(call, each) for each in inside))
        self.found.problems += [(call, skip_reasons.ENVIRONMENT) for call in acts]
        self.found.problems += [(call, skip_reasons.RESULT_GRADIENTS) for call in self._leaves_of_results()]
        self.found.code = reachable_code(self.script, inside)
        report_at = self.step.backwards[0].call
        self.found.problems += unsafe_operations.in_code(self.found.code, self.script, report_at)
        rounded = (each for each in self.slice.statements if each not in self._in_float32)
        slice_code = [*self.found.code, *((self.script, each) for each in rounded)]
        slice_code += reachable_code(self.script, self._given_results(inside))
        self.found.problems += lost_digits.in_code(slice_code, self.script, report_at)
        self.found.problems += [] if self.apart is None else self.apart.problems
        self.found.problems += stored_results.in_regions(parts, self.slice.statements, self.script, report_at)
        if self.probabilities:
            self.found.float32_casts += sigmoid_arguments(self.found.code, self.script)
        saturates = self.probabilities and out_of_reach(self.found.code, self.script)
        self.found.no_float16 = self._no_float16(inside) if not saturates else skip_reasons.SATURATES
        return self.found

    def _no_float16(self, inside: list[ast.AST]) -> str | None:
        if unsafe_operations.sees_gradients(reachable_code(self.script, self._outside(inside))):
            return skip_reasons.SCALED_FUNCTION
        found = unsafe_operations.needs_range(self.found.code, self.script)
        return found or (skip_reasons.OVERFLOWS if unsafe_operations.looks_for_overflows(self.script) else None)

    def _given_results(self, inside: list[ast.AST]) -> list[ast.stmt]:
        """The statements outside of the regions that are given results of these as they are."""
        outside = [each for each in self._outside(inside) if each not in self._in_float32]
        return [each for each in outside if variables(self.script, each) & self.found.reduced]

    def _outside(self, inside: list[ast.AST]) -> list[ast.stmt]:
        """The statements of the step that are in no region."""
        covered = {part for each in inside for part in self.script.in_scope(each, ast.AST)}
        return sorted(self.slice.statements - covered, key=lambda each: (each.lineno, each.col_offset))

    def _leaves_of_results(self) -> Iterator[ast.Attribute]:
        """Where a result gets a gradient of its own, `z = h.detach().requires_grad_()`, as in split learning."""
        for scope in self.step.scopes:
            for part in self.script.in_scope(scope, ast.Attribute):
                if part.attr == "requires_grad_" or (part.attr == "requires_grad" and isinstance(part.ctx, ast.Store)):
                    if variables(self.script, part.value) & self.found.reduced:
                        yield part

    @property
    def _in_float32(self) -> set[ast.stmt]:
        return set() if self.apart is None else self.apart.statements

    def _whole_step(self, inside: list[ast.AST]) -> None:
        """Whole or not at all: what the loss depends on does not run models in float32 beside those of the region."""
        covered = {part for each in inside for part in self.script.in_scope(each, ast.AST)}
        statements = (each for each in self.slice.statements if each not in covered | self._in_float32)
        for statement in sorted(statements, key=lambda each: (each.lineno, each.col_offset)):
            for part in self.script.in_scope(statement, ast.Call):
                if part not in covered and may_run_model(self.script, part):
                    self.found.problems.append((part, skip_reasons.FORWARD_OUTSIDE))
        for function, unseen in self.slice.unseen:
            reason = skip_reasons.HANDED_UNSEEN.format(function=function.name, unseen=unseen)
            self.found.problems.append((function, reason))
        for function, other in self.slice.elsewhere:
            file = "another file" if other.path is None else other.path.name
            reason = skip_reasons.FORWARD_PART_ELSEWHERE.format(function=function.name, file=file)
            self.found.problems.append((function, reason))
        for argument in self.slice.handed:
            self.found.problems.append((argument, skip_reasons.FORWARD_HANDED_OVER))
        callers = dict.fromkeys(scope_of(self.script, each) for each in inside)
        for scope in callers:  # whose losses a step is handed
            if scope not in self.step.scopes:
                self.found.problems += in_step(self.script, scope)

    # -- what may stand in a region

    def _unwrappable(self, statement: ast.stmt) -> bool:
        """Compound statements that regions go into instead of around."""
        return bool(effects(self.script, statement) & (_NEVER | Effect.SENSITIVE)) or self._loads(statement)

    def _loads(self, statement: ast.stmt) -> bool:
        return any(loop in self.loader_loops for loop in self.script.in_scope(statement, ast.For))

    def _barrier(self, statement: ast.stmt) -> bool:
        if isinstance(statement, _NEVER_INSIDE) or effects(self.script, statement) & _NEVER or self._loads(statement):
            return True
        return any(draws(self.script, call) for call in self.script.in_scope(statement, ast.Call))

    def _without_gradients(self, statement: ast.stmt) -> bool:
        return isinstance(statement, ast.With) and any(
            sets_grad_mode(self.script, item.context_expr) for item in statement.items
        )

    def _shares_models(self, statement: ast.stmt, block: list[ast.stmt]) -> bool:
        """Whether a forward without gradients runs a model that also runs with them and would use its cast weights."""
        mine = self._models(statement)
        others = (each for each in block if each is not statement and each in self.slice.statements)
        return any(
            not one or not other or one == other or one.startswith(other + ".") or other.startswith(one + ".")
            for each in others
            for other in self._models(each)
            for one in mine
        )

    def _models(self, statement: ast.stmt) -> set[str]:
        """The receivers of the forwards in a statement, as written; empty for those inside called functions."""
        found: set[str] = set()
        for part in walk_scope(statement):
            if isinstance(part, ast.Call) and Effect.FORWARD in call_effects(self.script, part):
                named = isinstance(part.func, ast.Name | ast.Attribute)
                known = named and self.script.kind(part.func) is not Kind.FUNCTION
                found.add(self.script.source(part.func) if known else "")
        return found

    def _heavy(self, expression: ast.expr) -> bool:
        """Whether a backward's receiver computes a forward or a loss, so that it belongs into a region itself."""
        for part in walk_scope(expression):
            if isinstance(part, ast.Call):
                qualified = self.script.qualname(part.func)
                made = qualified is None and isinstance(part.func, ast.Name) and self.script.definitions(part.func)
                if made or (qualified or "").startswith("torch.nn.functional.") or is_sensitive(self.script, part):
                    return True
                if Effect.FORWARD in call_effects(self.script, part):
                    return True
                if self.script.kind(part.func) in (Kind.LOSS_FUNCTION, Kind.FUNCTION):
                    return True
        return False

    # -- one statement list

    def _block(self, block: list[ast.stmt]) -> None:
        run: list[ast.stmt] = []
        gap: list[ast.stmt] = []
        on_host: set[ast.stmt] = set()  # what makes no tensor of the region's: a region does not end with it
        open_region: Region | None = None

        def flush() -> None:
            nonlocal open_region
            while self.narrow and run and run[-1] in on_host:
                run.pop()
            if run:
                open_region = Region(run[0], run[-1])
                self.found.regions.append(open_region)
                run.clear()
            else:
                open_region = None
            gap.clear()

        for statement in block:
            if statement in self.heavy:
                adjacent = not gap
                flush()
                self._hoist_loss(self.heavy[statement], open_region if adjacent else None)
                open_region = None
                continue
            if statement in self.slice.statements and Effect.SENSITIVE in effects(self.script, statement):
                if run:
                    adjacent = not gap
                    flush()
                else:
                    adjacent = open_region is not None
                open_region = self._sensitive(statement, open_region if adjacent else None)
                continue
            if self.apart is not None and statement in self.slice.statements:
                lifted, hoists = self.apart.lifted(statement), self.apart.hoists(statement)
                if lifted or hoists:
                    flush()
                    self._add(statement, hoists, None)
                    self.found.lifted += [*lifted, *(each.expression for each in hoists)]
                    open_region = None  # what comes next may read what this has computed
                    continue
            if self._barrier(statement):
                flush()
                if self._load(statement):
                    run.append(statement)
                    self._reduce(statement)
                else:
                    open_region = None
                continue
            if statement not in self.slice.statements:
                if Effect.SENSITIVE in effects(self.script, statement):  # of a loss that no backward pass needs
                    flush()
                elif run:
                    gap.append(statement)
                open_region = None
                continue
            if self._without_gradients(statement) and self._shares_models(statement, block):
                flush()
                if Effect.FORWARD in effects(self.script, statement):
                    self.found.regions.append(Region(statement, statement))
                    self._reduce(statement)
                open_region = None
                continue
            if self.narrow and ends_between(self.script, gap, statement, self.found.reduced):
                flush()
            if self.narrow and not run and is_arithmetic(self.script, statement, self.found.reduced):
                self.found.lifted += read_by_name(self.script, statement, self.found.reduced)
                open_region = None
                continue
            if run or starts(self.script, statement, self.found.reduced):
                if is_on_host(self.script, statement):
                    on_host |= {*gap, statement}
                run += [*gap, statement]
                gap.clear()
                self._reduce(statement)
            open_region = None
        flush()

    def _reduce(self, statement: ast.stmt) -> None:
        """Note what a statement inside a region leaves in low precision."""
        if Effect.FORWARD in effects(self.script, statement) or variables(self.script, statement) & self.found.reduced:
            self.found.reduced |= changed(self.script, statement) - self._arrays(statement)

    def _arrays(self, statement: ast.stmt) -> set[str]:
        """Names of arrays that a statement makes: those are in NumPy's precision."""
        names = self.script.in_scope(statement, ast.Name)
        return {each.id for each in names if isinstance(each.ctx, ast.Store) and self.script.kind(each) is Kind.ARRAY}

    def _load(self, statement: ast.stmt) -> bool:
        """`loss = model(next(batches))`: the batch is drawn before the region."""
        if statement not in self.slice.statements or Effect.FORWARD not in effects(self.script, statement):
            return False
        drawn = [call for call in self.script.in_scope(statement, ast.Call) if draws(self.script, call)]
        if (
            len(drawn) != 1
            or not isinstance(statement, ast.Assign | ast.AugAssign)
            or effects(self.script, statement) & _NEVER
        ):
            return False
        assert isinstance(drawn[0], ast.Call)
        if is_conditional(self.script, drawn[0], statement):
            return False
        self.found.loads.append((statement, drawn[0], self.names.choose(statement, "batch", "data", "next_batch")))
        return True

    # -- hoisting

    def _hoist_loss(self, backward: Backward, region: Region | None) -> None:
        if any(isinstance(part, ast.Call) and is_sensitive(self.script, part) for part in walk_scope(backward.loss)):
            self._sensitive(backward.statement, region)
            return
        match backward.loss:
            case ast.NamedExpr(target=target, value=expression):  # has its name already
                name = target.id
            case expression:
                name = self.names.choose(backward.statement, "loss", "total_loss", "batch_loss")
        self.found.losses[backward] = name
        self._add(backward.statement, [Hoist(expression, name)], region)

    def _add(self, statement: ast.stmt, hoists: list[Hoist], region: Region | None) -> Region | None:
        if not hoists:
            return region
        if region is None:
            region = Region(None, None, [], statement)
            self.found.regions.append(region)
        region.hoists += hoists
        return region

    def _sensitive(self, statement: ast.stmt, region: Region | None) -> Region | None:
        """Binary cross-entropy stays outside; returns the region that a following statement of the kind may add to."""
        script = self.script
        self.probabilities = True
        if not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Return):
            self.found.problems.append((statement, skip_reasons.BCE_INSIDE))
            return None
        if any(isinstance(part, ast.Call) and takes_classes(script, part) for part in walk_scope(statement)):
            self.found.problems.append((statement, skip_reasons.BCE_OR_CLASSES))
            return None
        hoists: list[Hoist] = []
        for part in walk_scope(statement):
            if not isinstance(part, ast.Call) or Effect.FORWARD not in call_effects(script, part):
                continue
            if Effect.SENSITIVE in call_effects(script, part):
                self.found.problems.append((part, skip_reasons.BCE_WITH_FORWARD))
                return None
            whole = whole_expression(script, part, statement)
            if whole is None or is_conditional(script, whole, statement):
                self.found.problems.append((part, skip_reasons.FORWARD_IN_BCE))
                return None
            if all(whole is not each.expression for each in hoists):
                hoists.append(Hoist(whole, self.names.choose(statement, *names_for(statement))))
        if region is not None and region.first is None:
            since = self._changed_since(region, statement)
            if any(variables(script, hoist.expression) & since for hoist in hoists):
                region = None
        return self._add(statement, hoists, region)

    def _changed_since(self, region: Region, statement: ast.stmt) -> set[str]:
        block = self.script.block(statement)
        start = block.index(region.last) + 1 if region.last in block else block.index(region.anchor)
        return {name for each in block[start : block.index(statement)] for name in changed(self.script, each)}
