"""What a check finds, and a row of the report."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class NotReadableError(Exception):
    """What a check needs cannot be read; the message says what, and why."""


class NotApplicableError(Exception):
    """There is nothing to check here; the message says why."""


class Status(enum.Enum):
    """How one row stands."""

    HEALTHY = "healthy"
    FOUND = "found"
    UNKNOWN = "unknown"
    """Its value cannot be read: nobody knows whether it is healthy."""
    ABSENT = "absent"
    """There is nothing to check here."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, and how it should be. Where it is not so, `cost` says what that costs, and `fix` what helps."""

    value: str
    threshold: str
    cost: str = ""
    fix: str = ""
    subject: str = ""
    """Of several things that are checked alike, this one: `GPU 0`."""


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A line of the report."""

    name: str
    """Of the check, for programs."""
    what: str
    """For people."""
    status: Status
    value: str
    """Why nothing is known, where that is so."""
    threshold: str = ""
    cost: str = ""
    fix: str = ""
    subject: str = ""
