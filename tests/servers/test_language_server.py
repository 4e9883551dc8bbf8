"""The language server: as an editor meets it, over stdin and stdout, and what it does when texts change meanwhile."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient
from pygls.workspace import Workspace

from autoaccel.config import configure
from autoaccel.servers import open_text
from autoaccel.servers.language_server import FIX_ALL, Server
from autoaccel.servers.open_text import Configure, OpenText, Surroundings

# A line that editors count otherwise than Python does, twice: in UTF-16, and at a form feed.
TEXT = "import torch\r\n\x0c\r\n'😀𝒙'; x = torch.zeros(3).to('cuda')\r\ny = torch.ones(3).to('cuda')\r\n"
EDITED = TEXT.replace("zeros(3).to('cuda')", "zeros(3, device='cuda')").replace(
    "ones(3).to('cuda')", "ones(3, device='cuda')"
)


class Editor(LanguageClient):
    """A client, and what it was told of each text."""

    def __init__(self) -> None:
        super().__init__("editor", "1")
        self.told: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.messages: list[str] = []

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def told(params: types.PublishDiagnosticsParams) -> None:
            self.told.put_nowait(params)

        @self.feature(types.WINDOW_SHOW_MESSAGE)  # type: ignore[untyped-decorator]
        def message(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)

    async def diagnostics(self) -> types.PublishDiagnosticsParams:
        return await asyncio.wait_for(self.told.get(), 60)

    def open(self, path: Path, text: str, version: int = 1) -> str:
        uri = path.as_uri()
        item = types.TextDocumentItem(uri, "python", version, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, text: str, version: int) -> None:
        document = types.VersionedTextDocumentIdentifier(version, uri)
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.text_document_did_change(types.DidChangeTextDocumentParams(document, [whole]))

    async def actions(self, uri: str, where: types.Range, only: list[str] | None = None) -> list[types.CodeAction]:
        context = types.CodeActionContext([], only)
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), where, context)
        found = await self.text_document_code_action_async(params)
        return [each for each in found or () if isinstance(each, types.CodeAction)]


def talk(
    says: Callable[[Editor], Awaitable[None]], *options: str, capabilities: types.ClientCapabilities | None = None
) -> None:
    """Start the server, let an editor say something, and see it end."""

    async def session() -> None:
        editor = Editor()
        await editor.start_io(sys.executable, "-m", "autoaccel", "server", *options)
        await editor.initialize_async(
            types.InitializeParams(capabilities or types.ClientCapabilities(), process_id=None, root_uri=None)
        )
        editor.initialized(types.InitializedParams())
        await says(editor)
        await editor.shutdown_async(None)
        editor.exit(None)
        await asyncio.wait_for(editor.stop(), 60)  # type: ignore[no-untyped-call]

    asyncio.run(session())


def edited(text: str, edits: list[types.TextEdit]) -> str:
    """The text as an editor has it afterwards, which counts in UTF-16."""
    starts = [0]
    for line in text.split("\n")[:-1]:
        starts.append(starts[-1] + len(f"{line}\n".encode("utf-16-le")))

    def offset(position: types.Position) -> int:
        return starts[position.line] + 2 * position.character

    data = text.encode("utf-16-le")
    for each in sorted(edits, key=lambda edit: offset(edit.range.start), reverse=True):
        start, end = offset(each.range.start), offset(each.range.end)
        data = data[:start] + each.new_text.encode("utf-16-le") + data[end:]
    return data.decode("utf-16-le")


def changes(action: types.CodeAction, uri: str) -> list[types.TextEdit]:
    assert action.edit is not None and action.edit.changes is not None
    return [*action.edit.changes[uri]]


def test_what_an_editor_sees(tmp_path: Path) -> None:
    async def says(editor: Editor) -> None:
        uri = editor.open(tmp_path / "train.py", TEXT)  # which is not saved
        told = await editor.diagnostics()
        assert (told.uri, told.version) == (uri, 1)
        first, second = told.diagnostics
        assert (first.code, first.source, first.severity) == ("AA101", "autoaccel", types.DiagnosticSeverity.Warning)
        assert first.code_description and first.code_description.href.endswith("/docs/rules/create-on-device.md")
        assert first.range == types.Range(types.Position(2, 12), types.Position(2, 26))

        hover = await editor.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(2, 20))
        )
        assert hover and isinstance(hover.contents, types.MarkupContent)
        assert hover.contents.value.startswith("# AA101 create-on-device\n")
        nothing = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(0, 3))
        assert await editor.text_document_hover_async(nothing) is None

        mend, everything = await editor.actions(uri, first.range)
        assert mend.kind == "quickfix" and mend.diagnostics and [*mend.diagnostics] == [first]
        assert edited(TEXT, changes(mend, uri)) == EDITED.replace("ones(3, device='cuda')", "ones(3).to('cuda')")
        assert everything.kind == FIX_ALL
        assert edited(TEXT, changes(everything, uri)) == EDITED
        for only, kinds in (("source", [FIX_ALL]), ("source.fixAll", [FIX_ALL]), (FIX_ALL, [FIX_ALL])):
            assert [each.kind for each in await editor.actions(uri, first.range, [only])] == kinds
        assert await editor.actions(uri, first.range, ["source.organizeImports"]) == []
        assert [each.kind for each in await editor.actions(uri, second.range, ["quickfix"])] == ["quickfix"]

        editor.change(uri, EDITED, 2)
        assert await editor.diagnostics() == types.PublishDiagnosticsParams(uri, (), 2)
        assert await editor.actions(uri, first.range) == []
        editor.change(uri, TEXT + "y = (\n", 3)
        (broken,) = (await editor.diagnostics()).diagnostics
        assert (broken.code, broken.message) == ("invalid-syntax", "cannot parse: '(' was never closed")
        assert broken.range.start == types.Position(4, 4)
        editor.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
        assert await editor.diagnostics() == types.PublishDiagnosticsParams(uri, ())

    talk(says)


def test_edits_are_made_when_the_editor_asks_for_them_and_name_the_version(tmp_path: Path) -> None:
    resolving = types.ClientCapabilities(
        workspace=types.WorkspaceClientCapabilities(workspace_edit=types.WorkspaceEditClientCapabilities(True)),
        text_document=types.TextDocumentClientCapabilities(
            code_action=types.CodeActionClientCapabilities(
                resolve_support=types.ClientCodeActionResolveOptions(properties=["edit"])
            )
        ),
    )

    async def says(editor: Editor) -> None:
        uri = editor.open(tmp_path / "train.py", TEXT, 7)
        where = (await editor.diagnostics()).diagnostics[0].range
        for action in await editor.actions(uri, where):
            assert action.edit is None
            resolved = await editor.code_action_resolve_async(action)
            assert resolved.edit and resolved.edit.document_changes
            (change,) = resolved.edit.document_changes
            assert isinstance(change, types.TextDocumentEdit)
            assert (change.text_document.uri, change.text_document.version) == (uri, 7)
        editor.change(uri, TEXT + "\n", 8)
        with pytest.raises(JsonRpcException, match="Content Modified"):
            await editor.code_action_resolve_async(action)

    talk(says, capabilities=resolving)


def test_the_options_hold_and_the_thread_has_room_for_deep_code(tmp_path: Path) -> None:
    async def says(editor: Editor) -> None:
        editor.open(tmp_path / "train.py", f"{TEXT}z = {'-' * 900}1\n")
        assert len((await editor.diagnostics()).diagnostics) == 2
        editor.open(tmp_path / "deep.py", f"{TEXT}z = {'-' * 20_000}1\n")
        (said,) = (await editor.diagnostics()).diagnostics
        assert said.code == "too-deep"
        editor.open(tmp_path / "other.py", "import torch\ntorch.zeros(3).to('cuda')\nfrom torch.utils import data\n")
        assert [each.code for each in (await editor.diagnostics()).diagnostics] == ["AA101"]

    talk(says, "--select", "AA101", "--tier", "exact")


def test_it_ends_with_the_editor(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "autoaccel", "server"]
    done = subprocess.run(command, input=b"", capture_output=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# -- in this process


class Quiet(Server):
    """A server without an editor, which says to a list what it tells."""

    def __init__(self) -> None:
        def configured(path: Path) -> object:
            return configure(path.parent)

        super().__init__(configured, configured)  # type: ignore[arg-type]
        self.protocol._workspace = Workspace(None, types.TextDocumentSyncKind.Full)
        self.told: list[tuple[str, int | None, int]] = []

    def text_document_publish_diagnostics(self, params: types.PublishDiagnosticsParams) -> None:
        self.told.append((Path(params.uri).name, params.version, len(params.diagnostics)))

    def put(self, uri: str, text: str, version: int, language: str = "python") -> None:
        self.workspace.put_text_document(types.TextDocumentItem(uri, language, version, text))
        self.check(uri)


class Slow:
    """An analysis that goes on until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started, self.go_on = threading.Semaphore(0), threading.Semaphore(0)
        self.texts: list[str] = []
        really = open_text.inspect

        def inspect(
            text: str, path: Path, configure: Configure, others: dict[Path, str], around: Surroundings
        ) -> OpenText:
            self.texts.append(text)
            self.started.release()
            self.go_on.acquire()
            return really(text, path, configure, others, around)

        monkeypatch.setattr(open_text, "inspect", inspect)

    async def begun(self) -> None:
        await asyncio.to_thread(self.started.acquire)


