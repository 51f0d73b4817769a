"""The language server: passes requests of an editor, over standard input and output, to the workers
of its texts.

It only forwards: texts to `workers`, which check them, questions, and answers. So it always
responds to the editor, even while workers are busy. Errors in a worker are logged in the editor;
the server continues.
"""

from __future__ import annotations

import logging
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.uris import from_fs_path, to_fs_path

from ..model.version import __version__
from .workers import CannotAnswer, EditorWorkers, FlowcError, NotNow


class ContentModified(JsonRpcException):
    """The protocol's answer for "not now"; the editor keeps its old data, or asks again."""

    CODE = int(lsp.LSPErrorCodes.ContentModified)
    MESSAGE = "the text is being checked"


class RequestFailed(JsonRpcException):
    """The protocol's error for a question without answer, with a reason for the user."""

    CODE = int(lsp.LSPErrorCodes.RequestFailed)
    MESSAGE = "Request failed"


class Protocol(LanguageServerProtocol):
    """The message handling of pygls, with notifications about invalid file names ignored."""

    def handle_message(self, message: Any) -> None:
        """See pygls. A notification has no answer, so rejected ones are logged."""
        document = getattr(getattr(message, "params", None), "text_document", None)
        if getattr(message, "id", None) is None and document is not None:
            try:
                path_of(document.uri)
            except JsonRpcInvalidParams as refused:
                server: Any = self._server
                server.log(str(refused))
                return
        super().handle_message(message)


class Server(LanguageServer):
    """The server of pygls, with the workers of the one editor that it serves."""

    def __init__(self) -> None:
        kind = lsp.TextDocumentSyncKind.Full
        super().__init__("flowc", __version__, text_document_sync_kind=kind, protocol_cls=Protocol)
        self.workers = EditorWorkers(self._found, self.log)
        #: Does the editor know `outline.COMMANDS`? It sends `{"commands": true}` when it starts the
        #: server.
        self.commands = False
        #: Has the editor requested a shutdown, as it must before `exit`?
        self.asked_to_stop = False
        #: For each open text, the diagnostics shown in each file.
        self._shown: dict[str, dict[str, list[lsp.Diagnostic]]] = {}

    async def ask(self, uri: str, name: str, *arguments: Any) -> Any:
        """The answer to a question about a text."""
        try:
            return await self.workers.ask(path_of(uri), name, *arguments)
        except NotNow:
            raise ContentModified from None
        except CannotAnswer as why:
            raise RequestFailed(str(why)) from None
        except FlowcError as error:
            raise JsonRpcInternalError(str(error)) from None

    def log(self, said: str) -> None:
        """A line in the editor's log."""
        self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, f"flowc: {said}"))

    def report_server_error(self, error: Exception, source: Any) -> None:
        """See pygls. The requester has been answered; other errors are logged."""
        if not isinstance(error, JsonRpcException):
            self.log(repr(error))

    def _found(self, path: str, shown: dict[str, list[lsp.Diagnostic]]) -> None:
        before, self._shown[path] = self._shown.get(path, {}), shown
        self._publish(*before, *shown)

    def closed(self, path: str) -> None:
        """Remove the diagnostics of a text that is closed."""
        self.workers.close(path)
        self._publish(*self._shown.pop(path, {}))

    def _publish(self, *files: str) -> None:
        """The diagnostics of all open texts for some files, without duplicates."""
        for file in dict.fromkeys(files):
            found: dict[tuple[object, ...], lsp.Diagnostic] = {}
            for said in self._shown.values():
                for d in said.get(file, ()):
                    start, end = d.range.start, d.range.end
                    found[
                        d.code, d.message, start.line, start.character, end.line, end.character
                    ] = d
            self.text_document_publish_diagnostics(
                lsp.PublishDiagnosticsParams(uri_of(file), [*found.values()])
            )


