"""A rule: its metadata as data, its docstring as documentation, and the function that finds opportunities."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
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

Check = Callable[["Script"], Iterable[Finding | Skipped]]
CommentCheck = Callable[["Account"], Iterator[Finding | Skipped]]


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
    pattern: str = field(default="", kw_only=True)
    """A regular expression that a file with an opportunity matches, too: for needles that are common elsewhere."""
    addresses: tuple[str, ...] = field(default=(), kw_only=True)
    """Of what can bind a script, what the rule makes shorter; what it is made for first."""
    on_request: bool = field(default=False, kw_only=True)
    """Applied only where it is selected by code or name, as all rules of tier opt-in are."""
    repeatable: bool = field(default=False, kw_only=True)
    """Whether what it changes is the same in each run where `torch.backends.cudnn.deterministic` is set: there, nothing
    of it is decided by measured time. So scripts that set this get it, though it is not exact."""
    command: str = field(default="", kw_only=True)
    """The command that selects it, where it has one of its own: `distribute`."""
    order: int = field(default=95, kw_only=True)
    """Rules are applied in this order, then by code: an earlier one wins where two want the same code."""
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
        if isinstance(text, bytes):
            needed = not self.needles or any(needle in text for needle in self.needles)
            return needed and re.search(self.pattern.encode(), text) is not None
        if not self._words:
            self._words = tuple(needle.decode() for needle in self.needles)
        needed = not self.needles or any(word in text for word in self._words)
        return needed and re.search(self.pattern, text) is not None

    def run(self, script: Script) -> Iterable[Finding | Skipped]:
        assert self.function or self.comment_function, f"{self.code} has no check"
        return self.function(script) if self.function else iter(())

    def run_on_comments(self, account: Account) -> Iterator[Finding | Skipped]:
        return self.comment_function(account) if self.comment_function else iter(())

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
