"""What `nvidia-smi` says of the GPUs."""

from __future__ import annotations

import itertools
import subprocess
import threading
from dataclasses import dataclass

from autoaccel.measure.checkup.readings import NotReadableError

SAMPLES = 50
_PACE = 100  # ms between two samples
_PATIENCE = 60.0  # s
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""The field's name since driver 535, and before."""
_FIELDS = (
    "index", "pci.bus_id", "driver_version", "power.limit", "power.default_limit",
    "pcie.link.width.current", "pcie.link.width.max", "memory.used", "memory.total",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Gpu:
    """What is said of one, as it is said: `[N/A]` where there is nothing."""

    fields: dict[str, str]

    @property
    def subject(self) -> str:
        return f"GPU {self.fields['index']}"

    def number(self, name: str) -> float:
        """Raises `NotReadableError`."""
        said = self.fields[name]
        try:
            return float(int(said, 16)) if said.startswith("0x") else float(said)
        except ValueError:
            raise NotReadableError(f"nvidia-smi: {name} is {said!r}") from None


@dataclass(frozen=True, slots=True)
class Nvidia:
    """Asks the program."""

    program: str | None = None
    """Its path; None where there is none."""

    def gpus(self) -> list[Gpu]:
        """None of them where there is no program. Raises `NotReadableError`."""
        if self.program is None:
            return []
        for reasons in _REASONS:
            fields = (*_FIELDS, reasons)
            command = [self.program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise NotReadableError(f"nvidia-smi: {getattr(error, 'strerror', None) or 'no answer'}") from error
            if done.returncode == 0:
                names = (*_FIELDS, "reasons")
                return [Gpu(dict(zip(names, cells, strict=True))) for cells in _cells(done.stdout, len(names))]
        said = (done.stdout + done.stderr).strip().splitlines()
        raise NotReadableError(f"nvidia-smi: {said[0] if said else f'exit status {done.returncode}'}")

    def utilisation(self, gpus: int) -> list[list[float]]:
        """Of each GPU, percent, over `SAMPLES` samples. Raises `NotReadableError`."""
        assert self.program is not None
        command = [self.program, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", f"--loop-ms={_PACE}"]
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError as error:
            raise NotReadableError(f"nvidia-smi: {error.strerror}") from error
        late = threading.Timer(_PATIENCE, process.kill)
        late.start()
        with process:
            assert process.stdout is not None
            lines = list(itertools.islice(process.stdout, SAMPLES * gpus))
            late.cancel()
            process.kill()  # it would go on for ever
        try:
            return [[float(line) for line in lines[number::gpus]] for number in range(gpus)]
        except ValueError:
            raise NotReadableError(f"nvidia-smi: utilization.gpu is {lines[0].strip()!r}") from None


def _cells(text: str, count: int) -> list[list[str]]:
    """Raises `NotReadableError`."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    for each in rows:
        if len(each) != count:
            raise NotReadableError(f"nvidia-smi: cannot be understood: {', '.join(each)[:60]!r}")
    return rows
