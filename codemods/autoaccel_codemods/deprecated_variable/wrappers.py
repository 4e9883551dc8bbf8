"""What stands for a use of `Variable`: the tensor itself, or another over its memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from autoaccel.analysis import Script
from autoaccel.analysis.rebound_names import rebound_names
from autoaccel.analysis.statement_comments import lone_comment_above
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.edits import Code, Comment, Edit, Replace
from autoaccel.pytorch.evaluation_passes import evaluations
from autoaccel.pytorch.gradients import called_in_grad_mode, in_grad_mode
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel.pytorch.tensor_kinds import is_tensor
from autoaccel.pytorch.tensor_origins import VARIABLE, Origin, origin

_TENSOR_CLASSES = re.compile(
    r"\b(as_subclass|_make_subclass|_make_wrapper_subclass|tv_tensors)\b|^[ \t]*class[ \t]+\w+\([^)]*\bTensor\b",
    re.MULTILINE,
)
_WRAPPING = re.compile(r"\bwrap(s|ped|ping)?\b[^,;.]*\bvariables?\b(?!.*(,|;|\band\b))", re.IGNORECASE)
_OWN_CLASS = "what it is given may be of a class of its own, which `Variable` takes off"
_PARAMETERS = ("data", "requires_grad", "volatile")

Edits = tuple[Edit, ...]


def uses(script: Script) -> Iterator[ast.Name | ast.Attribute]:
    """Every mention of the class, under whichever name."""
    named: list[tuple[ast.Name | ast.Attribute, str]] = [*script.qualified_attributes, *script.qualified_names]
    for node, name in named:
        if name == VARIABLE and isinstance(node.ctx, ast.Load):
            yield node


def edits(script: Script, use: ast.expr) -> Edits | str:
    """What spells a use anew, or why it is left alone."""
    call = script.call_of(use)
    if call is not None:
        return _tensor(script, call)
    if _is_tested(script, use):
        if _is_tested_below(script, use):
            return "a branch below asks for a tensor, which would be the same question"
        spelling, imports = script.spell("torch.Tensor", use)
        return Replace(use, Code(spelling)), *imports
    if (mapped := _mapped(script, use)) is not None:
        return _tensors(script, *mapped)
    return "it is used other than by a call"


def _mapped(script: Script, use: ast.expr) -> tuple[ast.Call, ast.Tuple | ast.List] | None:
    """`x, y = map(Variable, (x, y))`: the call, and what is wrapped one by one."""
    call = script.parent(use)
    match call, script.parent(call) if call is not None else None:
        case (
            ast.Call(func=ast.Name(id="map") as function, args=[first, ast.Tuple() | ast.List() as given], keywords=[]),
            ast.Assign(targets=[ast.Tuple(elts=targets) | ast.List(elts=targets)]),
        ) if first is use and not script.definitions(function):
            plain = not any(isinstance(each, ast.Starred) for each in (*targets, *given.elts))
            return (call, given) if plain and len(targets) == len(given.elts) else None
        case _:
            return None


def _tensors(script: Script, call: ast.Call, given: ast.Tuple | ast.List) -> Edits | str:
    if not all(is_tensor(script, each) for each in given.elts):
        return "what it is given may not be a tensor"
    if _has_tensor_classes(script):
        return _OWN_CLASS
    parts = [f"{{{at}}}{_detached(script, each)}" for at, each in enumerate(given.elts)]
    return (Replace(call, Code(", ".join(parts), tuple(given.elts))),)


def _detached(script: Script, tensor: ast.expr) -> str:
    return ".detach()" if origin(script, tensor) is Origin.UNKNOWN else ""


def _is_tested(script: Script, use: ast.expr) -> bool:
    """In the second argument of `isinstance`, alone or in a tuple."""
    node: ast.AST = use
    if isinstance(around := script.parent(node), ast.Tuple):
        node = around
    match script.parent(node):
        case ast.Call(func=ast.Name(id="isinstance") as name, args=[_, second], keywords=[]):
            return second is node and not script.definitions(name)
        case _:
            return False


def _is_tested_below(script: Script, use: ast.expr) -> bool:
    """`if isinstance(x, Variable): … elif isinstance(x, torch.Tensor): …`, of the time when these were two things."""
    test = script.parent(use)
    branch = script.parent(test) if test is not None else None
    while isinstance(branch, ast.If) and len(branch.orelse) == 1:
        (branch,) = branch.orelse
        match test, branch:
            case ast.Call(args=[value, _]), ast.If(test=ast.Call(func=ast.Name(id="isinstance"), args=[again, cls])):
                if ast.dump(again) == ast.dump(value) and script.qualname(cls) == "torch.Tensor":
                    return True
    return False


def _tensor(script: Script, call: ast.Call) -> Edits | str:
    given = _arguments(call)
    if given is None:
        return "its arguments are not spelled out"
    tensor, asked = given.get("data"), given.get("requires_grad")
    if tensor is None or not (is_tensor(script, tensor) or _is_part_of_buffer(script, tensor)):
        return "what it is given may not be a tensor"
    if _has_tensor_classes(script):
        return _OWN_CLASS
    if "volatile" in given and not is_constant(given["volatile"], False):
        problem = _records_gradients(script, call)
        if problem is not None:
            return problem
    plain = asked is None or is_constant(asked, False)
    if asked is not None and not plain and script.values(asked).kinds != {Kind.BOOL}:
        return "`requires_grad` may not be a bool"
    known = origin(script, tensor)
    # A tensor that others know is not made to require gradients: that would change theirs.
    new = known is Origin.NEW or _takes_its_place(script, call, tensor)
    bare = new or (plain and (known is Origin.SHARED or _is_detached(script, call)))
    text = "{0}" if bare else "{0}.detach()"
    if asked is None or plain:
        return (Replace(call, Code(text, (tensor,))),)
    if is_constant(asked, True):
        return (Replace(call, Code(f"{text}.requires_grad_()", (tensor,))),)
    return (Replace(call, Code(f"{text}.requires_grad_({{1}})", (tensor, asked))),)


def _takes_its_place(script: Script, call: ast.Call, tensor: ast.expr) -> bool:
    """Whether nobody else has the tensor: `x = torch.empty(8)`, `if cuda: x = x.cuda()`, `x = Variable(x)`."""
    statement = script.parent(call)
    match statement, tensor:
        case ast.Assign(targets=[ast.Name(id=target)]), ast.Name(id=name) if target == name:
            definitions, reads = dict.fromkeys(script.definitions(tensor)), {tensor}
        case _:
            return False
    if any(each.scope.parent is None and each.name in rebound_names(script) for each in definitions):
        return False
    pending = [*definitions]
    while pending:
        value = pending.pop().whole
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner) as read, attr="cuda" | "cpu" | "to")) if (
                owner == name and read not in reads
            ):
                reads.add(read)
                new = [each for each in script.definitions(read) if each not in definitions]
                definitions.update(dict.fromkeys(new))
                pending += new
            case None:
                return False
            case _ if origin(script, value) is not Origin.NEW:
                return False
    others = [use for each in definitions for use in script.uses(each) if use not in reads]
    return not others or _run_later(script, statement, definitions, others)


def _run_later(script: Script, last: ast.stmt, definitions: Collection[Definition], uses: list[ast.Name]) -> bool:
    """Whether uses of a module's name stand in functions that no statement before the last one runs, or hands on."""
    body = script.tree.body
    if last not in body or any(script.function(use) is None for use in uses):
        return False
    first = min(body.index(each) for each in body for made in definitions if script.inside(made.node, each))
    before = body[first : body.index(last)]
    named = {each.id for statement in before for each in script.within(statement, ast.Name)}
    if any(getattr(each, "name", None) in named for use in uses for each in script.ancestors(use)):
        return False
    reached = reachable_code(script, before)
    return {part for other, node in reached for part in other.within(node, ast.Name)}.isdisjoint(uses)


