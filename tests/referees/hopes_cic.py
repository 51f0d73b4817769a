"""Projects of HOPES in the form of its translator: what the tool writes before it generates code.

In: a project as the tool keeps it (`NAME.files` with a task.xml for each level, and the file of the
tool beside it). Out: `NAME_algorithm.xml` with all levels in one list, channels between the tasks
that fire, and the files beside it; in one folder, as the translator wants them. It shares no code
with the importer, and does what HOPES' translator (commit 23d492b of cap-lab/CodeGeneration) took
from all projects of HOPES.
"""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as Xml
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import quoteattr

NAMESPACE = "http://peace.snu.ac.kr/CICXMLSchema"
BESIDE = ("mapping", "profile", "gpusetup", "schedule")
EXTRA = {"Header": "extraHeader", "Source": "extraSource", "CIC": "extraCIC", "File": "extraFile"}


def translated(files: Path, out: Path) -> Path:
    """Write the project of the folder `NAME.files` into `out`, in the other form; the file of its
    algorithm."""
    return _Project(files, out).write()


class _Task:
    def __init__(self, node: Xml.Element, prefix: str, parent: str, near: Path) -> None:
        self.node, self.prefix, self.near = node, prefix, near
        self.name = prefix + node.get("name", "")
        self.parent = parent or self.name
        self.said = {
            p.get("name", ""): p.get("value") or "" for p in node.iterfind("config/parameter")
        }
        self.composite = self.said.get("HasSubGraph") == "Yes"
        self.inside = "DataFlow"