def test_what_was_found_in_an_old_version_is_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)

    async def says() -> None:
        server = Quiet()
        server.put("file:///a/train.py", TEXT, 1)
        await slow.begun()
        asked = asyncio.ensure_future(server.hover(_at("file:///a/train.py")))
        await asyncio.sleep(0)
        server.put("file:///a/train.py", TEXT + "#", 2)  # while the first is looked at
        server.put("file:///a/train.py", EDITED, 3)
        for _ in range(3):
            slow.go_on.release()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await settled(server)
        assert server.told == [("train.py", 3, 0)]
        assert slow.texts == [TEXT, EDITED]

    asyncio.run(says())


def test_what_is_closed_meanwhile_is_not_spoken_of_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)

    async def says() -> None:
        server = Quiet()
        server.put("file:///a/train.py", TEXT, 1)
        await slow.begun()
        server.workspace.remove_text_document("file:///a/train.py")
        server.close("file:///a/train.py")
        slow.go_on.release()
        await asyncio.get_running_loop().run_in_executor(server._worker, int)
        await asyncio.sleep(0)
        assert server.told == [("train.py", None, 0)]

    asyncio.run(says())


def test_a_saved_file_is_a_reason_to_look_at_all_texts_again(tmp_path: Path) -> None:
    async def says() -> None:
        server = Quiet()
        server.put((tmp_path / "one.py").as_uri(), TEXT, 1)
        server.put((tmp_path / "two.py").as_uri(), TEXT, 4)
        await settled(server)
        (tmp_path / "pyproject.toml").write_text('[tool.autoaccel]\nignore = ["AA1"]\n')
        server.check_all()
        await settled(server)
        assert server.told == [("one.py", 1, 2), ("two.py", 4, 2), ("one.py", 1, 0), ("two.py", 4, 0)]

    asyncio.run(says())


