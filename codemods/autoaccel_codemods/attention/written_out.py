"""Attention as scripts write it out: a product, its scale, a mask, softmax, dropout, another product."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autoaccel.dataflow.call_arguments import given_as, unpacks
from autoaccel.dataflow.syntax_index import position
from autoaccel.library_models.tensor_views import VIEW_METHODS
from autoaccel.pytorch.tensor_creation import number
from autoaccel_codemods.attention.dimensions import is_matrix, last_two_swapped, made_as, sizes

if TYPE_CHECKING:
    from autoaccel.analysis import Script
    from autoaccel.dataflow.definitions import Definition

_SOFTMAX = frozenset({"torch.softmax", "torch.nn.functional.softmax"})
_PRODUCTS = frozenset({"torch.matmul", "torch.bmm"})
_HARMLESS = VIEW_METHODS | frozenset("contiguous size bool to tril triu logical_not".split())
_HARMLESS_FUNCTIONS = frozenset(f"torch.{name}" for name in "ones zeros full eye arange tril triu ones_like".split())
_HARMLESS_MODULES = frozenset({"torch.nn.Linear", "torch.nn.Identity", "torch.nn.LayerNorm", "torch.nn.Embedding"})
_BATCH = r"(?P<batch>(?:\.\.\.)?[A-Za-z]*)(?P<row>[A-Za-z])(?P<inner>[A-Za-z]),(?P=batch)"
_SCORES = re.compile(rf"{_BATCH}(?P<column>[A-Za-z])(?P=inner)->(?P=batch)(?P=row)(?P=column)")
"""The `einsum` of query and key, `bhid,bhjd->bhij`."""
_VALUES = re.compile(rf"{_BATCH}(?P=inner)(?P<column>[A-Za-z])->(?P=batch)(?P=row)(?P=column)")
"""The `einsum` of weights and values, `bhij,bhjd->bhid`."""

_USED_ELSEWHERE = "its weights or scores are used elsewhere"
_KEPT_KEY = "its transposed key is used elsewhere, or bound under a condition"
_MASKED_BY_ITSELF = "its scores are used for their own mask, too"
_OVER_ANOTHER_AXIS = "nothing shows that its softmax is over the last axis"
_OTHER_EINSUM = "its `einsum` is of another form than that of query, key and value"
_MASKED_OTHERWISE = frozenset({"torch.where"})
_SCALED_IN_PLACE = frozenset({"div_", "mul_"})
_STEPS = frozenset({"div", "divide", "mul", "multiply", "masked_fill", "masked_fill_"})
_CONDITIONAL = "parts of it are computed under another condition"


@dataclass(slots=True, eq=False)
class Attention:
    """One attention, from the last product backwards.

    Attributes:
        result: The product of weights and values.
        statement: Where that stands.
        query, key, value: The operands; the key as it is before it is transposed.
        factors: What the scores are multiplied with, or divided by (True), the last one first.
        mask, fill: Where scores are replaced, and by what.
        added: What is added to the scores, a mask or a bias.
        added_in_place, added_before_scale: How, and whether what is added is scaled as well.
        condition: When scores are replaced, or something is added to them.
        dropout: The call that drops weights.
        before: The statements that compute nothing but what the result is made of.
        problem: Why it is to be left alone.
    """

    result: ast.expr
    statement: ast.stmt
    value: ast.expr
    query: ast.expr = field(init=False)
    key: ast.expr = field(init=False)
    factors: list[tuple[ast.expr, bool]] = field(default_factory=list)
    mask: ast.expr | None = None
    fill: ast.expr | None = None
    added: ast.expr | None = None
    added_in_place: bool = False
    added_before_scale: bool = False
    condition: ast.expr | None = None
    dropout: ast.Call | None = None
    before: list[ast.stmt] = field(default_factory=list)
    problem: str | None = None


def attentions(script: Script) -> Iterator[Attention]:
    """Every product of weights that a softmax gives, of two products that are written in one function."""
    nodes: list[ast.expr] = [*script.find(ast.BinOp), *script.find(ast.Call)]
    for node in sorted(nodes, key=lambda each: (each.lineno, each.col_offset)):
        factors = _product(script, node) or _einsum(script, node, _VALUES)
        if factors is None:
            if _is_einsum(script, node) and any(_are_weights(script, each) for each in _operands(node)):
                yield Attention(node, script.statement(node), node, problem=_OTHER_EINSUM)
            continue
        weights, values = factors
        found = Attention(node, script.statement(node), values)
        if _follow(script, found, weights):
            yield found


def functional_dropout(script: Script, call: ast.Call) -> tuple[str, str]:
    """The share and the condition of `F.dropout(weights, p, training)`, as they are written."""
    given = {"p": "0.5", "training": "True"}
    given |= {name: script.source(each) for name, each in zip(("p", "training"), call.args[1:3], strict=False)}
    given |= {each.arg: script.source(each.value) for each in call.keywords if each.arg in given}
    return given["p"], given["training"]


def _follow(script: Script, found: Attention, weights: ast.expr) -> bool:
    """Go back from the weights to the product of query and key; False where there is no attention."""
    node = _resolved(script, found, weights)
    if isinstance(node, ast.Call) and _is_dropout(script, node):
        found.dropout = node
        node = _resolved(script, found, node.args[0])
    scores = _softmaxed(script, node)
    if scores is None:
        found.problem = _kept(script, node)
        if found.problem is None and _is_softmax_of_product(script, node):
            found.problem = _OVER_ANOTHER_AXIS
        return found.problem is not None
    node = _resolved(script, found, scores)
    while (inner := _without_step(script, found, node)) is not None:
        node = _resolved(script, found, inner)
    if (of_einsum := _einsum(script, node, _SCORES)) is not None:
        found.query, found.key = of_einsum
    elif (product := _product(script, node)) is not None:
        problem, transposed = found.problem, _resolved(script, found, product[1])
        found.problem = problem or (found.problem and _KEPT_KEY)
        key = last_two_swapped(script, transposed, 3 if _is_bmm(script, node) else None)
        if key is None:
            found.problem = "nothing shows that its key is transposed"
            return True
        found.query, found.key = product[0], key
    else:
        found.problem = _of_other_scores(script, node)
        return _leads_to_product(script, node)
    found.factors.reverse()
    is_ranked = of_einsum is not None or _is_bmm(script, node) or _is_bmm(script, found.result)
    if found.problem is None and not is_ranked and not is_matrix(script, found.query, found.key, found.result):
        found.problem = "nothing shows that the query is no vector"
    found.problem = found.problem or _amid(script, found)
    return True


def _resolved(script: Script, found: Attention, expression: ast.expr) -> ast.expr:
    """What a name stands for that is bound for this use alone; its statements become part of the attention."""
    uses = [expression]
    while isinstance(expression, ast.Name):
        definitions = list(script.definitions(expression))
        if len(definitions) == 2 and (under := _masked_if(script, found, definitions, expression)) is not None:
            uses.append(under)
            definitions = list(_before(script, under))
        elif len(definitions) == 1 and (target := _added_in_place(script, found, definitions[0], uses)) is not None:
            uses = [target]
            definitions = list(_before(script, target))
        if len(definitions) != 1 or definitions[0].how != "assign" or definitions[0].path:
            break
        statement, value = definitions[0].node, definitions[0].value
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or value is None:
            break
        if not isinstance(statement.targets[0], ast.Name):
            break
        if (masked := _masked_in_place(script, found, definitions[0], expression)) is not None:
            uses.append(masked)
        reads = {*script.uses(definitions[0]), *script.additions(definitions[0])}
        if reads != set(uses):
            others = reads - set(uses)
            found.problem = (
                _MASKED_BY_ITSELF if any(_masks(script, found, each) for each in others) else _USED_ELSEWHERE
            )
        elif script.block(statement) is not script.block(found.statement):
            found.problem = _CONDITIONAL
        found.before.append(statement)
        expression, uses = value, [value]
    return expression


def _before(script: Script, name: ast.Name) -> tuple[Definition, ...]:
    """What a name, or the target of `scores += mask`, was bound to."""
    if isinstance(name.ctx, ast.Load):
        return tuple(script.definitions(name))
    return script.reaching_definitions.before_addition(name)


def _added_in_place(script: Script, found: Attention, made: Definition, uses: list[ast.expr]) -> ast.Name | None:
    """The scores in `scores += mask`, where that is what a name stands for."""
    match made.node:
        case ast.AugAssign(target=ast.Name() as target, op=ast.Add(), value=added) if found.added is None:
            if set(script.uses(made)) != set(uses) or script.additions(made):
                found.problem = _USED_ELSEWHERE
            elif script.block(made.node) is not script.block(found.statement):
                found.problem = _CONDITIONAL
            _add(found, added, in_place=True)
            found.before.append(made.node)
            return target
        case _:
            return None


def _masked_in_place(script: Script, found: Attention, made: Definition, use: ast.Name) -> ast.Name | None:
    """The scores in `scores.masked_fill_(mask, fill)`, a statement between their binding and a use, also alone under
    `if mask is not None:`."""
    for each in script.uses(made):
        statement = script.statement(each)
        branch = script.parent(statement)
        is_branch = isinstance(branch, ast.If) and branch.body == [statement] and not branch.orelse
        own = branch if isinstance(branch, ast.If) and is_branch and found.condition is None else statement
        if found.mask is not None or script.block(own) is not script.block(found.statement):
            continue
        match statement:
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=scores, attr="masked_fill_"), args=[mask, fill], keywords=[])
            ) if scores is each and position(made.node) < position(own) < position(use):
                found.mask, found.fill = mask, fill
                found.condition = own.test if isinstance(own, ast.If) else found.condition
                found.before.append(own)
                return each
    return None


def _add(found: Attention, added: ast.expr, *, in_place: bool = False) -> None:
    found.added, found.added_in_place, found.added_before_scale = added, in_place, bool(found.factors)


def _masks(script: Script, found: Attention, use: ast.expr) -> bool:
    """Whether a use of the scores is a part of what masks them: `scores.masked_fill(scores < least, fill)`."""
    masking = (each for each in (found.mask, found.fill) if each is not None)
    return any(use is each or script.inside(use, each) for each in masking)


def _are_weights(script: Script, operand: ast.expr) -> bool:
    """Whether a factor, or a name for one, is a softmax of a product."""
    made = script.definitions(operand) if isinstance(operand, ast.Name) else ()
    return any(each and _is_softmax_of_product(script, each) for each in (operand, *(each.value for each in made)))


def _is_softmax_of_product(script: Script, node: ast.expr) -> bool:
    """Whether something is a softmax of a product, over whichever axis."""
    match node:
        case ast.Call(func=ast.Attribute(value=scores, attr="softmax")) if script.qualname(node.func) is None:
            return _leads_to_product(script, scores)
        case ast.Call(args=[scores, *_]):
            softmax = script.qualname(node.func) in _SOFTMAX or made_as(script, node.func, {"torch.nn.Softmax"})
            return softmax and _leads_to_product(script, scores)
        case _:
            return False


def _of_other_scores(script: Script, node: ast.expr) -> str:
    """Why scores are not followed further that are neither the product nor a step on the way to it."""
    if _is_einsum(script, node):
        return _OTHER_EINSUM
    if isinstance(node, ast.Call):
        if (name := script.qualname(node.func)) in _MASKED_OTHERWISE:
            return f"its scores are masked by `{name}`, not by `masked_fill`"
        if name is None and isinstance(node.func, ast.Attribute) and node.func.attr in _SCALED_IN_PLACE:
            return f"its scores are scaled in place, by `.{node.func.attr}()`"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return "something is added to its scores, which may be a mask, or a bias that is learned"
    return "its scores are more than a product, a number and a mask"


def _kept(script: Script, weights: ast.expr) -> str | None:
    """Why weights cannot be followed that are bound under a condition, or kept in an attribute; None where nothing
    shows that they are weights."""
    function = script.function(weights)
    if isinstance(weights, ast.Name):
        definitions = script.definitions(weights)
        made = [each.value for each in definitions if each.how == "assign" and not each.path]
        uses = {use for each in definitions for use in script.uses(each)} - {weights}
        is_kept = any(not any(value and script.inside(use, value) for value in made) for use in uses)
    elif isinstance(weights, ast.Attribute) and function is not None:
        text = script.source(weights)
        bound = [each for each in script.in_scope(function, ast.Assign) if script.source(each.targets[0]) == text]
        made, is_kept = [each.value for each in bound], True
    else:
        return None
    named = (bound.value for value in made if isinstance(value, ast.Name) for bound in script.definitions(value))
    softmaxed = [_softmaxed(script, value) for value in (*made, *named) if value is not None]
    if not any(scores is not None and _leads_to_product(script, scores) for scores in softmaxed):
        return None
    return _USED_ELSEWHERE if is_kept else _CONDITIONAL


def _masked_if(script: Script, found: Attention, definitions: list[Definition], use: ast.Name) -> ast.Name | None:
    """The unmasked scores in `if mask is not None: scores = scores.masked_fill(mask, fill)`."""
    for each in definitions:
        statement = each.node
        branch = script.parent(statement)
        match branch, statement:
            case ast.If(body=[ast.stmt()], orelse=[]), ast.Assign(
                targets=[ast.Name()],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name() as scores, attr="masked_fill" | "masked_fill_"),
                    args=[mask, fill],
                    keywords=[],
                ),
            ) if found.mask is None and script.uses(each) == [use]:
                found.mask, found.fill, found.condition = mask, fill, branch.test
                return _scores_of(script, found, branch, scores)
            case ast.If(body=[ast.stmt()], orelse=[]), (
                ast.Assign(targets=[ast.Name()], value=ast.BinOp(left=ast.Name() as scores, op=ast.Add(), right=added))
                | ast.AugAssign(target=ast.Name() as scores, op=ast.Add(), value=added)
            ) if found.added is None and script.uses(each) == [use] and not _leads_to_product(script, added):
                _add(found, added, in_place=isinstance(statement, ast.AugAssign))
                found.condition = branch.test
                return _scores_of(script, found, branch, scores)
    return None


def _scores_of(script: Script, found: Attention, branch: ast.If, scores: ast.Name) -> ast.Name | None:
    """The scores that a branch masks; None where it stands elsewhere."""
    if script.block(branch) is not script.block(found.statement):
        return None
    found.before.append(branch)
    return scores


def _without_step(script: Script, found: Attention, node: ast.expr) -> ast.expr | None:
    """The scores before they are scaled or masked; None for the product itself."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=inner, attr="masked_fill" | "masked_fill_"), args=[mask, fill], keywords=[]
        ):
            if found.mask is not None:
                found.problem = "its scores are masked twice"
            found.mask, found.fill = mask, fill
            return inner
        case (
            ast.BinOp(left=inner, op=ast.Div(), right=factor)
            | ast.Call(func=ast.Attribute(value=inner, attr="div" | "divide"), args=[factor], keywords=[])
        ):
            found.factors.append((factor, True))
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="mul" | "multiply"), args=[factor], keywords=[]):
            found.factors.append((factor, False))
            return inner
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            inner, factor = (left, right) if _leads_to_product(script, left) else (right, left)
            found.factors.append((factor, False))
            return inner
        case ast.BinOp(left=left, op=ast.Add(), right=right) if found.added is None:
            inner, added = (left, right) if _leads_to_product(script, left) else (right, left)
            if _leads_to_product(script, added) or not _leads_to_product(script, inner):
                return None
            _add(found, added)
            return inner
        case _:
            return None


