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
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import lineage
from autoaccel.dataflow.abstract_values import ClassRef, Kind
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.library_models.python_names import BUILTINS
from autoaccel.library_models.tensor_operations import (
    ENDS,
    INFORMATION,
    KEEPING,
    LOSSES,
    LOW,
    METHODS,
    NO_LOW_PRECISION_KERNELS,
    NO_TENSOR_BUILTINS,
    PRODUCTS,
    SAME_DTYPE_NON_PRODUCTS,
    STORING,
    WITH_INDICES,
    WRITING,
)
from autoaccel.pytorch import implicit_calls, module_containers
from autoaccel.pytorch.reachable_code import tabled_functions
from autoaccel.pytorch.step_effects import Effect, call_effects, is_sensitive
from autoaccel_codemods.autocast import skip_reasons
from autoaccel_codemods.autocast.blockers import Problem, written_by_index
from autoaccel_codemods.autocast.float_tensors import Content, content, is_pair, is_set_elsewhere

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.completeness import ScriptNode
    from autoaccel_codemods.autocast.regions import Hoist

_TORCH = ("torch.", "torchvision.", "einops.")
_PASSING = ("autoaccel", "copy.", "functools.partial", "itertools.", "collections.", "typing.")
_METRICS = ("torchmetrics.",)
_NO_TENSORS = frozenset(
    {Kind.NUMBER, Kind.ARRAY, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DTYPE, Kind.DEVICE, Kind.OPTIMIZER}
    | {Kind.SCHEDULER, Kind.LOADER, Kind.SCALER, Kind.MODULE, Kind.CLASS, Kind.FUNCTION, Kind.LOSS_FUNCTION}
)
_CONTAINERS = frozenset({Kind.SEQUENCE, Kind.MAPPING})
_ITERATED = frozenset("items values keys get pop popleft popitem copy".split())
# What these modules give takes over the precision of what goes in; weights of embeddings are looked up as they are.
_NOT_LOW = frozenset(
    f"torch.nn.{name}"
    for name in """Embedding EmbeddingBag Dropout Dropout1d Dropout2d Identity Flatten ReLU Parameter ParameterList
    LayerNorm Softmax LogSoftmax""".split()
)

ValuePart = tuple[str, int | str] | None


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


def find(
    script: Script,
    statements: Iterable[ast.stmt],
    hoists: Iterable[Hoist],
    code: list[ScriptNode],
    float32_casts: Iterable[ast.expr],
    report_at: ast.AST,
) -> LowPrecisionFlow:
    """What becomes of the values of some regions: statements of one file, expressions that are hoisted into a region,
    and the code that they reach. What is in `float32_casts` is cast anyway; `report_at` stands for other files."""
    lifted = dict.fromkeys(float32_casts)
    given = len(lifted)
    inside: list[ast.AST] = [*statements, *(each.expression for each in hoists)]
    while True:
        search = _Search(script, inside, code, lifted, report_at)
        search.run()
        if not search.lifts:
            found = sorted(search.problems, key=lambda each: (each[0].lineno, each[0].col_offset))  # type: ignore[attr-defined]
            return LowPrecisionFlow(list(lifted)[given:], found)
        lifted.update(search.lifts)


