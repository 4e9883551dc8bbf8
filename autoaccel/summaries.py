"""What a file has to do with others, found by a search in its bytes: what it imports, and which names it mentions.

No syntax is parsed: a summary may name too much (a sentence of a docstring that begins like an import), never too
little. It takes a hundredth of the time of a syntax tree and of its memory, so there can be one for each file of a
tree. A module of its own, so that a cache can tell whether summaries have changed without importing the analysis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

_BLANK = rb"(?:[ \t\f]|\\\n)*"
_NAMES = rb"(\((?:[^()#]+|#[^\n]*)*\)?|(?:[^\n;#\\]|\\\n)*)"
_IMPORT = re.compile(
    _BLANK + rb"(?:from(?=[ \t\f.\\])" + _BLANK + rb"((?:\." + _BLANK + rb")*)([\w.\x80-\xff]*)"
    + _BLANK + rb"\bimport\b" + _BLANK + _NAMES + rb"|import\b" + _BLANK + _NAMES + rb")"
)  # fmt: skip
_MARKS = re.compile(rb"[;:]")
# Of any file: by its path, or as somebody else has found it.
_BY_PATH = (b"run_path", b"spec_from_file_location", b"SourceFileLoader", b"load_source", b"load_module")
_ENTRY_POINTS = (b"iter_entry_points", b"entry_points")
_BY_DOTTED_NAME = (b"import_module", b"__import__", b"run_module", b"find_spec", b"resolve_name", b"pydoc.locate")
IMPORTERS = (*_BY_PATH, *_ENTRY_POINTS, *_BY_DOTTED_NAME, b"sys.modules")
# Files of any name, or by another name than is looked for: `from importlib import import_module as load`,
# `map(import_module, names)`, `sys.modules[name]`.
_ANY = re.compile(
    rb"\b(?:" + b"|".join((*_BY_PATH, *_ENTRY_POINTS)) + rb")\b"
    rb"|\b(?:" + b"|".join(map(re.escape, IMPORTERS)) + rb")\s+as\b"
    rb"|(?:\bmap\(|\bpartial\(|=)\s*(?:\w+\.)*(?:" + b"|".join(_BY_DOTTED_NAME) + rb")\b(?!\s*\()"
    rb"|\bsys\.modules(?:\[(?!\s*(?:__name__|[\w.]*\.__module__)\s*\])|\.get\()"
)  # fmt: skip
_COMPUTED = re.compile(
    rb"\b(?:" + b"|".join(map(re.escape, _BY_DOTTED_NAME)) + rb")\s*\(\s*(?:"
    rb"(?:r?[\"']([\w.]*)(?=[^\"'\n]*[\"']\s*(?:[,)%+]|\.format\b))|r?fr?[\"']([\w.]*)(?=\{))"
    rb"([\"']\s*[,)])?)?([^()\n]*)"
)
_NO_WORD = bytes(each if chr(each).isalnum() or each in b"_." or each > 127 else 32 for each in range(256))
_DEFINED = (re.compile(rb"def[ \t]+(\w+)"), re.compile(rb"class[ \t]+(\w+)"))
# What stands before a word is looked at behind it: so a search skips to the first letter of what it looks for.
_LATE_ATTRIBUTE = re.compile(rb"\.(?<!\.\.)(?:\s|\\\n)+([A-Za-z_\x80-\xff][\w\x80-\xff]*)")
_IDENTIFIER = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*")
_QUOTED = re.compile(rb"[\"']([A-Za-z_]\w*)[\"']")
# By word: where names may be computed, which need not be searched for where the word is not mentioned.
_LOOKUPS = {
    **{
        name: re.compile(rb"%b(?<!\w%b)\b(?!\s*\(\s*[\w.\[\]]+\s*,\s*[rR]?[\"']\w+[\"'])" % (name, name))
        for name in (b"getattr", b"methodcaller", b"attrgetter")
    },
    **{
        name: re.compile(rb"%b(?<![\w.]%b)\s*\(" % (name, name))
        for name in (b"globals", b"locals", b"vars", b"eval", b"exec")
    },
    b"__dict__": re.compile(rb"__dict__"),
    **{name: re.compile(rb"%b\s*\(" % name) for name in (b"getmembers", b"run_path", b"run_module")},
    b"resolve_name": re.compile(rb"resolve_name\s*\("),
    b"locate": re.compile(rb"pydoc\.locate\s*\("),
}
_MAKING = frozenset(b"new_class .new_class make_dataclass .make_dataclass".split())
_BY_NAME = (b"getattr", b"setattr", b"methodcaller", b"attrgetter")
_BASES = re.compile(rb"class(?<!\wclass)[ \t]+\w+\s*(?:\[[^\]]*\]\s*)?\((.*?)\)\s*:", re.DOTALL)
# What ends a line like `Old = Base`, `Old = New = pkg.Base if fast else Other`, `Old, New = Base, Other`; and what
# may stand before it, down to `Old: type[Base]`.
_VALUES = re.compile(rb"=[ \t]*([A-Za-z_\x80-\xff][\w.,\x80-\xff \t]*)(?=[\n#])")
_TARGETS = re.compile(rb"[ \t]*([A-Za-z_\x80-\xff][\w.,= \t\x80-\xff]*)(?::[^\n]*)?")
# `engine.log = my_log`, and what stands before the last point; `setattr(engine, "log", my_log)`.
_ATTRIBUTE_STORE = re.compile(rb"\.(?<!self\.)(?<!cls\.)([A-Za-z_\x80-\xff][\w\x80-\xff]*)[ \t]*(?::[^=\n]*)?=(?!=)")
# `engine.log, x = my_log, 1`, also over lines within brackets, and what may stand before it on its line;
# `for engine.log in`, `with f() as engine.log:`.
_ONE_OF_TARGETS = re.compile(
    rb"\.(?<!self\.)(?<!cls\.)([A-Za-z_\x80-\xff][\w\x80-\xff]*)[ \t]*[,)\]]"
    rb"(?:[\w.,* \t\x80-\xff]*|[\w.,*\s\x80-\xff]*[)\]][ \t]*)=(?!=)"
)
_BEFORE_TARGET = re.compile(rb"[\w.,*(\[ \t\x80-\xff]*")
_TARGETS_OF = (
    re.compile(rb"for(?<!\wfor)[ \t]+[\w, \t(\[*]*\.[^\n:]*? in\b"),
    re.compile(rb" as[ \t(\[]+\w+\.[^\n:]*"),
    re.compile(rb"\)as[ \t(\[]+\w+\.[^\n:]*"),
)
_ATTRIBUTE = re.compile(rb"\.(?<!self\.)(?<!cls\.)([A-Za-z_\x80-\xff][\w\x80-\xff]*)")
_RECEIVER = re.compile(rb"([A-Za-z_\x80-\xff][\w\x80-\xff]*)[\w.\x80-\xff]*$")
_SETATTR = re.compile(rb"(?:setattr|\.object)\(\s*(?!self\b|cls\b)([A-Za-z_]\w*)[\w.]*\s*,\s*(?:[rR]?[\"'](\w+)[\"'])?")
_VARS = re.compile(rb"vars\(\s*(?!self\b|cls\b)([A-Za-z_]\w*)")
_DICT = re.compile(rb"\.__dict__\b(?<!self\.__dict__)(?<!cls\.__dict__)")
_CODE = re.compile(rb"__globals__|__code__[ \t]*(?:=(?!=)|,)")
_PATCH = re.compile(rb"\bpatch\(\s*[\"'][\w.]*\.(\w+)[\"']")
# `class A(make(B))` or `class A(KNOWN["b"])`, but not `class A(Generic[T])` or `class A(B, metaclass=ABCMeta)`.
_COMPUTED_BASE = re.compile(rb"(?<!\bGeneric)(?<!\bProtocol)[\[(]")
_TYPE_CALL = re.compile(rb"type(?<!\wtype)\s*\([^()]*,")
_NAME = re.compile(r"[^\W\d][\w.]*")


@dataclass(frozen=True, slots=True)
class Summary:
    """`imports` are dotted names, behind as many dots as their level has and before `=alias` where they get another
    name: `from ..a import b as c` is `..a.b=c`, a star is `a.*`. For a name that is computed there is what it begins
    with, behind a question mark, and after a dot where it is relative.

    `words` are separated by spaces: `x` for a name that is mentioned, `.x` for an attribute, `:x` for a function or
    class that is defined, and `?` where names may be computed: `getattr(model, mode)`. `<x` is what a class derives
    from: `<?` where `type` makes it, `<()` where the base is computed. `=y=x` says that what is imported or defined as
    `x` is assigned to `y`; `.x=` that an attribute of something imported is assigned, `.x=?` one of anything else but
    `self` and `cls`, `.?=` one whose name is computed."""

    imports: tuple[str, ...] = ()
    words: str = ""


def summary(data: bytes) -> Summary:
    """The summary of a file's content."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    data = data.removeprefix(b"\xef\xbb\xbf")
    imports = dict.fromkeys(_imports(data))
    computing = any(each in data for each in IMPORTERS)
    if computing and _ANY.search(data):
        imports["?"] = None
    for plain, formatted, end, rest in _COMPUTED.findall(data) if computing else ():
        start = _text(plain or formatted)
        if end:
            imports[start.strip(".")] = None
        elif start.startswith(".") and (b"__name__" in rest or b"__package__" in rest):
            imports["?."] = None
        else:
            imports[f"?{start.strip('.') and start}"] = None
    defined = {name for pattern in _DEFINED for name in pattern.findall(data)}
    words = _words(data)
    words.update(b":" + name for name in defined)
    brought = {part.encode() for each in imports for part in _bound_by(each) if part}
    words |= _assigned(data, defined | brought)
    words |= _stored(data, brought, words)
    return Summary(tuple(imports), _text(b" ".join(sorted(words))))