def _leads_to_product(script: Script, expression: ast.expr) -> bool:
    """Whether a product goes into an expression: whether a factor is the scores, not what scales them."""
    pending, seen = [expression], {expression}
    for each in pending:
        parts: list[ast.expr] = [*script.within(each, ast.BinOp), *script.within(each, ast.Call)]
        if any(_product(script, part) or _is_einsum(script, part) for part in parts):
            return True
        names = (name for name in script.within(each, ast.Name) if isinstance(name.ctx, ast.Load))
        values = (made.value for name in names for made in script.definitions(name) if made.how in ("assign", "aug"))
        new = [value for value in values if value is not None and value not in seen]
        seen.update(new)
        pending += new
    return False


def _softmaxed(script: Script, node: ast.expr) -> ast.expr | None:
    """The scores of which a softmax makes weights, over the last axis."""
    match node:
        case (
            ast.Call(func=ast.Attribute(value=scores, attr="softmax"), args=[dim], keywords=[])
            | ast.Call(
                func=ast.Attribute(value=scores, attr="softmax"), args=[], keywords=[ast.keyword(arg="dim", value=dim)]
            )
        ) if script.qualname(node.func) is None:
            return scores if _is_last(script, dim, scores) else None
        case ast.Call(args=[scores, *_]) if script.qualname(node.func) in _SOFTMAX:
            given = node.args[1] if len(node.args) == 2 else given_as(node, "dim")
            others = len(node.args) > 2 or any(each.arg != "dim" for each in node.keywords)
            return scores if not others and _is_last(script, given, scores) else None
        case ast.Call(args=[scores], keywords=[]) if made_as(script, node.func, {"torch.nn.Softmax"}):
            made = [call for _, call in script.creations(node.func)]
            dims = [call.args[0] if call.args else given_as(call, "dim") for call in made]
            return scores if dims and all(_is_last(script, each, scores) for each in dims) else None
        case _:
            return None


