"""AA101, AA102, AA103 and AA104 gone wrong: tensors that are made, taken over, moved or joined with other values."""

from __future__ import annotations

from autoaccel.edits import Code, Replace, Tier
from benchmarks.planted_faults.catalogue import fault
from benchmarks.planted_faults.planting import Planted, Scene, instead, made_up, reworded


def _created(scene: Scene, old: str, new: str) -> Planted:
    return instead(scene.finding("AA101", old), Replace(scene.expression(old), Code(new)))


@fault("create/ones-for-zeros", "elman", "the state starts with ones")
def _(scene: Scene) -> Planted:
    old = "torch.zeros(x.size(0), HIDDEN).to(device)"
    return _created(scene, old, "torch.ones(x.size(0), HIDDEN, device=device)")


@fault("create/cast-first", "elman", "1/3 is written down in float64 instead of being cast to it")
def _(scene: Scene) -> Planted:
    old = "torch.full((CLASSES,), 1 / 3).to(device)"
    return _created(scene, old, "torch.full((CLASSES,), 1 / 3, dtype=torch.float64, device=device)")


@fault("create/other-distribution", "elman", "`rand` is drawn for `randn`")
def _(scene: Scene) -> Planted:
    old = "torch.randn(x.size(0), HIDDEN // 4, 5).to(device)"
    return _created(scene, old, "torch.rand(x.size(0), HIDDEN // 4, 5, device=device)")


@fault("create/one-draw-for-all", "elman", "all samples of a batch get the same noise")
def _(scene: Scene) -> Planted:
    old = "torch.randn(x.size(0), HIDDEN // 4, 5).to(device)"
    return _created(scene, old, "torch.randn(1, HIDDEN // 4, 5, device=device).expand(x.size(0), -1, -1)")


@fault("create/not-trained", "elman", "`requires_grad` is lost, and what the optimizer has is never trained")
def _(scene: Scene) -> Planted:
    moved = scene.expression("torch.zeros(CLASSES, requires_grad=True).to(device)")
    new = Code("torch.zeros(CLASSES, device=device)")
    return made_up(scene.rule("AA101"), moved, "a tensor is filled on the host", Replace(moved, new))


@fault("create/other-value", "seq2seq", "another number is filled in, of another type")
def _(scene: Scene) -> Planted:
    old = "torch.full((source.size(0), 1), SOS, dtype=torch.long).to(device)"
    return _created(scene, old, "torch.full((source.size(0), 1), EOS, dtype=torch.int, device=device)")


@fault("as-tensor/reused-buffer", "frames", "an array that is filled again is taken over; older batches change with it")
def _(scene: Scene) -> Planted:
    call = scene.call("torch.tensor(buffer)")
    return made_up(scene.rule("AA102"), call, "an array is copied", Replace(call.func, Code("torch.as_tensor")))


@fault("as-tensor/dataset", "pixels", "a row of the dataset's array is taken over, and scaled in place at every visit")
def _(scene: Scene) -> Planted:
    call = scene.call("torch.tensor(self.images[i])")
    return made_up(
        scene.rule("AA102"), call, "an array is copied", Replace(call.func, Code("torch.as_tensor")), tier=Tier.EXACT
    )


@fault("non-blocking/type-lost", "pixels", "a cast that went with the move is lost")
def _(scene: Scene) -> Planted:
    old = "weights.to(device, torch.long)"
    return instead(
        scene.finding("AA103", old), Replace(scene.expression(old), Code("weights.to(device, non_blocking=True)"))
    )


@fault(
    "non-blocking/other-labels",
    "fine_tune",
    "in the evaluation samples get the labels of others, which shows in prints",
)
def _(scene: Scene) -> Planted:
    old = "labels.to(device)"
    return instead(
        scene.finding("AA103", old, 1),
        Replace(scene.expression(old), Code("labels.flip(0).to(device, non_blocking=True)")),
    )


@fault(
    "non-blocking/to-the-host",
    "crlf",
    "a copy from the device to the host is not waited for before it is read",
    unseen="there is no copy where the device is the host",
)
def _(scene: Scene) -> Planted:
    old = "outputs.argmax(1).cpu()"
    new = Code('outputs.argmax(1).to("cpu", non_blocking=True)')
    return made_up(
        scene.rule("AA103"), scene.expression(old), "a copy is waited for", Replace(scene.expression(old), new)
    )


@fault("stacked-arrays/axis", "frames", "arrays are joined along the other axis")
def _(scene: Scene) -> Planted:
    return reworded(scene.finding("AA104"), "np.array({0})", "np.stack({0}, axis=1)")


@fault("stacked-arrays/rounded", "frames", "arrays pass through float16")
def _(scene: Scene) -> Planted:
    return reworded(scene.finding("AA104"), "np.array({0})", "np.array({0}, np.float16).astype(np.float32)")