def _is_part_of_buffer(script: Script, expression: ast.expr) -> bool:
    """`self.table[:, :n]`, where the class registers `table` as a buffer: a module lets it be nothing but a tensor or
    None, which has no parts."""
    match expression:
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            cls = script.enclosing_class(expression)
            calls = () if cls is None else script.within(cls, ast.Call)
            return any(_registers(each, name) for each in calls)
        case _:
            return False


def _registers(call: ast.Call, name: str) -> bool:
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="self"), attr="register_buffer"), args=[ast.Constant(value=given), *_]
        ):
            return bool(given == name)
        case _:
            return False


def _arguments(call: ast.Call) -> dict[str, ast.expr] | None:
    """The arguments by name; None where some are not in sight, or have no place in the new spelling."""
    names = [*_PARAMETERS[: len(call.args)], *(each.arg for each in call.keywords)]
    hidden = any(isinstance(each, ast.Starred) for each in call.args)
    if hidden or len(call.args) > len(_PARAMETERS) or any(each not in _PARAMETERS for each in names):
        return None
    return dict(zip(map(str, names), [*call.args, *(each.value for each in call.keywords)], strict=True))


@once
def _has_tensor_classes(script: Script) -> bool:
    """Whether a project makes tensors of other classes, which `detach()` keeps."""
    return any(map(_TENSOR_CLASSES.search, script.project.related_texts(script)))


