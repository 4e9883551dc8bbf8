"""Where values in low precision go, and where they meet code that takes float32 only.

What is computed in an autocast region stays in low precision through arithmetic, views, containers, attributes,
arguments and results, until something casts it. NumPy has no bfloat16; modules outside a region refuse inputs in
another precision than their weights, and so do writes by index and matrix products. There the value is used as
`value.float()`, which changes nothing where the region ran in float32. That is done to what surely is one tensor with
decimals alone: at the place itself, else on every way that leads there; where a way has no such place, the step is left
as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.python_names import BUILTINS
from autoaccel.library_models.tensor_operations import LOW, METHODS, NO_TENSOR_BUILTINS, STORING
from autoaccel.library_models.tensor_views import VIEWS
from autoaccel.pytorch import implicit_calls, module_containers
from autoaccel.pytorch.reachable_code import running_code
from autoaccel.pytorch.step_effects import Effect, call_effects
from autoaccel_codemods.autocast import expression_flow, float16_range, kept_sums, skip_reasons
from autoaccel_codemods.autocast.blockers import Problem, place, problem_at
from autoaccel_codemods.autocast.call_flow import TORCH
from autoaccel_codemods.autocast.expression_flow import ITERATED
from autoaccel_codemods.autocast.float_tensors import content
from autoaccel_codemods.autocast.hoists import Hoist
from autoaccel_codemods.autocast.storage_flow import CONTAINERS
from autoaccel_codemods.autocast.tensor_content import Content

_VIEWED = VIEWS | frozenset("contiguous clone detach cpu cuda to double".split())
_NOTHING_YET = frozenset({Kind.NUMBER, Kind.NONE})
_OBJECTS = frozenset({Kind.MODULE, Kind.OPTIMIZER, Kind.SCHEDULER, Kind.LOADER})
# What these modules give takes over the precision of what goes in; weights of embeddings are looked up as they are.
_NOT_LOW = frozenset(
    f"torch.nn.{name}"
    for name in """Embedding EmbeddingBag Dropout Dropout1d Dropout2d Identity Flatten ReLU Parameter ParameterList
    LayerNorm Softmax LogSoftmax Sigmoid Tanh LeakyReLU ELU GELU SiLU""".split()
)

ValuePart = tuple[str, int | str] | None
"""The element of a tuple or dictionary that is low (`at`), or of each that an iteration gives (`each`); None: it is."""


class Low(NamedTuple):
    """An expression (or a part of what it is) that may be in low precision.

    `auto`: it is evaluated while autocast is on. `free`: whoever called the function around it.
    """

    script: Script
    node: ast.expr
    part: ValuePart
    auto: bool
    free: bool


@dataclass(slots=True, eq=False)
class LowPrecisionFlow:
    """Expressions to be used as `.float()`, and problems where that is not possible."""

    float32_casts: list[ast.expr] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    computes: bool = True  # whether autocast may compute anything of it in low precision
    no_float16: str | None = None  # why its numbers may not fit it


def find(
    script: Script,
    statements: Iterable[ast.stmt],
    hoists: Iterable[Hoist],
    float32_casts: Iterable[ast.expr],
    report_at: ast.AST,
    lifted: Iterable[ast.expr] = (),
) -> LowPrecisionFlow:
    """What becomes of the values of some regions: statements of one file, expressions that are hoisted into a region,
    and the code that they reach, without what has built their models before they are entered. What is in
    `float32_casts` is cast anyway, what is in `lifted` where it is low; `report_at` stands for other files."""
    casts = dict.fromkeys(float32_casts)
    given = len(casts)
    ties: list[Problem] = []
    inside: list[ast.AST] = [*statements, *(each.expression for each in hoists)]
    code = running_code(script, inside)
    while True:
        search = Search(script, inside, code, casts, report_at)
        search.run()
        # First those: what else would be cast may be made of them. Equal numbers stay equal.
        first = dict.fromkeys(each for each in lifted if each in search.nodes and each not in casts)
        first.update(search.early_casts)
        if first:
            casts.update(first)
            ties += [each for each in search.problems if each[1] == skip_reasons.TIES]
            continue
        if not search.more_casts:
            found = sorted([*search.problems, *ties], key=lambda each: (each[0].lineno, each[0].col_offset))  # type: ignore[attr-defined]
            return LowPrecisionFlow(list(casts)[given:], found, search.computes, _no_float16(search))
        casts.update(search.more_casts)


def _no_float16(search: Search) -> str | None:
    """Why what is in low precision must not be in float16, and where."""
    for low in search.known:
        reason = float16_range.lost(low.script, low.node, computed=low.node in search.sources)
        if reason is not None:
            return place(low.script, low.node, reason, search.script)
    return None


class Search:
    """One pass with a set of casts; the casts that it misses are for the next pass."""

    def __init__(
        self,
        script: Script,
        inside: list[ast.AST],
        code: list[ScriptNode],
        casts: dict[ast.expr, None],
        report_at: ast.AST,
    ) -> None:
        self.script = script
        self.report_at = report_at
        self.casts = casts
        self.region: set[ast.AST] = {part for each in inside for part in script.within(each, ast.AST)}
        self.scopes: set[ast.AST] = {script.function(each) or script.tree for each in inside}
        self.functions = [(other, node) for other, node in code if isinstance(node, ast.FunctionDef)]
        self.lambdas = [(other, node) for other, node in code if isinstance(node, ast.Lambda)]  # hooks
        entered = (*self.functions, *self.lambdas)
        self.reached: set[ast.AST] = {part for other, node in entered for part in other.within(node, ast.AST)}
        self.inside = inside
        self.loops = {loops[0] for each in inside if (loops := script.loops(each))}
        self.known: dict[Low, None] = {}
        self.nodes: set[ast.expr] = set()
        self.computes = False  # whether anything is low by itself
        self.sources: set[ast.expr] = set()  # low by themselves, whatever they are made of
        self.causes: dict[tuple[ast.expr, ValuePart], dict[Low, None]] = {}
        self.pending: list[Low] = []
        self.deferred: list[tuple[Low, ast.expr, str]] = []  # for when it is known whether the second is low
        self.running: list[tuple[Low, ast.Name]] = []  # added to what the turn before has left in a name
        self.kept: list[tuple[Low, Script, ast.expr]] = []  # what outlives a call, and a read of it
        self.added: list[tuple[Low, ast.expr]] = []  # to an attribute, or an element of one
        self.called: dict[ast.Call, tuple[tuple[Script, ast.FunctionDef], ...]] = {}
        self.sites: dict[ast.FunctionDef, dict[tuple[Script, ast.Call], None]] = {}  # beside those of `callers`
        self.fed: dict[ast.Call, None] = {}  # calls with an argument that is low
        self.returning: dict[tuple[ast.AST, ValuePart], Low] = {}  # what functions return that is low
        self.more_casts: dict[ast.expr, None] = {}
        self.early_casts: dict[ast.expr, None] = {}
        self.problems: list[Problem] = []

    def run(self) -> None:
        for each in self.inside:
            self._sources(self.script, each)
        entered = [(self.script, each) for each in self.inside]
        entered += self.functions
        handed: set[ast.AST | None] = {hook for _, hook in implicit_calls.hooks(self.script)}
        for script, code in entered:  # the calls that no caller tells of: under another name, of elements of containers
            for call in script.within(code, ast.Call):
                arguments = given_values(call)
                for each in arguments if getattr(code, "name", "") != "__init__" else ():
                    if isinstance(each, ast.Name | ast.Attribute):
                        handed.update(value.node for value in script.values(each) if value.kind is Kind.FUNCTION)
                for _, function in self.callees(script, call):
                    self.sites.setdefault(function, {})[script, call] = None
        for script, hook in self.lambdas:
            self._sources(script, hook)
            self.fed_by_others(script, hook)
        for script, function in self.functions:
            if function.name in ("__init__", "__new__"):
                continue  # made before the region is entered
            self._sources(script, function)
            fed = function.name in ("forward", "__call__") or function in handed
            if fed and not self._is_reached(script, function):
                self.fed_by_others(script, function)
        while self.pending:
            expression_flow.follow(self, self.pending.pop())
        for low, beside, reason in self.deferred:
            if beside not in self.nodes:
                self.sink(low, reason)
            elif low.auto:  # in a region, one of the two may be what autocast computes in float32
                self.problem(low, reason)
        for low, kept in self.running:
            begun = [*_begun(low.script, kept)]
            if any(each in self.nodes or low.script.values(each).kinds & _NOTHING_YET for each in begun):
                self.sink(low, skip_reasons.RUNNING_SUMS)
            if not isinstance(kept.ctx, ast.Load):  # a tensor that is changed in place stays as it was made
                for made in [each for each in self.known if each.node in begun]:
                    self.sink(made, skip_reasons.RUNNING_SUMS)
        for low in [*kept_sums.found(self)]:
            self.sink(low, skip_reasons.RUNNING_SUMS)

    # -- where it starts

    def _sources(self, script: Script, code: ast.AST) -> None:
        products = (part for part in script.within(code, ast.BinOp) if isinstance(part.op, ast.MatMult))
        calls = (part for part in script.within(code, ast.Call) if self._computes(script, part))
        for part in (*products, *calls):
            self.mark(script, part, None, None, auto=True, free=True)

    def _computes(self, script: Script, call: ast.Call) -> bool:
        """Whether autocast itself makes a result low: products, modules of libraries, and calls of what is not seen."""
        qualified = self.library(script, call)
        if qualified is not None:
            known = qualified.startswith((*TORCH, "operator.")) and qualified.rsplit(".", 1)[-1] in LOW
            # `nn.Sequential(…)` and `torch.compile(model)` hand out a model: they run none
            return known or (script.kind(call) is not Kind.MODULE and _hands_on(script, call))
        values = script.values(call.func)
        if not self.callees(script, call) or Kind.UNKNOWN in values.kinds:
            modules = [value for value in values if value.kind is Kind.MODULE]
            if modules:
                return not all(value.name in _NOT_LOW for value in modules if value.cls is None)
            if isinstance(call.func, ast.Attribute):
                if call.func.attr in METHODS | STORING | ITERATED:
                    return call.func.attr in LOW
                unknown = bool(values) and all(value.kind is Kind.UNKNOWN for value in script.values(call.func.value))
                return unknown or Effect.FORWARD in call_effects(script, call)
            if isinstance(call.func, ast.Name) and call.func.id in BUILTINS and not script.definitions(call.func):
                return call.func.id not in NO_TENSOR_BUILTINS and _hands_on(script, call)
            return all(value.kind is Kind.UNKNOWN for value in values)
        return False

    def callees(self, script: Script, call: ast.Call) -> tuple[tuple[Script, ast.FunctionDef], ...]:
        """The project functions that a call enters, elements of containers of modules among them."""
        known = self.called.get(call)
        if known is None:
            known = self.called[call] = script.callees(call) or module_containers.forwards(script, call.func)
        return known

    def library(self, script: Script, call: ast.Call) -> str | None:
        """The qualified name of a function of a library."""
        return None if script.is_project_name(call.func) else script.qualname(call.func)

    def _is_reached(self, script: Script, function: ast.FunctionDef) -> bool:
        """Whether the code under autocast is seen to call a function."""
        sites = (*(call for _, call in script.callers(function)), *(call for _, call in self.sites.get(function, ())))
        return any(call in self.region or call in self.reached for call in sites)

    def fed_by_others(self, script: Script, function: ast.FunctionDef | ast.Lambda, cause: Low | None = None) -> None:
        """The layers of a container are handed what the others make, and hooks what modules make."""
        scope = script.reaching_definitions.scopes.get(function)
        for definition in (each for named in scope.definitions.values() for each in named) if scope is not None else ():
            if definition.how == "param" and definition.name != "self":
                for use in script.uses(definition):
                    auto = True if cause is None else self.at(script, use, cause)
                    self.mark(script, use, None, cause, auto=auto, free=True)

    # -- marking

    def mark(
        self, script: Script, node: ast.expr, part: ValuePart, cause: Low | None, *, auto: bool, free: bool
    ) -> None:
        """Note that an expression may be low, made of its cause, and that it is to be followed."""
        self.computes |= cause is None
        if node in self.casts:
            return
        low = Low(script, node, part, auto, free)
        if cause is None:
            self.sources.add(node)
        elif cause.node is not node:
            self.causes.setdefault((node, part), {})[cause] = None
        if low in self.known or (isinstance(node, ast.Name) and script.kind(node) in _OBJECTS):
            return
        path = () if part is None or part[0] != "at" else (part[1],)
        if content(script, node, path) in (Content.WHOLE, Content.NUMBER, Content.NOTHING):
            return
        self.known[low] = None
        self.nodes.add(node)
        self.pending.append(low)

    def pass_on(self, low: Low, node: ast.expr, part: ValuePart = None) -> None:
        """On to an expression around it."""
        self.mark(low.script, node, part, low, auto=low.auto, free=low.free)

    def at(self, script: Script, node: ast.AST, low: Low) -> bool:
        """Whether autocast is on where a name is read that got its value elsewhere in the same call."""
        function = script.function(node) or script.tree
        same = script is low.script and function is (script.function(low.node) or script.tree)
        if same and node not in self.region and not self.holds_region(script, function):
            return low.auto
        return self.in_region(script, node)

    def left_by_last_turn(self, script: Script, statement: ast.stmt, name: ast.Name) -> bool:
        """Whether a name in a statement of the loop around the regions reads what this has bound in the turn before."""
        loops = script.loops(statement)
        if script is not self.script or not loops or loops[0] not in self.loops:
            return False
        if not isinstance(name.ctx, ast.Load):
            before = script.reaching_definitions.before_addition(name)
        elif any(
            each.id == name.id for each in script.within(statement, ast.Name) if not isinstance(each.ctx, ast.Load)
        ):
            before = script.definitions(name)
        else:
            return False
        return any(script.inside(each.node, statement) for each in before)

    def in_region(self, script: Script, node: ast.AST) -> bool:
        """Whether code is evaluated under autocast, by some of those who call it."""
        if node in self.region:
            return True
        return node in self.reached and not self.holds_region(script, script.function(node) or script.tree)

    def holds_region(self, script: Script, function: ast.AST) -> bool:
        """Whether the regions stand in a function, so that only a part of it is under autocast."""
        return script is self.script and function in self.scopes

    def is_of_step(self, low: Low) -> bool:
        """Whether a value is met in the step itself, and not in what it calls: models may go by the type of what they
        are given, `torch.finfo(scores.dtype).min`, and are right."""
        return low.node in self.region or low.node not in self.reached

    # -- what is done about it

    def sink(self, low: Low, reason: str, *, early: bool = False) -> None:
        """Code that takes float32 only: cast there, or on every way to it; `early` where much else is made of it."""
        if not self.cast(low, outside=low.node not in self.reached, early=early):
            self.problem(low, reason)

    def cast(self, low: Low, *, outside: bool, early: bool = False) -> bool:
        """Cast a value, or whatever it is made of; False where that is not possible on every way to it."""
        found: dict[ast.expr, None] = {}
        possible = self._cut(low, found, set(), outside=outside)
        (self.early_casts if early else self.more_casts).update(found if possible else {})
        return possible

    def _cut(
        self, low: Low, found: dict[ast.expr, None], seen: set[tuple[ast.expr, ValuePart]], *, outside: bool
    ) -> bool:
        """The places to cast at, as late as possible; for code outside not within the models."""
        if (low.node, low.part) in seen:
            return True
        seen.add((low.node, low.part))
        within = outside and low.node in self.reached and low.node not in self.region
        if not within and self._castable(low):
            found[low.node] = None
            return True
        if low.node in self.sources:
            return False
        causes = self.causes.get((low.node, low.part), {})
        return bool(causes) and all(self._cut(each, found, seen, outside=outside) for each in causes)

    def _castable(self, low: Low) -> bool:
        if low.script is not self.script or isinstance(low.node, ast.Starred):
            return False
        if low.script.kind(low.node) in CONTAINERS:
            return False
        if isinstance(low.node, ast.Name | ast.Attribute | ast.Subscript) and not isinstance(low.node.ctx, ast.Load):
            return False
        return content(low.script, low.node) is Content.FLOATING

    def is_computed(self, low: Low) -> bool:
        """Whether a value may be more than what a module of torch's gives, or views of it: a product, a sum."""
        pending, seen = [low], set[Low]()
        while pending:
            each = pending.pop()
            if each in seen:
                continue
            seen.add(each)
            node = each.node
            if node in self.sources:
                functions = each.script.values(node.func) if isinstance(node, ast.Call) else ()
                names = [value.name or "" for value in functions if value.kind is Kind.MODULE]
                if not names or not all(name.startswith(TORCH) for name in names):
                    return True
                continue
            kept = not isinstance(node, ast.Call) or last_name(node.func) in _VIEWED or self.callees(each.script, node)
            if isinstance(node, ast.BinOp) or not kept:
                return True
            causes = [cause for (made, _), found in self.causes.items() if made is node for cause in found]
            if not causes:
                return True
            pending += causes
        return False

    def problem(self, low: Low, reason: str) -> None:
        self.problems.append(problem_at(low.script, low.node, reason, self.script, self.report_at))


def _begun(script: Script, kept: ast.Name) -> Iterator[ast.expr]:
    """What a name that is added to may stand for before."""
    if isinstance(kept.ctx, ast.Load):
        yield kept
    else:
        before = script.reaching_definitions.before_addition(kept)
        yield from (each.whole for each in before if each.whole is not None)


def _hands_on(script: Script, call: ast.Call) -> bool:
    """Whether code that is not seen is handed something to call: `map(model, batches)`, `checkpoint(block, x)`."""
    arguments = given_values(call)
    return any(
        isinstance(each, ast.Lambda) or any(value.kind in (Kind.FUNCTION, Kind.MODULE) for value in script.values(each))
        for each in arguments
    )