class _OneLine(logging.Filter):
    """Removes the traceback from pygls' log of a rejected question, which is no error of flowc."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], JsonRpcException):
            record.exc_info = None
        return True


def uri_of(path: str) -> str:
    """The URI of a file."""
    return path if "://" in path else from_fs_path(path) or path


def path_of(uri: str) -> str:
    """The path of a URI; a text that was never saved keeps its URI as its name.

    Raises JsonRpcInvalidParams for a URI without valid file name: a zero byte, half a character, no
    URI at all.
    """
    try:
        path = (to_fs_path(uri) if uri.startswith("file:") else None) or uri
        path.encode()
    except ValueError:
        path = "\0"
    if "\0" in path:
        raise JsonRpcInvalidParams(f"{uri[:200]!r} is not the URI of a text")
    return path


def make() -> Server:
    """A server with all its features."""
    logging.getLogger("pygls.protocol.json_rpc").addFilter(_OneLine())
    server = Server()
    _texts(server)
    _questions(server)
    _edits(server)
    return server


def _texts(server: Server) -> None:
    """Opened and changed texts."""

    @server.feature(lsp.INITIALIZE)
    def initialize(ls: Server, params: lsp.InitializeParams) -> None:
        wished = params.initialization_options
        ls.commands = isinstance(wished, dict) and wished.get("commands") is True

    @server.feature(lsp.SHUTDOWN)
    def shutdown(ls: Server, *_: object) -> None:
        ls.asked_to_stop = True

    @server.feature(lsp.INITIALIZED)
    def initialized(ls: Server, params: lsp.InitializedParams) -> None:
        ls.workers.encoding = str(
            getattr(ls.workspace.position_encoding, "value", ls.workspace.position_encoding)
        )

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        ls.workers.change(path_of(document.uri), document.text)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
        if params.content_changes:
            ls.workers.change(path_of(params.text_document.uri), params.content_changes[-1].text)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
        ls.closed(path_of(params.text_document.uri))

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: Server, params: lsp.DidSaveTextDocumentParams) -> None:
        ls.workers.files_changed()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def files(ls: Server, params: lsp.DidChangeWatchedFilesParams) -> None:
        ls.workers.files_changed()


def _questions(server: Server) -> None:
    """Questions of an editor."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def on_hover(ls: Server, params: lsp.HoverParams) -> Any:
        return await ls.ask(params.text_document.uri, "hover", params.position)

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    async def on_definition(ls: Server, params: lsp.DefinitionParams) -> Any:
        return await ls.ask(params.text_document.uri, "definition", params.position)

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    async def on_references(ls: Server, params: lsp.ReferenceParams) -> Any:
        declared = params.context.include_declaration
        return await ls.ask(params.text_document.uri, "references", params.position, declared)

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=list('.:"/>'))
    )
    async def on_completion(ls: Server, params: lsp.CompletionParams) -> Any:
        return await ls.ask(params.text_document.uri, "completion", params.position)

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def on_symbols(ls: Server, params: lsp.DocumentSymbolParams) -> Any:
        return await ls.ask(params.text_document.uri, "symbols")

    @server.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    async def on_folding(ls: Server, params: lsp.FoldingRangeParams) -> Any:
        return await ls.ask(params.text_document.uri, "folds")

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
    async def on_lenses(ls: Server, params: lsp.CodeLensParams) -> Any:
        return await ls.ask(params.text_document.uri, "lenses") if ls.commands else []

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    async def on_hints(ls: Server, params: lsp.InlayHintParams) -> Any:
        return await ls.ask(params.text_document.uri, "hints", params.range)


def _edits(server: Server) -> None:
    """Edits that an editor requests."""

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    async def on_prepare(ls: Server, params: lsp.PrepareRenameParams) -> Any:
        return await ls.ask(params.text_document.uri, "name", params.position)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    async def on_rename(ls: Server, params: lsp.RenameParams) -> Any:
        return await ls.ask(params.text_document.uri, "rename", params.position, params.new_name)

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    async def on_format(ls: Server, params: lsp.DocumentFormattingParams) -> Any:
        return await ls.ask(params.text_document.uri, "format")

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]),
    )
    async def on_actions(ls: Server, params: lsp.CodeActionParams) -> Any:
        return await ls.ask(params.text_document.uri, "actions", params.range)
