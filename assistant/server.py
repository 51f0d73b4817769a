"""The server of the Model Context Protocol: verbs of flowc as tools of a language model.

In: calls of a client, over standard input and output. Out: for each, the document of the verb's
`--json`. Texts are those below one folder. It only forwards: the work is done by `calls`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from ..model.version import __version__
from .calls import LimitReached, Limits, call

INSTRUCTIONS = """\
flowc checks, analyzes, maps and runs `.flow` texts: dataflow tasks and ONNX networks for embedded \
machines. Call `check` after every change of a text; each diagnostic has a place, a reason and \
often what to do, and `explain` says what its code means. `analyze` proves limits without running \
anything; `map` and `run` execute the code of the text on this machine. Results are the documents \
of `flowc VERB --json`. Where the exit status is not 0, the result is an error: it has \
`diagnostics`, or what the verb or the program said.\
"""
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

Text = Annotated[str, Field(description="The .flow text, by its path below the server's folder.")]
TextOrNetwork = Annotated[
    str, Field(description="The .flow text or the .onnx network, by its path below the folder.")
]
Platform = Annotated[
    str,
    Field(
        description="`host`, a platform of the text, a board that flowc knows (`xavier`, `orin`,"
        " ...), or a .flow file below the folder."
    ),
]
Frames = Annotated[int, Field(ge=1, le=1_000_000, description="Iterations of each app.")]


def make(folder: Path, limits: Limits) -> MCPServer:
    """A server for the texts below a folder, whose calls have these limits."""
    server = MCPServer("flowc", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    tools = Tools(folder.resolve(), limits)
    for reads in (tools.check, tools.analyze, tools.explain):
        server.add_tool(reads, annotations=READS)
    for runs in (tools.map, tools.run, tools.report):
        server.add_tool(runs, annotations=RUNS)
    return server


class Tools:
    """The tools, by the names of their verbs. Calls that execute code wait for each other, so that
    they do not disturb what is measured."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder, self._limits = folder, limits
        self._machine = anyio.Lock()

    async def check(self, file: Text, platform: Platform = "host") -> CallToolResult:
        """Check a text: names, types, code, networks, rates, deadlock, deadlines. Runs nothing.

        `diagnostics` say what is wrong, where, and why; `apps` has the verdicts of each app.
        """
        return await self._call("check", self._text(file), self._on(platform))

    async def analyze(
        self,
        file: TextOrNetwork,
        platform: Platform = "host",
        buffers: Annotated[
            bool, Field(description="Also the least capacities that keep the period.")
        ] = False,
        pareto: Annotated[
            bool, Field(description="Also the whole trade-off of memory against period.")
        ] = False,
        seconds: Annotated[
            float, Field(ge=0.1, le=3600, description="Time for each search.")
        ] = 10.0,
    ) -> CallToolResult:
        """Prove what a graph can do: least period and its critical cycle, latency, buffers,
        schedules. Runs no code of the text. Exact numbers are texts such as `1000/3`, in ns."""
        words = [self._text(file, ".flow", ".onnx"), self._on(platform), f"--seconds={seconds}"]
        words += ["--buffers"] * buffers + ["--pareto"] * pareto
        return await self._call("analyze", *words)

    async def map(
        self,
        file: Text,
        platform: Platform = "host",
        budget: Annotated[
            float, Field(gt=0, le=86400, description="Seconds for the search.")
        ] = 30.0,
        objective: Annotated[
            str, Field(description="What matters, in this order: `cores,utilization`.")
        ] = "",
        measure: Annotated[
            bool, Field(description="Run tasks and networks to measure them.")
        ] = True,
    ) -> CallToolResult:
        """Search where everything should run, prove the deadlines, and store the mapping beside the
        text. Executes the code of the text unless `measure` is false."""
        words = [self._text(file), self._on(platform), f"--budget={budget}s"]
        words += [f"--objective={objective}"] * bool(objective) + ["--no-measure"] * (not measure)
        async with self._machine:
            return await self._call("map", *words)

    async def run(
        self,
        file: Text,
        frames: Frames = 100,
        platform: Platform = "host",
        settings: Annotated[
            list[str], Field(description="Other values of parameters: `App.task.name=3`.")
        ] = [],  # noqa: B006  # the schema shows it, and nothing changes it
    ) -> CallToolResult:
        """Build the program if needed, run it for some frames, and return what was measured:
        frames per second, latencies, deadlines that were missed, times of tasks. Executes the code
        of the text; what its tasks print comes beside the document."""
        words = [self._text(file), self._on(platform), f"--frames={frames}"]
        words += [f"--set={setting}" for setting in settings]
        async with self._machine:
            return await self._call("run", *words)

    async def report(
        self,
        file: Text,
        platform: Platform = "host",
        frames: Annotated[
            int, Field(ge=0, le=10_000, description="Run it for so many frames first; 0: do not.")
        ] = 0,
    ) -> CallToolResult:
        """Everything that is known of an application in one document: predicted, proved and
        measured results, and under `missing` what computes the rest."""
        words = [self._text(file), self._on(platform)]
        words += [f"--run={frames}"] * bool(frames)
        async with self._machine:
            return await self._call("report", *words)

    async def explain(
        self,
        code: Annotated[
            str, Field(description="The code of a diagnostic, such as F203; empty: list all.")
        ] = "",
    ) -> CallToolResult:
        """Explain a diagnostic, or list all of them."""
        if code and not code.isalnum():
            raise ToolError(f"{code!r} is no code of a diagnostic, such as F203")
        return await self._call("explain", *[code] * bool(code))

    async def _call(self, verb: str, *words: str) -> CallToolResult:
        """The document of a verb, and what it says beside it. Raises ToolError."""
        try:
            answer = await call((verb, *words), self._folder, self._limits)
        except LimitReached as reached:
            raise ToolError(str(reached)) from None
        content = []
        if answer.document is not None:
            content.append(TextContent(type="text", text=json.dumps(answer.document)))
        drawn = answer.document is not None and "diagnostics" in answer.document
        if answer.said and not drawn:
            content.append(TextContent(type="text", text=answer.said))
        return CallToolResult(
            content=[*content],
            structured_content=answer.document,
            is_error=answer.status != 0,
        )

    def _text(self, file: str, *endings: str) -> str:
        """The path of a text below the folder. Raises ToolError."""
        path = (self._folder / file).resolve()
        if not path.is_relative_to(self._folder):
            raise ToolError(f"`{file}` is not below the folder of this server, {self._folder}")
        wanted = endings or (".flow",)
        if path.suffix not in wanted:
            raise ToolError(f"`{file}` does not end in {' or '.join(wanted)}")
        return str(path)

    def _on(self, platform: str) -> str:
        if platform.endswith(".flow"):
            platform = self._text(platform)
        return f"--platform={platform}"
