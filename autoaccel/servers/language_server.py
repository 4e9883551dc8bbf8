"""The findings of open texts in an editor, by the Language Server Protocol.

https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcContentModified
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from autoaccel import __version__
from autoaccel.config import known_rules
from autoaccel.notebooks import is_notebook
from autoaccel.reports.rules import explanation_markdown
from autoaccel.rewriting.linting import text_edits
from autoaccel.rewriting.record import Failure, Range, Record
from autoaccel.rewriting.recording import in_order
from autoaccel.servers import open_text
from autoaccel.servers.open_text import Configure, NotRewrittenError, OpenText, Surroundings

QUICK_FIX = types.CodeActionKind.QuickFix.value
FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.autoaccel"

_PAUSE = 0.1  # seconds without a change after which a text is looked at
_STACK = 64 * 1024 * 1024  # bytes: where the system is sparing, threads get less than a deep syntax tree takes
_SCHEMES = ("file:", "untitled:")  # not the cells of notebooks, which are no scripts
_UNNAMED = Path("<untitled>")

T = TypeVar("T")


class Server(LanguageServer):
    """Speaks of texts as they are: what was found out about an older version is never told.

    All analyses are made by one thread, one after the other; all else is done by the thread that talks to the editor.
    """

    def __init__(self, configure: Configure, configure_rewrite: Configure) -> None:
        """`configure` says what is found in a file, `configure_rewrite` what a rewrite of the whole file changes."""
        # Whole texts: pygls would count lines as Python does, which breaks them at form feeds, too.
        super().__init__("autoaccel", __version__, types.TextDocumentSyncKind.Full)
        self._configure = configure
        self._configure_rewrite = configure_rewrite
        self._around = Surroundings()  # which nobody but the worker looks at
        self._worker = ThreadPoolExecutor(1, "analysis")
        self._inspected: dict[str, asyncio.Future[OpenText]] = {}
        self._checks: dict[str, asyncio.Task[None]] = {}

    # -- texts

    def check_all(self) -> None:
        """A file that has changed on disk may change what is to be said of all others."""
        for uri in self._checks:
            self.check(uri)

    def close(self, uri: str) -> None:
        self._forget(uri)
        if self._checks.pop(uri, None) is not None:
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def _forget(self, uri: str) -> None:
        if uri in self._checks:
            self._checks[uri].cancel()
        if uri in self._inspected:
            self._inspected.pop(uri).cancel()

    def check(self, uri: str, pause: float = 0.0) -> None:
        """Say what there is to say about a text, unless it changes before that is known."""
        self._forget(uri)
        if _is_script(self.workspace.get_text_document(uri)):
            self._checks[uri] = asyncio.ensure_future(self._publish(uri, pause))

    async def _publish(self, uri: str, pause: float) -> None:
        await asyncio.sleep(pause)
        document = self.workspace.get_text_document(uri)
        version = document.version
        found = await self._inspect(uri)
        diagnostics = [
            *(self._diagnostic(each, found) for each in in_order(found.records)),
            *(self._problem(failure, said, found) for failure, said in found.problems),
        ]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, version))

    async def _inspect(self, uri: str) -> OpenText:
        """What there is to say about a text as it is now; cancelled when the text changes."""
        if uri not in self._inspected:
            self._inspected[uri] = self._in_worker(uri, open_text.inspect, self._configure)
        return await asyncio.shield(self._inspected[uri])

    def _in_worker(
        self, uri: str, ask: Callable[[str, Path, Configure, dict[Path, str], Surroundings], T], configure: Configure
    ) -> asyncio.Future[T]:
        document = self.workspace.get_text_document(uri)
        scripts = [each for each in self.workspace.text_documents.values() if _is_script(each)]
        others = {_path(each): each.source for each in scripts if each.uri != uri and each.uri.startswith("file:")}
        work = partial(ask, document.source, _path(document), configure, others, self._around)
        return asyncio.get_running_loop().run_in_executor(self._worker, work)

    # -- what the editor shows

    def _diagnostic(self, record: Record, found: OpenText) -> types.Diagnostic:
        where, severity = self._range(record.where, found), types.DiagnosticSeverity.Warning
        about = types.CodeDescription(record.url) if record.url else None
        return types.Diagnostic(where, _said(record), severity, record.code, about, "autoaccel")

    def _problem(self, failure: Failure, said: str, found: OpenText) -> types.Diagnostic:
        where = self._range(Range(failure.line, failure.column, failure.line, failure.column), found)
        return types.Diagnostic(where, said, types.DiagnosticSeverity.Error, failure.code, source="autoaccel")

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        if uri not in self._checks:
            return None
        found = await self._inspect(uri)
        here = types.Range(params.position, params.position)
        codes = dict.fromkeys(each.code for each in found.records if _overlap(self._range(each.where, found), here))
        rules = {rule.code: rule for rule in known_rules()}
        pages = [explanation_markdown(rules[code]) for code in codes]
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n\n---\n\n".join(pages))) if pages else None

    # -- what it can do about it

    async def code_actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        if uri not in self._checks:
            return []
        version, found = self.workspace.get_text_document(uri).version, await self._inspect(uri)
        mended = [number for number, finding in enumerate(found.findings) if finding.edits]
        actions = []
        for number in mended if _is_wanted(QUICK_FIX, params.context.only) else ():
            record = found.records[number]
            if _overlap(self._range(record.where, found), params.range):
                action = types.CodeAction(_said(record), QUICK_FIX)
                action.diagnostics = [self._diagnostic(record, found)]
                action.data = {"uri": uri, "version": version, "number": number, "record": _identity(record)}
                actions.append(action)
        if mended and _is_wanted(FIX_ALL, params.context.only):
            action = types.CodeAction("autoaccel: rewrite the file", FIX_ALL, data={"uri": uri, "version": version})
            actions.append(action)
        return actions if self._resolves_edits() else [await self.resolve(each) for each in actions]

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        """The action with its edit; without one, and with a message, where nothing can be edited."""
        given: Any = action.data
        uri, version, number = given["uri"], given["version"], given.get("number")
        if uri not in self._checks:
            raise JsonRpcContentModified
        found = await self._inspect(uri)
        if number is not None and given["record"] not in map(_identity, found.records[number : number + 1]):
            raise JsonRpcContentModified  # another file has changed
        try:
            if number is None:
                after = await self._in_worker(uri, open_text.rewritten, self._configure_rewrite)
            else:
                after = await asyncio.get_running_loop().run_in_executor(self._worker, found.with_finding, number)
        except NotRewrittenError as error:
            self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, str(error)))
            return action
        if self.workspace.get_text_document(uri).version != version:
            raise JsonRpcContentModified
        action.edit = self._edit(uri, version, found, after)
        return action

    def _edit(self, uri: str, version: int | None, found: OpenText, after: str) -> types.WorkspaceEdit:
        edits = [types.TextEdit(self._range(each.where, found), each.content) for each in text_edits(found.text, after)]
        workspace = self.client_capabilities.workspace
        if workspace and workspace.workspace_edit and workspace.workspace_edit.document_changes:
            document = types.OptionalVersionedTextDocumentIdentifier(uri, version)
            return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, edits)])
        return types.WorkspaceEdit(changes={uri: edits})

    def _resolves_edits(self) -> bool:
        text_document = self.client_capabilities.text_document
        code_action = text_document.code_action if text_document else None
        resolve = code_action.resolve_support if code_action else None
        return resolve is not None and "edit" in resolve.properties

    def _range(self, where: Range, found: OpenText) -> types.Range:
        """A stretch of a text in the units of the editor: lines from 0 and, by default, UTF-16."""
        places = (where.line, where.column), (where.end_line, where.end_column)
        codec = self.workspace.position_codec
        start, end = (
            codec.position_to_client_units(found.lines, types.Position(line - 1, column - 1)) for line, column in places
        )
        return types.Range(start, end)


def _is_script(document: TextDocument) -> bool:
    """Whether a document is one to look at: a Python script, in a file or not yet."""
    is_python = document.language_id in (None, "", "python") or document.path.endswith(".py")
    return is_python and document.uri.startswith(_SCHEMES) and not is_notebook(document.path)


def _path(document: TextDocument) -> Path:
    return Path(document.path) if document.uri.startswith("file:") else _UNNAMED


def _overlap(one: types.Range, other: types.Range) -> bool:
    """Whether two stretches touch, be it at their ends: a cursor behind the last letter is at the word."""
    return _key(one.start) <= _key(other.end) and _key(other.start) <= _key(one.end)


def _key(position: types.Position) -> tuple[int, int]:
    return position.line, position.character


def _said(record: Record) -> str:
    return f"{record.name}: {record.message} [{record.tier}]"


def _identity(record: Record) -> str:
    return f"{record.code} {record.place}"


def _is_wanted(kind: str, only: Sequence[str] | None) -> bool:
    """Whether an editor asks for actions of a kind; for those of `source`, say, it gets all kinds below."""
    return only is None or any(each == "" or f"{kind}.".startswith(f"{each}.") for each in only)


def connected(server: Server) -> Server:
    """The server, which now hears what the editor says."""

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.check(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        server.check(params.text_document.uri, _PAUSE)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(_: types.DidSaveTextDocumentParams) -> None:
        server.check_all()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.close(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        return await server.hover(params)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([QUICK_FIX, FIX_ALL], resolve_provider=True)
    )
    async def code_actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        return await server.code_actions(params)

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(action: types.CodeAction) -> types.CodeAction:
        return await server.resolve(action)

    return server


def serve(configure: Configure, configure_rewrite: Configure) -> None:
    """Talk to an editor over stdin and stdout until it leaves."""
    threading.stack_size(_STACK)
    connected(Server(configure, configure_rewrite)).start_io()
