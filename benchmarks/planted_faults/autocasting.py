"""AA301 and AA302 gone wrong: scaling, unscaling and stepping that do not belong together, regions around too much."""

from __future__ import annotations

import ast
from dataclasses import replace

from autoaccel.edits import Code, Finding, InsertAfter, InsertBefore, Replace, WrapStatements
from benchmarks.planted_faults.catalogue import fault
from benchmarks.planted_faults.planting import Planted, Scene, also, instead, reworded, without

_CODE = "AA301"


def _until(finding: Finding, first: ast.stmt, last: ast.stmt) -> Planted:
    """The region that begins with `first` ends with `last`."""
    edits = tuple(
        replace(edit, last=last) if isinstance(edit, WrapStatements) and edit.first is first else edit
        for edit in finding.edits
    )
    assert edits != finding.edits
    return Planted(replace(finding, edits=edits), finding)


@fault("autocast/clipped-while-scaled", "trainer", "gradients are clipped without `unscale_`")
def _(scene: Scene) -> Planted:
    return without(scene, scene.finding(_CODE), ".unscale_(")


@fault("autocast/unscaled-after-clipping", "word_language_model", "`unscale_` comes after the clipping")
def _(scene: Scene) -> Planted:
    clip = scene.statement("torch.nn.utils.clip_grad_norm_")
    return also(
        without(scene, scene.finding(_CODE), ".unscale_("), InsertAfter(clip, Code("scaler.unscale_(optimizer)"))
    )


@fault("autocast/one-backward-unscaled", "two_losses", "the second of two backwards is left unscaled")
def _(scene: Scene) -> Planted:
    return without(scene, scene.finding(_CODE), "scale(size_loss)")


@fault(
    "autocast/one-backward-unscaled-of-small-steps",
    "fine_tune",
    "one of two backwards is left unscaled, where the learning rate is small",
)
def _(scene: Scene) -> Planted:
    return without(scene, scene.finding(_CODE), "scale(size_loss)")


@fault("autocast/scaled-twice", "two_losses", "one loss is scaled twice")
def _(scene: Scene) -> Planted:
    planted = without(scene, scene.finding(_CODE), "scale(size_loss)")
    return also(
        planted,
        Replace(
            scene.expression("size_loss", 1),
            Code("scaler.scale(scaler.scale({0}))", (scene.expression("size_loss", 1),)),
        ),
    )


@fault("autocast/step-in-region", "mnist", "the optimizer steps inside the autocast region")
def _(scene: Scene) -> Planted:
    return _until(scene.finding(_CODE), scene.statement("outputs = model(inputs)"), scene.statement("optimizer.step()"))


@fault("autocast/backward-in-region", "mnist_functions", "the backward runs inside the autocast region")
def _(scene: Scene) -> Planted:
    return _until(scene.finding(_CODE), scene.statement("output = model(data)"), scene.statement("loss.backward()"))


@fault("autocast/no-update", "mnist", "the scaler is never updated")
def _(scene: Scene) -> Planted:
    return without(scene, scene.finding(_CODE), ".update()")


@fault(
    "autocast/update-within-accumulation", "accumulation", "the scaler is updated after every backward, not every step"
)
def _(scene: Scene) -> Planted:
    planted = without(scene, scene.finding(_CODE), ".update()")
    return also(planted, InsertAfter(scene.statement("loss.backward()"), Code("scaler.update()")))


@fault("autocast/unscaled-within-accumulation", "accumulation", "gradients are unscaled after every backward")
def _(scene: Scene) -> Planted:
    planted = without(scene, scene.finding(_CODE), ".unscale_(")
    return also(planted, InsertAfter(scene.statement("loss.backward()"), Code("scaler.unscale_(optimizer)")))


@fault("autocast/wrong-optimizer", "seq2seq", "the scaler steps one of two optimizers twice")
def _(scene: Scene) -> Planted:
    planted = without(scene, scene.finding(_CODE), "step(decoder_optimizer)")
    step = Code("scaler.step(encoder_optimizer)")
    return also(planted, Replace(scene.expression("decoder_optimizer.step()"), step))