class _Search:
    """One pass with a set of casts; the casts that it misses are for the next pass."""

    def __init__(
        self,
        script: Script,
        inside: list[ast.AST],
        code: list[ScriptNode],
        lifted: dict[ast.expr, None],
        report_at: ast.AST,
    ) -> None:
        self.script = script
        self.report_at = report_at
        self.lifted = lifted
        self.region: set[ast.AST] = {part for each in inside for part in script.within(each, ast.AST)}
        self.scopes: set[ast.AST] = {script.function(each) or script.tree for each in inside}
        self.functions = [(other, node) for other, node in code if isinstance(node, ast.FunctionDef)]
        self.lambdas = [(other, node) for other, node in code if isinstance(node, ast.Lambda)]  # hooks
        entered = (*self.functions, *self.lambdas)
        self.reached: set[ast.AST] = {part for other, node in entered for part in other.within(node, ast.AST)}
        self.inside = inside
        self.known: dict[Low, None] = {}
        self.nodes: set[ast.expr] = set()
        self.causes: dict[tuple[ast.expr, ValuePart], dict[Low, None]] = {}
        self.pending: list[Low] = []
        self.called: dict[ast.Call, tuple[tuple[Script, ast.FunctionDef], ...]] = {}
        self.fed: dict[ast.Call, None] = {}
        self.deferred: list[tuple[Low, ast.expr, str]] = []  # for when it is known whether the second is low
        self.sites: dict[ast.FunctionDef, dict[tuple[Script, ast.Call], None]] = {}
        self.returning: dict[tuple[ast.AST, ValuePart], Low] = {}
        self.lifts: dict[ast.expr, None] = {}
        self.problems: list[Problem] = []

    def run(self) -> None:
        for each in self.inside:
            self._sources(self.script, each)
        entered = [(self.script, each) for each in self.inside]
        entered += self.functions
        handed: set[ast.AST | None] = {hook for _, hook in implicit_calls.hooks(self.script)}
        for script, code in entered:  # the calls that no caller tells of: under another name, of elements of containers
            for call in script.within(code, ast.Call):
                arguments = (*call.args, *(keyword.value for keyword in call.keywords))
                for each in arguments if getattr(code, "name", "") != "__init__" else ():
                    if isinstance(each, ast.Name | ast.Attribute):
                        handed.update(value.node for value in script.values(each) if value.kind is Kind.FUNCTION)
                for _, function in self._callees(script, call):
                    self.sites.setdefault(function, {})[script, call] = None
        for script, hook in self.lambdas:
            self._sources(script, hook)
            self._fed_by_others(script, hook)
        for script, function in self.functions:
            if function.name in ("__init__", "__new__"):
                continue  # made before the region is entered
            self._sources(script, function)
            fed = function.name in ("forward", "__call__") or function in handed
            if fed and not self._is_reached(script, function):
                self._fed_by_others(script, function)
        while self.pending:
            self._follow(self.pending.pop())
        for low, beside, reason in self.deferred:
            if beside not in self.nodes:
                self._sink(low, reason)

    # -- where it starts

    def _sources(self, script: Script, code: ast.AST) -> None:
        products = (part for part in script.within(code, ast.BinOp) if isinstance(part.op, ast.MatMult))
        calls = (part for part in script.within(code, ast.Call) if self._computes(script, part))
        for part in (*products, *calls):
            self._mark(script, part, None, None, auto=True, free=True)

    def _computes(self, script: Script, call: ast.Call) -> bool:
        """Whether autocast itself makes a result low: products, modules of libraries, and calls of what is not seen."""
        qualified = self._library(script, call)
        if qualified is not None:
            known = qualified.startswith((*_TORCH, "operator.")) and qualified.rsplit(".", 1)[-1] in LOW
            return known or _hands_on(script, call)
        values = script.values(call.func)
        if not self._callees(script, call) or Kind.UNKNOWN in values.kinds:
            modules = [value for value in values if value.kind is Kind.MODULE]
            if modules:
                return not all(value.name in _NOT_LOW for value in modules if value.cls is None)
            if isinstance(call.func, ast.Attribute):
                if call.func.attr in METHODS | STORING | _ITERATED:
                    return call.func.attr in LOW
                unknown = bool(values) and all(value.kind is Kind.UNKNOWN for value in script.values(call.func.value))
                return unknown or Effect.FORWARD in call_effects(script, call)
            if isinstance(call.func, ast.Name) and call.func.id in BUILTINS and not script.definitions(call.func):
                return call.func.id not in NO_TENSOR_BUILTINS and _hands_on(script, call)
            return all(value.kind is Kind.UNKNOWN for value in values)
        return False

    def _callees(self, script: Script, call: ast.Call) -> tuple[tuple[Script, ast.FunctionDef], ...]:
        """The project functions that a call enters, elements of containers of modules among them."""
        known = self.called.get(call)
        if known is None:
            known = self.called[call] = script.callees(call) or module_containers.forwards(script, call.func)
        return known

    def _library(self, script: Script, call: ast.Call) -> str | None:
        return None if script.is_project_name(call.func) else script.qualname(call.func)

    def _is_reached(self, script: Script, function: ast.FunctionDef) -> bool:
        """Whether the code under autocast is seen to call a function."""
        sites = (*(call for _, call in script.callers(function)), *(call for _, call in self.sites.get(function, ())))
        return any(call in self.region or call in self.reached for call in sites)

    def _fed_by_others(self, script: Script, function: ast.FunctionDef | ast.Lambda, cause: Low | None = None) -> None:
        """The layers of a container are handed what the others make, and hooks what modules make."""
        scope = script.reaching_definitions.scopes.get(function)
        for definition in (each for named in scope.definitions.values() for each in named) if scope is not None else ():
            if definition.how == "param" and definition.name != "self":
                for use in script.uses(definition):
                    auto = True if cause is None else self._at(script, use, cause)
                    self._mark(script, use, None, cause, auto=auto, free=True)

    # -- marking

    def _mark(
        self, script: Script, node: ast.expr, part: ValuePart, cause: Low | None, *, auto: bool, free: bool
    ) -> None:
        if node in self.lifted:
            return
        low = Low(script, node, part, auto, free)
        if cause is not None and cause.node is not node:
            self.causes.setdefault((node, part), {})[cause] = None
        if low in self.known or (script.kind(node) in _NO_TENSORS and not _holds_more(script, node)):
            return
        path = () if part is None or part[0] != "at" else (part[1],)
        if content(script, node, path) in (Content.WHOLE, Content.NUMBER, Content.NOTHING):
            return
        self.known[low] = None
        self.nodes.add(node)
        self.pending.append(low)

    def _pass(self, low: Low, node: ast.expr, part: ValuePart = None) -> None:
        """On to an expression around it."""
        self._mark(low.script, node, part, low, auto=low.auto, free=low.free)

    def _at(self, script: Script, node: ast.AST, low: Low) -> bool:
        """Whether autocast is on where a name is read that got its value elsewhere in the same call."""
        function = script.function(node) or script.tree
        same = script is low.script and function is (script.function(low.node) or script.tree)
        if same and node not in self.region and not self._holds_region(script, function):
            return low.auto
        return self._in_region(script, node)

    def _in_region(self, script: Script, node: ast.AST) -> bool:
        """Whether code is evaluated under autocast, by some of those who call it."""
        if node in self.region:
            return True
        return node in self.reached and not self._holds_region(script, script.function(node) or script.tree)

    # -- following

    def _follow(self, low: Low) -> None:
        script, node = low.script, low.node
        parent = script.parent(node)
        if low.auto and node in self.region and parent not in self.region:  # hoisted out of a statement that stays out
            low = low._replace(auto=False)
        if isinstance(parent, ast.keyword):
            outer = script.parent(parent)
            if isinstance(outer, ast.Call):
                self._argument(low, outer)
            return
        match parent:
            case ast.Attribute():
                self._attribute(low, parent)
            case ast.Subscript(value=value) if value is node:
                self._subscript(low, parent)
            case ast.Call(func=function) if function is node:
                self._pass(low, parent)
            case ast.Call():
                self._argument(low, parent)
            case ast.Starred():
                self._pass(low, parent)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                before = elements[: elements.index(node)]
                fixed = not any(isinstance(each, ast.Starred) for each in (*before, node))
                self._pass(low, parent, ("at", len(before)) if fixed else None)
            case ast.Dict(keys=keys, values=values):
                if node in values:
                    key = keys[values.index(node)]
                    named = isinstance(key, ast.Constant) and isinstance(key.value, int | str)
                    self._pass(low, parent, ("at", key.value) if named else None)  # type: ignore[union-attr]
            case ast.BinOp(op=ast.MatMult()) if not low.auto:
                self._sink(low, skip_reasons.PRODUCT_OUTSIDE)
                self._pass(low, parent)
            case ast.BinOp(left=left, right=right):
                other = right if left is node else left
                if script.kind(other) is Kind.ARRAY:
                    self._sink(low, skip_reasons.NUMPY_COMPUTES)
                if not isinstance(parent.op, ast.Mod) or script.kind(left) is not Kind.STRING:
                    self._pass(low, parent)
            case ast.UnaryOp(op=operator):
                if not isinstance(operator, ast.Not):
                    self._pass(low, parent)
            case ast.IfExp(test=test):
                if test is not node:
                    self._pass(low, parent, low.part)
            case ast.BoolOp() | ast.NamedExpr() | ast.Await() | ast.Set():
                self._pass(low, parent, low.part if not isinstance(parent, ast.Set) else None)
                if isinstance(parent, ast.NamedExpr):
                    self._bind(low, parent.target)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                self._pass(low, parent)
            case ast.comprehension(iter=iterated, target=target):
                if iterated is node:
                    self._iterate(low, target)
            case ast.For(iter=iterated, target=target) | ast.AsyncFor(iter=iterated, target=target):
                if iterated is node:
                    self._iterate(low, target)
            case ast.Assign(targets=targets):
                for target in targets:
                    self._bind(low, target)
            case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
                if isinstance(parent, ast.AugAssign) and script.kind(target) is Kind.ARRAY:
                    self._sink(low, skip_reasons.NUMPY_COMPUTES)
                if isinstance(parent, ast.AugAssign) and isinstance(parent.op, ast.MatMult) and not low.auto:
                    self._sink(low, skip_reasons.PRODUCT_OUTSIDE)
                self._bind(low, target)
            case ast.Return():
                self._returned(low)
            case ast.Lambda():
                self._pass(low, parent)
            case ast.arguments():  # a default: each call may use it
                self._fed_by_others(script, script.parent(parent), low)  # type: ignore[arg-type]
            case ast.Compare(left=left, comparators=others):
                if any(script.kind(each) is Kind.ARRAY for each in (left, *others)):
                    self._sink(low, skip_reasons.NUMPY_COMPUTES)
            case ast.Yield() | ast.YieldFrom() | ast.MatchValue() | ast.Match():
                self._sink(low, skip_reasons.NOT_FOLLOWED)
            case ast.withitem(optional_vars=ast.expr() as target):
                self._bind(low, target)
            case _:  # tests, comparisons, messages, indices, statements of their own
                pass

    def _attribute(self, low: Low, parent: ast.Attribute) -> None:
        script = low.script
        if not isinstance(parent.ctx, ast.Load) or parent.attr in INFORMATION:
            return
        call = script.parent(parent)
        if parent.attr in ("numpy", "__array__"):
            self._sink(low, skip_reasons.HANDED_TO_NUMPY)
            return
        if not (isinstance(call, ast.Call) and call.func is parent):
            if parent.attr == "dtype":  # what is made or cast after it is low as well
                self._typed(low, parent)
            else:
                self._pass(low, parent)
            return
        name = parent.attr
        if self._callees(script, call) or script.kind(parent) is Kind.MODULE:
            self._pass(low, call)
            return
        if name in WRITING:
            self._written(low, low.node, call.args[-1] if call.args else None)
        if name in NO_LOW_PRECISION_KERNELS:
            self._sink(low, skip_reasons.NO_KERNEL.format(name=name))
            return
        if name in SAME_DTYPE_NON_PRODUCTS and not low.auto:
            self._sink(low, skip_reasons.ONE_PRECISION.format(name=name))
        if name in ENDS:
            return
        if name in ("to", "type") and (types := _types(script, call)):
            if not any("half" in each or "float16" in each for each in types):
                return
        if name in PRODUCTS and not low.auto:
            self._sink(low, skip_reasons.PRODUCT_OUTSIDE)
        if name in STORING or (name.endswith("_") and isinstance(script.parent(call), ast.Expr)):
            return
        part: ValuePart = low.part
        if name in WITH_INDICES:
            part = ("at", 0) if is_pair(script, call) else None
        elif name == "items":
            part = ("each", 1)
        elif name in _ITERATED:
            key = call.args[0] if call.args else None
            if part is not None and part[0] == "at" and isinstance(key, ast.Constant) and key.value != part[1]:
                return
            part = None
        elif name in METHODS:
            part = None
        self._pass(low, call, part)

    def _typed(self, low: Low, dtype: ast.expr) -> None:
        """`torch.zeros(n, dtype=out.dtype)`, `x.to(out.dtype)`."""
        parent = low.script.parent(dtype)
        if isinstance(parent, ast.keyword):
            parent = low.script.parent(parent)
        if isinstance(parent, ast.Call) and parent.func is not dtype:
            self._pass(low, parent)
        elif isinstance(parent, ast.Assign):
            self._pass(low, dtype)

    def _subscript(self, low: Low, parent: ast.Subscript) -> None:
        script = low.script
        if isinstance(parent.ctx, ast.Store):
            statement = script.parent(parent)
            value = statement.value if isinstance(statement, ast.Assign | ast.AugAssign) else None
            if script.kind(low.node) not in _CONTAINERS and written_by_index(script, parent.slice):
                if not isinstance(statement, ast.AugAssign):
                    self._written(low, low.node, value)
            return
        if not isinstance(parent.ctx, ast.Load):
            return
        step = _step(parent.slice)
        if low.part is not None and low.part[0] == "at" and step is not None:
            if step == low.part[1]:
                self._pass(low, parent)
            return
        if isinstance(parent.slice, ast.Slice):
            self._pass(low, parent)
            return
        self._pass(low, parent)

    def _written(self, low: Low, target: ast.expr, value: ast.expr | None) -> None:
        """Something is written by index into what is low: in the same precision only if it is made of it."""
        script = low.script
        if isinstance(value, ast.Constant | ast.UnaryOp) or (value is not None and script.kind(value) is Kind.NUMBER):
            return
        if value is not None and _root(value) is not None and _root(value) == _root(target):
            return
        if value is not None and content(script, target) is Content.STRUCTURE:
            return
        self._problem(low, skip_reasons.WRITTEN_BY_INDEX)

    def _iterate(self, low: Low, target: ast.expr) -> None:
        if low.part is not None and low.part[0] == "each":
            if isinstance(target, ast.Tuple) and isinstance(low.part[1], int) and low.part[1] < len(target.elts):
                self._bind(low._replace(part=None), target.elts[low.part[1]])
                return
        self._bind(low._replace(part=None), target)

    # -- names and attributes

    def _bind(self, low: Low, target: ast.expr) -> None:
        script = low.script
        match target:
            case ast.Name():
                for definition in script.definitions(target):
                    self._uses(low, definition)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for index, element in enumerate(elements):
                    if isinstance(element, ast.Starred):
                        self._bind(low._replace(part=None), element.value)
                    elif low.part is None or low.part[0] != "at" or low.part[1] == index:
                        self._bind(low._replace(part=None), element)
            case ast.Attribute(value=owner, attr=name):
                self._attribute_set(low, owner, name)
            case ast.Subscript(value=container, slice=index):
                self._put(low, container, index)

    def _uses(self, low: Low, definition: Definition) -> None:
        script = low.script
        if implicit_calls.hands_on_names(script, definition.scope.node):
            self._sink(low, skip_reasons.HANDED_BY_LOCALS)
        for use in script.uses(definition):
            if _leaves(low, use):
                self._kept(low, script, use, low.part)
            else:
                self._mark(script, use, low.part, low, auto=self._at(script, use, low), free=low.free)
        for added in script.reaching_definitions.additions(definition):
            for each in script.definitions(added):
                if each is not definition:
                    self._uses_once(low, each)
        if isinstance(definition.scope.node, ast.Module):
            self._imported(low, definition.name)

    def _uses_once(self, low: Low, definition: Definition) -> None:
        """`total += …` of what is low already."""
        script = low.script
        for use in script.uses(definition):
            self._mark(script, use, None, low, auto=self._at(script, use, low), free=low.free or _leaves(low, use))

    def _imported(self, low: Low, name: str) -> None:
        """Files that import a name of a module read what it holds."""
        project = low.script.project
        for other in project.related(low.script):
            for each in other.reaching_definitions.imports if other is not low.script else ():
                if project.imported(other, each.target or "", each.level) == (low.script, name):
                    for use in other.uses(each):
                        self._kept(low, other, use, low.part)

    def _attribute_set(self, low: Low, owner: ast.expr, name: str) -> None:
        if implicit_calls.sets(low.script, owner, name):
            self._problem(low, skip_reasons.SETTER)
        self._attribute_holds(low, [value.cls for value in low.script.values(owner)], name)

    def _attribute_holds(self, low: Low, classes: list[ClassRef | None], name: str) -> None:
        """An attribute holds it: all reads of that name, of the same class where both are known."""
        for other in low.script.project.related(low.script):
            for part in other.find(ast.Attribute):
                if part.attr != name or not isinstance(part.ctx, ast.Load):
                    continue
                if other.qualname(part) is not None and not other.is_project_name(part):
                    continue
                self._read(low, other, part, part.value, classes, low.part, known=name in KEEPING)
            for call in other.syntax_index.calls_named("getattr", "vars"):
                if call.args and not (len(call.args) > 1 and _names_another(call.args[1], name)):
                    self._read(low, other, call, call.args[0], classes, None, known=True)

    def _read(
        self,
        low: Low,
        other: Script,
        read: ast.expr,
        owner: ast.expr,
        classes: list[ClassRef | None],
        part: ValuePart,
        *,
        known: bool,
    ) -> None:
        """An attribute is read of `owner`, perhaps of one of the classes; `known`: surely of one that is known."""
        owners = [value.cls for value in other.values(owner)]
        if all(
            one is not None and (known if each is None else not _related(one, each))
            for each in owners
            for one in classes
        ):
            return  # of another class; `x.data` of what is no known class is a tensor's
        self._kept(low, other, read, part)

    def _kept(self, low: Low, script: Script, read: ast.expr, part: ValuePart) -> None:
        """What outlives a call is read: in the region, and by whoever calls the function outside of it."""
        self._mark(script, read, part, low, auto=self._in_region(script, read), free=True)
        if read in self.reached and read not in self.region and self._called_outside(script, read):
            self._mark(script, read, part, low, auto=False, free=True)

    def _called_outside(self, script: Script, node: ast.AST) -> bool:
        function = script.function(node)
        return function is not None and any(
            call not in self.region and call not in self.reached for _, call in script.callers(function)
        )

    def _put(self, low: Low, container: ast.expr, index: ast.expr) -> None:
        script = low.script
        kind = script.kind(container)
        if kind is Kind.ARRAY:
            self._sink(low, skip_reasons.HANDED_TO_NUMPY)
            return
        if kind not in _CONTAINERS and written_by_index(script, index) and not _is_container(script, container):
            if low.auto:
                self._problem(low, skip_reasons.WRITTEN_BY_INDEX)
            else:
                reason = skip_reasons.WRITTEN_BY_INDEX
                self.deferred.append((low, container, reason))
        elif kind not in (Kind.TENSOR, Kind.BATCH, Kind.PARAMETER):
            step = _step(index)
            part: ValuePart = ("at", step) if isinstance(step, str) else None
            if not self._store(low._replace(part=part), container, set()):
                self._sink(low, skip_reasons.IN_CONTAINER)

    def _store(self, low: Low, container: ast.expr, seen: set[Definition]) -> bool:
        """What is kept in a container is met wherever it is read, under whichever name; False if that is not seen."""
        script = low.script
        match container:
            case ast.Name():
                definitions = script.definitions(container)
                found = bool(definitions)
                for definition in definitions:
                    for each in definition.scope.definitions.get(definition.name, (definition,)):
                        if each in seen:
                            continue
                        seen.add(each)
                        stays = each.how == "param" and each.value is not None  # a default is the same in every call
                        for use in script.uses(each):
                            if stays or _leaves(low, use):
                                self._kept(low, script, use, low.part)
                            else:
                                self._mark(script, use, low.part, low, auto=self._at(script, use, low), free=True)
                        if isinstance(each.scope.node, ast.Module):
                            self._imported(low, each.name)
                        found &= self._owner_of(low, each, seen)
                return found
            case ast.Attribute(attr="__dict__"):
                return False
            case ast.Attribute(value=owner, attr=name):
                self._attribute_set(low, owner, name)
                return True
            case ast.Subscript(value=inner, slice=index):
                step = _step(index)
                return self._store(low._replace(part=("at", step) if isinstance(step, str) else None), inner, seen)
            case ast.Call(func=ast.Attribute(value=inner, attr="setdefault" | "get")):
                return self._store(low._replace(part=None), inner, seen)
            case _:
                return False

    def _owner_of(self, low: Low, definition: Definition, seen: set[Definition]) -> bool:
        """The container that a binding makes another name of."""
        script = low.script
        if definition.how == "param":
            function = definition.scope.node
            if isinstance(function, ast.FunctionDef) and isinstance(script.parent(function), ast.ClassDef):
                if function.args.args[:1] == [definition.node]:
                    return False  # a container of a class of its own: `self.append(value)`
            callers = script.callers(function)
            for other, argument in arguments_for(script, function, definition.name):
                moved = Low(other, argument, low.part, False, True)
                self.causes.setdefault((argument, low.part), {})[low] = None
                if not self._store(moved, argument, seen) and not isinstance(argument, ast.List | ast.Dict | ast.Call):
                    return False
            return callers.missing is None
        if definition.how == "assign" and isinstance(definition.value, ast.Name | ast.Attribute | ast.Subscript):
            return self._store(low, definition.value, seen)
        return definition.how in ("assign", "aug", "for", "global", "walrus")

    # -- calls

    def _argument(self, low: Low, call: ast.Call) -> None:
        script, auto = low.script, low.auto
        function = call.func
        qualified = self._library(script, call)
        if qualified is not None:
            self._given_library(low, call, qualified)
            return
        if isinstance(function, ast.Name) and function.id in BUILTINS and not script.definitions(function):
            self._given_builtin(low, call, function.id)
            return
        values = script.values(function)
        if is_sensitive(script, call) or any(value.kind is Kind.LOSS_FUNCTION for value in values):
            if not auto:
                self._sink(low, skip_reasons.LOSS_OUTSIDE)
                return
            if all(value.cls is None and value.kind is Kind.LOSS_FUNCTION for value in values):
                return
        if not auto and Effect.SENSITIVE in call_effects(script, call):
            self._sink(low, skip_reasons.BCE_OF_STRUCTURE)
            return
        module = Effect.FORWARD in call_effects(script, call) and script.kind(function) is not Kind.FUNCTION
        if module and not auto:
            self._sink(low, skip_reasons.MODEL_OUTSIDE)
            return
        callees = self._callees(script, call)
        for other, callee in callees:
            self._enter(low, call, other, callee)
        if not callees and not isinstance(function, ast.Attribute):
            for other, callee in tabled_functions(script):
                self._enter(low, call, other, callee)
        if callees and Kind.UNKNOWN not in values.kinds:
            return
        if isinstance(function, ast.Attribute) and not module:
            self._given_method(low, call, function)
        elif auto or any(value.kind is Kind.CLASS for value in values):
            self._pass(low, call)
        else:
            self._sink(low, skip_reasons.NOT_SEEN)

    def _given_library(self, low: Low, call: ast.Call, qualified: str) -> None:
        last = qualified.rsplit(".", 1)[-1]
        if last in ("numpy", "__array__"):
            self._sink(low, skip_reasons.HANDED_TO_NUMPY)
        elif qualified == "torch.save" or (qualified.startswith("torch.utils.") and "checkpoint" not in qualified):
            self._sink(low, skip_reasons.SAVED)
        elif qualified.startswith(_TORCH):
            algebra = qualified.startswith(("torch.linalg.", "torch.fft.")) and last not in ("norm", "vector_norm")
            if last in NO_LOW_PRECISION_KERNELS or algebra:
                self._sink(low, skip_reasons.NO_KERNEL.format(name=last))
            elif last in PRODUCTS and not low.auto:
                self._sink(low, skip_reasons.PRODUCT_OUTSIDE)
            elif last in SAME_DTYPE_NON_PRODUCTS and not low.auto:
                self._sink(low, skip_reasons.ONE_PRECISION.format(name=last))
            elif last in LOSSES:
                if not low.auto:
                    self._sink(low, skip_reasons.LOSS_OUTSIDE)
            elif last in WRITING:
                self._sink(low, skip_reasons.ONE_PRECISION_BUFFER.format(name=last))
            elif last in WITH_INDICES and is_pair(low.script, call):
                self._pass(low, call, ("at", 0))
            elif last not in ENDS and last != "manual_seed":
                self._pass(low, call)
        elif qualified.startswith(_PASSING):
            self._pass(low, call, low.part)
        elif not qualified.startswith(_METRICS):
            self._sink(low, skip_reasons.HANDED_TO_NUMPY)

    def _given_builtin(self, low: Low, call: ast.Call, name: str) -> None:
        if name in NO_TENSOR_BUILTINS:
            return
        arguments = (*call.args, *(keyword.value for keyword in call.keywords))
        if any(each is not low.node and self._is_unseen(low, each) for each in arguments):
            self._sink(low, skip_reasons.NOT_FOLLOWED)
            return
        match name:
            case "zip":
                positions = [index for index, each in enumerate(call.args) if each is low.node]
                starred = any(isinstance(each, ast.Starred) for each in call.args)
                self._pass(low, call, ("each", positions[0]) if positions and not starred else None)
            case "enumerate":
                self._pass(low, call, ("each", 1))
            case "setattr":
                key = call.args[1] if len(call.args) > 1 else None
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    self._attribute_set(low, call.args[0], key.value)
                else:
                    self._sink(low, skip_reasons.NOT_FOLLOWED)
            case _:
                self._pass(low, call)

    def _is_unseen(self, low: Low, function: ast.expr) -> bool:
        """Whether something that a builtin calls with its values (`map`, `sorted(key=…)`) may need float32."""
        script = low.script
        if isinstance(function, ast.Lambda):
            return any(isinstance(part, ast.Call) for part in breadth_first(function.body))
        if script.kind(function) is Kind.MODULE:
            return not low.auto
        return any(isinstance(value.node, ast.FunctionDef) for value in script.values(function))

    def _given_method(self, low: Low, call: ast.Call, function: ast.Attribute) -> None:
        script, auto = low.script, low.auto
        name, receiver = function.attr, function.value
        if name == "__setitem__" and call.args:
            self._put(low, receiver, call.args[0])
            return
        if name in STORING and (name not in ("add", "put", "push", "update") or _is_container(script, receiver)):
            key = call.args[0] if name == "setdefault" and call.args else None
            step = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
            part: ValuePart = low.part if name in ("extend", "update") else ("at", step) if step is not None else None
            if not self._store(low._replace(part=part), receiver, set()):
                self._sink(low, skip_reasons.IN_CONTAINER)
            elif name == "setdefault":
                self._pass(low, call)
            return
        tensor = script.kind(receiver) in (Kind.TENSOR, Kind.BATCH, Kind.PARAMETER)
        if name in WRITING:
            if auto:
                self._problem(low, skip_reasons.ONE_PRECISION_BUFFER.format(name=name))
            else:
                self.deferred.append((low, receiver, skip_reasons.ONE_PRECISION_BUFFER.format(name=name)))
        elif name in PRODUCTS and not auto:
            self._sink(low, skip_reasons.PRODUCT_OUTSIDE)
        elif name in METHODS or tensor:
            if (name not in ENDS and not name.endswith("_as")) or name == "type_as":
                if not (name.endswith("_") and isinstance(script.parent(call), ast.Expr)):
                    self._pass(low, call)
        elif auto and not isinstance(script.parent(call), ast.Expr):
            self._pass(low, call)
        else:
            self.deferred.append((low, receiver, skip_reasons.NOT_SEEN))

    def _enter(self, low: Low, call: ast.Call, other: Script, function: ast.FunctionDef) -> None:
        """The parameter that takes an argument; every one where it is not plain which."""
        script = low.script
        arguments = function.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        taken = [name for name in names if script.argument(call, function, name, other) is low.node]
        part = low.part
        if not taken:
            taken = [name for name in names if script.argument(call, function, name, other) is None]
            taken += [each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None]
            part = None
        scope = other.reaching_definitions.scopes.get(function)
        for name in taken:
            for definition in scope.definitions.get(name, ()) if scope is not None else ():
                if definition.how == "param":
                    for use in other.uses(definition):
                        auto = low.auto if not self._holds_region(other, function) else use in self.region
                        self._mark(other, use, part, low, auto=auto, free=other.function(use) is not function)
        if call not in self.fed:
            self.fed[call] = None
            self.sites.setdefault(function, {})[script, call] = None
            for (returning, _), result in list(self.returning.items()):
                if returning is function:
                    self._to_site(result, script, call)

    def _holds_region(self, script: Script, function: ast.AST) -> bool:
        return script is self.script and function in self.scopes

    def _returned(self, low: Low) -> None:
        script = low.script
        function = script.function(low.node)
        if not isinstance(function, ast.FunctionDef):
            return
        if self._holds_region(script, function) and not low.auto:
            found: dict[ast.expr, None] = {}
            if self._cut(low, found, set(), outside=True):  # callers get float32, as before
                self.lifts.update(found)
                return
        if implicit_calls.is_property(function):
            cls = script.enclosing_class(function)
            self._attribute_holds(low, [None if cls is None else script.class_ref(cls)], function.name)
            return
        if implicit_calls.is_protocol(function):
            self._sink(low, skip_reasons.RETURNED)
            return
        callers = script.callers(function)
        if callers.missing is not None and low.free and not low.auto:
            self._sink(low, skip_reasons.RETURNED)
            return
        self.returning[function, low.part] = low
        sites = dict.fromkeys((*callers, *self.sites.get(function, ())))
        for other, call in sites:
            self._to_site(low, other, call)

    def _to_site(self, low: Low, script: Script, call: ast.Call) -> None:
        auto = call in self.region or call in self.reached
        if not low.auto and not low.free and call not in self.fed:
            return
        if low.auto and not auto:
            return
        if not low.auto and not low.free:
            auto = False
        self._mark(script, call, low.part, low, auto=auto, free=low.free or auto)

    # -- what is done about it

    def _sink(self, low: Low, reason: str) -> None:
        """Code that takes float32 only: cast there, or on every way to it."""
        found: dict[ast.expr, None] = {}
        if self._cut(low, found, set(), outside=low.node not in self.reached):
            self.lifts.update(found)
        else:
            self._problem(low, reason)

    def _cut(
        self, low: Low, found: dict[ast.expr, None], seen: set[tuple[ast.expr, ValuePart]], *, outside: bool
    ) -> bool:
        """The places to cast at, as late as possible; for code outside not within the models."""
        if (low.node, low.part) in seen:
            return True
        seen.add((low.node, low.part))
        within = outside and low.node in self.reached and low.node not in self.region
        if not within and self._liftable(low):
            found[low.node] = None
            return True
        causes = self.causes.get((low.node, low.part), {})
        return bool(causes) and all(self._cut(each, found, seen, outside=outside) for each in causes)

    def _liftable(self, low: Low) -> bool:
        if low.script is not self.script or isinstance(low.node, ast.Starred):
            return False
        if low.script.kind(low.node) in _CONTAINERS:
            return False
        if isinstance(low.node, ast.Name | ast.Attribute | ast.Subscript) and not isinstance(low.node.ctx, ast.Load):
            return False
        return content(low.script, low.node) is Content.FLOATING

    def _problem(self, low: Low, reason: str) -> None:
        if low.script is self.script:
            self.problems.append((low.node, reason))
        else:
            file = "another file" if low.script.path is None else low.script.path.name
            self.problems.append((self.report_at, f"{reason} ({file}, line {low.node.lineno})"))


