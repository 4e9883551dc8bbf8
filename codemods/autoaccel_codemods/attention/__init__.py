"""Use torch's attention.

Attention that is written out, `softmax(q @ k.transpose(-2, -1) / sqrt(d)) @ v`, stores the matrix of scores several
times, forward and backward. `F.scaled_dot_product_attention` goes through it in tiles, and need not store it: 1.2 to
1.7 times as fast on one CPU core, forward and backward, which makes steps of small GPTs 1.06 to 1.12 times as fast.
With dropout nothing is gained on a CPU.

A buffer that held the mask stays, as checkpoints hold it; where nothing else reads it, a comment says so.

Left alone:
- weights that are used elsewhere: returned, logged, stored;
- masks by a finite number, `masked_fill(mask, -1e9)`, but of a lower triangle: a row that is masked as a whole gives
  the mean of all values there, and no gradients;
- masks by `-inf`, but of a lower triangle, in programs that look for NaN (`torch.nan_to_num`, `isfinite`): such a row
  gives NaN, and zeros by torch's kernel;
- what is added to the scores, but for masks by a number of 1,000 to 60,000, `scores + (1.0 - mask) * -10000.0`, and
  biases that are learned, where they surely make the scores no larger: autocast may cast them to float16, in which
  `-1e9` is infinite;
- scores that are scaled in place, scores or weights that are converted or clipped;
- scales that are not surely numbers, operands that may be vectors, keys that are transposed out of sight;
- what stands in for torch's kernel, or another one, that another branch calls: `if self.flash:`;
- programs with hooks on modules, gradients that are differentiated again, exported or scripted models.

Before:
    att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
    att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
    att = F.softmax(att, dim=-1)
    y = att @ v

After:
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask[:, :, :T, :T] != 0)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import last_name, position, split_lines
from autoaccel.edits import (
    Code,
    Edit,
    Finding,
    InsertBefore,
    RemoveStatement,
    Replace,
    Skipped,
    Tier,
    literal,
)
from autoaccel.pytorch import backend_settings, implicit_calls
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.attention import added_masks, written_out
from autoaccel_codemods.attention.causal_masks import is_causal, is_lower_triangle, unread_buffer
from autoaccel_codemods.attention.scales import is_low, is_number, is_usual_scale
from autoaccel_codemods.attention.stale_comments import stale_comments
from autoaccel_codemods.attention.written_out import Attention

if TYPE_CHECKING:
    from autoaccel.analysis import Script

RULE = Rule(
    code="AA305",
    name="attention",
    tier=Tier.NUMERICS,
    needles=(b"softmax", b"Softmax"),
    pattern=r"torch",
    references=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
    ),
    addresses=("compute",),
    order=64,
)
_FUNCTION = "torch.nn.functional.scaled_dot_product_attention"
_FUSED = frozenset(
    """scaled_dot_product_attention memory_efficient_attention flash_attn_func flash_attn_qkvpacked_func
    flash_attn_varlen_func flex_attention""".split()
)
_KEPT = "# not read any more, kept for checkpoints"
_CHANGED = re.compile(
    r"create_graph|\bgrad\([^\n]*\bTrue,\s*True\b|torch\.func\b|functorch|import func\b"
    r"|autograd(?:\.| import )functional|forward_ad|torch\.jit|torch\.onnx|torch\.fx"
)
_GUARDED = re.compile(r"nan_to_num|isnan|isfinite|detect_anomaly|error_if_nonfinite|nansum|nanmean")
_INFINITE = re.compile(
    r"""-(float\(\s*['"]\+?inf(inity)?['"]\s*\)|(math|np|numpy|torch)\.inf)|float\(\s*['"]-inf(inity)?['"]\s*\)"""
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """Attention becomes one call, or is left alone for the first reason that is found.

    Here:
        written_out     where it is written out, back from the product of weights and values
        dimensions      how many axes its operands have, and which of the key are swapped
        scales          whether its scores are scaled by a number, and by which
        causal_masks    whether its mask is a lower triangle
        added_masks     whether what is added to its scores is a mask, or a bias, that the kernel takes
        stale_comments  which comments say what is no longer so
    """
    for attention in written_out.attentions(script):
        reason = attention.problem or _problem(script, attention)
        if reason is not None:
            yield RULE.skip(attention.result, reason)
        else:
            message = "the matrix of attention weights is stored, and read again"
            yield RULE.finding(attention.result, message, *_edits(script, attention))


def _problem(script: Script, attention: Attention) -> str | None:
    """Why torch's kernel may do something else, or not be allowed to."""
    if (kernel := _fused_beside(script, attention.statement)) is not None:
        return f"it stands in for `{kernel}`, which another branch calls"
    if (reason := added_masks.problem(script, attention)) is not None:
        return reason
    is_infinite = attention.fill is None or _INFINITE.fullmatch(script.source(attention.fill)) is not None
    if attention.mask is not None and not is_infinite and not is_lower_triangle(script, attention.mask):
        return "a row that is masked as a whole gives the mean of all values, by a finite number"
    if attention.mask is not None and not is_infinite and not is_low(script, attention.fill):
        return "nothing shows that the number by which its scores are masked leaves them no weight"
    if attention.mask is not None and is_infinite and not is_lower_triangle(script, attention.mask):
        if (guard := backend_settings.mention(script, _GUARDED)) is not None:
            return f"a row that is masked as a whole gives NaN, which `{guard}` looks for, and none by torch's kernel"
    if any(not is_number(script, factor) for factor, _ in attention.factors):
        return "nothing shows that the scores are scaled by a number"
    if (mention := backend_settings.mention(script, _CHANGED)) is not None:
        return f"`{mention}`: torch's kernel has no second derivative, and exported models keep their operations"
    if any(True for _ in implicit_calls.hooks(script)):
        return "a hook may see the modules that it is made of"
    return None


def _fused_beside(script: Script, statement: ast.stmt) -> str | None:
    """The kernel that another branch calls, of an `if` or `try` around a statement: `if self.flash:`."""
    for around in script.ancestors(statement):
        if isinstance(around, ast.FunctionDef):
            return None
        if isinstance(around, ast.If | ast.Try):
            for call in script.within(around, ast.Call):
                if (name := last_name(call.func)) in _FUSED:
                    return name
    return None


def _edits(script: Script, attention: Attention) -> Iterator[Edit]:
    arguments: list[str] = []
    holes: list[ast.expr] = [attention.query, attention.key, attention.value]
    causal = attention.condition is None and is_causal(script, attention)
    if (attention.mask is not None or attention.added is not None) and not causal:
        mask = _visible(attention.mask, holes) if attention.mask is not None else _hole(attention.added, holes)
        may_be_none = _asks_for_it(attention)
        if attention.mask is not None and not _is_matrix(script, attention.mask):
            may_be_none = False
            matrix, imports = script.spell("torch.atleast_2d")  # torch's kernel refuses a mask of one axis
            yield from imports
            mask = f"{matrix}({mask})"
        if attention.condition is not None and not may_be_none:
            name = script.free_name("attn_mask", "attention_mask")
            template = Code(f"{name} = {mask} if {{{len(holes)}}} else None", (*holes, attention.condition))
            yield InsertBefore(attention.statement, template, below_comments=True)
            mask = name
        arguments.append(f"attn_mask={mask}")
    if attention.dropout is not None:
        name = script.free_name("dropout_p", "attention_dropout")
        share, training = _dropout(script, attention.dropout)
        applied = {"True": share, "False": "0.0"}.get(training, f"{share} if {training} else 0.0")
        yield InsertBefore(attention.statement, Code(literal(f"{name} = {applied}")), below_comments=True)
        arguments.append(f"dropout_p={name}")
    if causal:
        arguments.append("is_causal=True")
    if not is_usual_scale(script, attention):
        arguments.append(f"scale={_scale(attention, holes)}")
    function, imports = script.spell(_FUNCTION)
    yield from imports
    yield Replace(attention.result, Code(f"{function}({', '.join(['{0}, {1}, {2}', *arguments])})", tuple(holes)))
    yield from (RemoveStatement(each) for each in attention.before)
    yield from stale_comments(script, attention)
    if causal and (registered := unread_buffer(script, attention)) is not None:
        yield from _kept(script, registered)


def _kept(script: Script, statement: ast.stmt) -> Iterator[Edit]:
    """Says of a buffer that nothing reads any more why it stays."""
    lines = split_lines(script.text)[statement.lineno - 1 : statement.end_lineno]
    before = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    rest = lines[-1].encode()[statement.end_col_offset :].strip()
    if len(before.encode()) == statement.col_offset and (not rest or rest.startswith(b"#")):
        strings = [each for each in script.within(statement, ast.Constant) if _is_plain_string(each)]
        strings.sort(key=position)
        for index, each in reversed([*enumerate(strings)]):  # as they are written, whatever quotes the file prefers
            at = each.lineno - statement.lineno
            line = lines[at].encode()
            lines[at] = (line[: each.col_offset] + f"\0{index}\0".encode() + line[each.end_col_offset :]).decode()
        text = literal("\n".join([_KEPT, *(line.removeprefix(before) for line in lines)]))
        text = re.sub("\0(\\d+)\0", r"{\1}", text)
        yield InsertBefore(statement, Code(text, tuple(strings)), below_comments=True)
        yield RemoveStatement(statement, moved=True)


def _is_plain_string(constant: ast.Constant) -> bool:
    return isinstance(constant.value, str) and constant.lineno == constant.end_lineno


def _visible(masked: ast.expr, holes: list[ast.expr]) -> str:
    """The places that are not masked."""
    match masked:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as operator], comparators=[right]):
            holes += [left, right]
            return f"{{{len(holes) - 2}}} {'!=' if isinstance(operator, ast.Eq) else '=='} {{{len(holes) - 1}}}"
        case ast.UnaryOp(op=ast.Invert(), operand=visible):
            holes.append(visible)
            return f"{{{len(holes) - 1}}}"
        case _:
            holes.append(masked)
            simple = isinstance(masked, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
            return f"~{{{len(holes) - 1}}}" if simple else f"~({{{len(holes) - 1}}})"


def _hole(added: ast.expr | None, holes: list[ast.expr]) -> str:
    assert added is not None
    holes.append(added)
    return f"{{{len(holes) - 1}}}"


def _is_matrix(script: Script, mask: ast.expr) -> bool:
    return is_lower_triangle(script, mask) or added_masks.has_two_axes(script, mask)


def _asks_for_it(attention: Attention) -> bool:
    """`if mask is not None: scores = scores + mask`: the kernel takes None for no mask. So with `~mask`."""
    given = attention.added
    match attention.mask:
        case ast.UnaryOp(op=ast.Invert(), operand=visible):
            given = visible
    match attention.condition, given:
        case (
            ast.Compare(left=asked, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]),
            ast.Name() | ast.Attribute() as added,
        ):
            return ast.unparse(asked) == ast.unparse(added)
        case _:
            return False


def _dropout(script: Script, call: ast.Call) -> tuple[str, str]:
    """The share that is dropped, and whether it is."""
    if script.kind(call.func) is Kind.MODULE:
        module = script.source(call.func)
        return f"{module}.p", f"{module}.training"
    return written_out.functional_dropout(script, call)


def _scale(attention: Attention, holes: list[ast.expr]) -> str:
    """The number by which scores are multiplied; 1 where they are not."""
    text = ""
    for factor, divides in attention.factors:
        holes.append(factor)
        hole = f"{{{len(holes) - 1}}}"
        if isinstance(factor, ast.BinOp) and (text or divides or len(attention.factors) > 1):
            hole = f"({hole})"
        text = f"{text or 1} / {hole}" if divides else f"{text} * {hole}" if text else hole
    return text or "1.0"