def _is_last(script: Script, dim: ast.expr | None, scores: ast.expr) -> bool:
    axis = None if dim is None else number(dim)
    return axis == -1 or (axis is not None and axis + 1 == _rank(script, scores))


def _rank(script: Script, scores: ast.expr) -> int | None:
    """How many axes scores have: as many as the product that goes into them, whatever scales or masks it."""
    pending, found = [scores], set[int | None]()
    for each in pending:
        parts: list[ast.expr | None] = []
        match each:
            case ast.Name():
                parts = [made.value for made in script.definitions(each) if made.how == "assign" and not made.path]
                found |= {None} if len(parts) < len(script.definitions(each)) else set()
            case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _STEPS:
                parts = [inner]
            case ast.BinOp(left=left, op=ast.Div() | ast.Mult(), right=right):
                parts = [left if _leads_to_product(script, left) else right]
            case _ if (product := _product(script, each)) is not None:
                sides = {3 if _is_bmm(script, each) else len(sizes(script, side) or ()) for side in product}
                found.add(max(sides) if 0 not in sides else None)
            case ast.Call(args=[ast.Constant(value=str() as equation), *_]) if _einsum(script, each, _SCORES):
                found.add(None if "." in equation else len(equation.replace(" ", "").partition("->")[2]))
            case _:
                return None
        pending += [part for part in parts if part is not None and part not in pending]
    return found.pop() if len(found) == 1 else None


