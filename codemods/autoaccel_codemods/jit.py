"""Compile what TorchScript compiled.

`torch.jit.script` came before `torch.compile`, and is not developed any further: its compiler fuses fewer operations,
hardly any of a backward pass, and keeps other ways to compile a model out. The call is taken out where AA401 then
compiles the model, in the same run. The model stays what it was before the call: an object of its own class, with the
same parameters, under the same keys.

Left alone:
- `torch.jit.trace`, whose graph keeps what its example decided (training mode, branches, sizes);
- projects that use more of TorchScript than this call (saved or frozen modules, `is_scripting()`, hints for its
  compiler), and models that are saved, printed or asked for their code as scripted ones;
- models that go by another name beside the scripted one, or that code out of sight is handed;
- calls that a condition chooses, and models that AA401 leaves alone.

Before:
    model = torch.jit.script(Net().to(device))

After:
    model = Net().to(device)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.analysis.definite_assignment import always_runs
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.edits import Code, Edit, Finding, RemoveStatement, Replace, Skipped, Tier
from autoaccel.pytorch.training_steps import training_scopes
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.compile import judged
from autoaccel_codemods.compile.blockers import of_file
from autoaccel_codemods.compile.trained_models import TrainedModel, trained_models

RULE = Rule(
    code="AA402",
    name="jit",
    tier=Tier.NUMERICS,
    needles=(b"jit",),
    references=("https://docs.pytorch.org/docs/stable/jit.html",),
    addresses=("launch", "compute"),
    order=65,
)

_SCRIPT = "torch.jit.script"
_TRACE = "torch.jit.trace"
_MORE = re.compile(
    r"\bjit\.(?!script\b)\w+|\bjit\b +import +(?!\(? *script\b *\)? *$)|is_scripting"
    r"|Script(Module|Function)|script_method",
    re.MULTILINE,
)
_ASKED = frozenset("save save_to_buffer code code_with_constants graph inlined_graph original_name".split())
_LIBRARY = ("torch.", "copy.", "autoaccel.")


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    calls = {call: script.statement(call) for call in script.calls(_SCRIPT, _TRACE)}
    models = trained_models(script) if calls else ()
    for call, statement in calls.items():
        if not isinstance(statement, ast.Assign) or statement.value is not call:
            continue
        name, scope = script.source(statement.targets[0]), script.function(call)
        if script.qualname(call.func) == _TRACE:
            if _is_trained(script, name):
                yield RULE.skip(call, f"`{name}`: its traced graph keeps what its example decided")
            continue
        trained = [each for each in models if (script.source(each.target), script.function(each.made)) == (name, scope)]
        if not trained:
            continue
        reason = _problem(script, statement, call) or _kept_from_compiling(script, trained)
        if reason is not None:
            yield RULE.skip(call, f"`{name}`: {reason}")
            continue
        (model,) = call.args
        same = script.source(model) == name
        edit: Edit = RemoveStatement(statement) if same else Replace(call, Code("{0}", (model,)))
        yield RULE.finding(call, f"`{name}` is compiled by TorchScript", edit)


def _is_trained(script: Script, name: str) -> bool:
    return any(
        script.source(call.func) == name
        for scope in training_scopes(script)
        for call in script.in_scope(scope, ast.Call)
    )


def _kept_from_compiling(script: Script, models: list[TrainedModel]) -> str | None:
    whole = of_file(script, leaving_out=(_SCRIPT,))
    return next((reason for _, reason in judged(script, models, whole) if reason is not None), None)


def _problem(script: Script, statement: ast.Assign, call: ast.Call) -> str | None:
    if len(statement.targets) > 1 or len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        return "what is scripted is not visible here"
    if not always_runs(script, statement, script.function(call) or script.tree):
        return "a condition decides whether it is scripted"
    related = script.project.related(script)
    if any(_MORE.search(each.text) for each in related):
        return "the project uses more of TorchScript than this"
    (model,) = call.args
    target = statement.targets[0]
    name = script.source(target)
    if isinstance(model, ast.Call):
        made = script.values(model)
        if any(value.kind is not Kind.MODULE for value in made) or script.callees(model):
            return "the model may have another name beside this one"
    elif script.source(model) != name or _known_before(script, call):
        return "the model has another name beside this one"
    for each in related:
        if (reason := _other_use(each, script, target)) is not None:
            return reason
    return None


def _other_use(file: Script, script: Script, target: ast.expr) -> str | None:
    """Why a file would notice, or may notice, that a model is no scripted one."""
    name = script.source(target)

    def is_model(node: ast.expr) -> bool:
        return (file is script and file.source(node) == name) or Kind.MODULE in file.values(node).kinds

    for attribute in file.find(ast.Attribute):
        if attribute.attr in _ASKED and is_model(attribute.value):
            return f"`{attribute.attr}` is asked of a scripted model"
    for part in file.find(ast.FormattedValue):
        if is_model(part.value):
            return "a scripted model is printed"
    for each in file.find(ast.Call):
        called = file.qualname(each.func) or ""
        if not called.startswith(_LIBRARY) and not file.callees(each) and not _makes_model(file, each):
            if any(is_model(given) for given in given_values(each)):
                return f"`{file.source(each.func)}` may see that it is scripted"
    return None


def _makes_model(file: Script, call: ast.Call) -> bool:
    """Whether a call makes or runs a model of the project, which is where its own code says what is done."""
    return Kind.MODULE in file.values(call.func).kinds or file.values(call).kinds == {Kind.MODULE}


def _known_before(script: Script, call: ast.Call) -> bool:
    """Whether a model was given another name before it was scripted: `teacher = model`."""
    (model,) = call.args
    if not isinstance(model, ast.Name):
        return True
    for made in script.definitions(model):
        for use in script.uses(made):
            above = script.parent(use)
            if use is not model and not isinstance(above, ast.Attribute) and script.call_of(use) is None:
                return True
    return False
