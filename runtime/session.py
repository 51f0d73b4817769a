"""Sessions of ONNX Runtime on a CPU whose products in 8 bits are exact.

x86-64 without VNNI adds two products of an unsigned and a signed byte in 16 bits, which saturate:
networks in 8 bits lost up to 25 dB there. ONNX Runtime has a mode that multiplies unsigned bytes on
such a CPU instead; elsewhere the mode has no effect.
"""

from __future__ import annotations

from typing import Any, Callable, Union

#: ONNX Runtime's name of the mode.
EXACT = "session.x64quantprecision"


def opened(model: Union[str, bytes], options: Callable[[], Any]) -> Any:
    """The session of a model, by its path or its bytes, with new options. Raises what ONNX Runtime
    raises."""
    import onnxruntime

    providers = ["CPUExecutionProvider"]
    exact = options()
    exact.add_session_config_entry(EXACT, "1")
    exact.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model, exact, providers=providers)
    except Exception:  # the mode refuses weights that several layers have in common
        return onnxruntime.InferenceSession(model, options(), providers=providers)
