"""Which batch of a pass it is, and how many there are: by the names that the loop has for them, or gets."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from autoaccel.analysis.iteration_wrappers import wrapped_argument
from autoaccel.analysis.script import Script
from autoaccel.edits import Code, Edit, Replace, literal
from autoaccel.pytorch.loader_loops import LoaderLoop, loader_loops
from autoaccel_codemods.captured_step.problems import DeclinedError
from autoaccel_codemods.compile.step_count import has_length


@dataclass(frozen=True, slots=True)
class BatchCount:
    """`index` is the name of the batch's number, counted from `start`, `total` the text for how many there are."""

    index: str
    start: int
    total: str
    edits: tuple[Edit, ...] = ()

    def window(self, number: int) -> tuple[str, str, str]:
        """Whether a window of so many batches begins with this one, whether it ends, and how many it has."""
        if self.start == 0:
            begins, nth, done = f"{self.index} % {number} == 0", f"{self.index} + 1", self.index
            ends = f"({nth}) % {number} == 0 or {nth} == {self.total}"
        else:
            begins, done = f"{self.index} % {number} == 1", f"({self.index} - 1)"
            ends = f"{self.index} % {number} == 0 or {self.index} == {self.total}"
        return begins, ends, f"min({number}, {self.total} - {done} // {number} * {number})"


def find(script: Script, loop: ast.For) -> BatchCount:
    """How the batches of a loop are counted, with the edits that take. Raises `DeclinedError`."""
    loops = [each for each in loader_loops(script) if each.node is loop]
    if len(loops) != 1:
        raise DeclinedError("it goes over several loaders at once")
    total = _total(script, loops[0])
    counted = _enumerate(script, loop.iter)
    if counted is None:
        if loops[0].target is not loop.target or isinstance(loop.target, ast.Starred):
            raise DeclinedError("nothing shows how its batches are counted")
        index = script.free_name("i", "batch_index", "step")
        target = script.source(loop.target)
        inner = f"({target})" if isinstance(loop.target, ast.Tuple) and not target.startswith("(") else target
        named = Replace(loop.target, Code(literal(f"{index}, {inner}")))
        return BatchCount(index, 0, total, (named, Replace(loop.iter, Code("enumerate({0})", (loop.iter,)))))
    match loop.target:
        case ast.Tuple(elts=[ast.Name(id=index) as name, batch]) if batch is loops[0].target:
            bound = [each for each in script.within(loop, ast.Name) if each.id == index and each is not name]
            if any(not isinstance(each.ctx, ast.Load) for each in bound):
                raise DeclinedError(f"`{index}` is bound anew in the loop")
            return BatchCount(index, _start(counted), total)
        case _:
            raise DeclinedError("the number of its batch has no name")


def _total(script: Script, loop: LoaderLoop) -> str:
    """How many batches there are. Raises `DeclinedError` where nothing shows that the loader can tell."""
    text = script.source(loop.loader)
    if not isinstance(loop.loader, ast.Name | ast.Attribute):
        raise DeclinedError("its loader has no name, by which its length could be asked for")
    asked = [
        call
        for call in script.syntax_index.calls_named("len")
        if call.args and script.source(call.args[0]) == text and script.function(call) is script.function(loop.node)
    ]
    if not asked and not has_length(script, loop.loader):
        raise DeclinedError(f"nothing shows that `{text}` has a length")
    parts: list[ast.Name | ast.Attribute] = [*script.in_scope(loop.node, ast.Name)]
    parts += script.in_scope(loop.node, ast.Attribute)
    if loop.before is not None or any(
        isinstance(each.ctx, ast.Store) and script.source(each) == text for each in parts
    ):
        raise DeclinedError(f"`{text}` is bound anew")
    return f"len({text})"


def _enumerate(script: Script, iterated: ast.expr) -> ast.Call | None:
    """The `enumerate` that a loop goes over, within `tqdm` and the like, also where that has a name."""
    match iterated:
        case ast.Name():
            made = script.definitions(iterated)
            value = made[0].value if len(made) == 1 and made[0].how == "assign" and not made[0].path else None
            return None if value is None else _enumerate(script, value)
        case ast.Call(func=ast.Name(id="enumerate") as name) if not script.definitions(name):
            return iterated
        case ast.Call() if (inner := wrapped_argument(script, iterated)) is not None:
            return _enumerate(script, inner)
        case _:
            return None


def _start(call: ast.Call) -> int:
    """From what batches are counted. Raises `DeclinedError` if it is neither 0 nor 1."""
    given = [*call.args[1:], *(each.value for each in call.keywords if each.arg == "start")]
    match given:
        case []:
            return 0
        case [ast.Constant(value=int(number))] if number in (0, 1):
            return int(number)
    raise DeclinedError("its batches are counted neither from 0 nor from 1")
