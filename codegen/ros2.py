"""A program as a package of ROS 2: a node for each of its parts, topics for its open ends.

In: a deployment and the program. Out: a package for colcon (ament_python), which has the program as
its Python package, and a launch file that starts all nodes. Tokens between parts do not use topics
(see `runtime/transport.py`).
"""

from __future__ import annotations

import re
from typing import Any

from ..model.deployment import Deployment
from ..runtime.ros_messages import MESSAGES, is_picture
from .deploy import Deployed
from .emit import folder_of, readme
from .robots import Robot, node_name, open_ends, own_ends, rendered, with_runtime
from .sources import Plan


def _files(deployed: Deployed, program: Plan) -> Plan:
    whole = deployed.deployment
    name, root = _package(whole), _root(whole)
    ends = open_ends(whole, ROS2.separator)
    plan = {f"{root}{path}": content for path, content in program.items()}
    nodes = []
    for part in deployed.parts.values() or (deployed,):
        machine = None if part.deployment.part is None else part.deployment.part.machine
        folder = root if machine is None else f"{root}{folder_of(machine)}/"
        plan |= with_runtime("ros2", folder)
        own = own_ends(ends, part.deployment)
        words: dict[str, Any] = {"robot": "ROS 2", "module": "ros2", "ends": own, "name": name}
        plan[f"{folder}node.py"] = rendered("node.py", deployment=part.deployment, **words)
        plan[f"{folder}README.md"] = readme(part, "ROS 2", (_START,))
        nodes.append({"script": machine or "program", "module": f"{folder}node".replace("/", ".")})
    topics = [{"end": e, "message": _message(e.dtype, e.shape)} for e in ends]
    for path in ("package.xml", "setup.py", "setup.cfg", "README.md"):
        plan[path] = rendered(
            f"ros2/{path}", deployment=whole, name=name, nodes=nodes, topics=topics
        )
    plan[f"launch/{name}.launch.py"] = rendered(
        "ros2/launch.py", deployment=whole, name=name, nodes=nodes
    )
    plan[f"resource/{name}"] = b""
    return dict(sorted(plan.items()))


_START = "# a node of a package that ROS 2 starts: its README is in the folder of package.xml"


def _package(deployment: Deployment) -> str:
    """The name of the package: that of the text, with the characters that ROS 2 permits."""
    return re.sub("_+", "_", node_name(deployment.name)).strip("_")


def _root(deployment: Deployment) -> str:
    return f"{_package(deployment)}/"


def _message(dtype: str, shape: tuple[int, ...]) -> str:
    return "sensor_msgs/Image" if is_picture(dtype, shape) else f"std_msgs/{MESSAGES[dtype]}"


#: `build --target ros2`.
ROS2 = Robot(
    name="ros2",
    messages="messages of ROS 2",
    dtypes=MESSAGES,
    files=_files,
    root=_root,
    separator="/",
    refused=re.compile("__"),
)