def _imports(data: bytes) -> Iterator[str]:
    at = data.find(b"import")
    while at >= 0:
        end = at + 1
        for start in _beginnings(data, at):
            found = _IMPORT.match(data, start)
            if found is not None:
                dots, module, names, modules = found.groups()
                level = "." * (dots or b"").count(b".")
                before = "" if names is None else f"{level}{_text(module)}{'.' * bool(module)}"
                for name, alias in _aliases(names or modules):
                    yield f"{before}{name}{alias}"
                end = max(end, found.end())
        at = data.find(b"import", end)


def _bound_by(imported: str) -> tuple[str, str]:
    """The names that an import may bind: of `import a.b` the first, of `from a import b` the last."""
    parts = re.split(r"[.=]", imported)
    return parts[0], parts[-1]


def _beginnings(data: bytes, at: int) -> Iterator[int]:
    """Where a statement that holds a place may begin: with its line, behind a colon, behind a semicolon."""
    start = data.rfind(b"\n", 0, at) + 1
    while data.endswith(b"\\\n", 0, start):
        start = data.rfind(b"\n", 0, start - 1) + 1
    yield start
    for mark in _MARKS.finditer(data, start, at):
        yield mark.end()


def _aliases(names: bytes) -> Iterator[tuple[str, str]]:
    """`b as c, d` as `("b", "=c")` and `("d", "")`."""
    text = re.sub(r"#[^\n]*|\\\n", " ", _text(names)).strip().strip("()")
    for part in text.split(","):
        words = part.split()
        if words and (words[0] == "*" or _NAME.fullmatch(words[0])):
            yield words[0], f"={words[2]}" if len(words) == 3 and words[1] == "as" else ""


