"""`accel.matmul_precision` and `accel.cudnn_benchmark`: settings of torch's backends for CUDA, on trial.

Each says beforehand, without starting CUDA, where it is out of the question: where there is no such device, and where
the script or its user has chosen already.
"""

from __future__ import annotations

import torch

from .. import devices
from ..environment import Decision, disabled, note
from .backend_setting import BackendSetting, try_setting


def matmul_precision() -> None:
    """Try matrix products of float32 in TensorFloat-32 on a CUDA device of compute capability 8.0 or above.

    Operands are rounded to 10 bits of mantissa, sums stay float32. Convolutions do so by default.
    (https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html)
    """
    if _is_possible("matmul_precision"):
        try_setting(BackendSetting("matmul precision", "MATMUL_PRECISION", _round_products, _precision_problem))


def cudnn_benchmark() -> None:
    """Try cuDNN's benchmark: for each new shape it times all kernels, and takes the fastest one.

    Which that is may differ from run to run, and with it rounding.
    (https://docs.pytorch.org/docs/stable/backends.html#torch.backends.cudnn.torch.backends.cudnn.benchmark)
    """
    if _is_possible("cudnn_benchmark"):
        try_setting(BackendSetting("cudnn benchmark", "CUDNN_BENCHMARK", _benchmark, _cudnn_problem, choosing=True))


def _is_possible(feature: str) -> bool:
    topic = feature.replace("_", " ")
    if disabled(feature):
        note(topic, Decision(False, "AUTOACCEL_DISABLE"))
        return False
    if not devices.available(torch.device("cuda")):
        note(topic, Decision(False, "there is no CUDA device"))
        return False
    return True


def _round_products(on: bool) -> None:
    torch.set_float32_matmul_precision("high" if on else "highest")


def _precision_problem(place: torch.device) -> str:
    if devices.capability(place) < (8, 0):
        return "compute capability below 8.0"
    try:
        chosen = torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:  # chosen by `fp32_precision`, with which it cannot be mixed
        chosen = True
    return "it is chosen already" if chosen else ""


def _benchmark(on: bool) -> None:
    torch.backends.cudnn.benchmark = on


def _cudnn_problem(_place: torch.device) -> str:
    cudnn = torch.backends.cudnn
    return "it is chosen already" if cudnn.benchmark or cudnn.deterministic or not cudnn.enabled else ""
