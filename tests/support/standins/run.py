"""Run a script of a generated program on stand-ins.

    python tests/support/standins/run.py BUILD_DIR main.py --frames 4

Options come from the environment: FLOWC_STAND_IN is JSON with the keys of `StandIn` (`integrated`,
`capability`, `device`, ...), `tensorrt` (a version), `machine` (keys of `tensorrt.Options`) and
`fail` (arguments of `StandIn.fail`). Violations are printed on standard error at the end, and the
exit status is 99 if there are any.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

STATUS = 99


def adopt(build: Path) -> Any:
    """Have the libraries of this process be stand-ins, for a build; returns its GPU."""
    # This folder has modules called `cuda` and `tensorrt`: no import may find them by these names.
    sys.path[0] = str(build)
    sys.path.insert(1, str(Path(__file__).resolve().parent.parent))
    # the copy of the program, before the stand-in looks for it
    importlib.import_module("runtime.cuda")
    from standins import cuda, onnx_cuda, tensorrt

    options: dict[str, Any] = json.loads(os.environ.get("FLOWC_STAND_IN", "{}"))
    version, failures = options.pop("tensorrt", "10.3.0"), options.pop("fail", None)
    machine = tensorrt.Options(**options.pop("machine", {}))
    if "capability" in options:
        options["capability"] = tuple(options["capability"])
    gpu = cuda.StandIn(**options)
    if failures:
        gpu.fail(*failures)
    cuda.adopt(gpu, "runtime", setattr)
    onnx_cuda.install(gpu, setattr)
    name = "tensorrt_rtx" if version.startswith("rtx ") else "tensorrt"
    sys.modules[name] = tensorrt.module(gpu, version, machine)
    return gpu


def main(build: Path, script: str, arguments: list[str]) -> int:
    """Run it, and report."""
    gpu = adopt(build)
    # else the program would start itself again, without us
    os.environ.setdefault("GLIBC_TUNABLES", "")
    command: Any = importlib.import_module("runtime.command")
    # Nor may it go on in a child: libraries with threads are loaded.
    command.keep = lambda program, watchdog, *others: None
    sys.argv = [str(build / script), *arguments]
    status: Any = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        status = end.code
    for sentence in gpu.violations:
        print(f"violation: {sentence}", file=sys.stderr)
    print(
        f"stand-in: {gpu.executed} operations executed, {len(gpu.violations)} violations",
        file=sys.stderr,
    )
    sys.stdout.flush()
    if gpu.violations:
        return STATUS
    return status if isinstance(status, int) else int(bool(status))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:]))
