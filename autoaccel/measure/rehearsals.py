"""The variables of a run in which the runtime does what it is told to, whatever the machine.

What is rehearsed is made to happen in a form that trains bit for bit as the script itself does: gradients are scaled
by powers of two, graphs are captured and their kernels run one by one, workers load batches, batches are copied before
the loop asks for them. What is not rehearsed and not exact is off.
"""

from __future__ import annotations

from collections.abc import Collection

from autoaccel.measure.observing.request import COMPILE, PREFETCH, SCALER, WORKERS


def environment(rehearse: Collection[str]) -> dict[str, str]:
    """What to set in the environment of a run with `Request.rehearse`; an empty value takes a user's own away."""
    return {
        "AUTOACCEL_DISABLE": "" if PREFETCH in rehearse else "prefetch",
        "AUTOACCEL_AMP_DTYPE": "float32",
        "AUTOACCEL_GRAD_SCALER": "on" if SCALER in rehearse else "",
        "AUTOACCEL_COMPILE_MODE": "eager" if COMPILE in rehearse else "off",
        "AUTOACCEL_NUM_WORKERS": "2" if WORKERS in rehearse else "0",
        "AUTOACCEL_PREFETCH_DEPTH": "",
    }
