"""The ways in which a program can call a function, and the places where it can keep values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.wrong_rewrites.grammar.building import Builder

ROUTES = (
    "direct", "helper", "chain", "mutual", "callback", "partial", "lambda", "decorated", "method", "static", "callable",
    "table", "getattr", "keywords", "overridden", "mixin", "base", "by name",
)  # fmt: skip


def routed(builder: Builder, key: str, function: str, parameters: tuple[str, ...]) -> str:
    """An expression that can be called in the place of a function."""
    route = builder.pick(f"route.{key}", *ROUTES)
    given = ", ".join(parameters)
    define = builder.program.define
    via = f"{function}_via"
    holder = "".join(word.title() for word in function.split("_")) + "Holder"
    match route:
        case "helper":
            return define(via, f"def {via}({given}):\n    return {function}({given})")
        case "chain":
            inner = function
            for level in range(5):
                inner = define(f"{function}_{level}", f"def {function}_{level}({given}):\n    return {inner}({given})")
            return inner
        case "mutual":
            for one, other in (("even", "odd"), ("odd", "even")):
                code = f"""
def {function}_{one}(depth, {given}):
    if depth == 0:
        return {function}({given})
    return {function}_{other}(depth - 1, {given})
"""
                define(f"{function}_{one}", code)
            return define(via, f"def {via}({given}):\n    return {function}_even(3, {given})")
        case "callback":
            define("call_with", "def call_with(function, *arguments):\n    return function(*arguments)")
            return define(via, f"def {via}({given}):\n    return call_with({function}, {given})")
        case "partial":
            return define(via, f"{via} = functools.partial({function})")
        case "lambda":
            return define(via, f"{via} = lambda {given}: {function}({given})")
        case "decorated":
            code = """
def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper
"""
            define("traced", code)
            return define(via, f"@traced\ndef {via}({given}):\n    return {function}({given})")
        case "method" | "getattr":
            define(holder, f"class {holder}:\n    def work(self, {given}):\n        return {function}({given})")
            if route == "getattr":
                return f'getattr({holder}(), "work")'
            return f"{holder}().work"
        case "overridden" | "mixin" | "base":
            return _derived(builder, route, holder, function, given)
        case "by name":
            define(holder, f"class {holder}:\n    def work(self, {given}):\n        return {function}({given})")
            return define(via, f'def {via}({given}):\n    return getattr({holder}(), "wo" + "rk")({given})')
        case "static":
            define(
                holder,
                f"class {holder}:\n    @staticmethod\n    def work({given}):\n        return {function}({given})",
            )
            return f"{holder}.work"
        case "callable":
            return define(
                via,
                f"class {holder}:\n    def __call__(self, {given}):\n        return {function}({given})\n\n\n{via} = {holder}()",
            )
        case "table":
            define(f"{function}_table", f'{function}_table = {{"default": {function}}}')
            return f'{function}_table["default"]'
        case "keywords":
            code = f"def {via}(*args, **kwargs):\n    return {function}(*args, **kwargs)"
            return define(via, code)
        case _:
            return function


def _derived(builder: Builder, route: str, holder: str, function: str, given: str) -> str:
    """A method of a derived class, which may live in another file than the one that calls it."""
    define, derived = builder.program.define, f"{holder}Own"
    base = f"class {holder}:\n    def work(self, {given}):\n        return self.inner({given})"
    inner = f"    def inner(self, {given}):\n        return {function}({given})"
    if route == "base":
        define(holder, f"{base}\n\n{inner}")
        body = f"    def work(self, {given}):\n        return super().work({given})"
        define(derived, f"class {derived}({holder}):\n{body}", "pinned")
        return f"{derived}().work"
    define(holder, f"{base}\n\n    def inner(self, {given}):\n        raise NotImplementedError")
    if route == "mixin":
        define(f"{holder}Mixin", f"class {holder}Mixin:\n{inner}")
        define(derived, f"class {derived}({holder}Mixin, {holder}):\n    pass", "engine")
    else:
        define(derived, f"class {derived}({holder}):\n{inner}", "pinned")
    return f"{derived}().work"


@dataclass(frozen=True, slots=True)
class Kept:
    """A place for values."""

    store: Callable[[str], str]
    """The statement that puts a value there."""
    load: str
    """An expression for the list of all values."""


PLACES = (
    "list", "attribute", "dictionary", "defaultdict", "deque", "pairs", "records", "nested", "closure", "default",
    "class variable", "global", "namedtuple", "dataclass", "setattr", "augmented", "extend", "slice", "subclass",
    "function attribute", "method", "vars", "setdefault", "alias", "insert", "walrus",
)  # fmt: skip


def kept(builder: Builder, key: str) -> Kept:
    """Where a program keeps the values of some kind, at module level."""
    place = builder.pick(f"keep.{key}", *PLACES)
    name = f"{key}_kept"
    define = builder.program.define
    holder = "".join(word.title() for word in key.split("_")) + "Memory"
    match place:
        case "attribute":
            define(holder, f"class {holder}:\n    def __init__(self):\n        self.items = []")
            define(name, f"{name} = {holder}()")
            return Kept(lambda value: f"{name}.items.append({value})", f"{name}.items")
        case "method":
            define(
                holder,
                f"class {holder}:\n    def __init__(self):\n        self.items = []\n\n    def push(self, *value):\n        self.items.append(value)",
            )
            define(name, f"{name} = {holder}()")
            return Kept(lambda value: f"{name}.push({value})", f"[each[0] for each in {name}.items]")
        case "dictionary":
            define(name, f'{name} = {{"values": []}}')
            return Kept(lambda value: f'{name}["values"].append({value})', f'{name}["values"]')
        case "setdefault":
            define(name, f"{name} = {{}}")
            return Kept(lambda value: f'{name}.setdefault("values", []).append({value})', f'{name}["values"]')
        case "defaultdict":
            define(name, f"{name} = defaultdict(list)")
            return Kept(lambda value: f'{name}["values"] += [{value}]', f'{name}["values"]')
        case "deque":
            define(name, f"{name} = deque(maxlen=1000)")
            return Kept(lambda value: f"{name}.append({value})", f"list({name})")
        case "pairs":
            define(name, f"{name} = []")
            return Kept(lambda value: f"{name}.append((len({name}), {value}))", f"[value for _, value in {name}]")
        case "records":
            define(name, f"{name} = []")
            return Kept(lambda value: f'{name}.append({{"value": {value}}})', f'[each["value"] for each in {name}]')
        case "nested":
            define(name, f"{name} = []")
            return Kept(lambda value: f"{name}.append([[{value}]])", f"[each[0][0] for each in {name}]")
        case "closure":
            code = f"""
