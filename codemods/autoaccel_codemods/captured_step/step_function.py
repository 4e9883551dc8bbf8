"""The text of the function that a step becomes, and what stands in its place in the loop."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from autoaccel.analysis.script import Script
from autoaccel.dataflow.syntax_index import comment_above, is_heading, split_lines
from autoaccel.edits import Code, Edit, InsertBefore, RemoveStatement, literal
from autoaccel.pytorch.training_steps import ScopeNode, scope_of
from autoaccel_codemods.captured_step import type_hints
from autoaccel_codemods.captured_step.lifting import Lifted
from autoaccel_codemods.captured_step.region import ITEM, StepRegion, receiver

_Change = tuple[int, int, int, str]
"""A line, from where to where in bytes, and the text that stands there instead."""


def edits(script: Script, lifted: Lifted, named: dict[ScopeNode, set[str]]) -> Iterator[Edit]:
    """The function above the loop, its call in the loop, and the statements gone from there. `named` are the names that
    other steps of the file have got, by the functions that see them, and gets this one's."""
    region = lifted.region
    name = _free_name(script, lifted, named)
    tensor, imports = script.spell("torch.Tensor")
    annotated = type_hints.wanted(script, region, lifted.parameters, lifted.results)
    yield from imports if annotated else ()
    yield InsertBefore(lifted.anchor, Code(literal(_function(script, lifted, name, tensor if annotated else None))))
    target = f"{', '.join(lifted.results)} = " if lifted.results else ""
    moved = {receiver(each).id: script.source(each) for each in region.moves}
    lines = [f"{target}{name}({', '.join(moved.get(each, each) for each in lifted.parameters)})"]
    lines += [f"{each} = {each}.item()" for each in map(_number, region.numbers) if each in lifted.results]
    for each in region.shown:
        own = _lines(script, each)
        lines += _dedented(script, own[0], own[-1])
    called, taken = region.called_at, _comment_taken(script, region) > 0
    yield InsertBefore(called, Code(literal("\n".join(lines))), below_comments=not taken)
    for each in (*region.statements, *region.shown):
        yield RemoveStatement(each, moved=True, with_heading=taken and each is called)


def _free_name(script: Script, lifted: Lifted, named: dict[ScopeNode, set[str]]) -> str:
    """A name that neither the file uses nor another step has where this one is made, or is called."""
    names = ("train_step", "training_step") if lifted.region.phase is None else ("run_batch", "run_step")
    numbered = (f"{names[0]}{number}" for number in itertools.count(2))
    seen = [named.setdefault(each, set()) for each in (scope_of(script, lifted.anchor), lifted.region.scope)]
    free = next(
        each
        for each in itertools.chain(names, numbered)
        if script.free_name(each) == each and all(each not in known for known in seen)
    )
    for known in seen:
        known.add(free)
    return free


def _function(script: Script, lifted: Lifted, name: str, tensor: str | None) -> str:
    """The text of the function, annotated where the name of the type of tensors is given."""
    region = lifted.region
    optimizers, phase = [*map(script.source, region.optimizers)], region.phase
    if phase is not None and not _is_presence(script, phase, region.optimizers[0]):  # else there is nothing to capture
        optimizers[0] += f" if {script.source(phase)} else None"
    decorator = f"@{script.accel}.step({', '.join([*map(script.source, region.models), *optimizers])})"
    parameters, given = [*lifted.parameters], ""
    changes = [_change(each, receiver(each).id) for each in region.moves]
    for each in region.numbers:
        _, _, end, _ = _change(each.value, "")
        changes.append((each.value.lineno, end - len(ITEM), end, ""))
    if tensor is not None:
        parameters = [f"{each}: {tensor}" for each in lifted.parameters]
        returned = [tensor] * len(lifted.results) or ["None"]
        given = f" -> {returned[0]}" if len(returned) == 1 else f" -> tuple[{', '.join(returned)}]"
        if (declared := type_hints.undeclared(script, region, lifted.results)) is not None:
            changes.append(_change(declared, f"{declared.id}: {tensor}"))
    lines = [decorator, f"def {name}({', '.join(parameters)}){given}:", *_body(script, region, changes)]
    if lifted.results:
        lines.append(f"    return {', '.join(lifted.results)}")
    return "\n".join(lines)


