"""What a program does to files: saves by the first rank, downloads and directories before the others."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import is_constant, last_name, split_lines
from autoaccel.edits import AddArguments, Code, Edit, Replace, WrapStatements
from autoaccel.pytorch.file_calls import FileCall, file_call, written_path
from autoaccel.pytorch.gradients import calls_training
from autoaccel_codemods.captured_step.problems import DeclinedError
from autoaccel_codemods.distribute.clock_conditions import is_timed

_FIRST: Final = "first"
_PATH: Final = "path"
_READERS: Final = frozenset("open load loadtxt imread read_csv read_pickle exists isfile getsize listdir glob".split())
_ASKS: Final = frozenset("exists isdir isfile is_dir is_file lexists".split())
_FORGIVING: Final = frozenset({"OSError", "FileExistsError", "Exception", "EnvironmentError", "IOError"})
_TAKE_DATA: Final = "torch.utils.data."
_WIDTH: Final = 88  # to which a line may get, or as long as others are
_SIMPLE: Final = (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)


@once
def edits(script: Script) -> tuple[Edit, ...]:
    """The edits by which files are written once, and found by all. Raises `DeclinedError`."""
    calls = [(call, kind) for call in script.find(ast.Call) if (kind := file_call(script, call)) is not None]
    calls = [(call, kind) for call, kind in calls if not _is_in_order(script, call, kind)]
    alone = dict.fromkeys(each for call, kind in calls if (each := _alone(script, call, kind)) is not None)
    rest = [(call, kind) for call, kind in calls if not any(script.inside(call, each) for each in alone)]
    return (*_wraps(script, alone), *(each for call, kind in rest for each in _by_itself(script, call, kind)))


def _by_itself(script: Script, call: ast.Call, kind: FileCall) -> Iterator[Edit]:
    """The edit of a call that stands in no block of the first rank's."""
    if kind is FileCall.SAVE:
        yield Replace(call.func, Code(f"{script.accel}.save"))
    elif kind is FileCall.DOWNLOAD:
        yield Replace(call.func, Code(f"{script.accel}.{_FIRST}({{0}})", (call.func,)))
    elif kind is FileCall.DIRECTORY:
        if not _is_forgiven(script, call) and _is_all_of_its_guard(script, call):
            yield AddArguments(call, (("exist_ok", Code("True")),))
        elif not _is_forgiven(script, call):
            raise DeclinedError(f"the directory of line {call.lineno} must not be there yet")
        path = written_path(script, call)
        if path is not None and is_timed(script, path) and not _is_ranks_own(script, path):
            yield Replace(path, Code(f"{script.accel}.{_PATH}({{0}})", (path,)))
    elif (path := written_path(script, call)) is None:
        raise DeclinedError(f"each process would write by `{script.source(call.func)}` in line {call.lineno}")
    elif (reader := _reader(script, path)) is not None:
        raise DeclinedError(f"what line {call.lineno} writes is read again in line {reader.lineno}")
    elif not _is_ranks_own(script, path):
        yield Replace(path, Code(f"{script.accel}.{_PATH}({{0}})", (path,)))


def _is_ranks_own(script: Script, path: ast.expr) -> bool:
    return isinstance(path, ast.Call) and script.runtime_name(path.func) == _PATH


def _reader(script: Script, path: ast.expr) -> ast.Call | None:
    """Who reads a path again: by the same words, which mean the same there."""
    for call in script.find(ast.Call):
        if last_name(call.func) in _READERS and path not in call.args:
            if any(_says(script, each) == _says(script, path) for each in call.args):
                return call
    return None


def _says(script: Script, path: ast.expr) -> tuple[object, ...]:
    """The words of an expression, and what its names are bound to."""
    return script.source(path), *(script.definitions(each) for each in script.within(path, ast.Name))


def _alone(script: Script, call: ast.Call, kind: FileCall) -> ast.stmt | None:
    """The statement that the first rank shall run before the others: it finds its work done when it is run again."""
    if _is_all_of_its_guard(script, call):
        return None
    guard = _guard(script, call)
    if guard is not None and not calls_training(script, guard):
        return guard
    if kind is not FileCall.DOWNLOAD:
        return None
    statement = script.statement(call)
    if not isinstance(statement, _SIMPLE):
        raise DeclinedError(f"the download of line {call.lineno} is part of a larger statement")
    return None if _has_room(script, call) and _is_all_of_it(script, call, statement) else statement


