"""Compile models and tensor functions.

`torch.compile` fuses the small kernels of a forward and backward pass, which saves launches and memory traffic.
Compiled in place a model stays the same object: its type, its `state_dict` keys, its copies and checkpoints are what
they were. Whether compiling is possible and pays is decided when the script runs, by what a step takes and how many
there are: where the code shows that number, it is handed over as `steps=`. In a program that only evaluates, the models
that are evaluated are compiled.

Left alone:
- models whose gradients are differentiated again (gradient penalties, forces, meta-learning), models with hooks or with
  hooks of gradients;
- recurrent networks, which are fused already, and single layers, which have nothing to fuse;
- models of which one output comes from a part of its own and is never used: compiled code gives that part gradients of
  zeros, on which weight decay works;
- criteria and other modules without parameters of their own, and what may be no module at all;
- forward passes that leave the graph (`.item()`, `if x.any()`, shapes that depend on values, printing, Python's random
  numbers), make parameters or loop over their data, or that call cached functions (`functools.lru_cache`), which
  compiled code would run at every call;
- batch normalization in checkpoints (`torch.utils.checkpoint`): computed again, it moves its averages a second time in
  each step, and in compiled code does not;
- models under `DataParallel` for several devices that the script names (else the runtime looks how many there are),
  exported, scripted or shared models, and those that the script captures in CUDA graphs;
- scripts that compile by themselves, or that set `cudnn.deterministic`: if an option has them do so, when they run;
- detection models, copies that are only sampled from, models that make a single step, or that run while parts are
  still added to them;
- where literal numbers show that the runtime would never compile: models of at most 2,000 parameters on the CPU, runs
  of fewer steps than it takes to time them, to compile, and to compare.

Before:
    model = Net().to(device)

After:
    model = Net().to(device)
    accel.compile(model)
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence

from autoaccel.analysis import Script
from autoaccel.dataflow.abstract_values import Value
from autoaccel.edits import AddDecorator, Code, Finding, Skipped, Tier
from autoaccel.pytorch import cuda_graphs
from autoaccel.pytorch.data_parallel import replicated_on_any_machine
from autoaccel.rewriting.rule import Rule, UnderDeterminism
from autoaccel_codemods.compile.blockers import of_file, of_model
from autoaccel_codemods.compile.literal_cost import in_vain
from autoaccel_codemods.compile.pure_functions import pure_functions
from autoaccel_codemods.compile.second_derivatives import differentiated_again, is_among
from autoaccel_codemods.compile.step_count import steps_of_run
from autoaccel_codemods.compile.trained_models import TrainedModel, below_setup, end_of_setup, trained_models
from autoaccel_codemods.compile.training_forwards import steps_of_unseen_models
from autoaccel_codemods.compile.unused_submodules import idle_part

RULE = Rule(
    code="AA401",
    name="compile",
    tier=Tier.NUMERICS,
    needles=(b"optim", b".backward(", b"train(", b"Trainer(", b"eval(", b"_model()"),
    pattern=r"torch|[Mm]odel|[Nn]et|\.(?:backward|zero_grad|step)\(",
    references=(
        "https://docs.pytorch.org/docs/stable/torch.compiler.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.compile.html",
    ),
    addresses=("launch", "compute"),
    under_determinism=UnderDeterminism.OFF,
    order=70,
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """A model is compiled where its set-up ends, or left alone for the first reason that is found.

    Asked in this order; whether compiling pays is decided when the script runs, by `autoaccel.runtime.compile`:
        trained_models      which models training steps run, and where these are made and ready
        training_forwards   the forward passes of training
        model_origins       where what they call is made
        model_setup         the statements that prepare it
        pure_functions      which functions of tensors training steps call
        blockers            what must not be compiled: what its file does, what its classes do
        second_derivatives  which models have a backward pass that is differentiated
        small_modules       what has nothing to fuse
        unused_submodules   parts that would get gradients of zeros
        literal_cost        whether the runtime would ever compile it, to go by the literal numbers of the file
        step_count          how many steps the run makes, where the code shows it: `steps=`
    """
    models, functions = trained_models(script), list(pure_functions(script))
    unseen = list(steps_of_unseen_models(script))
    if not models and not functions and not unseen:
        return
    whole = of_file(script)
    for backward, why in unseen:
        yield RULE.skip(backward, whole or why)
    if not models and not functions:
        return
    compiled = {script.source(call.args[0]) for call in script.runtime_calls("compile") if len(call.args) == 1}
    fresh = [model for model in models if script.source(model.target) not in compiled]
    for model, problem in judged(script, fresh, whole):
        reason = problem or in_vain(script, model)
        if reason is not None:
            yield RULE.skip(model.made, f"`{script.source(model.target)}`: {reason}")
        else:
            yield _finding(script, model, models)
    for function in functions:
        reason = whole or _differentiated(script, ())
        if reason is not None:
            yield RULE.skip(function, f"`{function.name}`: {reason}")
        else:
            decorator = AddDecorator(function, Code(f"{script.accel}.compile"))
            message = f"`{function.name}` runs one small kernel after the other"
            yield RULE.finding(function, message, decorator, *script.import_runtime)


def judged(
    script: Script, models: Iterable[TrainedModel], whole: str | None
) -> Iterator[tuple[TrainedModel, str | None]]:
    """Models and why each is not to be compiled, if at all; `whole` is what `of_file` says."""
    for model in models:
        reason = whole or model.problem or _differentiated(script, model.values) or of_model(script, model)
        if reason is None and replicated_on_any_machine(script.project.related(script)):
            reason = "DataParallel copies the model to every device at every step"
        if reason is None and cuda_graphs.captures(script):
            reason = cuda_graphs.REASON
        if reason is None and (part := idle_part(script, model)) is not None:
            reason = f"the training step does not use what `{part}` makes, which compiled code gives gradients of zeros"
        yield model, reason


def _finding(script: Script, model: TrainedModel, models: Sequence[TrainedModel]) -> Finding:
    name = script.source(model.target)
    at = end_of_setup(script, model, models) if model.wrapped is None else model.wrapped
    steps = steps_of_run(script, model, at)
    code = Code(
        f"{script.accel}.compile({name})" if steps is None else f"{script.accel}.compile({name}, steps={steps})"
    )
    edit = below_setup(script, model, models, code)
    return RULE.finding(model.made, f"`{name}` is not compiled", edit, *script.import_runtime)


def _differentiated(script: Script, values: Collection[Value]) -> str | None:
    """Why second derivatives forbid compiling what has these constructors; any forbid it where there are none."""
    found: set[ast.AST] = set()
    for each in script.project.related(script):
        nodes = differentiated_again(each)
        if nodes is None:
            return "its gradients are differentiated again"
        found.update(nodes)
    hit = any(is_among(value, found) for value in values) if values else bool(found)
    return "its gradients are differentiated again" if hit else None