def _records_gradients(script: Script, call: ast.Call) -> str | None:
    """Why `volatile=True` may still say something to readers: gradients are on, in spite of it."""
    if in_grad_mode(script, call) or called_in_grad_mode(script, script.function(call)):
        return None
    around = [found for found in evaluations(script) if found.problem is None and found.holds(script, call)]
    if not around:
        return "`volatile=True` has no effect, and nothing shows that what it governs needs no gradients"
    if around[0].covered:
        return None
    return "`volatile=True` goes with the gradients, which `no-grad-eval` switches off"


def _is_detached(script: Script, call: ast.Call) -> bool:
    """`Variable(x).data`: the graph goes anyway."""
    around = script.parent(call)
    return isinstance(around, ast.Attribute) and around.attr in ("data", "detach")


# -- assignments of which nothing is left


def empty_assignments(
    script: Script, edits_of: Mapping[ast.Name | ast.Attribute, Edits | str]
) -> Iterator[tuple[ast.stmt, list[ast.expr]]]:
    """Statements such as `x, y = Variable(x), y` of which `x, y = x, y` would be left, with the uses in them."""
    bare = {
        edit.node: (use, edit.code.holes)
        for use, made in edits_of.items()
        if not isinstance(made, str)
        for edit in made
        if isinstance(edit, Replace) and edit.code.text == ", ".join(f"{{{at}}}" for at in range(len(edit.code.holes)))
    }
    for statement in {script.statement(use): None for use in edits_of}:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not _may_go(script, statement):
            continue
        targets, values = _parts(statement.targets[0]), _parts(statement.value)
        left = [part for each in values for part in (bare[each][1] if each in bare else [each])]
        if len(targets) == len(left) and all(map(_is_same_name, targets, left)) and _is_own(script, statement, left):
            yield statement, [bare[each][0] for each in values if each in bare]


def _may_go(script: Script, statement: ast.stmt) -> bool:
    """Whether the block around a statement holds something else, or is one of a choice, which may do nothing."""
    return len(script.block(statement)) > 1 or isinstance(script.parent(statement), ast.If)


def _parts(expression: ast.expr) -> list[ast.expr]:
    return expression.elts if isinstance(expression, ast.Tuple | ast.List) else [expression]


def _is_same_name(target: ast.expr, value: ast.expr) -> bool:
    return isinstance(target, ast.Name) and isinstance(value, ast.Name) and target.id == value.id


def _is_own(script: Script, statement: ast.stmt, names: list[ast.expr]) -> bool:
    """Whether the names are bound where the statement stands: in a class it would be what binds them."""
    scope = script.function(statement) or script.tree
    return not isinstance(script.parent(statement), ast.ClassDef) and all(
        each.scope.node is scope for name in names if isinstance(name, ast.Name) for each in script.definitions(name)
    )


def own_comments(script: Script, statement: ast.stmt) -> Iterator[Comment]:
    """The comment right above a statement that speaks of `Variable`: it says what is no longer done."""
    comment = lone_comment_above(script, statement)
    if comment is not None and "Variable" in comment.text:
        yield comment


def stale_comments(
    script: Script, edits_of: Mapping[ast.Name | ast.Attribute, Edits | str]
) -> dict[ast.expr, list[Comment]]:
    """Comments that speak of wrapping, by the first of the uses in the statement below them, if all of these go."""
    found: dict[ast.expr, list[Comment]] = {}
    met: set[ast.AST] = set()
    for use in edits_of:
        statement = script.statement(use)
        for below in (statement, *(each for each in script.ancestors(statement) if isinstance(each, ast.If))):
            comment = None if below in met else lone_comment_above(script, below)
            met.add(below)
            if comment is not None and _WRAPPING.search(comment.text):
                if not any(isinstance(made, str) for other, made in edits_of.items() if script.inside(other, below)):
                    found.setdefault(use, []).append(comment)
    return found
