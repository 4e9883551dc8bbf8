"""A rule: its metadata as data, its docstring as documentation, and the function that finds opportunities."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from autoaccel import HOME
from autoaccel.edits import Edit, Finding, Skipped, Tier

if TYPE_CHECKING:
    from autoaccel.analysis import Script
    from autoaccel.rewriting.suppression import Account

_PAGES = f"{HOME}/blob/main/docs/rules"
_BUILT_IN = "autoaccel_codemods."

BINDING = ("loader", "transfer", "launch", "compute", "optimizer", "sync", "evaluation", "other")
"""What can bind a script: where `bench` says that the time of its steps goes."""

# Of a script and, by their names, of the values of the rule's settings.
Check = Callable[..., Iterable[Finding | Skipped]]
CommentCheck = Callable[["Account"], Iterator[Finding | Skipped]]


@dataclass(frozen=True, slots=True)
class Setting:
    """What users may set of a rule: a whole number that is not below `least`, or one of `choices`."""

    name: str
    default: int | None = None
    least: int = 1
    choices: tuple[str, ...] = ()

    def checked(self, given: object) -> int | str:
        """The value that is meant. Raises `ValueError`: what it must be."""
        if self.choices:
            if isinstance(given, str) and given in self.choices:
                return given
            raise ValueError(f"{self.name} must be {' or '.join(self.choices)}, not {given!r}")
        number = int(given) if isinstance(given, str) and given.isascii() and given.isdecimal() else given
        if type(number) is int and number >= self.least:
            return number
        raise ValueError(f"{self.name} must be a whole number of at least {self.least}, not {given!r}")


class UnderDeterminism(Enum):
    """What becomes of a change that is not exact in runs that set `torch.backends.cudnn.deterministic`."""

    TIMED = auto()
    """It is decided by measured time, or differs from run to run: scripts that may set it do not get it."""
    OFF = auto()
    """The runtime leaves it alone: scripts that set it on demand alone, `if args.seed is not None:`, get it."""
    REPEATED = auto()
    """It is the same in each run, and nothing of it is decided by measured time: all scripts get it."""


@dataclass(slots=True, eq=False)
class Rule:
    """Code, name and tier of a rewrite. `needles`: byte strings; a file with an opportunity holds at least one of them.

    The module docstring of the rule explains it, in this order: one line; why it is faster; when it must not fire;
    `Before:` / `After:`.
    """

    code: str
    name: str
    tier: Tier
    needles: tuple[bytes, ...]
    references: tuple[str, ...] = ()
    min_torch: str = "2.6"
    module: str = field(default="", kw_only=True)
    pattern: str | tuple[str, ...] = field(default="", kw_only=True)
    """A regular expression that a file with an opportunity matches, too: for needles that are common elsewhere. Or
    several, of which it matches one: what begins with plain letters is found fast, and alternatives are not."""
    addresses: tuple[str, ...] = field(default=(), kw_only=True)
    """Of what can bind a script, what the rule makes shorter; what it is made for first."""
    on_request: bool = field(default=False, kw_only=True)
    """Applied only where it is selected by code or name, as all rules of tier opt-in are."""
    under_determinism: UnderDeterminism = field(default=UnderDeterminism.TIMED, kw_only=True)
    command: str = field(default="", kw_only=True)
    """The command that selects it, where it has one of its own: `distribute`."""
    order: int = field(default=95, kw_only=True)
    """Rules are applied in this order, then by code: an earlier one wins where two want the same code."""
    settings: tuple[Setting, ...] = field(default=(), kw_only=True)
    """What `--set NAME=VALUE` sets; the check gets the values by their names."""
    given: Mapping[str, int | str] = field(default_factory=dict, kw_only=True)
    """Settings that are not the default's."""
    function: Check | None = field(default=None, kw_only=True)
    comment_function: CommentCheck | None = field(default=None, kw_only=True)
    _words: tuple[str, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        unknown = set(self.addresses).difference(BINDING)
        if unknown:
            raise ValueError(f"{self.code} addresses {', '.join(sorted(unknown))}: none of {', '.join(BINDING)}")

    def check(self, function: Check) -> Check:
        """Decorate the generator that yields findings and skipped opportunities of one script."""
        self.function = function
        self.module = function.__module__
        return function

    def check_comments(self, function: CommentCheck) -> CommentCheck:
        """Decorate the generator that judges suppressing comments by what the other rules have found."""
        self.comment_function = function
        self.module = function.__module__
        return function

    def concerns(self, text: str | bytes) -> bool:
        """Whether the rule may have something to say about a file: without that, it is not parsed."""
        patterns = (self.pattern,) if isinstance(self.pattern, str) else self.pattern
        if isinstance(text, bytes):
            needed = not self.needles or any(needle in text for needle in self.needles)
            return needed and any(re.search(pattern.encode(), text) for pattern in patterns)
        if not self._words:
            self._words = tuple(needle.decode() for needle in self.needles)
        needed = not self.needles or any(word in text for word in self._words)
        return needed and any(re.search(pattern, text) for pattern in patterns)

    def run(self, script: Script) -> Iterable[Finding | Skipped]:
        assert self.function or self.comment_function, f"{self.code} has no check"
        return self.function(script, **self.values) if self.function else iter(())

    def run_on_comments(self, account: Account) -> Iterator[Finding | Skipped]:
        return self.comment_function(account) if self.comment_function else iter(())

    @property
    def values(self) -> dict[str, int | str | None]:
        """What its settings are, by their names."""
        return {each.name: self.given.get(each.name, each.default) for each in self.settings}

    def having(self, name: str, value: object) -> Rule:
        """The same rule with a setting, if it is one of its own. Raises `ValueError` on a value of no use."""
        own = {each.name: each.checked(value) for each in self.settings if each.name == name}
        return replace(self, given={**self.given, **own}) if own else self

    @property
    def by_default(self) -> bool:
        """Whether it looks at code without being asked to."""
        return self.function is not None and not self.opt_in

    @property
    def opt_in(self) -> bool:
        """Whether it has to be selected by code or name."""
        return self.on_request or self.tier is Tier.OPT_IN

    @property
    def precedence(self) -> tuple[int, str]:
        """By what rules are sorted before they are applied."""
        return self.order, self.code

    def finding(
        self, node: ast.AST, message: str, *edits: Edit, tier: Tier | None = None, needs: tuple[Finding, ...] = ()
    ) -> Finding:
        return Finding(self, node, message, self.tier if tier is None else tier, edits, needs)

    def skip(self, node: ast.AST, reason: str) -> Skipped:
        return Skipped(self, node, reason)

    @property
    def explanation(self) -> str:
        """The rule's documentation: the docstring of its module."""
        return inspect.cleandoc(sys.modules[self.module].__doc__ or "")

    @property
    def url(self) -> str | None:
        """Where the rule is explained: its page of the documentation; what others' rules refer to first."""
        if self.module.startswith(_BUILT_IN):
            return f"{_PAGES}/{self.name}.md"
        return next(iter(self.references), None)

    @property
    def summary(self) -> str:
        return self.explanation.split("\n", 1)[0]
