"""The latency of diagnostics in an editor: after an edit, and after the start.

Texts are those of `compile_time.py`. Each edit makes a fault somewhere (an instance of an
undeclared task), or removes it and changes a comment of an app: no text occurs twice. The time is
from sending the edit to receiving the answer, over the pipes of a process, including the pause for
further typing. Needs the extra `editor`.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from compile_time import write_text
from lsprotocol import types as lsp
from paired import Others, Spread, machine, rounds, table, verdict
from pygls.lsp.client import LanguageClient
from pygls.uris import from_fs_path

#: Tasks of a text, and what 95 of 100 edits may take at most, in ms.
SIZES = ((24, 100.0), (200, 100.0), (1000, 500.0))
#: From the start of the server to the first diagnostics, in seconds.
START = 1.5
INSTANCE = "microphone: Microphone"


async def measured(flow: Path, edits: int) -> tuple[float, list[float]]:
    """Seconds from the start to the first diagnostics, and ms of each edit."""
    client, news = LanguageClient("benchmark", "1"), asyncio.Event()

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
    def publish(_: lsp.PublishDiagnosticsParams) -> None:
        news.set()

    parts, uri = flow.read_text().split(INSTANCE), from_fs_path(str(flow)) or ""

    def faulty(number: int) -> str:
        place = random.randrange(1, len(parts))
        return f"{INSTANCE.join(parts[:place])}{INSTANCE}{number}{INSTANCE.join(parts[place:])}"

    def mended(number: int) -> str:
        return INSTANCE.join(parts).replace("/// A chain", f"/// The chain {number}", 1)

    begin = time.perf_counter()
    await client.start_io(sys.executable, "-m", "flowc", "lsp", "--stdio")
    await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
    client.initialized(lsp.InitializedParams())
    first = lsp.TextDocumentItem(uri, "flow", 1, faulty(0))
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(first))
    await news.wait()
    start, taken = time.perf_counter() - begin, []
    for number in range(edits):
        now = faulty(number) if number % 2 else mended(number)
        news.clear()
        begin = time.perf_counter()
        version = lsp.VersionedTextDocumentIdentifier(version=number + 2, uri=uri)
        change = [lsp.TextDocumentContentChangeWholeDocument(now)]
        client.text_document_did_change(lsp.DidChangeTextDocumentParams(version, change))
        await news.wait()
        taken.append(1e3 * (time.perf_counter() - begin))
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()  # type: ignore[no-untyped-call]
    return start, taken


def main() -> None:
    """A row for each size."""
    edits = rounds(__doc__, 100)
    others = Others()
    random.seed(0)
    rows = [["tasks", "start, s", "aim", "edit to diagnostics, ms", "95 of 100 within", "aim"]]
    with tempfile.TemporaryDirectory() as folder:
        for tasks, most in SIZES:
            start, taken = asyncio.run(measured(write_text(Path(folder), tasks), edits))
            within = sorted(taken)[round(0.95 * (len(taken) - 1))]
            rows.append(
                [
                    f"{tasks:,}",
                    f"{start:.2f}",
                    verdict(start, most=START),
                    Spread.of(taken).text(0),
                    f"{within:.0f}",
                    verdict(within, most=most, digits=0),
                ]
            )
    print(
        f"{machine()}; {others.text()}\n{edits} edits: median [quartiles]"
        f" least..most\n\n{table(rows)}"
    )


if __name__ == "__main__":
    main()