def _names_another(key: ast.expr, name: str) -> bool:
    """Whether `getattr(…, key)` surely asks for another attribute."""
    return isinstance(key, ast.Constant) and key.value != name


def _holds_more(script: Script, node: ast.expr) -> bool:
    """Whether an attribute may hold something else than its kind says: a counter that tensors are added to."""
    if not isinstance(node, ast.Attribute):
        return False
    begins = script.kind(node) in (Kind.NUMBER, Kind.NONE) and is_set_elsewhere(script, node.attr)
    return begins or bool(implicit_calls.properties(script, node))


def _leaves(low: Low, use: ast.expr) -> bool:
    """Whether a function reads what another one, or the module, has bound: it does so whoever calls it."""
    return low.script.function(use) is not low.script.function(low.node)


def _hands_on(script: Script, call: ast.Call) -> bool:
    """Whether code that is not seen is handed something to call: `map(model, batches)`, `checkpoint(block, x)`."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        isinstance(each, ast.Lambda) or any(value.kind in (Kind.FUNCTION, Kind.MODULE) for value in script.values(each))
        for each in arguments
    )


def _step(index: ast.expr) -> int | str | None:
    match index:
        case ast.Constant(value=int() | str() as value):
            return value
        case _:
            return None


def _types(script: Script, call: ast.Call) -> list[str]:
    """The types that `x.to(…)` and `x.type(…)` name."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return [ast.unparse(each).lower() for each in arguments if script.kind(each) is Kind.DTYPE or _says_type(each)]


