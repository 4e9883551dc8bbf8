"""Stop when validation stalls.

Epochs after the best one cost as much as those before it, and make the model worse. The loop ends when so many epochs
in a row have brought no better figure, and the model has the weights of the best one again. That is another training,
so this rule has to be selected. `--set patience=10` says how many epochs (5 unless it is set), `--set direction=max`
that larger figures are better; else the name of the figure says it: losses are to be small, accuracies large.

A schedule that is made for a fixed number of epochs or steps (`OneCycleLR`, `CosineAnnealingLR`) is cut off where the
loop ends: what it does in its last epochs does not happen. A script that is to report a test keeps that for the end:
an epoch that is chosen by the test set makes it look better than it is.

Left alone:
- loops without a validation figure: a number that every epoch binds to a name of its own, and that is computed from
  data which are called validation; figures of the test set, or of the data that are trained on;
- figures of which no name says whether they should be small or large;
- loops that stop early or keep their best epoch themselves, that have an `else`, `continue`, `return` or `yield`;
- names of the loop that are read after it, where they would be those of another epoch than the weights;
- models that have no name where the loop stands, and training in several processes of the script's own.

Before:
    for epoch in range(epochs):
        train(model, train_loader, optimizer)
        val_loss = evaluate(model, val_loader)
        print(epoch, val_loss)

After:
    stopper = accel.early_stopping(model, patience=5)
    for epoch in range(epochs):
        train(model, train_loader, optimizer)
        val_loss = evaluate(model, val_loader)
        print(epoch, val_loss)
        if stopper(val_loss):
            break
    stopper.restore()
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.edits import Code, Edit, Finding, InsertAfter, InsertBefore, Skipped, Tier, literal
from autoaccel.rewriting.rule import Rule, Setting
from autoaccel_codemods.captured_step.problems import DeclinedError
from autoaccel_codemods.early_stopping import epochs, kept_models, validation_figures
from autoaccel_codemods.early_stopping.validation_figures import Figure

RULE = Rule(
    code="AA605",
    name="early-stopping",
    tier=Tier.OPT_IN,
    needles=(b"backward",),
    pattern=r"\bfor\b[^\n]*\b\w*range\b",
    references=("https://doi.org/10.1007/3-540-49430-8_3",),
    settings=(
        Setting("patience", default=5),
        Setting("direction", choices=("min", "max")),
    ),
)


@RULE.check
def check(script: Script, *, patience: int, direction: str | None) -> Iterator[Finding | Skipped]:
    """A loop over epochs is stopped early, or left alone for the first problem that one of these has with it.

    In this order:
        validation_figures  by what an epoch is judged
        epochs              which loops go over epochs, and whether they may end sooner
        kept_models         the models whose weights are kept, by the names that they have there
    """
    for loop in epochs.loops(script):
        try:
            epochs.refuse_processes(script)
            figure = validation_figures.figure(script, loop, direction)
            epochs.refuse(script, loop)
            edits = tuple(_edits(script, loop, figure, patience))
        except (DeclinedError, Incomplete) as problem:
            yield RULE.skip(loop, str(problem))
            continue
        message = f"it goes on when `{figure.name}` gets no better, and ends with the weights of the last epoch"
        yield RULE.finding(loop, message, *script.import_runtime, *edits)


def _edits(script: Script, loop: ast.For, figure: Figure, patience: int) -> Iterator[Edit]:
    models = kept_models.names(script, loop, figure)
    arguments = ", ".join((*models, f"patience={patience}", *(['direction="max"'] if figure.larger else [])))
    stopper = script.free_name("stopper", "early_stopping")
    made = literal(f"{stopper} = {script.accel}.early_stopping({arguments})".replace('"', script.quote))
    yield InsertBefore(loop, Code(made))
    yield InsertAfter(loop.body[-1], Code(f"if {stopper}({figure.name}):\n    break"))
    yield InsertAfter(loop, Code(f"{stopper}.restore()"))
