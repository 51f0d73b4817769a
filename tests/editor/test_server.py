"""The language server as an editor sees it: a process, and messages on its standard input and
output."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flowc.editor.findings import findings
from flowc.editor.session import Session
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient
from pygls.uris import from_fs_path

from builds import HANGS, ROOT

FAULTY = ROOT / "tests" / "faulty"
TEXT = "task T { out x: int64 }\ntask S { in x: int64 }\napp A { t: T   s: S   t -> s }\n"


class Editor:
    """An editor without a window."""

    def __init__(self) -> None:
        self.client = LanguageClient("test", "1")
        self.shown: dict[str, list[lsp.Diagnostic]] = {}
        self._news = asyncio.Event()
        self._versions = 0

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: lsp.PublishDiagnosticsParams) -> None:
            self.shown[params.uri] = list(params.diagnostics)
            self._news.set()

    async def start(self) -> lsp.InitializeResult:
        await self.client.start_io(sys.executable, "-m", "flowc", "lsp", "--stdio")
        general = lsp.GeneralClientCapabilities(position_encodings=[lsp.PositionEncodingKind.Utf16])
        capabilities = lsp.ClientCapabilities(general=general)
        found = await self.client.initialize_async(
            lsp.InitializeParams(
                capabilities=capabilities, initialization_options={"commands": True}
            )
        )
        self.client.initialized(lsp.InitializedParams())
        return found

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()
        assert self.client._server.returncode == 0

    def open(self, path: Path, text: str) -> str:
        uri = from_fs_path(str(path)) or ""
        item = lsp.TextDocumentItem(uri, "flow", 1, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, text: str) -> None:
        self._versions += 1
        document = lsp.VersionedTextDocumentIdentifier(version=self._versions, uri=uri)
        whole = [lsp.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, whole))

    def close(self, uri: str) -> None:
        self.client.text_document_did_close(
            lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(uri))
        )

    def shows(self, uri: str, count: int) -> bool:
        """Does it know of this text, and show so many diagnostics?"""
        return uri in self.shown and len(self.all_shown) == count

    @property
    def all_shown(self) -> list[lsp.Diagnostic]:
        """Everything."""
        return [d for shown in self.shown.values() for d in shown]

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), HANGS)


#: A diagnostic as it is printed: its code, the first line of its message, and its line, where it
#: has one.
PRINTED = re.compile(r"^(?:error|warning)\[(\w+)\]: (.*)(?:\n +--> .*:(\d+):\d+$)?", re.MULTILINE)
Shown = list[tuple[str, str, int]]


@pytest.fixture
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Path, tuple[str, Shown]]:
    """Every faulty text that `flowc check` reads, with what it prints of it."""
    monkeypatch.chdir(shutil.copytree(FAULTY, tmp_path / "faulty"))
    texts = {}
    for path in sorted((tmp_path / "faulty").glob("F*.flow")):
        text = path.read_bytes().decode(errors="replace")
        if not re.search(r"^// \$ ", text, re.MULTILINE) and not {"\0", "\ufffd"} & set(text):
            printed = PRINTED.findall(path.with_suffix(".txt").read_text())
            texts[path] = (
                text,
                sorted((code, message, int(line or 1)) for code, message, line in printed),
            )
    assert len(texts) > 200
    return texts


def in_an_editor(what: Callable[[Editor], Coroutine[Any, Any, None]]) -> None:
    """Do something with a server that runs."""

    async def whole() -> None:
        editor = Editor()
        await editor.start()
        await what(editor)
        await editor.stop()

    async def bounded(work: Awaitable[None]) -> None:
        await asyncio.wait_for(work, HANGS)

    asyncio.run(bounded(whole()))


def test_an_editor_is_answered(tmp_path: Path, catalogue: dict[Path, tuple[str, Shown]]) -> None:
    """And shows faulty texts as it is told to."""

    async def talk(editor: Editor) -> None:
        uri = editor.open(tmp_path / "a b%.flow", TEXT.replace("s: S ", "s: Z "))
        await editor.until(lambda: bool(editor.shown.get(uri)))
        (first,) = [d for d in editor.shown[uri] if d.severity == lsp.DiagnosticSeverity.Error]
        assert (first.code, first.source, first.range.start) == (
            "F101",
            "flowc",
            lsp.Position(2, 18),
        )
        assert first.code_description is not None and first.code_description.href.endswith(
            "diagnostics.md#f101"
        )
        editor.change(uri, TEXT)
        await editor.until(lambda: not editor.shown[uri])
        document, place = lsp.TextDocumentIdentifier(uri), lsp.Position(2, 8)
        client = editor.client
        said = await client.text_document_hover_async(lsp.HoverParams(document, place))
        assert said is not None and "t: T" in str(said.contents)
        found = await client.text_document_definition_async(
            lsp.DefinitionParams(document, lsp.Position(2, 11))
        )
        assert isinstance(found, lsp.Location) and found.range.start == lsp.Position(0, 5)
        edit = await client.text_document_rename_async(lsp.RenameParams(document, place, "source"))
        assert edit is not None and edit.changes is not None and len(edit.changes[uri]) == 2
        with pytest.raises(Exception, match="two instances are called"):
            await client.text_document_rename_async(lsp.RenameParams(document, place, "s"))
        options = lsp.FormattingOptions(tab_size=4, insert_spaces=True)
        editor.change(uri, TEXT.replace("task S {", "task   S{"))
        changes = await client.text_document_formatting_async(
            lsp.DocumentFormattingParams(document, options)
        )
        assert changes is not None and changes[0].new_text == TEXT
        offers = await client.text_document_completion_async(
            lsp.CompletionParams(document, lsp.Position(2, 11))
        )
        assert isinstance(offers, list) and {"T", "S"} <= {o.label for o in offers}
        symbols = await client.text_document_document_symbol_async(
            lsp.DocumentSymbolParams(document)
        )
        assert symbols is not None and len(symbols) == 3
        lenses = await client.text_document_code_lens_async(lsp.CodeLensParams(document))
        assert lenses is not None and {le.range.start.line for le in lenses} == {2}
        assert [
            (c.title, c.command, list(c.arguments or ())) for le in lenses if (c := le.command)
        ] == [
            (title, f"flowc.{title.lower()}", [str(tmp_path / "a b%.flow")])
            for title in ("Run", "Map", "Report")
        ]
        editor.close(uri)
        await editor.until(lambda: editor.shown[uri] == [])
        for path, (text, expected) in list(catalogue.items())[::20]:
            uri = editor.open(path, text)
            await editor.until(partial(editor.shows, uri, len(expected)))
            assert shown(editor.all_shown) == expected, path.name
            editor.close(uri)
            await editor.until(partial(editor.shows, uri, 0))

    in_an_editor(talk)


@pytest.mark.parametrize(
    "uri", ["file:///a%00b.flow", "file:///a\ud800.flow", "untitled:\udc00", "\0"]
)
def test_addresses_that_no_text_has_are_refused(uri: str, tmp_path: Path) -> None:
    async def talk(editor: Editor) -> None:
        document = lsp.TextDocumentIdentifier(uri)
        editor.client.text_document_did_open(
            lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "flow", 1, TEXT))
        )
        editor.change(uri, TEXT)
        editor.close(uri)
        with pytest.raises(Exception, match="is not the URI of a text"):
            await editor.client.text_document_hover_async(
                lsp.HoverParams(document, lsp.Position(0, 0))
            )
        fine = editor.open(tmp_path / "a.flow", TEXT)
        await editor.until(lambda: fine in editor.shown)

    in_an_editor(talk)


def test_an_editor_is_told_what_check_prints(catalogue: dict[Path, tuple[str, Shown]]) -> None:
    for path, (text, expected) in catalogue.items():
        session = Session()
        session.change(str(path), text)
        found = findings(session, session.seen(str(path)))
        assert shown(d for said in found.values() for d in said) == expected, path.name


def shown(found: Iterable[lsp.Diagnostic]) -> Shown:
    """Code, first line of the message, and line of each."""
    here = f"{Path.cwd()}/"  # paths of an editor are whole
    return sorted(
        (str(d.code), d.message.partition("\n")[0].replace(here, ""), d.range.start.line + 1)
        for d in found
    )