def _is_dropout(script: Script, call: ast.Call) -> bool:
    if script.qualname(call.func) == "torch.nn.functional.dropout":
        names = {"p", "training"}
        return 1 <= len(call.args) <= 3 and all(each.arg in names for each in call.keywords)
    return len(call.args) == 1 and not call.keywords and made_as(script, call.func, {"torch.nn.Dropout"})


def _product(script: Script, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The factors of a product of matrices."""
    match node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return left, right
        case ast.Call(func=ast.Attribute(value=left, attr="matmul" | "bmm"), args=[right], keywords=[]) if (
            script.qualname(node.func) is None
        ):
            return left, right
        case ast.Call(args=[left, right], keywords=[]) if script.qualname(node.func) in _PRODUCTS:
            return left, right
        case _:
            return None


def _einsum(script: Script, node: ast.expr, form: re.Pattern[str]) -> tuple[ast.expr, ast.expr] | None:
    """The factors of a product that is written as `einsum`, in one of two forms."""
    match node, _operands(node):
        case ast.Call(args=[ast.Constant(value=str() as equation), *_], keywords=[]), [left, right]:
            read = form.fullmatch(equation.replace(" ", ""))
            labels = "".join(read.groupdict().values()) if read else ""
            is_plain = read is not None and len(set(labels)) == len(labels) - 2 * ("." in labels)
            return (left, right) if is_plain and _is_einsum(script, node) else None
        case _:
            return None


def _operands(einsum: ast.expr) -> list[ast.expr]:
    match einsum:
        case ast.Call(args=[_, ast.List(elts=operands)]):
            return operands
        case ast.Call(args=[_, *operands]):
            return operands
        case _:
            return []


def _is_einsum(script: Script, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and script.qualname(node.func) == "torch.einsum"


def _is_bmm(script: Script, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return script.qualname(node.func) == "torch.bmm" or (
        isinstance(node.func, ast.Attribute) and node.func.attr == "bmm"
    )


def _amid(script: Script, found: Attention) -> str | None:
    """Why the product cannot be computed where the result is: something else stands in between."""
    if not found.before:
        return None
    block = script.block(found.statement)
    first = min(map(block.index, found.before))
    if found.condition is not None and any(True for _ in script.within(found.condition, ast.Call)):
        return "its scores are masked under a condition that calls something"
    read: set[str] = set()  # by what moves behind a statement
    for statement in block[first : block.index(found.statement)]:
        if statement in found.before:
            read |= {each.id for each in script.within(statement, ast.Name)}
            continue
        bound = {each.id for each in script.within(statement, ast.Name) if isinstance(each.ctx, ast.Store)}
        if not isinstance(statement, ast.Assign) or bound & read or not _is_harmless(script, statement):
            return "other statements stand amid it"
    return None


def _is_harmless(script: Script, statement: ast.Assign) -> bool:
    """Whether a statement binds names to what draws nothing and changes nothing."""
    if any(isinstance(each, ast.Attribute | ast.Subscript) for each in statement.targets):
        return False
    for call in script.within(statement, ast.Call):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        of_tensor = method in _HARMLESS and script.qualname(call.func) is None
        is_made = script.qualname(call.func) in _HARMLESS_FUNCTIONS
        if is_made and given_as(call, "out") is None and not unpacks(call):
            continue  # a mask that is made there
        if not of_tensor and not made_as(script, call.func, _HARMLESS_MODULES):
            return False
        if not of_tensor and any(given_as(made, "max_norm") is not None for _, made in script.creations(call.func)):
            return False  # an embedding that scales its own weights
    return True