def _says_type(node: ast.expr) -> bool:
    text = ast.unparse(node).lower()
    return "tensor" in text and ("float" in text or "long" in text or "double" in text or text == "tensor")


def _root(node: ast.expr) -> str | None:
    """The name of a chain of methods and parts: `features` of `features.gather(1, best)`."""
    while True:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name not in ENDS:
                node = value
            case ast.Subscript(value=value) | ast.Attribute(value=value):
                node = value
            case ast.BinOp(left=left, right=ast.Constant()):
                node = left
            case _:
                return None


def _is_container(script: Script, node: ast.expr) -> bool:
    """Whether something surely is a list, dict or set."""
    if script.kind(node) in _CONTAINERS:
        return True
    if content(script, node) is Content.STRUCTURE:
        return True
    if isinstance(node, ast.Name):
        made = [each.value for each in script.definitions(node)]
        return bool(made) and all(
            isinstance(each, ast.Call)
            and (
                (script.qualname(each.func) or "").startswith("collections.")
                or (isinstance(each.func, ast.Name) and each.func.id in ("dict", "list", "set"))
            )
            for each in made
        )
    return False


def _related(first: ClassRef, second: ClassRef) -> bool:
    """Whether two classes share instances: one derives from the other."""
    return any(
        above.node is each.node for each, other in ((first, second), (second, first)) for above in lineage(other)
    )
