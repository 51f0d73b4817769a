"""Small projects of HOPES, written level by level."""

from __future__ import annotations

import json
from pathlib import Path


def task(name: str, ins: str = "", outs: str = "", more: str = "", **words: str) -> str:
    """Ports are `name:size:rate`, separated by spaces."""
    said = "".join(f'<parameter name="{k}" value="{v}"/>' for k, v in words.items())

    def ports(tag: str, given: str) -> str:
        parts = [p.split(":") for p in given.split()]
        lines = (
            f'<port name="{n}" sample_size="{s}"><rate mode="Default" rate="{r}"/></port>'
            for n, s, r in parts
        )
        return f"<{tag}>{''.join(lines)}</{tag}>"

    return f'<task name="{name}"><config>{said}</config>{ports("inport_list", ins)}{ports("outport_list", outs)}{more}</task>\n'


def composite(name: str, file: str, ins: str, outs: str, *maps: str, **words: str) -> str:
    """Maps are `port:task:port`, inputs first, with a fourth part for what a loop does
    (`broadcasting`)."""
    given = ["In"] * len(ins.split()) + ["Out"] * len(outs.split())
    found = "".join(port_map(way, *m.split(":")) for way, m in zip(given, maps, strict=True))
    return task(
        name,
        ins,
        outs,
        f"<portMap_list>{found}</portMap_list>",
        CICFile=file,
        HasSubGraph="Yes",
        **words,
    )


def port_map(way: str, port: str, inside: str = "", inner: str = "", kind: str = "normal") -> str:
    """Where a port of a composite or a loop leads."""
    where = f'insideTask="{inside}" insideTaskPort="{inner}"'
    return f'<portMap macroNodePort="{port}" direction="{way}" {where} portMapType="{kind}"/>'


def level(path: Path, tasks: list[str], *channels: str) -> None:
    """Channels are `task.port>task.port`, with `+n` for n samples of a byte at the start."""
    lines = ""
    for a, b in (c.split(">") for c in channels):
        b, _, initial = b.partition("+")
        (s, p), (d, q) = a.split("."), b.split(".")
        more = f' init_size="{initial}" sampleSize="1"' if initial else ""
        lines += f'<channel src_task="{s}" src_port="{p}" dst_task="{d}" dst_port="{q}"{more}/>'
    path.mkdir(parents=True)
    text = f'<cic_manual name="Deep"><task_list>{"".join(tasks)}</task_list><channel_list>{lines}</channel_list></cic_manual>'
    (path / "task.xml").write_text(text)


def without_xml(text: Path) -> Path:
    """An imported text whose manifest has names alone: it is exported anew."""
    kept = text.with_name(f"{text.stem}.hopes.json")
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "xml": {}}))
    return text
