"""Names of another version's modules: what holds the same tensors in the same order is called alike.

A model whose layers are held otherwise (`nn.Sequential(encoder, head)`, `self.fc` that became `self.classifier`) trains
the same. What a checkpoint calls them is compared where it is written.
"""

from __future__ import annotations

from dataclasses import replace

from autoaccel.measure.observing.run_record import Entry, RunRecord

_OWN = ("parameter", "buffer")
_TRAINING = ".training"


def renamed(before: RunRecord, after: RunRecord) -> RunRecord:
    """The second record in the names of the first, if modules of both own the same tensors."""
    one, other = ([each for each in record.state if each.kind in _OWN] for record in (before, after))
    shapes = ([(each.kind, each.dtype, each.shape) for each in own] for own in (one, other))
    names = {new.name: old.name for old, new in zip(one, other, strict=False)}
    if names.keys() == {*names.values()} or next(shapes) != next(shapes):
        return after
    state = tuple(replace(each, name=_name(each, names)) for each in after.state)
    return replace(after, state=state, settings=_settings(before, after, names))


def _name(entry: Entry, names: dict[str, str]) -> str:
    if entry.kind in _OWN:
        return names[entry.name]
    owner, _, rest = entry.name.partition(": ")  # `optimizer: model.weight exp_avg`
    tensor, _, key = rest.rpartition(" ")
    return f"{owner}: {names[tensor]} {key}" if tensor in names else entry.name


def _settings(before: RunRecord, after: RunRecord, names: dict[str, str]) -> dict[str, str]:
    """With the modes of modules that own tensors; that of a dropout shows in what it drops."""
    found = {key: value for key, value in before.settings.items() if key.endswith(_TRAINING)}
    for new, old in names.items():
        module = old.rpartition(".")[0]
        if (mode := _mode(after, new.rpartition(".")[0])) != _mode(before, module):
            found[f"{module}{_TRAINING}"] = mode
    for key, value in after.settings.items():
        owner, _, attribute = key.rpartition(".")
        if not key.endswith(_TRAINING):
            found[f"{names.get(owner, owner)}.{attribute}" if owner else key] = value
    return found


def _mode(record: RunRecord, module: str) -> str:
    """Whether a module trains: it is noted where it is another mode than that of the whole."""
    whole = record.settings.get(f"{module.partition('.')[0]}{_TRAINING}", "")
    return record.settings.get(f"{module}{_TRAINING}", whole)
