"""The language server: requests of an editor, over standard input and output, to answers of the other modules.

A text is checked when nothing was typed for a moment, and before a question about it is answered. What goes wrong in
an answer is said in the editor's log; the server goes on.
"""

from __future__ import annotations

import asyncio
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from .. import __version__
from ..dsl.format import format_text
from ..model.diagnostic import Errors
from . import navigate, outline
from .completion import complete
from .findings import actions, findings
from .hover import hover
from .places import plain
from .session import Seen, Session

#: Seconds without a change after which a text is checked.
PAUSE = 0.01


class Server(LanguageServer):
    """What pygls serves, with the session of the one editor that it talks to."""

    def __init__(self) -> None:
        super().__init__("flowc", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full)
        self.session = Session()
        #: Does the editor know `outline.COMMANDS`? It says so with `{"commands": true}` when it starts the server.
        self.commands = False
        #: Has the editor asked it to stop, as it has to before it says `exit`?
        self.asked_to_stop = False
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._shown: dict[str, dict[str, list[lsp.Diagnostic]]] = {}

    def later(self, paths: tuple[str, ...]) -> None:
        """Check these texts as soon as nothing is typed any more."""
        for path in paths:
            if path in self._waiting:
                self._waiting[path].cancel()
            self._waiting[path] = asyncio.get_running_loop().call_later(PAUSE, self._check, path)

    def _check(self, path: str) -> None:
        self._waiting.pop(path, None)
        if path not in self.session.open:
            return
        try:
            found = findings(self.session, self.session.seen(path))
        except Exception as error:  # a mistake of ours: the editor shows it, and the next change is another chance
            self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, f"flowc: {error!r} in {path}"))
            return
        before, self._shown[path] = self._shown.get(path, {}), found
        self._publish(*before, *found)

    def closed(self, path: str) -> None:
        """Nothing is shown of a text that is no longer open."""
        if path in self._waiting:
            self._waiting.pop(path).cancel()
        self._publish(*self._shown.pop(path, {}))

    def _publish(self, *files: str) -> None:
        """What all open texts say of some files, each thing once."""
        for file in dict.fromkeys(files):
            found: list[lsp.Diagnostic] = []
            for said in self._shown.values():
                found += [d for d in said.get(file, ()) if d not in found]
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri_of(file), found))


def uri_of(path: str) -> str:
    """The address of a file."""
    return path if "://" in path else from_fs_path(path) or path


def path_of(uri: str) -> str:
    """The path of an address; a text that was never saved keeps its address as its name."""
    return (to_fs_path(uri) if uri.startswith("file:") else None) or uri


def make() -> Server:
    """A server with all that it can do."""
    server = Server()
    _texts(server)
    _questions(server)
    _edits(server)
    return server


def _texts(server: Server) -> None:
    """What is open, and what changes."""

    @server.feature(lsp.INITIALIZE)
    def initialize(ls: Server, params: lsp.InitializeParams) -> None:
        wished = params.initialization_options
        ls.commands = isinstance(wished, dict) and wished.get("commands") is True

    @server.feature(lsp.SHUTDOWN)
    def shutdown(ls: Server, *_: object) -> None:
        ls.asked_to_stop = True

    @server.feature(lsp.INITIALIZED)
    def initialized(ls: Server, params: lsp.InitializedParams) -> None:
        ls.session.encoding = str(getattr(ls.workspace.position_encoding, "value", ls.workspace.position_encoding))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        ls.later(ls.session.change(path_of(document.uri), document.text))

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
        if params.content_changes:
            text = params.content_changes[-1].text
            ls.later(ls.session.change(path_of(params.text_document.uri), text))

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
        path = path_of(params.text_document.uri)
        again = ls.session.close(path)
        ls.closed(path)
        ls.later(again)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: Server, params: lsp.DidSaveTextDocumentParams) -> None:
        _again(ls)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def files(ls: Server, params: lsp.DidChangeWatchedFilesParams) -> None:
        _again(ls)


def _again(ls: Server) -> None:
    """Files beside the texts may have changed: code, networks, profiles."""
    ls.session.forget()
    ls.later(ls.session.open)


def _at(ls: Server, params: Any) -> tuple[Session, Seen, str, int, int]:
    """The place that a question is about."""
    path = path_of(params.text_document.uri)
    return (ls.session, ls.session.seen(path), path, *ls.session.lines(path).place(params.position))


def _questions(server: Server) -> None:
    """What an editor asks."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def on_hover(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
        said = hover(*_at(ls, params))
        return None if said is None else lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, said))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def on_definition(ls: Server, params: lsp.DefinitionParams) -> lsp.Location | None:
        return navigate.definition(*_at(ls, params))

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def on_references(ls: Server, params: lsp.ReferenceParams) -> list[lsp.Location]:
        return navigate.references(*_at(ls, params), params.context.include_declaration)

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=list('.:"/>')))
    def on_completion(ls: Server, params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        return complete(*_at(ls, params))

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def on_symbols(ls: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        path = path_of(params.text_document.uri)
        return outline.outline(ls.session, ls.session.seen(path), path)

    @server.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    def on_folding(ls: Server, params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
        return list(outline.folds(ls.session.text(path_of(params.text_document.uri))))

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
    def on_lenses(ls: Server, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        path = path_of(params.text_document.uri)
        return outline.lenses(ls.session, ls.session.seen(path), path) if ls.commands else []

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def on_hints(ls: Server, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        path = path_of(params.text_document.uri)
        return list(outline.hints(ls.session, ls.session.seen(path), path, params.range))


def _edits(server: Server) -> None:
    """What an editor asks to be changed."""

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def on_prepare(ls: Server, params: lsp.PrepareRenameParams) -> lsp.Range | None:
        session, seen, path, line, column = _at(ls, params)
        found = seen.index.at(path, line, column)
        return None if found is None else session.lines(path).range(found[0])

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def on_rename(ls: Server, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        try:
            return navigate.edits(*_at(ls, params), params.new_name)
        except navigate.Refused as refused:
            raise JsonRpcInvalidParams(str(refused)) from refused

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def on_format(ls: Server, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        path = path_of(params.text_document.uri)
        text = ls.session.text(path)
        try:
            formatted = format_text(path, plain(text))
        except Errors:
            return []
        return [] if formatted == text else [lsp.TextEdit(ls.session.lines(path).whole, formatted)]

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    def on_actions(ls: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        path = path_of(params.text_document.uri)
        return list(actions(ls.session, ls.session.seen(path), path, params.range))