def _words(data: bytes) -> set[bytes]:
    words = set(data.translate(_NO_WORD).replace(b".", b" .").split())
    words.update(b"." + name for name in _LATE_ATTRIBUTE.findall(data))
    if any(b"." + each in words or each in words for each in _BY_NAME):
        words.update(b"." + name for name in _QUOTED.findall(data))
    if any((each in words or b"." + each in words) and found.search(data) for each, found in _LOOKUPS.items()):
        words.add(b"?")
    for bases in _BASES.findall(data):
        words.update(b"<" + name for name in _IDENTIFIER.findall(bases))
        if _COMPUTED_BASE.search(bases):
            words.add(b"<()")
    if not words.isdisjoint(_MAKING) or ((b"type" in words or b".type" in words) and _TYPE_CALL.search(data)):
        words.add(b"<?")
    return words


def _assigned(data: bytes, known: Set[bytes]) -> set[bytes]:
    """The other names that a file gives to what it defines or imports."""
    everything = b"*" in known
    found: set[bytes] = set()
    for match in _VALUES.finditer(data):
        values = match[1].replace(b",", b" ").split()
        dotted = [each.split(b".") for each in values if everything or b"." in each or each in known]
        sources = {parts[-1] for parts in dotted if everything or parts[0] in known}
        if sources:
            targets = _TARGETS.fullmatch(data, data.rfind(b"\n", 0, match.start()) + 1, match.start())
            if targets is not None:
                names = set(_IDENTIFIER.findall(targets[1]))
                found.update(b"=%b=%b" % (name, source) for name in names for source in sources - names)
    return found


def _stored(data: bytes, brought: Set[bytes], words: Set[bytes]) -> set[bytes]:
    """The attributes that a file assigns, `self` aside."""
    by_name = not words.isdisjoint((b"setattr", b".setattr", b".object"))
    namespaces = not words.isdisjoint((b"vars", b".__dict__"))
    patches = not words.isdisjoint((b"patch", b".patch"))
    found: set[bytes] = set()
    for match in _attribute_stores(data):
        receiver = _RECEIVER.search(data, data.rfind(b"\n", 0, match.start()) + 1, match.start())
        imported = receiver is not None and receiver[1] in brought
        found.add(b".%b=" % match[1] if imported else b".%b=?" % match[1])
    stores = _SETATTR.findall(data) if by_name else []
    if namespaces:
        stores += [(root, b"") for root in _VARS.findall(data)]
        owners = (
            _RECEIVER.search(data, data.rfind(b"\n", 0, each.start()) + 1, each.start())
            for each in _DICT.finditer(data)
        )
        stores += [(owner[1] if owner else b"", b"") for owner in owners]
    for root, name in stores:
        found.add(b".%b=" % (name or b"?") if root in brought else b".%b=?" % (name or b"?"))
    if (b"__globals__" in data or b"__code__" in data) and _CODE.search(data):
        found.add(b".?=")
    found.update(b".%b=" % name for name in _PATCH.findall(data) if patches)
    return found


def _attribute_stores(data: bytes) -> Iterator[re.Match[bytes]]:
    """Where a name behind a point is assigned; of a receiver that stands before it on its line."""
    yield from _ATTRIBUTE_STORE.finditer(data)
    for match in _ONE_OF_TARGETS.finditer(data):
        if _BEFORE_TARGET.fullmatch(data, data.rfind(b"\n", 0, match.start()) + 1, match.start()):
            yield match
    for targets in _TARGETS_OF:
        for match in targets.finditer(data):
            yield from _ATTRIBUTE.finditer(data, match.start(), match.end())


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
