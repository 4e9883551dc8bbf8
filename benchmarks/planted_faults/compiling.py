"""AA401 gone wrong: compiled another way than in place, or what a graph cannot hold."""

from __future__ import annotations

from autoaccel.edits import AddDecorator, Code, InsertAfter
from benchmarks.planted_faults.catalogue import fault
from benchmarks.planted_faults.planting import RUNTIME, Planted, Scene, made_up, reworded

_MADE = "accel.compile({}, steps=3 * len(loader))"


@fault("compile/copies-run-the-original", "mean_teacher", "a copy made later runs the weights of the original")
def _(scene: Scene) -> Planted:
    new = 'student.forward = torch.compile(student.forward, backend="eager")'
    return reworded(scene.finding("AA401", "student = "), _MADE.format("student"), new)


@fault("compile/other-keys", "mean_teacher", "the model is wrapped: the keys of its checkpoints change")
def _(scene: Scene) -> Planted:
    new = 'student = torch.compile(student, backend="eager")'
    return reworded(scene.finding("AA401", "student = "), _MADE.format("student"), new)


@fault("compile/nothing-returned", "tabs", "`Module.compile()` returns nothing, and that becomes the model")
def _(scene: Scene) -> Planted:
    return reworded(scene.finding("AA401"), _MADE.format("model"), 'model = model.compile(backend="eager")')


@fault("compile/traced", "crlf", "the model is traced: dropout stays on in the evaluation")
def _(scene: Scene) -> Planted:
    new = "model = torch.jit.trace(model, x[:2], check_trace=False)"
    return reworded(scene.finding("AA401"), _MADE.format("model"), new)


@fault("compile/hooks-ignored", "activity", "hooks that are set later do not run inside the graph")
def _(scene: Scene) -> Planted:
    made = scene.statement("model = Net()")
    return made_up(
        scene.rule("AA401"),
        made,
        "the model is not compiled",
        InsertAfter(made, Code('model.compile(backend="eager")')),
    )


@fault("compile/drawn-again", "warped", "what a cache keeps in eager mode is drawn again at every call")
def _(scene: Scene) -> Planted:
    function = scene.function("warp")
    edit = AddDecorator(function, Code("accel.compile"))
    return made_up(scene.rule("AA401"), function, "it is not compiled", RUNTIME, edit)
