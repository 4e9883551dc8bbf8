"""What IPython reads and Python does not: `%magic`, `!shell`, `help?`; hidden behind statements of as many lines.

A placeholder says of a line what the analysis must know of it: `print()` where no name of the program is concerned, and
else `x = get_ipython(x, y)`, which hands the names of the line to code that nobody knows. A comment at the end of each
of its lines says which line it stands for, so that an edit of what is around it carries it along.

https://ipython.readthedocs.io/en/stable/interactive/magics.html
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

_WORDS = frozenset(keyword.kwlist) | frozenset(dir(builtins))

# Line magics that touch no name of the program, as far as a program can see.
_HARMLESS = frozenset(
    """aimport alias alias_magic autoawait autocall automagic autoreload autosave bookmark cat cd clear cls
    colors conda config connect_info cp dhist dirs doctest_mode env gui hist history killbgscripts less load_ext
    logoff logon logstart logstate logstop ls lsmagic magic mamba man matplotlib micromamba mkdir more mv
    notebook page pip popd pprint precision profile pushd pwd pycat qtconsole quickref rehashx reload_ext rm
    rmdir sc set_env shell sx system tensorboard unalias unload_ext uv watermark who who_ls whos writefile xmode
    """.split()
)
# Line magics that bind or delete names which the line does not say.
_BINDING = frozenset(
    """cpaste edit ed load loadpy loadtxt macro paste pylab recall rep rerun reset reset_selective run store xdel
    """.split()
)
# Cell magics whose cell is another program, or no program at all; and those whose cell runs as any other would.
_FOREIGN = frozenset(
    """! bash cmd file html javascript js latex markdown perl pypy python python2 python3 ruby script sh svg sx system
    writefile""".split()
)
_PLAIN = frozenset(("time", "capture"))
# What reaches into the interpreter, by the attribute of `get_ipython()` that does; and what ends it with its names.
_REACHING = frozenset("drop_by_id ex magic push reset run_cell run_cell_magic run_code run_line_magic user_ns".split())
_ENDING = frozenset(("exit", "os._exit", "os.kill", "quit"))
_ENDING_METHODS = frozenset(("do_shutdown", "restart_kernel"))

_CELL_MAGIC = re.compile(r"\s*%%([\w!]\S*)([^\n]*)\n?")
_LINE = re.compile(r"(?P<targets>[\w.\[\]'\", *()]+?\s*=\s*)?(?P<magic>!|%(?=\w)|\?)(?P<rest>.*)", re.DOTALL)
_HELP = re.compile(r"%{0,2}[^\W\d][\w.*]*(?:\[[^\]\n]*\][\w.*]*)*\?{1,2};?\s*")
_TOKEN = re.compile(
    r"#.*|'''|\"\"\"|'(?:[^'\\\n]|\\.)*'?|\"(?:[^\"\\\n]|\\.)*\"?|(?P<open>[\[({])|(?P<close>[\])}])|(?P<on>\\$)|\\.|."
)
_OPTION = re.compile(r"(?<!\S)-{1,2}\w+")
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
_BOUND = re.compile(
    r"(?:^|;)[ \t]*(?P<a>[\w \t,.*()\[\]]+?)[ \t]*(?::[^=\n]+)?(?:[-+*/%@&|^]|//|\*\*|<<|>>)?=(?!=)"
    r"|(?P<b>\w+)[ \t]*:?=(?!=)|\bfor\s+(?P<c>[\w\s,()]+?)\s+in\b|\bas\s+(?P<d>\w+)|\b(?:c?p?def|class)\s+(?P<e>\w+)"
    r"|\b(?:import|del|global)\s+(?P<f>[\w, .]+)",
    re.MULTILINE,
)
_MARK = re.compile(r"(?P<indent>[ \t]*)[^#\n]*#autoaccel\[line (?P<number>\d+)\](?P<end>\r?)")


class HiddenError(ValueError):
    """Code of which nothing can be known, and with it nothing of the program; the message begins with the line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"{line}: {reason}")


