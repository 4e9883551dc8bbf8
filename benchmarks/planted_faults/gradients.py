"""AA501 gone wrong: gradients that are needed are not recorded, or evaluation does something else."""

from __future__ import annotations

from autoaccel.edits import AddDecorator, Code, InsertAfter, InsertBefore, WrapStatements
from benchmarks.planted_faults.catalogue import fault
from benchmarks.planted_faults.planting import Planted, Scene, also, instead, made_up, reworded

_NO_GRAD = Code("torch.no_grad()")
_MESSAGE = "this evaluation records gradients"


@fault("no-grad/training-pass", "project/main", "the training pass records no gradients", file="engine.py")
def _(scene: Scene) -> Planted:
    function = scene.function("train_one_epoch")
    return made_up(scene.rule("AA501"), function, _MESSAGE, AddDecorator(function, _NO_GRAD))


@fault("no-grad/part-of-a-step", "dcgan", "the generator's forward of a training step records no gradients")
def _(scene: Scene) -> Planted:
    forward = scene.statement("fake = netG(noise)")
    return made_up(
        scene.rule("AA501"), forward, _MESSAGE, WrapStatements(forward, forward, Code("with torch.no_grad()"))
    )


@fault("no-grad/term-of-the-loss", "positions", "a term of the loss records no gradients")
def _(scene: Scene) -> Planted:
    function = scene.function("smoothness")
    return made_up(scene.rule("AA501"), function, _MESSAGE, AddDecorator(function, _NO_GRAD))


@fault("no-grad/inference-mode", "positions", "what the evaluation computes and keeps cannot be used in training")
def _(scene: Scene) -> Planted:
    return reworded(scene.finding("AA501"), "torch.no_grad()", "torch.inference_mode()")


@fault("no-grad/leaks-from-a-generator", "pseudo_labels", "the training that consumes a generator runs in its mode")
def _(scene: Scene) -> Planted:
    loop = scene.statement("for (x,) in loader:")
    return instead(scene.finding("AA501"), WrapStatements(loop, loop, Code("with torch.no_grad()")))


@fault("no-grad/left-in-evaluation-mode", "dcgan", "sampling switches to evaluation mode and does not switch back")
def _(scene: Scene) -> Planted:
    sampling = scene.statement("fake = netG(fixed_noise)")
    return also(scene.finding("AA501"), InsertBefore(sampling, Code("netG.eval()")))


@fault("no-grad/statistics-not-updated", "dcgan", "sampling in evaluation mode no longer updates batch statistics")
def _(scene: Scene) -> Planted:
    sampling = scene.statement("fake = netG(fixed_noise)")
    return also(
        scene.finding("AA501"),
        InsertBefore(sampling, Code("netG.eval()")),
        InsertAfter(sampling, Code("netG.train()")),
    )
