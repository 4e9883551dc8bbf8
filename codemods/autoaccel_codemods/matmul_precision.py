"""Try TensorFloat-32.

GPUs of compute capability 8.0 and above have units for products of float32 that round their operands to 10 bits of
mantissa and add up in float32: several times as fast. torch uses them for convolutions, but not for products unless it
is told to. `accel.matmul_precision()` tries them when the script trains, step against step, and keeps them where steps
are faster. On other devices it does nothing. Where steps run in mixed precision there is nothing to gain. In a module
that is no program it stands where what trains chooses the device, or begins, so that importing the module changes
nothing.

Left alone:
- steps that `autocast` converts, scripts with mixed precision of their own, and those that never name CUDA;
- scripts that choose: `set_float32_matmul_precision`, `allow_tf32`, `fp32_precision`, deterministic algorithms;
- linear algebra, double precision, gradients that are differentiated again (`create_graph`, `torch.func`), closures:
  what such programs compute needs its digits;
- what AA301 leaves alone since it has no products, or since rounded products would be of no use to it: expanded
  distances, solvers;
- models of at most 2,000 parameters;
- networks of convolutions alone, training in several processes, and training that a framework runs.

Before:
    import torch

After:
    import torch
    from autoaccel import runtime as accel

    accel.matmul_precision()
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from autoaccel.analysis import Script, determinism
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.syntax_index import position
from autoaccel.edits import Finding, Skipped, Tier
from autoaccel.pytorch import backend_settings, cuda_graphs
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel.pytorch.training_steps import TrainingStep, training_steps
from autoaccel.rewriting.rule import Rule, UnderDeterminism
from autoaccel_codemods import autocast
from autoaccel_codemods.autocast import literal_gain, skip_reasons

RULE = Rule(
    code="AA303",
    name="matmul-precision",
    tier=Tier.NUMERICS,
    needles=(b"backward",),
    pattern=r"torch",
    references=("https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html",),
    addresses=("compute",),
    under_determinism=UnderDeterminism.OFF,
    order=65,
)

_CHOOSING = re.compile(r"set_float32_matmul_precision|allow_tf32|fp32_precision|autocast")
_ASKING = re.compile(r"use_deterministic_algorithms")
# `re` looks for the letters that a match can begin with, so that no alternative begins with `\b`.
# Arrays in float64 meet no weights before they are float32, norms of arrays are NumPy's, and counts are divided in
# float32: `correct.double() / len(x)`.
_DIGITS = re.compile(
    r"l(?<!\bnp\.l)(?<!\bnumpy\.l)(?:inalg|stsq)|c(?:reate_graph|holesky)|torch\.func\b|f(?:unctorch|(?<!np\.f)(?<!numpy\.f)loat64)"
    r"|\.double\((?!\)\s*/)|DoubleTensor|inverse\("
    r"|s(?<=\bs)(?:olve|vd)\(|e(?<=\be)igh?\(|pinverse\(|matrix_exp|autograd\.(?:grad|functional)|LBFGS"
)
_IN_BRACKETS = r"(?:[^()\n]|\([^()\n]*\))*"
_COUNTS = re.compile(
    rf"(?:\.(?:eq|ne|lt|le|gt|ge)\({_IN_BRACKETS}\)"
    rf"|(?<![\w)\]])\((?!{_IN_BRACKETS}\b(?:if|and|or)\b){_IN_BRACKETS}(?:[=!]=|[<>]=?){_IN_BRACKETS}\))"
    r"(?:\.sum\(\))?\.double\("
)
"""Comparisons that are counted: whole numbers, far below what float32 holds."""
_OWN_INVERSE = re.compile(r"def inverse\(|(?<!torch)(?<!linalg)\.inverse\((?!\s*\))")
"""A method of the project, where it has one: that of a tensor takes nothing."""
_OTHER_NAMES = re.compile(
    r"import +torch(?:\.linalg)? +as |from +torch(?:\.linalg)? +import [^\n]*(?:inverse|linalg +as)"
)
_CONVOLUTIONS = re.compile(r"Conv(?:Transpose)?[123]d|conv(?:_transpose)?[123]d")
_PRODUCTS = re.compile(
    r"[Ll]inear|LSTM|GRU|RNN|[Tt]ransformer|[Aa]ttention|m(?:atmul|m\(|v\(|odels\b)|einsum|tensordot| @ |cdist|corr"
    r"|unfold|timm|hub\.|from_pretrained|getattr\(nn"
)
"""Products other than convolutions, and models out of sight, which may have some."""
_AS_FOR_AUTOCAST = tuple(
    reason.rpartition("}")[2]
    for reason in (
        skip_reasons.EXPANDED_DISTANCE,
        skip_reasons.COMPUTED_MATRIX,
        skip_reasons.FINITE_DIFFERENCE,
        skip_reasons.SOLVER,
        skip_reasons.MANY_TURNS,
    )
)
"""Why AA301 leaves code alone, where that holds for rounded products as well."""
_SEVERAL = re.compile(r"torch\.distributed|torch import distributed|DistributedDataParallel")


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    steps = training_steps(script)
    if not steps or any(step.converted for step in steps) or not backend_settings.names_cuda(script):
        return
    if backend_settings.is_given(script, "matmul_precision"):
        return
    of_autocast = [*autocast.check(script)]
    left_alone = [each for each in of_autocast if isinstance(each, Skipped)]
    if not left_alone or len(left_alone) < len(of_autocast):
        return
    sites = [*(each.call for each in steps[0].backwards), *(each.call for each in steps[0].optimizer_steps)]
    at = min(sites, key=position)
    try:
        reason = _problem(script) or _in_vain(script, steps) or _as_for_autocast(left_alone)
    except Incomplete as incomplete:
        reason = str(incomplete)
    if reason is not None:
        yield RULE.skip(at, reason)
        return
    edits = backend_settings.call_after_imports(script, "matmul_precision")
    yield RULE.finding(at, "float32 products do not use TensorFloat-32", *edits)


def _in_vain(script: Script, steps: Sequence[TrainingStep]) -> str | None:
    """Why no step gains by it, as the literal numbers of the file show."""
    reasons = [
        literal_gain.small(script, step.forwards, reachable_code(script, step.scopes, building=False)) for step in steps
    ]
    return None if None in reasons else reasons[0]


def _as_for_autocast(left_alone: Sequence[Skipped]) -> str | None:
    """Why AA301 leaves the steps alone, where that holds for products in TensorFloat-32, too."""
    if all(skip_reasons.NO_PRODUCTS in each.reason for each in left_alone):
        return left_alone[0].reason
    reasons = (each.reason for each in left_alone if any(part in each.reason for part in _AS_FOR_AUTOCAST))
    return next(reasons, None)


def _problem(script: Script) -> str | None:
    """Why products of a script are not to be rounded."""
    if script.frameworks:
        return autocast.step_problems.run_by(script, min(script.frameworks))
    if (mention := backend_settings.mention(script, _CHOOSING)) is not None:
        return f"`{mention}`: the script chooses its precision itself"
    if backend_settings.mention(script, _ASKING) is not None:
        if any(map(determinism.of_all_algorithms, (script, *script.project.related(script)))):
            return "the script may ask for deterministic algorithms"
    if (mention := _digits(script)) is not None:
        return f"`{mention}` may need every digit"
    if backend_settings.mention(script, _SEVERAL) is not None:
        return "what is tried has to be the same in all processes"
    convolves = backend_settings.mention(script, _CONVOLUTIONS) is not None
    if convolves and backend_settings.mention(script, _PRODUCTS) is None:
        return "it has no products but convolutions, for which torch uses TensorFloat-32 as it is"
    return cuda_graphs.REASON if cuda_graphs.captures(script) else None


def _digits(script: Script) -> str | None:
    """What may need every digit."""
    texts = dict.fromkeys((script.text, *script.project.related_texts(script)))
    own = any("def inverse(" in text for text in texts) and not any(map(_OTHER_NAMES.search, texts))
    for text in texts:
        rest = _COUNTS.sub("", text) if "double" in text else text
        if (found := _DIGITS.search(_OWN_INVERSE.sub("", rest) if own else rest)) is not None:
            return found[0].strip(".(")
    return None