def test_what_is_no_script_is_left_alone() -> None:
    async def says() -> None:
        server = Quiet()
        server.put("vscode-notebook-cell:/a/train.ipynb#W0", TEXT, 1)
        server.put("file:///a/train.ipynb", TEXT, 1, "json")
        server.put("file:///a/train.md", TEXT, 1, "markdown")
        server.put("untitled:Untitled-1", TEXT, 1)
        await settled(server)
        assert server.told == [("untitled:Untitled-1", 1, 2)]
        assert await server.hover(_at("file:///a/train.ipynb")) is None
        context = types.CodeActionContext([])
        identifier, where = types.TextDocumentIdentifier("file:///a/train.ipynb"), _at("").position
        assert await server.code_actions(types.CodeActionParams(identifier, types.Range(where, where), context)) == []

    asyncio.run(says())


def test_a_finding_that_became_another_one_is_not_carried_out(tmp_path: Path) -> None:
    """The text is the same, but other files, or the configuration, are not."""

    async def says() -> None:
        server = Quiet()
        server.protocol.client_capabilities = types.ClientCapabilities()
        uri = (tmp_path / "train.py").as_uri()
        server.put(uri, TEXT, 1)
        for number, record in ((0, "AA101 1:1"), (9, "AA101 3:11")):
            action = types.CodeAction("", data={"uri": uri, "version": 1, "number": number, "record": record})
            with pytest.raises(JsonRpcException, match="Content Modified"):
                await server.resolve(action)

    asyncio.run(says())


def test_why_nothing_is_edited_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autoaccel.rewriting import check

    monkeypatch.setattr(check, "problem", lambda *_: "it is wrong")
    said: list[str] = []

    async def says() -> None:
        server = Quiet()
        server.window_show_message = lambda params: said.append(params.message)  # type: ignore[method-assign]
        uri = (tmp_path / "train.py").as_uri()
        server.put(uri, TEXT, 1)
        action = types.CodeAction("", data={"uri": uri, "version": 1})
        assert (await server.resolve(action)).edit is None

    asyncio.run(says())
    assert len(said) == 1 and "self-check failed: it is wrong" in said[0]


async def settled(server: Quiet) -> None:
    await asyncio.gather(*server._checks.values(), return_exceptions=True)


def _at(uri: str) -> types.HoverParams:
    return types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(2, 20))


def test_an_orderly_end() -> None:
    def message(**content: object) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", **content}).encode()
        return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

    start = message(id=1, method="initialize", params={"processId": None, "rootUri": None, "capabilities": {}})
    told = start + message(method="initialized", params={}) + message(id=2, method="shutdown") + message(method="exit")
    ended = subprocess.run([sys.executable, "-m", "autoaccel", "server"], input=told, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