@dataclass(frozen=True, slots=True)
class Hidden:
    """The lines that placeholders stand for, by their numbers, and whether they begin a statement."""

    lines: list[tuple[str, bool]] = field(default_factory=list)

    def restored(self, text: str, numbers: range) -> str:
        """A text with the lines of these numbers back in it. Raises `ValueError` where they are not all there, in
        order."""
        lines = text.split("\n")
        seen = []
        for index, line in enumerate(lines):
            mark = _MARK.fullmatch(line)
            if mark is None:
                continue
            seen.append(int(mark["number"]))
            kept, begins = self.lines[seen[-1]] if seen[-1] in numbers else ("", False)
            # What begins a statement is indented as the code around it is by now.
            lines[index] = (mark["indent"] + kept.lstrip(" \t") if begins else kept) + mark["end"]
        if seen != list(numbers):
            raise ValueError("a line for IPython was moved or lost")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell is to the analysis: the text of its code or, with `opaque`, a statement that stands for it."""

    text: str
    opaque: bool = False


def cell(code: str, hidden: Hidden, modules: Set[str]) -> tuple[Cell | None, str]:
    """A cell for the analysis, None if it is no Python; and a word on what could not be read, empty if all could.

    `modules` are names that stand for modules, which code that nobody knows will leave as they are. Raises
    `HiddenError`.
    """
    magic = _CELL_MAGIC.match(code)
    if magic is None:
        return _python(code, hidden, modules)
    name, rest = magic[1], magic[2]
    if name in _FOREIGN and "--out" not in rest and "--err" not in rest:
        return None, ""
    if name in _FOREIGN:
        return Cell(_unknown(rest, modules), opaque=True), ""
    if name in _PLAIN:
        head = code[: magic.end()].count("\n") or 1
        first = [*code.split("\n")[:head]]
        # What `%%capture out` binds stands on the line itself, and is new.
        names = [each for each in rest.split() if _is_name(each)] if name == "capture" else []
        lines = _placeholder(first, "".join(f"{each} = " for each in names), [], hidden, at_top=True)
        if len(rows := code.split("\n")) == head:
            return Cell("\n".join(lines)), ""
        body, word = _python("\n".join(rows[head:]), hidden, modules, head)
        return (body, word) if body.opaque else (Cell("\n".join([*lines, body.text])), "")
    return Cell(_unknown(code[magic.end() :], modules, head=rest), opaque=True), ""


def _python(code: str, hidden: Hidden, modules: Set[str], above: int = 0) -> tuple[Cell, str]:
    kept = len(hidden.lines)
    text = hide(code, hidden, modules)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        del hidden.lines[kept:]
        line = above + (getattr(error, "lineno", None) or 1)
        said = getattr(error, "msg", None) or str(error)
        return Cell(_unknown(code, modules), opaque=True), f"{line}: left out, cannot parse: {said}"
    refuse(tree, above)
    return Cell(text), ""


def refuse(tree: ast.Module, above: int = 0) -> None:
    """Raises `HiddenError` for what ends the interpreter, and what reaches into it."""
    reaches = any(isinstance(each, ast.Name) and each.id == "get_ipython" for each in ast.walk(tree))
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        called = ast.unparse(call.func)
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if called in _ENDING or method in _ENDING_METHODS:
            said = f"`{called}` ends the interpreter, and with it what cells have bound"
            raise HiddenError(above + call.lineno, said)
        if reaches and method in _REACHING and not _is_harmless_call(call):
            raise HiddenError(above + call.lineno, f"`{called}` may bind or delete any name")
    if reaches and any(isinstance(each, ast.Attribute) and each.attr == "user_ns" for each in ast.walk(tree)):
        raise HiddenError(above + 1, "`get_ipython().user_ns` may bind or delete any name")


def _is_harmless_call(call: ast.Call) -> bool:
    """`get_ipython().run_line_magic("matplotlib", "inline")`, `….magic("matplotlib inline")`."""
    match call.args:
        case [ast.Constant(value=str(said)), *_] if said.strip():
            return said.split()[0].lstrip("%") in _HARMLESS
    return False


# -- lines


def hide(code: str, hidden: Hidden, modules: Set[str] = frozenset()) -> str:
    """The code with placeholders for the lines that are for IPython. Raises `HiddenError`."""
    lines = code.split("\n")
    made: list[str] = []
    state = _Lines()
    while len(made) < len(lines):
        index = len(made)
        line = lines[index].removesuffix("\r")
        if state.at_statement and _is_magic(line.strip()):
            end = index + 1
            while lines[end - 1].removesuffix("\r").endswith("\\") and end < len(lines):
                end += 1
            made += _hidden(lines[index:end], hidden, modules, index + 1)
        else:
            state.read(line)
            made.append(lines[index])
    return "\n".join(made)


def _is_magic(line: str) -> bool:
    if not line or line[0] == "#":
        return False
    return (line[0] in "%!?" or "=" in line or "?" in line) and bool(_LINE.fullmatch(line) or _HELP.fullmatch(line))


def _hidden(lines: Sequence[str], hidden: Hidden, modules: Set[str], number: int) -> list[str]:
    code = "\n".join(line.removesuffix("\r") for line in lines).strip()
    found = _LINE.fullmatch(code)
    if found is None or found["magic"] == "?":
        return _placeholder(lines, "", [], hidden)
    targets = found["targets"] or ""
    if found["magic"] == "!":
        return _placeholder(lines, targets, [], hidden)
    name, _, rest = _OPTION.sub("", found["rest"]).partition(" ")
    if name in _BINDING and not (name == "store" and "-r" not in found["rest"].split()):
        raise HiddenError(number, f"`%{name}` may bind or delete any name")
    if name in _HARMLESS or name == "store":
        return _placeholder(lines, targets, [], hidden)
    bound, read = _names(rest, modules)
    return _placeholder(lines, targets + "".join(f"{each} = " for each in bound), read, hidden)


def _is_name(word: str) -> bool:
    return word.isidentifier() and not keyword.iskeyword(word)


def _placeholder(
    lines: Sequence[str], targets: str, names: Iterable[str], hidden: Hidden, *, at_top: bool = False
) -> list[str]:
    """`at_top`: a cell magic and the empty lines above it, which stay as they are whatever is around them."""
    first = lines[0].removesuffix("\r")
    indent = "" if at_top else first[: len(first) - len(first.lstrip(" \t"))]
    names = list(names)
    call = f"{targets}get_ipython({', '.join(names)}" if targets or names else "print("
    made = []
    for index, line in enumerate(lines):
        body = line.removesuffix("\r")
        shown = f"{indent}{call}" if index == 0 else ""
        end = ")" if index == len(lines) - 1 else ""
        made.append(f"{shown}{end}  #autoaccel[line {len(hidden.lines)}]{line[len(body) :]}")
        hidden.lines.append((body, index == 0 and not at_top))
    return made


# -- code of which only the names are known


def _unknown(code: str, modules: Set[str], head: str = "") -> str:
    """A statement that stands for code which cannot be read. Raises `HiddenError`."""
    if re.search(r"\bimport\s*\*|\bexec\s*\(|^\s*%(?:run|reset|pylab|store|load)\b", code, re.MULTILINE):
        raise HiddenError(1, "code that cannot be read may bind any name")
    bound, read = _names(code, modules)
    more = _names(head, modules)[1]
    return f"{''.join(f'{each} = ' for each in bound)}get_ipython({', '.join(dict.fromkeys([*read, *more]))})"


def _names(code: str, modules: Set[str]) -> tuple[list[str], list[str]]:
    """The names that code may bind, and all that it says; more rather than fewer."""
    try:
        nodes = list(ast.walk(ast.parse(code.strip())))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        stores = [each for found in _BOUND.finditer(code) for part in found.groups("") for each in _NAME.findall(part)]
        reads = _NAME.findall(code)
    else:
        stores = [each.id for each in nodes if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)]
        defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        stores += [each.name for each in nodes if isinstance(each, defined)]
        stores += [(each.asname or each.name).split(".")[0] for each in nodes if isinstance(each, ast.alias)]
        reads = [each.id for each in nodes if isinstance(each, ast.Name)]
    bound = dict.fromkeys(each for each in stores if each not in _WORDS)
    return list(bound), list(dict.fromkeys(each for each in reads if each not in _WORDS and each not in modules))


class _Lines:
    """Whether the next line begins a statement: not within brackets or a string, nor after a backslash."""

    def __init__(self) -> None:
        self._quote = ""
        self._depth = 0
        self._goes_on = False

    @property
    def at_statement(self) -> bool:
        return not (self._quote or self._depth or self._goes_on)

    def read(self, line: str) -> None:
        self._goes_on = False
        position = 0
        while position < len(line):
            if self._quote:
                end = _end_of(self._quote, line, position)
                if end is None:
                    return
                self._quote, position = "", end
                continue
            token = _TOKEN.match(line, position)
            assert token is not None
            if token[0] in ("'''", '"""'):
                self._quote = token[0]
            self._depth = max(0, self._depth + (token["open"] is not None) - (token["close"] is not None))
            self._goes_on = token["on"] is not None
            position = token.end()


def _end_of(quote: str, line: str, start: int) -> int | None:
    """Where a string of several lines ends in a line."""
    position = start
    while position < len(line):
        if line[position] == "\\":
            position += 2
        elif line.startswith(quote, position):
            return position + len(quote)
        else:
            position += 1
    return None