def make_{key}():
    items = []

    def push(value):
        items.append(value)

    def every():
        return items

    return push, every


push_{key}, every_{key} = make_{key}()
"""
            define(f"push_{key}", code, "pinned")
            return Kept(lambda value: f"push_{key}({value})", f"every_{key}()")
        case "default":
            define(
                f"remember_{key}",
                f"def remember_{key}(value=None, items=[]):\n    if value is not None:\n        items.append(value)\n    return items",
            )
            return Kept(lambda value: f"remember_{key}({value})", f"remember_{key}()")
        case "class variable":
            define(holder, f"class {holder}:\n    items = []")
            return Kept(lambda value: f"{holder}.items.append({value})", f"{holder}.items")
        case "global":
            code = f"{name} = []\n\n\ndef remember_{key}(value):\n    global {name}\n    {name} = {name} + [value]\n\n\ndef recall_{key}():\n    return {name}"
            define(f"remember_{key}", code, "pinned")
            return Kept(lambda value: f"remember_{key}({value})", f"recall_{key}()")
        case "namedtuple":
            define(holder, f'{holder} = namedtuple("{holder}", ["step", "value"])')
            define(name, f"{name} = []")
            return Kept(lambda value: f"{name}.append({holder}(0, {value}))", f"[each.value for each in {name}]")
        case "dataclass":
            define(holder, f"@dataclass\nclass {holder}:\n    value: object\n    step: int = 0")
            define(name, f"{name} = []")
            return Kept(lambda value: f"{name}.append({holder}({value}))", f"[each.value for each in {name}]")
        case "setattr":
            define(holder, f"class {holder}:\n    pass")
            define(name, f"{name} = {holder}()\n{name}.items = []", "pinned")
            return Kept(lambda value: f'setattr({name}, "items", {name}.items + [{value}])', f"{name}.items")
        case "vars":
            define(holder, f"class {holder}:\n    pass")
            define(name, f"{name} = {holder}()\n{name}.items = []", "pinned")
            return Kept(lambda value: f'vars({name})["items"].append({value})', f"{name}.items")
        case "augmented":
            define(name, f"{name} = []")
            return Kept(lambda value: f"{name}.__iadd__([{value}])", name)
        case "extend":
            define(name, f"{name} = []")
            return Kept(lambda value: f"{name}.extend([{value}])", name)
        case "slice":
            define(name, f"{name} = []")
            return Kept(lambda value: f"{name}[len({name}):] = [{value}]", name)
        case "insert":
            define(name, f"{name} = []")
            return Kept(lambda value: f"{name}.insert(len({name}), {value})", name)
        case "walrus":
            define(name, f"{name} = []")
            return Kept(lambda value: f"{name}.append((kept_value := {value}))", name)
        case "subclass":
            define(holder, f"class {holder}(list):\n    def push(self, value):\n        self.append(value)")
            define(name, f"{name} = {holder}()")
            return Kept(lambda value: f"{name}.push({value})", name)
        case "function attribute":
            define(
                f"remember_{key}",
                f"def remember_{key}(value):\n    remember_{key}.items.append(value)\n\n\nremember_{key}.items = []",
            )
            return Kept(lambda value: f"remember_{key}({value})", f"remember_{key}.items")
        case "alias":
            define(name, f"{name} = []\n{name}_too = {name}", "pinned")
            return Kept(lambda value: f"{name}_too.append({value})", name)
        case _:
            define(name, f"{name} = []")
            return Kept(lambda value: f"{name}.append({value})", name)