class _Project:
    def __init__(self, files: Path, out: Path) -> None:
        self.files, self.out = files, out
        out.mkdir(parents=True, exist_ok=True)
        self.tasks: list[_Task] = []
        #: Of each level: its prefix, its root, and the folder around it.
        self.levels: list[tuple[str, Xml.Element, Path]] = []
        #: (task, port, way) of a composite to the same inside.
        self.inner: dict[tuple[str, str, str], tuple[str, str]] = {}
        codes = [p for p in files.rglob("CICTask/*") if p.is_file() and p.suffix != ".xml"]
        contents = {(p.name, p.read_bytes()) for p in codes}
        #: Are all files in one folder? Not where some of the same name differ.
        self.flat = len(contents) == len({name for name, _ in contents})
        self.top = Xml.parse(files / "CICTask/task.xml").getroot()
        self.name = self.top.get("name") or files.stem

    def write(self) -> Path:
        said = self._level(self.files / "CICTask/task.xml", "", "")
        for task in self.tasks:
            for m in task.node.iterfind("portMap_list/portMap"):
                inside, port = m.get("insideTask"), m.get("insideTaskPort", "")
                if inside:
                    self.inner[task.name, m.get("macroNodePort", ""), _way(m)] = (
                        f"{task.name}_{inside}",
                        port,
                    )
        parts = [
            _element("tasks", {}, *(self._task(n, t) for n, t in enumerate(self.tasks))),
            _element("libraries", {}, *self._libraries()),
            _element("channels", {}, *self._channels()),
            _element("multicastGroups", {}, *self._groups()),
            _element("portMaps", {}, *self._maps()),
            _element("libraryConnections", {}, *self._connections()),
            _element(
                "modes", {}, _element("mode", {"name": "Default"}, *map(self._times, self.tasks))
            ),
        ]
        root = _element(
            "CIC_Algorithm",
            {"property": said, "xmlns": NAMESPACE},
            *(p for p in parts if "\n" in p),
        )
        path = self._written("algorithm", root)
        self._others()
        return path

    def _written(self, kind: str, root: str) -> Path:
        path = self.out / f"{self.name}_{kind}.xml"
        path.write_text(f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n{root}')
        return path

    # -- the algorithm -----------------------------------------------------------------------------
    def _level(self, path: Path, prefix: str, parent: str) -> str:
        root = Xml.parse(path).getroot()
        self.levels.append((prefix, root, path.parent))
        for node in root.iterfind("task_list/task"):
            task = _Task(node, prefix, parent, path.parent)
            self.tasks.append(task)
            if task.composite:
                task.inside = self._level(
                    self.files / task.said["CICFile"], f"{task.name}_", task.name
                )
        setting = root.find("setting_list/setting")
        return (setting.get("TaskGraphProperty") if setting is not None else None) or "DataFlow"

    def _task(self, number: int, task: _Task) -> str:
        said, node = task.said, task.node
        dependent = said.get("IsDependency", said.get("IsHardwareDependent", "No"))
        attributes = {
            "name": task.name, "id": str(number), "ParentTask": task.parent, "taskType": node.get("type") or "Computational",
            "hasInternalStates": said.get("HasInternalStates", "Yes"), "runCondition": said.get("RunCondition", "data-driven"),
            "file": f"{task.name}.xml" if task.composite else self._copied(said.get("CICFile", ""), task.near),
            "cflags": said.get("CompileFlags", ""), "ldflags": said.get("LinkFlags", ""),
            "hasSubGraph": "Yes" if task.composite else "No", "hasMTM": said.get("HasMTM", "No"),
            "isHardwareDependent": dependent or "No", "subGraphProperty": task.inside,
        }  # fmt: skip
        if "Language" in said:
            attributes["language"] = "C++" if said["Language"] in ("C++", "CPP") else "C"
        if node.get("type") == "Control" and (task.near / f"{node.get('name')}.xml").is_file():
            attributes["fsmFile"] = self._copied(f"{node.get('name')}.xml", task.near)
        return _element("task", attributes, *self._parts(task))

    def _parts(self, task: _Task) -> Iterator[str]:
        node, said = task.node, task.said
        for tag, way in (("inport_list", "input"), ("outport_list", "output")):
            for port in node.iterfind(f"{tag}/port"):
                # As in the tool: ports whose rates vary have none.
                rates = [] if port.get("sample_rate") == "Variable" else port.findall("rate")
                attributes = {"name": port.get("name", ""), "direction": way, "type": port.get("type") or "fifo",
                              "sampleSize": port.get("sample_size", ""), "sampleType": ""}  # fmt: skip
                found = (
                    _element("rate", {"mode": r.get("mode", ""), "rate": r.get("rate", "")})
                    for r in rates
                )
                yield _element("port", attributes, *found)
        for port in node.iterfind("multicast_port_list/*"):
            way = "output" if port.get("direction") == "OUT" else "input"
            attributes = {
                "name": port.get("name", ""),
                "group": port.get("groupName", ""),
                "direction": way,
            }
            yield _element("multicastPort", attributes)
        for port in node.iterfind("libraryPort_list/*"):
            yield _element(
                "libraryMasterPort", {"name": port.get("name", ""), "type": port.get("type") or "t"}
            )
        for p in node.iterfind("control/control_params/parameter"):
            yield _element("parameter", {key: p.get(key, "") for key in ("name", "type", "value")})
        for kind, tag in EXTRA.items():
            for name in _extra(node, kind):
                yield f"<{tag}>{self._copied(name, task.near)}</{tag}>"
        mtm = node.find("mtm")
        if mtm is not None and said.get("HasMTM") == "Yes":
            mtm.attrib.clear()
            yield Xml.tostring(mtm, "unicode").strip()
        if said.get("LoopType", "NONE") not in ("NONE", ""):
            yield _element(
                "loopStructure", {"type": said["LoopType"].lower(), "loopCount": said["LoopCount"]}
            )
        if said.get("IsDependency", said.get("IsHardwareDependent")) == "Yes":
            keys = ("Architecture", "Platform", "Runtime", "ProcessorType")
            hard = [
                {k[0].lower() + k[1:]: h.get(k, "ALL") for k in keys} for h in node.iter("hardware")
            ]
            if hard:
                yield _element("hardwareDependency", {}, *(_element("hardware", h) for h in hard))
        if any(f.get("enable") == "Yes" for f in node.iterfind("faultTolerance")):
            yield _element(
                "faultTolerance",
                {"validationTaskType": "automatic", "type": "reexecution", "number": "1"},
            )
        if node.get("type") == "External":
            keys = ("networkFile", "architectureFile", "profileFile", "mappingFile")
            for key in keys:
                self._copied(said.get(key, ""), task.near)
            yield _element(
                "externalConfig", {**{key: said.get(key, "") for key in keys}, "useCICFile": "Yes"}
            )

    def _times(self, task: _Task) -> str:
        parts = []
        for tag, key in (("period", "Period"), ("deadline", "Deadline")):
            value = task.said.get(key) or "1"
            parts.append(
                _element(tag, {"metric": task.said.get(f"{key}Unit") or "us", "value": value})
            )
        return _element(
            "task", {"name": task.name, "priority": task.said.get("Priority") or "0"}, *parts
        )

    def _channels(self) -> Iterator[str]:
        for prefix, root, _ in self.levels:
            for c in root.iterfind("channel_list/channel"):
                out = self._end(prefix + c.get("src_task", ""), c.get("src_port", ""), "output")
                into = self._end(prefix + c.get("dst_task", ""), c.get("dst_port", ""), "input")
                attributes = {"type": "fifo", "size": c.get("size") or "0", "sampleSize": c.get("sampleSize") or "1",
                              "initialDataSize": c.get("init_size") or "0"}  # fmt: skip
                ends = (
                    _element(tag, {"task": t, "port": p})
                    for tag, (t, p) in (("src", out), ("dst", into))
                )
                yield _element("channel", attributes, *ends)

    def _end(self, task: str, port: str, way: str) -> tuple[str, str]:
        while (task, port, way) in self.inner:
            task, port = self.inner[task, port, way]
        return task, port

    def _maps(self) -> Iterator[str]:
        for task in self.tasks:
            for m in task.node.iterfind("portMap_list/portMap"):
                if m.get("direction") == "LibraryPort":
                    continue
                kind = m.get("portMapType", "normal")
                attributes = {"task": task.name, "port": m.get("macroNodePort", ""), "direction": _way(m),
                              "type": kind if kind in ("distributing", "broadcasting") else "normal"}  # fmt: skip
                if m.get("insideTask"):
                    attributes["childTask"] = f"{task.name}_{m.get('insideTask')}"
                    attributes["childTaskPort"] = m.get("insideTaskPort", "")
                yield _element("portMap", attributes)

    def _groups(self) -> Iterator[str]:
        for _, root, _ in self.levels:
            for g in root.iterfind("multicast_group_list/*"):
                yield _element(
                    "multicastGroup", {"groupName": g.get("name", ""), "size": g.get("size", "0")}
                )

    # -- libraries ---------------------------------------------------------------------------------
    def _libraries(self) -> Iterator[str]:
        number = 0
        for prefix, root, near in self.levels:
            for node in root.iterfind("library_list/library"):
                said = {p.get("name", ""): p.get("value") or "" for p in node.iter("parameter")}
                yield _element("library", {
                    "name": prefix + node.get("name", ""), "id": str(number), "type": said.get("LibraryType") or "t",
                    "hasInternalStates": said.get("HasInternalStates", "Yes"),
                    "file": self._copied(said.get("LibraryFile", ""), near),
                    "header": self._copied(said.get("LibraryHeader", ""), near),
                    "language": "C++" if said.get("Language") in ("C++", "CPP") else "C",
                })  # fmt: skip
                number += 1

    def _connections(self) -> Iterator[str]:
        through = {}
        for task in self.tasks:
            for m in task.node.iterfind("portMap_list/portMap[@direction='LibraryPort']"):
                inside = f"{task.name}_{m.get('insideTask')}", m.get("insideTaskPort", "")
                through[task.name, m.get("macroNodePort", "")] = inside
        for prefix, root, _ in self.levels:
            for c in root.iterfind("taskLibraryConnection_list/taskLibraryConnection"):
                end = (
                    prefix + (c.get("masterTask") or c.get("src_task") or ""),
                    c.get("masterPort") or c.get("src_port") or "",
                )
                while end in through:
                    end = through[end]
                library = prefix + (c.get("slaveLibrary") or c.get("dst_library") or "")
                attributes = {"masterTask": end[0], "masterPort": end[1], "slaveLibrary": library}
                yield _element("taskLibraryConnection", attributes)
        for prefix, root, _ in self.levels:
            for c in root.iterfind("libraryLibraryConnection_list/libraryLibraryConnection"):
                master, slave = (
                    c.get("masterLibrary") or c.get("src_library"),
                    c.get("slaveLibrary") or c.get("dst_library"),
                )
                attributes = {"masterLibrary": f"{prefix}{master}", "slaveLibrary": f"{prefix}{slave}",
                              "masterPort": c.get("masterPort") or c.get("src_port") or "l"}  # fmt: skip
                yield _element("libraryLibraryConnection", attributes)

    # -- the files beside --------------------------------------------------------------------------
    def _others(self) -> None:
        for kind in BESIDE:
            found = sorted(
                self.files.glob(f"*_{kind}.xml"),
                key=lambda p: (p.stem != f"{self.files.stem}_{kind}", p),
            )
            if found:
                shutil.copy(found[0], self.out / f"{self.name}_{kind}.xml")
        gui, beside = self.files.with_suffix(""), self.files / "CICTask/architecture.xml"
        text = gui.read_text(errors="replace") if gui.is_file() else ""
        embedded = re.search(r"<CIC_Architecture.*?</CIC_Architecture>", text, re.DOTALL)
        if embedded is not None:
            self._written("architecture", embedded.group())
        elif beside.is_file():
            shutil.copy(beside, self.out / f"{self.name}_architecture.xml")
        for path in self.files.rglob("*"):
            if path.is_file() and path.suffix not in (".xml", ".cic"):
                self._copied(path.name, path.parent)

    def _copied(self, said: str, near: Path) -> str:
        """The place of the file that is meant, now in the other folder."""
        name = Path(said.replace("\\", "/")).name
        path = next(
            (
                p
                for p in (self.files / said.replace("\\", "/").lstrip("/"), near / name)
                if p.is_file()
            ),
            None,
        )
        if path is None:
            return name
        target = self.out / (name if self.flat else path.relative_to(self.files))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
        return str(target.relative_to(self.out))


def _way(m: Xml.Element) -> str:
    return "input" if m.get("direction", "").lower().startswith("in") else "output"


def _extra(node: Xml.Element, kind: str) -> Iterator[str]:
    for setting in node.iterfind("extraSetting_list/*"):
        if (setting.get("type") or " ").split()[-1] == kind:
            yield setting.get("name", "")


def _element(tag: str, attributes: dict[str, str], *children: str) -> str:
    said = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
    inside = "\n".join(children)
    return f"<{tag}{said}>\n{inside}\n</{tag}>" if inside else f"<{tag}{said}/>"