@fault("autocast/one-optimizer-unscaled", "seq2seq", "of two optimizers one is not unscaled before its clipping")
def _(scene: Scene) -> Planted:
    return without(scene, scene.finding(_CODE), "unscale_(decoder_optimizer)")


@fault("autocast/step-left-alone", "crlf", "the optimizer steps by itself, with scaled gradients")
def _(scene: Scene) -> Planted:
    return without(scene, scene.finding(_CODE), "scaler.step(")


@fault(
    "autocast/step-left-alone-after-unscaling",
    "trainer",
    "the optimizer steps by itself: also where gradients overflowed",
)
def _(scene: Scene) -> Planted:
    return without(scene, scene.finding(_CODE), "scaler.step(")


@fault("autocast/one-of-two-steps-left-alone", "seq2seq", "of two optimizers one steps by itself")
def _(scene: Scene) -> Planted:
    return without(scene, scene.finding(_CODE), "scaler.step(decoder_optimizer)")


@fault("autocast/step-twice", "tabs", "the optimizer steps by itself and by the scaler")
def _(scene: Scene) -> Planted:
    return also(scene.finding(_CODE), InsertAfter(scene.statement("optimizer.step()"), Code("optimizer.step()")))


@fault("autocast/scaled-loss-logged", "mnist", "the name of the loss is the scaled one from then on, and is printed")
def _(scene: Scene) -> Planted:
    planted = without(scene, scene.finding(_CODE), "scaler.scale(")
    return also(planted, InsertBefore(scene.statement("loss.backward()"), Code("loss = scaler.scale(loss)")))


@fault("autocast/unsafe-loss-in-region", "dcgan", "binary cross-entropy of probabilities runs inside the region")
def _(scene: Scene) -> Planted:
    first, last = scene.statement("output = netD(real)"), scene.statement("errD_real = criterion(")
    return _until(scene.finding(_CODE), first, last)


@fault("autocast/half-handed-to-numpy", "positions", "outputs in bfloat16 go to NumPy, which has no such type")
def _(scene: Scene) -> Planted:
    return without(scene, scene.finding(_CODE), ".float()")


@fault("autocast/half-handed-to-loss", "vae", "probabilities in low precision go to binary cross-entropy")
def _(scene: Scene) -> Planted:
    return without(scene, scene.finding(_CODE), ".float()")


@fault(
    "autocast/range-of-float16",
    "positions",
    "a mask of -1e9, which float16 cannot hold, in a region that may be float16",
)
def _(scene: Scene) -> Planted:
    return reworded(scene.finding(_CODE), ", fp16=False", "")


# -- AA302: mixed precision spelled anew, as something else


def _spelled(scene: Scene, old: str, new: str, nth: int = 0) -> Planted:
    return instead(scene.finding("AA302", old, nth), Replace(scene.expression(old), Code(new)))


@fault("deprecated-amp/switched-on", "old_spelling", "a region that switches autocast off switches it on")
def _(scene: Scene) -> Planted:
    return _spelled(scene, "torch.cpu.amp.autocast(False)", 'torch.amp.autocast("cpu")', 1)


@fault("deprecated-amp/positions-kept", "old_spelling", "arguments keep their positions, which mean something else now")
def _(scene: Scene) -> Planted:
    old = "torch.cpu.amp.autocast(True, torch.bfloat16)"
    return _spelled(scene, old, 'torch.amp.autocast("cpu", True, torch.bfloat16)')


@fault("deprecated-amp/other-type", "old_spelling", "the type of the region is lost")
def _(scene: Scene) -> Planted:
    old = "torch.cpu.amp.autocast(True, torch.bfloat16)"
    return _spelled(scene, old, 'torch.amp.autocast("cpu", dtype=torch.float16)')


@fault("deprecated-amp/other-device", "old_spelling", "a region for CUDA becomes one for the CPU")
def _(scene: Scene) -> Planted:
    return _spelled(scene, "torch.cuda.amp.autocast()", 'torch.amp.autocast("cpu")')
