"""How far the analysis looks: every bound. Past one an answer is incomplete, and who asked takes it as "anything"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Every bound of the analysis; lowering one never adds a finding."""

    evaluations: int = 1_000_000
    """Expressions and functions evaluated for one script; a guard of time, far above what people write."""
    depth: int = 120
    """Questions that wait for one another: each takes some ten frames of Python's stack."""
    rounds: int = 30
    """How often questions that lean on one another in a circle are asked anew before they count as unanswered."""
    nesting: int = 6
    """How deep the elements of containers within containers are told apart."""
    members: int = 1_000
    """Names of a module among which one is looked up that the program computes."""
    mentioning: int = 64
    """Files that are parsed because a name in them may stand for a function, or an attribute, of a file."""
    related: int = 160
    """Files that are parsed because they share the objects of a file, which trains or evaluates."""
    related_characters: int = 600_000
    """Characters of these, besides those that are parsed for other reasons."""
    loaded: int = 250_000
    """Characters of other files that are parsed for one script: a syntax tree takes about a hundred times its text."""
    loaded_elsewhere: int = 100_000
    """The same for a script that neither goes backward nor loads data by its words: it has less to gain."""
    file: int = 400_000
    """Bytes of a file that is parsed for the sake of others."""
    beside: int = 400
    """Files beside the project, in one folder or on the way of imports, of which is read what they import."""
    around: int = 20_000
    """Files of the same repository that are searched for the name of a file, whoever imports it."""
    graph_states: int = 4_000
    """Expressions that are followed for one evaluation, to see whether a backward pass needs its graph."""
    graph_calls: int = 12
    """Calls that lead from an evaluation to one of these."""
    graph_files: int = 160
    """Files in which what an evaluation keeps may be read."""


# Of one question each, whose answer is "not known" past them.
OPERANDS = 8  # how deep an expression of integers, or of arrays, is followed
MAPPINGS = 4  # mappings within mappings whose keys are told
TABLES = 2  # names for a table of functions that are followed
MANAGERS = 4  # names of context managers that are followed: beyond, one may swallow exceptions
TRANSFORMS = 4  # names of transforms that are followed
CASTS = 3  # names behind which a cast to float32 is seen
CALLS_TO_STEP = 3  # calls that lead from where a model is made to its training step
