"""Names of Python itself: what builtins, methods of containers and decorators do."""

from __future__ import annotations

import builtins

BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("_")) | {"__import__"}

CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__"})
"""Methods that run when an object is made."""

METHOD_DECORATORS = frozenset({"staticmethod", "classmethod"})
PROPERTIES = frozenset({"property", "cached_property"})
PLAIN_DECORATORS = METHOD_DECORATORS | {"property", "abstractmethod", "overload"}
"""Decorators that neither call nor keep what they decorate."""

TEXT_RUNNERS = ("exec", "eval")
NAMESPACES = ("globals", "locals", "vars")
"""Functions whose results hold names that programs may compute."""

LOOKING = frozenset("bool float format hasattr id int isinstance issubclass len print repr str type".split())
"""Builtins that look at what they are given, and neither call it nor hand it on."""

CONTAINERS = frozenset("list tuple set frozenset dict zip enumerate reversed iter sorted".split())
"""Builtins whose results hold the elements of what they are given."""

CONTAINER_CHANGES = frozenset(
    "append extend insert remove pop clear update setdefault add discard popitem move_to_end sort".split()
)
"""Methods that change a list, a set, a dictionary."""
