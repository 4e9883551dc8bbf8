"""From numbers to finds: generate, rewrite, run, compare; what differs is confirmed, blamed, and made small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoaccel.rewriting.rule import Rule
from benchmarks.wrong_rewrites import rewriting, running
from benchmarks.wrong_rewrites.features import Asked, by_number
from benchmarks.wrong_rewrites.grammar import generate
from benchmarks.wrong_rewrites.judging import ROUNDING, Find, judge, rounded
from benchmarks.wrong_rewrites.ordering import Others
from benchmarks.wrong_rewrites.rewriting import Forms
from benchmarks.wrong_rewrites.running import Condition, Record

# One in so many programs is run with processes, or captured: these take seconds; or rewritten once more.
_AHEAD, _CAPTURED, _OTHERS, _AGAIN, _EXACT = 5, 80, 3, 4, 3
SAME_KIND = 12
"""So many finds of one kind are made small; others are only counted."""


@dataclass(frozen=True, slots=True)
class Case:
    """One program with everything that is known of it before it is run."""

    seed: int
    texts: Mapping[str, str]
    vector: Mapping[str, str]
    special: Mapping[str, str]
    forms: Forms


@dataclass(frozen=True, slots=True)
class Caught:
    """A find with the smallest program that shows it."""

    find: Find
    blamed: str
    case: Case


@dataclass(slots=True)
class Tally:
    """What a hunt has come to."""

    programs: int = 0
    unfit: int = 0
    """Programs that fail by themselves."""
    unchanged: int = 0
    runs: int = 0
    unsteady: int = 0
    """Differences that did not come again."""
    fired: Counter[str] = field(default_factory=Counter)
    """Programs by rule: with a finding."""
    declined: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    """Finds by kind and rule."""
    caught: list[Caught] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name in ("programs", "unfit", "unchanged", "runs", "unsteady"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.fired.update(other.fired)
        self.declined.update(other.declined)
        self.kinds.update(other.kinds)
        self.caught += other.caught


class Hunt:
    """Looks at programs. `rules` are those of the tool, unless a test puts others in their place."""

    def __init__(
        self,
        rules: Sequence[Rule] | None = None,
        others: Sequence[Others] = (),
        tell: Callable[[Caught], None] = lambda _: None,
        slow: bool = True,
        same_kind: int = SAME_KIND,
    ) -> None:
        self._rules = list(rules or rewriting.RULES)
        self._others = others
        self._tell = tell
        self._slow = slow
        self._same_kind = same_kind
        self.tally = Tally()
        self._caught: list[Caught] = []
        self._wrong: set[int] = set()
        """Programs of this batch with something wrong: what else is wrong with them may have the same cause."""

    def look(self, seeds: Sequence[int], fixed: Mapping[str, str] | None = None) -> None:
        """At the programs of these numbers."""
        self.look_at([(seed, by_number(seed)) for seed in seeds], fixed)

    def look_at(self, asked: Sequence[tuple[int, Asked]], fixed: Mapping[str, str] | None = None) -> None:
        """At programs whose features somebody else chooses."""
        self._wrong.clear()
        cases: list[Case] = []
        for seed, answers in asked:
            texts, features = generate(answers, fixed)
            self.tally.programs += 1
            sent = self._others[seed // _OTHERS % len(self._others)] if self._others and seed % _OTHERS == 0 else None
            if sent is not None:
                sent.send(texts)
            again = seed % _AGAIN == 0
            made = rewriting.forms(texts, self._rules, thorough=again, exact=seed % _EXACT == 0)
            case = Case(seed, texts, features.vector, features.special, made)
            self.tally.fired.update(set(made.fired))
            self.tally.declined.update(set(made.declined))
            for problem in made.problems:
                self._found(case, Find("text", problem))
            if sent is not None:
                said = sent.receive()
                if not made.problems and said != rewriting.digest(made.default):
                    self._found(case, Find("order", f"{sent}"))
            if made.default == texts:
                self.tally.unchanged += 1
            else:
                cases.append(case)
        self._run(cases)

    def _run(self, cases: Sequence[Case]) -> None:
        fit: list[tuple[Case, Record]] = []
        for case, record in zip(cases, self._records([case.texts for case in cases], running.PLAIN), strict=True):
            if record.error:
                self.tally.unfit += 1
            else:
                fit.append((case, record))
        for condition in running.CONDITIONS.values():
            due = [each for each in fit if each[0].seed not in self._wrong and self._concerns(condition, each[0])]
            others = self._records([form(case.forms, condition) for case, _ in due], condition)
            for (case, before), after in zip(due, others, strict=True):
                find = judge(condition, before, after, case.vector, rounds=case.forms.rounds)
                if find is not None:
                    self._found(case, find)

    def _records(self, programs: Sequence[Mapping[str, str]], condition: Condition) -> list[Record]:
        self.tally.runs += len(programs)
        return running.run(programs, condition) if programs else []

    def _concerns(self, condition: Condition, case: Case) -> bool:
        made = case.forms
        match condition.name:
            case "moved":
                return made.exact != case.texts
            case "disabled":
                return made.default != case.texts
            case "early":
                return "accel.prefetch" in str(made.default)
            case "scaled":
                return made.default != made.exact
            case "bfloat16":
                return made.low
            case "fused":
                return "accel.optimizer" in str(made.default)
            case "channels last":
                return "accel.channels_last" in str(made.default)
            case "ahead":
                asked = "accel.num_workers" in str(made.default) or case.vector.get("really two") == "yes"
                return self._slow and asked and case.seed % _AHEAD == 0
            case "captured" | "traced":
                turn = 0 if condition.name == "captured" else _CAPTURED // 2
                return self._slow and "accel.compile" in str(made.default) and case.seed % _CAPTURED == turn
            case _:
                return False

    def _found(self, case: Case, find: Find) -> None:
        """Confirm it, find the rule, make it small, unless a smaller program that does the same is a part of it."""
        if case.seed in self._wrong:
            return
        for caught in self._caught:
            if caught.find.kind == find.kind and caught.case.special.items() <= case.special.items():
                self._wrong.add(case.seed)
                self.tally.kinds[f"{caught.blamed} {find.kind}"] += 1
                return
        if find.check not in ("text", "order"):
            confirmed = check(case.texts, case.forms, case.vector, find.check)
            if confirmed is None:
                self.tally.unsteady += 1
                return
            find = confirmed
        self._wrong.add(case.seed)
        blamed = self._blamed(case, find)
        kind = f"{blamed} {find.kind}"
        self.tally.kinds[kind] += 1
        if self.tally.kinds[kind] > self._same_kind:
            return
        caught = Caught(find, blamed, self._smallest(case, find, blamed))
        self._caught.append(caught)
        self.tally.caught.append(caught)
        self._tell(caught)

    def _blamed(self, case: Case, find: Find) -> str:
        if find.check == "order":
            return "order"
        for rule in self._rules:
            if case.forms.fired[rule.code] or find.check == "text":
                alone = self._again(case.texts, case.vector, find, [rule])
                if alone is not None and alone.kind == find.kind:
                    return rule.code
        return "+".join(sorted(case.forms.fired))

    def _again(
        self, texts: Mapping[str, str], vector: Mapping[str, str], find: Find, rules: Sequence[Rule]
    ) -> Find | None:
        if find.check == "order":
            expected = rewriting.digest(rewriting.default_form(texts, rules))
            for other in self._others:
                other.send(texts)
            answers = [other.receive() for other in self._others]
            return find if any(each != expected for each in answers) else None
        made = rewriting.forms(texts, rules, thorough=find.check == "text")
        if find.check == "text":
            return Find("text", made.problems[0]) if made.problems else None
        if made.problems:
            return None
        return check(texts, made, vector, find.check)

    def _smallest(self, case: Case, find: Find, blamed: str) -> Case:
        """The program with as many dimensions as possible at their plainest, as long as it shows the same."""
        rules = [rule for rule in self._rules if rule.code == blamed] or self._rules
        left, fixed = dict(case.special), dict(case.vector)
        size = max(len(left) // 2, 1)
        smallest = case
        while left:
            done = True
            names = list(left)
            for start in range(0, len(names), size):
                chunk = [name for name in names[start : start + size] if name in left]
                tried = {name: option for name, option in fixed.items() if name not in chunk}
                texts, features = generate(plainest, tried)
                again = self._again(texts, features.vector, find, rules)
                if again is not None and again.kind == find.kind:
                    made = rewriting.forms(texts, rules, thorough=False)
                    smallest = Case(case.seed, texts, features.vector, features.special, made)
                    left, fixed, done = dict(features.special), dict(features.vector), False
            if size > 1:
                size //= 2
            elif done:
                break
        return smallest


def plainest(_: str, options: tuple[str, ...]) -> str:
    """The answer of one who wants nothing special."""
    return options[0]


def form(forms: Forms, condition: Condition) -> Mapping[str, str]:
    """Which form is run under a condition."""
    return forms.exact if condition == running.MOVED else forms.default


def check(texts: Mapping[str, str], forms: Forms, vector: Mapping[str, str], name: str) -> Find | None:
    """One condition, each run in a process of its own; programs that differ from themselves are no evidence."""
    condition = running.CONDITIONS[name]
    changed = form(forms, condition)
    if changed == texts:
        return None
    plain = running.run_alone(texts, running.PLAIN)
    if plain.error:
        return None
    find = judge(condition, plain, running.run_alone(changed, condition), vector, rounds=forms.rounds)
    if find is None or running.run_alone(texts, running.PLAIN) != plain:
        return None
    rounding = condition in ROUNDING or forms.rounds
    return None if rounding and is_rounding(texts, changed, condition) else find


def is_rounding(texts: Mapping[str, str], changed: Mapping[str, str], condition: Condition) -> bool:
    """Whether nothing is left of a difference in float64: few samples and a batch norm make much of a rounding."""
    plain = running.run_alone(texts, replace(running.PLAIN, double=True))
    other = running.run_alone(changed, replace(condition, double=True))
    return not plain.error and not rounded(plain, other, 1e-6)
