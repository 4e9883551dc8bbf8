"""Whether the runtime would ever compile a model: a line that does nothing is noise."""

from __future__ import annotations

from autoaccel.analysis.script import Script
from autoaccel.library_models.runtime_trials import STEPS_TO_COMPILE
from autoaccel.pytorch import backend_settings
from autoaccel.pytorch.model_size import SMALL, parameters_of
from autoaccel_codemods.compile.step_count import times_run, training_step
from autoaccel_codemods.compile.trained_models import TrainedModel


def in_vain(script: Script, model: TrainedModel) -> str | None:
    """Why a model would stay as it is, as the literal numbers of its file show; None where it may be compiled."""
    step = training_step(script, model)
    counts = [] if step is None else [times_run(script, each.call) for each in step.optimizer_steps]
    known = [each for each in counts if each is not None]
    if known and len(known) == len(counts) and max(known) < STEPS_TO_COMPILE:
        return f"it makes {max(known)} steps: too few to time them, to compile, and to compare"
    count = parameters_of(model.values)
    if count is not None and count <= SMALL and backend_settings.stays_on_the_cpu(script):
        return f"it has {count:,} parameters: on the CPU, such steps are too short to gain by it"
    return None
