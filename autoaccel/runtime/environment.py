"""What the user asked for through the environment, and the log of what was decided.

Every variable is read when it is needed, never at import, so that a program (or a test) can set it at any time.
Nothing here imports torch.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import warnings
from dataclasses import dataclass
from typing import Any, Final

FEATURES: Final = frozenset(
    """amp compile prefetch resident normalize workers pin heap fused total graphs channels_last matmul_precision
    cudnn_benchmark early_stopping binary_cross_entropy max_pool2d""".split()
)

_logger: Final = logging.getLogger("autoaccel.runtime")


@dataclass(frozen=True, slots=True)
class Decision:
    """What the runtime does, and why: one phrase that a user understands."""

    value: Any
    reason: str


def setting(name: str) -> str:
    """The value of `AUTOACCEL_<name>`, stripped; empty when unset.

    Regions ask at every step, and asking `os.environ` in vain costs two exceptions: what is below it is asked first.
    """
    values = getattr(os.environ, "_data", None)
    if isinstance(values, dict) and os.environ.encodekey(f"AUTOACCEL_{name}") not in values:
        return ""
    return os.environ.get(f"AUTOACCEL_{name}", "").strip()


def disabled(feature: str) -> bool:
    """Whether `AUTOACCEL_DISABLE` switches a feature off."""
    return feature in _switched_off(setting("DISABLE"))


@functools.lru_cache(maxsize=64)
def _switched_off(text: str) -> frozenset[str]:
    """The features named by a value of `AUTOACCEL_DISABLE`."""
    names = frozenset(name.strip().lower() for name in text.split(",")) - {""}
    unknown = names - FEATURES - {"all"}
    if unknown:
        known = ", ".join(["all", *sorted(FEATURES)])
        warn_once(f"AUTOACCEL_DISABLE: unknown {', '.join(sorted(unknown))}; known are {known}")
    return FEATURES if "all" in names else names & FEATURES


def whole_number(name: str) -> int | None:
    """`AUTOACCEL_<name>` as a number >= 0; None when unset, or (with one warning) when it is something else."""
    text = setting(name)
    if text.isdecimal():
        return int(text)
    if text:
        warn_once(f"AUTOACCEL_{name}={text!r} is not a whole number: ignored")
    return None


@functools.lru_cache(maxsize=1024)
def warn_once(message: str) -> None:
    """One warning for each message, whatever the program's warning filters would repeat.

    Where warnings are errors it is a line on stderr: the program would go on without this runtime, so it does with it.
    """
    try:
        warnings.warn(f"autoaccel: {message}", RuntimeWarning, stacklevel=3)
    except RuntimeWarning:
        with contextlib.suppress(AttributeError, OSError, ValueError):  # None without a console, full, or closed
            sys.stderr.write(f"autoaccel: {message}\n")


def note(topic: str, decision: Decision) -> None:
    """Log a decision once when `AUTOACCEL_LOG` asks for it; a look at the environment otherwise."""
    if level := setting("LOG"):
        _log(level.upper(), f"{topic}: {_spelled(decision.value)} ({decision.reason})")


def _spelled(value: Any) -> str:
    match value:
        case True:
            return "on"
        case False | None:
            return "off"
        case _:
            return str(value).removeprefix("torch.")


@functools.lru_cache(maxsize=1024)
def _log(level: str, message: str) -> None:
    if not any(isinstance(handler, _StderrHandler) for handler in _logger.handlers):
        handler = _StderrHandler()
        handler.setFormatter(logging.Formatter("autoaccel: %(message)s"))
        _logger.addHandler(handler)
        _logger.propagate = False  # a program that configures logging must not see every line twice
    numeric = logging.getLevelName(level)  # of a name it is the number; a table of them comes with Python 3.11
    if not isinstance(numeric, int):
        warn_once(f"AUTOACCEL_LOG={level.lower()!r} is not a level of logging: taken as info")
        numeric = logging.INFO
    _logger.setLevel(numeric)
    _logger.info(message)


class _StderrHandler(logging.Handler):
    """Writes to whatever `sys.stderr` is at that moment, so that redirection by the program keeps working."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(AttributeError, OSError, ValueError):  # None without a console, full, or closed
            sys.stderr.write(self.format(record) + "\n")
