"""All known attributes of HOPES' files, so that none is lost silently.

In: the root of a file. An attribute is read by one of the modules beside this one, reported by one
of them if flowc does not support it, or without effect here (`_DRAWN`: drawing, numbering,
descriptions, simulation in the tool). Attributes in none of these lists are unknown, and reported
here.
"""

from __future__ import annotations

from typing import Literal

from ..xml_tree import Element
from .files import HopesCollector

#: By element: attributes that are read, or reported.
_READ: dict[str, str] = {
    # task.xml
    "cic_manual": "name",
    "setting": "TaskGraphProperty",
    "task": "name type",
    "parameter": "name value type",
    "port": "name type sample_size sample_rate",
    "rate": "mode rate",
    "portMap": "macroNodePort direction insideTask insideTaskPort portType portMapType",
    "channel": "src_task src_port dst_task dst_port init_size sampleSize size",
    "library": "name type",
    "libraryPort": "name",
    "taskLibraryConnection": "masterTask src_task",
    "libraryLibraryConnection": "masterLibrary src_library",
    "multicast_group": "name",
    "multicast_port": "name direction groupName",
    "faultTolerance": "enable",
    "extraSetting": "name type",
    "hardware": "Architecture Platform ProcessorType Runtime",
    "mtm": "name",
    "mode": "name",
    "slave": "name",
    "inPort": "name",
    # mapping, profile
    "device": "name",
    "mappingSet": "name",
    "processor": "pool localId",
    "externalTask": "name",
    "childTask": "name",
    "profile": "value unit processorType",
    "bound": "value unit type",
    "comm": "src dst",
    "migration": "src dst",
    "function": "name",
}
#: The same for attributes without effect on the application, or that belong to others that are
#: reported.
_DRAWN: dict[str, str] = {
    "setting": "cycle unit FuncTarget ThreadSetting",
    "parameter": "desc",
    "port": "id export description",
    "rate": "id",
    "portMap": "macroNode",
    "channel": "sampleType",
    "edge": "id x y",
    "location": "x y width height",
    "control": "priority controller",
    "slave": "description",
    "inPort": "id type description",
    "libraryPort": "id export type description",
    "taskLibraryConnection": "src_port dst_port dst_library slaveLibrary masterPort slavePort",
    "libraryLibraryConnection": "src_port dst_port dst_library slaveLibrary masterPort slavePort",
    "function": "type description",
    "argument": "name type description",
    "multicast_group": "id size description",
    "multicast_port": "id description",
    "faultTolerance": "type taskType path reexecutionNumber activeReplicationNumber",
    "mtm": "initial_state",
    "transition": "name src_mode dst_mode",
    "condition": "variable comparator value",
    "variable": "name type",
    "comm": "timeunit firstPowerCoef secondPowerCoef constant",
    "migration": "timeunit sizeunit size settingcost cost",
}
#: The same for the translator's form.
_TRANSLATED_READ: dict[str, str] = {
    "CIC_Algorithm": "property xmlns xsi",
    "task": (
        "name hasInternalStates runCondition file cflags ldflags hasSubGraph hasMTM taskType"
        " ParentTask isHardwareDependent subGraphProperty language fsmFile priority"
    ),
    "port": "name direction type sampleSize sampleType",
    "rate": "mode rate",
    "multicastPort": "name group direction",
    "parameter": "name type value",
    "library": "name hasInternalStates file header language",
    "channel": "type size sampleSize initialDataSize",
    "src": "task port",
    "dst": "task port",
    "multicastGroup": "groupName",
    "portMap": "task port childTask childTaskPort direction type",
    "taskLibraryConnection": "masterTask masterPort slaveLibrary",
    "libraryLibraryConnection": "masterLibrary",
    "taskGroup": "name",
    "mode": "name",
    "period": "metric value",
    "deadline": "metric value",
    "dataParallel": "type",
    "loopStructure": "type loopCount designatedTask",
    "externalConfig": "networkFile architectureFile profileFile mappingFile useCICFile",
    "hardware": "architecture platform runtime processorType",
    "faultTolerance": "type",
}
_TRANSLATED_DRAWN: dict[str, str] = {
    "task": "id description runRate preemptionType",
    "port": "description period isFeedback",
    "mode": "input mode",
    "libraryMasterPort": "name type description",
    "parameter": "description",
    "library": "id type description cflags ldflags isHardwareDependent",
    "function": "name returnType returnSize description",
    "argument": "name type size pointer output description",
    "channel": "sampleType",
    "multicastGroup": "size",
    "libraryLibraryConnection": "masterPort slaveLibrary",
    "taskGroup": "groupType priority preemptionType",
    "maxInitialInterval": "metric value",
    "dataParallel": "maxParallel loopCount",
    "faultTolerance": "validationTaskType number",
    "mtm": "name initial_state",
    "transition": "name src_mode dst_mode",
    "condition": "variable comparator value",
    "variable": "name type",
}
_FORMS = {"tool": (_READ, _DRAWN), "translator": (_TRANSLATED_READ, _TRANSLATED_DRAWN)}
_TOOLS = """
CICFile RunCondition HasInternalStates Deadline DeadlineUnit Period PeriodUnit Priority Language
CompileFlags LinkFlags HasMTM HasSubGraph IsDependency IsHardwareDependent LoopType LoopCount
IsLoopSubTask IsDesignatedTask SubgraphProperty Description LibraryType LibraryFile LibraryHeader
networkFile architectureFile profileFile mappingFile UseCICFile
fsmFile
"""
#: Parameters of the tool; others are those of the task.
PARAMETERS = frozenset(_TOOLS.split())


def tell_unknown(
    root: Element, say: HopesCollector, form: Literal["tool", "translator"] = "tool"
) -> None:
    """Report attributes that flowc does not know."""
    read, drawn = _FORMS[form]
    known: dict[str, set[str]] = {}
    for node in (root, *root.below()):
        if node.tag not in known:
            known[node.tag] = {*read.get(node.tag, "").split(), *drawn.get(node.tag, "").split()}
        for name in node.attributes.keys() - known[node.tag]:
            if name != "schemaLocation":
                say.warn_together(
                    f"{node.tag} {name}",
                    "flowc does not know this attribute: it is left out",
                    node.span,
                )