def _change(expression: ast.expr, text: str) -> _Change:
    """Another text for an expression that stands on one line."""
    return expression.lineno, expression.col_offset, expression.end_col_offset or 0, text


def _body(script: Script, region: StepRegion, changes: Sequence[_Change]) -> Iterator[str]:
    """The text of the statements with its comments, at the indentation of a function's body."""
    text = split_lines(script.text)
    first, last = region.statements[0].lineno, region.statements[-1].end_lineno or 0
    taken = _comment_taken(script, region)
    stays = _staying(script, region, taken)
    if not region.aside:
        first -= taken
    if first < region.called_at.lineno:  # nothing stays in the place of the first
        while not (above := text[first - 2].strip()) or above.startswith("#"):
            first -= 1
        while not text[first - 1].strip():
            first += 1
    parted, above = False, ""
    for number, line in enumerate(_dedented(script, first, last, changes), first):
        if number in stays:
            parted = parted or not line.strip()
            continue
        if parted and above.strip() and line.strip():  # a paragraph ends where what stays began one
            yield ""
        parted, above = False, line
        yield f"    {line}" if line.strip() else ""


def _staying(script: Script, region: StepRegion, taken: int = 0) -> set[int]:
    """The lines between those of the step that stay in the loop, all but so many of the comment above the call."""
    stays = {line for each in (*region.shown, *region.aside) for line in _lines(script, each)}
    called = region.called_at
    for each in (*region.aside, *(region.aside and [called])):  # the comments above them stay there, too
        above = max(other.end_lineno or 0 for other in script.block(each) if other.lineno < each.lineno)
        stays.update(range(above + 1, each.lineno - (taken if each is called else 0)))
    return stays


def _lines(script: Script, statement: ast.stmt) -> range:
    """The lines of a statement and of the comment above it."""
    commented = comment_above(split_lines(script.text)[: statement.lineno - 1])
    return range(statement.lineno - commented, (statement.end_lineno or statement.lineno) + 1)


def _comment_taken(script: Script, region: StepRegion) -> int:
    """How many lines the comment has above the statement in whose place the step is called, if it is of that alone and
    goes along: where the step has further comments, or paragraphs, it does not speak of all of it."""
    text = split_lines(script.text)
    called, first, last = (each.lineno for each in (region.called_at, region.statements[0], region.statements[-1]))
    rest = [text[number - 1] for number in {*range(first - (first < called), last)} - _staying(script, region)]
    parted = any(not line.strip() or line.lstrip().startswith("#") for line in rest)
    return comment_above(text[: called - 1], headings=any(map(is_heading, rest))) if parted else 0


def _number(statement: ast.Assign) -> str:
    assert isinstance(statement.targets[0], ast.Name)
    return statement.targets[0].id


def _dedented(script: Script, first: int, last: int, changes: Sequence[_Change] = ()) -> Iterator[str]:
    """The lines from one to another, without the indentation of the first, and with these changes."""
    lines = split_lines(script.text)[first - 1 : last]
    for number, start, end, text in sorted(changes, reverse=True):
        line = lines[number - first].encode()
        lines[number - first] = (line[:start] + text.encode() + line[end:]).decode()
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    return (line[len(indent) :] if line.startswith(indent) else line.lstrip() for line in lines)


def _is_presence(script: Script, phase: ast.expr, optimizer: ast.expr) -> bool:
    """`optimizer is not None`, or a name for that: where it does not hold, the optimizer itself says so."""
    if isinstance(phase, ast.Name):
        known = script.definitions(phase)
        if len(known) != 1 or known[0].how != "assign" or known[0].path or known[0].value is None:
            return False
        phase = known[0].value
    match phase, optimizer:
        case ast.Compare(
            left=ast.Name() as left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]
        ), ast.Name():
            return left.id == optimizer.id and script.definitions(left) == script.definitions(optimizer)
        case _:
            return False