def _has_room(script: Script, call: ast.Call) -> bool:
    """Whether the line of a call may get longer: else it is broken, and a block around it says less."""
    added = len(f"{script.accel}.{_FIRST}()")
    lengths = [len(each) for each in split_lines(script.text)]
    return lengths[call.func.lineno - 1] + added <= max(_WIDTH, *lengths)


def _is_all_of_it(script: Script, call: ast.Call, statement: ast.stmt) -> bool:
    """Whether nothing that is called in a statement does something to what a call in it downloads, as unpacking does:
    it is handed to classes of torch's data alone."""
    around = [each for each in script.ancestors(call) if isinstance(each, ast.Call) and script.inside(each, statement)]
    return all((script.qualname(each.func) or "").startswith(_TAKE_DATA) for each in around)


def _guard(script: Script, call: ast.Call) -> ast.If | None:
    """`if not os.path.exists(path):` around a call that makes the path."""
    inner: ast.AST = call
    for outer in script.ancestors(call):
        if isinstance(outer, ast.If) and inner is not outer.test:
            asks = any(last_name(each.func) in _ASKS for each in script.within(outer.test, ast.Call))
            negated = any(isinstance(each.op, ast.Not) for each in script.within(outer.test, ast.UnaryOp))
            if asks and negated is (inner in outer.body) and not _is_elif(script, outer):
                return outer
        if isinstance(outer, ast.FunctionDef):
            return None
        inner = outer
    return None


def _is_all_of_its_guard(script: Script, call: ast.Call) -> bool:
    """`if not os.path.exists(path): os.makedirs(path)`: another rank may make it in between, and no more than that."""
    match _guard(script, call):
        case ast.If(
            test=ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=asks, args=[asked])),
            body=[ast.Expr(value=made)],
            orelse=[],
        ) if made is call and len(call.args) == 1 and (not call.keywords or _is_forgiven(script, call)):
            return (
                script.qualname(call.func) == "os.makedirs"
                and script.qualname(asks) in ("os.path.exists", "os.path.isdir")
                and _says(script, asked) == _says(script, call.args[0])
                and not is_timed(script, asked)
            )
    return False


def _is_elif(script: Script, branch: ast.If) -> bool:
    above = script.parent(branch)
    return isinstance(above, ast.If) and above.orelse == [branch]


def _is_forgiven(script: Script, call: ast.Call) -> bool:
    """Whether a directory may be there already."""
    if any(each.arg == "exist_ok" and not is_constant(each.value, False) for each in call.keywords):
        return True
    for outer in script.ancestors(call):
        if isinstance(outer, ast.Try) and any(script.inside(call, each) for each in outer.body):
            kinds = [part.id for each in outer.handlers if each.type for part in script.within(each.type, ast.Name)]
            if any(each.type is None for each in outer.handlers) or _FORGIVING & set(kinds):
                return True
    return False


def _downloads_itself(script: Script, call: ast.Call) -> bool:
    """Whether what is called is in sight, and has a download, which is put in order there."""
    functions = script.callees(call)
    downloads = (
        any(file_call(other, each) is FileCall.DOWNLOAD for each in other.within(function, ast.Call))
        for other, function in functions
    )
    return len(functions) == len(script.values(call.func)) and all(downloads)


def _is_in_order(script: Script, call: ast.Call, kind: FileCall) -> bool:
    """Whether it stands in a block of the first rank's already, or what it calls is put in order itself."""
    if isinstance(call.func, ast.Call) and script.runtime_name(call.func.func) == _FIRST:
        return True
    return (kind is FileCall.DOWNLOAD and _downloads_itself(script, call)) or any(
        isinstance(item.context_expr, ast.Call) and script.runtime_name(item.context_expr.func) == _FIRST
        for outer in script.ancestors(call)
        if isinstance(outer, ast.With)
        for item in outer.items
    )


def _wraps(script: Script, statements: Iterable[ast.stmt]) -> Iterator[Edit]:
    """One block for each run of neighbours."""
    runs: list[list[ast.stmt]] = []
    for each in statements:
        if any(each is not other and script.inside(each, other) for other in statements):
            continue
        block = script.block(each)
        if runs and runs[-1][-1] in block and block.index(runs[-1][-1]) == block.index(each) - 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    for run in runs:
        yield WrapStatements(run[0], run[-1], Code(f"with {script.accel}.{_FIRST}()"))
