"""The server for language models as a client sees it: a process, and a session of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from flowc.assistant.calls import Limits
from flowc.assistant.server import make
from flowc.cli import app
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult
from typer.testing import CliRunner

from builds import HANGS, store_profile

TEXT = """
task Make { out x: int64  wcet 1 ms  python "t.py:make" }
task Take { in x: int64   wcet 2 ms  python "t.py:take" }
app A { period 20 ms  deadline 20 ms  m: Make  t: Take  m -> t }
"""
CODE = """import os, time
def make():
    return 1
def take(x):
    print("took", x)
def wait():
    open("running.tmp", "w").write(str(os.getpid()))
    os.rename("running.tmp", "running")
    time.sleep(600)
    return 1
def leave():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open("running.tmp", "w").write(str(os.getpid()))
            os.rename("running.tmp", "running")
            os.execvp("sleep", ["sleep", "600"])
        os._exit(0)
    time.sleep(600)
"""
#: A source that never returns.
HANGING = TEXT.replace('"t.py:make"', '"t.py:wait"')
#: The same, with a process that leaves its group, and whose parent has ended.
LEAVING = TEXT.replace('"t.py:make"', '"t.py:leave"')

Session = Callable[[Client], Awaitable[None]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "app": TEXT,
        "hang": HANGING,
        "leave": LEAVING,
        "bad": TEXT.replace("m -> t", "m -> u"),
    }.items():
        (tmp_path / f"{name}.flow").write_text(text)
    (tmp_path / "t.py").write_text(CODE.replace('"running', f'"{tmp_path}/running'))
    for name in ("app", "hang", "leave"):
        store_profile(tmp_path / f"{name}.flow")
    return tmp_path


def parameters(folder: Path) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "flowc", "mcp", str(folder), "--limit", "2min"],
        env=dict(os.environ),
    )


def in_session(server: StdioServerParameters | MCPServer, session: Session) -> None:
    """Run a session to its end."""

    async def whole() -> None:
        async with Client(server, read_timeout_seconds=HANGS) as client:
            await session(client)

    asyncio.run(asyncio.wait_for(whole(), 2 * HANGS))


def texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if block.type == "text"]


def printed(*words: str | Path) -> Any:
    """What the command line prints with `--json`."""
    return json.loads(CliRunner().invoke(app, [*map(str, words), "--json"]).stdout)


async def running(folder: Path) -> int:
    """The process of the task that hangs, once it does."""
    end = time.monotonic() + HANGS
    while not (folder / "running").exists():
        assert time.monotonic() < end
        await asyncio.sleep(0.05)
    return int((folder / "running").read_text())


async def gone(process: int) -> None:
    end = time.monotonic() + HANGS
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


def test_tools_return_the_documents_of_the_command_line(folder: Path) -> None:
    flow = folder / "app.flow"

    async def session(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"check", "analyze", "map", "run", "report", "explain"}
        assert all(tool.description for tool in tools.values())
        reading = {n for n, t in tools.items() if t.annotations and t.annotations.read_only_hint}
        assert reading == {"check", "analyze", "explain"}

        checked = await client.call_tool("check", {"file": "app.flow"})
        assert not checked.is_error
        assert checked.structured_content == printed("check", flow)
        assert json.loads(texts(checked)[0]) == checked.structured_content
        analyzed = await client.call_tool("analyze", {"file": "app.flow", "buffers": True})
        assert analyzed.structured_content == printed("analyze", flow, "--buffers")
        explained = await client.call_tool("explain", {"code": "F203"})
        assert explained.structured_content == printed("explain", "F203")

        words = {"file": "app.flow", "measure": False, "budget": 1}
        mapped = (await client.call_tool("map", words)).structured_content
        assert mapped is not None and Path(mapped["file"]).is_file()
        assert set(mapped["tasks"]) == {"A.m", "A.t"}
        ran = await client.call_tool("run", {"file": "app.flow", "frames": 3})
        assert not ran.is_error and ran.structured_content is not None
        assert ran.structured_content["apps"]["A"]["frames"] == 3
        assert texts(ran)[1].count("took 1") >= 3
        told = (await client.call_tool("report", {"file": "app.flow"})).structured_content
        assert told is not None and told["search"]["used"] and "run" in told["missing"]

    in_session(parameters(folder), session)


def test_errors_are_errors_of_tools_with_diagnostics(folder: Path) -> None:
    async def session(client: Client) -> None:
        for tool in ("check", "map"):
            refused = await client.call_tool(tool, {"file": "bad.flow"})
            assert refused.is_error and refused.structured_content is not None
            found = refused.structured_content["diagnostics"]
            assert found == printed("check", folder / "bad.flow")["diagnostics"]
            assert "F101" in [d["code"] for d in found]
            assert len(texts(refused)) == 1

        async def said(tool: str, **words: Any) -> str:
            result = await client.call_tool(tool, words)
            assert result.is_error and result.structured_content is None
            return texts(result)[0]

        assert "not below the folder" in await said("check", file="../app.flow")
        assert "not below the folder" in await said("check", file="app.flow", platform="/x.flow")
        assert "does not end in .flow or .onnx" in await said("analyze", file="t.py")
        assert "there is no diagnostic F999" in await said("explain", code="F999")
        assert "is no code" in await said("explain", code="--help")
        assert "frames" in await said("run", file="app.flow", frames=0)

    in_session(make(folder, Limits()), session)


def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    inside = folder / "inside"
    inside.mkdir()
    (inside / "link.flow").symlink_to(folder / "app.flow")

    async def session(client: Client) -> None:
        refused = await client.call_tool("check", {"file": "link.flow"})
        assert refused.is_error and "not below the folder" in texts(refused)[0]

    in_session(make(inside, Limits()), session)


def test_a_document_that_is_too_large_is_not_returned(folder: Path) -> None:
    async def session(client: Client) -> None:
        large = await client.call_tool("explain", {})
        assert large.is_error and "more than 1000 bytes" in texts(large)[0]
        small = await client.call_tool("explain", {"code": "F203"})
        assert not small.is_error

    in_session(make(folder, Limits(document=1000)), session)


def test_a_call_that_takes_too_long_is_ended(folder: Path) -> None:
    async def session(client: Client) -> None:
        late = await client.call_tool("run", {"file": "hang.flow"})
        assert late.is_error and "has not ended after 1 s" in texts(late)[0]

    in_session(make(folder, Limits(seconds=1)), session)


@pytest.mark.parametrize("text", ["hang.flow", "leave.flow"])
def test_a_call_that_is_cancelled_ends_what_it_has_started(folder: Path, text: str) -> None:
    async def session(client: Client) -> None:
        call = asyncio.create_task(client.call_tool("run", {"file": text}))
        process = await running(folder)
        call.cancel()
        await gone(process)
        assert not (await client.call_tool("explain", {"code": "F203"})).is_error

    in_session(parameters(folder), session)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (None, 0)])
def test_the_server_ends_with_its_calls(
    folder: Path, number: signal.Signals | None, status: int
) -> None:
    """By a signal, or with its input."""
    server = subprocess.Popen(
        [sys.executable, "-m", "flowc", "mcp", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None and server.stdout is not None
    about = {"protocolVersion": "2025-06-18", "capabilities": {}}
    about["clientInfo"] = {"name": "test", "version": "1"}  # type: ignore[assignment]
    for message in (
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "run", "arguments": {"file": "leave.flow"}},
        },
    ):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()
    process = asyncio.run(running(folder))
    if number is None:
        server.stdin.close()
    else:
        server.send_signal(number)
    assert server.wait(HANGS) == status
    asyncio.run(gone(process))


def test_a_limit_has_to_leave_time(folder: Path) -> None:
    for limit in ("0", "-1s", "soon"):
        refused = CliRunner().invoke(app, ["mcp", str(folder), f"--limit={limit}"])
        assert refused.exit_code == 2 and "--limit" in refused.output
