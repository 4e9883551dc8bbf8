"""Names of Python itself: what builtins, methods of containers and decorators do."""

from __future__ import annotations

import builtins

BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("_")) | {"__import__"}

CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__"})
"""Methods that run when an object is made."""

_TYPES = [each for each in vars(builtins).values() if isinstance(each, type)]
SPECIAL_METHODS = CONSTRUCTORS | {name for each in _TYPES for name in dir(each) if name.startswith("__")}
SPECIAL_METHODS |= frozenset(
    """__del__ __delete__ __get__ __set__ __set_name__ __getattr__ __missing__ __length_hint__ __reversed__ __bytes__
    __enter__ __exit__ __aenter__ __aexit__ __aiter__ __anext__ __await__ __call__ __prepare__ __instancecheck__
    __subclasscheck__ __mro_entries__ __class_getitem__ __copy__ __deepcopy__ __replace__ __getinitargs__
    __getnewargs__ __setstate__ __fspath__ __matmul__ __rmatmul__ __imatmul__ __iadd__ __isub__ __imul__ __itruediv__
    __ifloordiv__ __imod__ __ipow__ __ilshift__ __irshift__ __iand__ __ixor__ __ior__ __complex__ __conform__
    __annotate__ __buffer__ __release_buffer__""".split()
)
"""Methods that Python itself calls, of whatever class."""

METHOD_DECORATORS = frozenset({"staticmethod", "classmethod"})
PROPERTIES = frozenset({"property", "cached_property"})
PLAIN_DECORATORS = METHOD_DECORATORS | {"property", "abstractmethod", "overload"}
"""Decorators that neither call nor keep what they decorate."""

TEXT_RUNNERS = ("exec", "eval")
NAMESPACES = ("globals", "locals", "vars")
"""Functions whose results hold names that programs may compute."""

_TIMERS = "time perf_counter monotonic process_time thread_time".split()
CLOCKS = frozenset({f"time.{name}{unit}" for name in _TIMERS for unit in ("", "_ns")} | {"timeit.default_timer"})
"""Functions that tell the time as a number."""

LOOKING = frozenset("bool float format hasattr id int isinstance issubclass len print repr str type".split())
"""Builtins that look at what they are given, and neither call it nor hand it on."""

CONTAINERS = frozenset("list tuple set frozenset dict zip enumerate reversed iter sorted".split())
"""Builtins whose results hold the elements of what they are given."""

CONTAINER_CHANGES = frozenset(
    "append extend insert remove pop clear update setdefault add discard popitem move_to_end sort".split()
)
"""Methods that change a list, a set, a dictionary."""

ARITHMETIC_METHODS = frozenset(f"__{way}{name}__" for way in ("", "r", "i") for name in "add sub mul truediv".split())
"""Methods that decide what `+`, `-`, `*` and `/` give."""
