"""The function of a firing in main.cpp: what it waits for, what it calls, and what it hands on.

In: a task in its `Scope`. Out: lines of C++. The firing is the i-th of iteration k, which lies in
slot j of the round; `w` is the worker.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.deployment import DeployedPort, DeployedTask
from ..frames import opens, starts_frame
from ..kinds.border import BorderCode
from ..kinds.c import CCode
from ..kinds.cuda import CudaCode
from ..kinds.link import LinkCode
from ..kinds.onnx import OnnxCode
from ..kinds.onnx_cuda import OnnxCudaCode
from ..kinds.openvino import OpenVinoCode
from ..kinds.resample import ResampleCode
from .choice import ChoiceCode
from .layout import Array, Read, Ring, Tokens, Written, tokens_of
from .scope import NETWORKS, Scope, c_type

#: The verbs of mailboxes between apps, by their ends.
_VERBS = {"put": "put", "latest": "look", "take": "take"}


class FiringText:
    """The body of the function of one task."""

    def __init__(self, scope: Scope, task: DeployedTask) -> None:
        self._scope, self._task = scope, task
        self._app = scope.app(task)
        self._names = scope.names(task)
        split = len(task.inputs)
        self._inputs, self._outputs = self._names[:split], self._names[split:]
        layout = scope.layout
        self._reads = list(zip(layout.reads[task.name], self._inputs, strict=True))
        self._writes = list(zip(layout.writes[task.name], self._outputs, strict=True))
        self._replicas = layout.places[task.name].replicas
        self._lossy = task.name in scope.lossy
        self._on_kernels = isinstance(task.code, CudaCode)

    def lines(self) -> Iterator[str]:
        """All of it."""
        yield from self._begins()
        for read, name in self._reads:
            yield from self._take(read, name)
        for written, name in self._writes:
            yield from self._room(written, name)
        yield from self._begins_frame()
        if _zeroed(self._task):
            for written, name in self._writes:
                yield f"memset({name}, 0, {self._elements(written.tokens, name)} * sizeof *{name});"
        yield from self._fired()
        yield from self._told()
        yield from self._recorded_if_there()
        for read, name in self._reads:
            yield from self._let_go(read, name)
        for written, name in self._writes:
            yield from self._hand_on(written, name)
        yield "return true;"

    # -- before the call ---------------------------------------------------------------------------
    def _begins(self) -> Iterator[str]:
        """Its number; it waits for its release, and for its turn where it may be the first one of a
        frame."""
        task = self._task
        firing = f"k * {task.firings} + i" if task.firings > 1 else "k"
        yield f"const int64_t firing = {firing};"
        if not task.inputs and not task.live:
            yield from _unless("w.wait_for_release(task, k, i)")
        # a live source has begun a frame that waits for its data when the state is left
        waits_in_state = task.live and self._scope.in_states
        if opens(self._scope.app_of[task.name], task) or waits_in_state:
            yield from _unless(f"{self._app}.begin(k)", _first(task))

    def _begins_frame(self) -> Iterator[str]:
        """With all tokens and all room there, before it fires."""
        task = self._task
        if task.name in self._scope.gates:
            yield from _unless(f"gate.wait(w, k, {'true' if task.firings == 1 else 'i == 0'})")
        if task.name in self._scope.shares:
            yield from _unless(f"w.admit({self._app}, k)")
        if task.live:
            yield from _unless(f"w.wait_for_frames({self._app}, k)", _first(task))
        elif starts_frame(self._scope.app_of[task.name], task):
            yield from _unless("w.begin_frame(task, k)", _first(task))

    def _take(self, read: Read, name: str) -> Iterator[str]:
        """A pointer to the tokens of an input."""
        port = read.tokens.port
        declared = f"const {c_type(port.dtype)} *const {name}"
        if isinstance(read.of, Ring):
            ring = self._scope.name(read.of.channel.source, read.of)
            see = self._seen(port, name)
            rate = self._rate(port, name)
            yield f"{declared} = {ring}.next(w, {self._app}, k, {rate}, {see});"
            yield f"if (!{name})"
            yield "    return false;"
            return
        array = self._scope.name(read.of.task, read.of)
        yield f"{declared} = {array}{_in(read.of, self._seen_from(read, name), read.tokens.size)};"

    def _seen_from(self, read: Read, name: str) -> list[tuple[int, str]]:
        """Where in an array the tokens begin that a firing sees."""
        window = read.tokens.port.window
        return self._index(read.tokens, name, read.offset - window, bool(window))

    def _room(self, written: Written, name: str) -> Iterator[str]:
        """Pointers to the room for an output, one for each place of it."""
        port = written.tokens.port
        kind = c_type(port.dtype)
        if not written.places:
            yield f"{kind} *const {name} = {name}_thrown_away{self._turn(written.tokens)};"
        for place, own in self._pointers(written, name):
            at = self._scope.members[id(place)]
            if isinstance(place, Ring):
                rate = self._rate(port, name)
                yield f"{kind} *const {own} = {at}.room(w, {self._app}, k, {rate});"
                yield f"if (!{own})"
                yield "    return false;"
            else:
                index = self._index(written.tokens, name, place.kept, False)
                yield f"{kind} *const {own} = {at}{_in(place, index, written.tokens.size)};"

    def _pointers(self, written: Written, name: str) -> Iterator[tuple[Array | Ring, str]]:
        """The places of an output with their pointers: the first one is written, others get a
        copy."""
        for number, place in enumerate(written.places):
            yield place, f"{self._scope.members[id(place)]}_copy" if number else name

    def _turn(self, tokens: Tokens) -> str:
        """Which replica writes, where no task reads that."""
        if self._replicas == 1:
            return ""
        if self._on_kernels:
            most = max(1, max(tokens.port.rates) * tokens.size)
            return f" + k % {self._replicas} * {most}"
        return f"[k % {self._replicas}]"

    # -- the call ----------------------------------------------------------------------------------
    def _fired(self) -> Iterator[str]:
        """The call, if nothing that it reads is missing."""
        task = self._task
        missing = list(self._missing())
        if task.name in self._scope.timed:
            yield "const flow::ns start = w.began;"
        if self._lossy:
            yield f"bool there = {' && '.join(missing) or 'true'};"
        if missing:
            yield "if (!there)"
            yield f"    w.leave_out(task, firing{_group(task)});"
        call = f"[&] {{ return {self._call()}; }}{_group(task)}"
        live = "_live" if task.live else "_there" if self._on_kernels else ""
        fire = f"fire{live}(task, firing, {call})"
        if task.on_error != "stop":
            fire = f"attempt{live}(task, firing, there, {call})"
        yield f"{'else ' if missing else ''}if (!w.{fire})"
        yield "    return false;"
        if task.keep is not None:
            yield from self._copied_out()

    def _copied_out(self) -> Iterator[str]:
        """What the last token of a source that goes on by itself has for each output."""
        task = self._task
        for name, port, offset in zip(
            self._outputs, task.outputs, self._scope.offsets(task), strict=False
        ):
            size = _product(str(port.rates[0]), tokens_of(task, port).size)
            yield f"memcpy({name}, code.token() + {offset}, {size} * sizeof *{name});"

    def _missing(self) -> Iterator[str]:
        """For each input whose tokens may be missing: that none is that a firing sees."""
        for read, name in self._reads:
            see, of = self._seen(read.tokens.port, name), read.of
            writer = of.channel.source if isinstance(of, Ring) else of.task
            if writer not in self._scope.lossy:
                continue
            at = self._scope.name(writer, of)
            if isinstance(of, Ring):
                yield f"!{at}.any_missing({name}, {see})"
                continue
            place = self._seen_from(read, name)
            yield f"!flow::any_missing({at}_missing{_in(of, place, 1)}, {see})"

    def _call(self) -> str:
        task, code = self._task, self._task.code
        sides = f"{{{', '.join(self._inputs)}}}, {{{', '.join(self._outputs)}}}"
        match code:
            case ResampleCode():
                size = tokens_of(task, task.inputs[0]).size * code.block
                return f"flow::{code.kind}({', '.join(self._names)}, {size}, {code.count})"
            case OnnxCode() | OnnxCudaCode():
                return f"code.run({sides})"
            case ChoiceCode():
                return f"code.run(k, {sides})"
            case OpenVinoCode():
                worker = f"k % {self._replicas}" if self._replicas > 1 else "0"
                return f"code.run({worker}, {sides})"
            case LinkCode():
                return f"code.{_VERBS[code.end]}({self._names[0]}, firing)"
            case BorderCode():
                return f"code.{'give' if task.inputs else 'take'}(w, {self._names[0]})"
            case CudaCode():
                return self._kernels()
        assert isinstance(code, CCode)
        if task.keep is not None:
            return "code.take(task, firing)"
        return self._scope.call_in_c(code, self._names, "code")

    def _kernels(self) -> str:
        """The call that puts a firing into the stream."""
        inputs, outputs, copies = [], [], []
        for read, name in self._reads:
            inputs.append(self._at(read.of, name, self._elements(read.tokens, name)))
        for number, (written, name) in enumerate(self._writes):
            count = self._elements(written.tokens, name)
            first = written.places[0] if written.places else None
            outputs.append(self._at(first, name, count))
            for place, copy in list(self._pointers(written, name))[1:]:
                copies.append(f"{{{number}, {self._at(place, copy, count)}}}")
        lists = [inputs, outputs, copies] if copies else [inputs, outputs]
        given = ", ".join(f"{{{', '.join(each)}}}" for each in lists)
        return f"code.run(w, task, firing, {given})"

    def _at(self, place: Array | Ring | None, name: str, count: str) -> str:
        """Tokens of a firing of kernels; what no task reads lies on the GPU."""
        where = "on_gpu" if place is None or id(place) in self._scope.on_gpu else "on_host"
        return f"flow::{where}({name}, {count})"

    # -- after the call ----------------------------------------------------------------------------
    def _told(self) -> Iterator[str]:
        """What paths learn of it."""
        batch = self._task.code.batch
        if self._task.name not in self._scope.timed:
            return
        if batch == 1:
            yield "w.tell_paths(task, firing, start);"
        else:
            yield f"for (int64_t n = 0; n < {batch}; n++)"
            yield "    w.tell_paths(task, firing + n, start);"

    def _recorded_if_there(self) -> Iterator[str]:
        """For the harness: what it has read and made, or that it was left out."""
        if not self._lossy:
            yield from self._recorded()
            return
        yield "if (there) {"
        yield from (f"    {line}" for line in self._recorded())
        yield "} else {"
        yield f"    flow::record_left_out(task, firing{_group(self._task)});"
        yield "}"

    def _recorded(self) -> Iterator[str]:
        """For the harness: what it has read and made."""
        for number, (read, name) in enumerate(self._reads):
            lies_there = self._on_kernels and id(read.of) in self._scope.on_gpu
            yield from self._record(f"0, {number}", read.tokens, name, lies_there)
        for number, (written, name) in enumerate(self._writes):
            first = written.places[0] if written.places else None
            lies_there = self._on_kernels and (first is None or id(first) in self._scope.on_gpu)
            yield from self._record(f"1, {number}", written.tokens, name, lies_there)

    def _record(self, place: str, tokens: Tokens, name: str, lies_there: bool) -> Iterator[str]:
        """The tokens of one port; `lies_there`: in the memory of the GPU."""
        batch = self._task.code.batch
        if batch == 1:
            count = _product(self._seen(tokens.port, name), tokens.size)
            record = "record_on_gpu(w, " if lies_there else "record("
            yield f"flow::{record}task, firing, {place}, {name}, {count} * sizeof *{name});"
            return
        count = _product(str(tokens.port.rates[0]), tokens.size)
        each = f"{name} + n * {count}, {count} * sizeof *{name}"
        yield f"for (int64_t n = 0; n < {batch}; n++)"
        yield f"    flow::record(task, firing + n, {place}, {each});"

    def _let_go(self, read: Read, name: str) -> Iterator[str]:
        """Room for the writer of a ring."""
        if isinstance(read.of, Ring):
            ring = self._scope.name(read.of.channel.source, read.of)
            rate = self._rate(read.tokens.port, name)
            yield f"{ring}.took({'k, ' if read.of.shared else ''}{rate});"

    def _hand_on(self, written: Written, name: str) -> Iterator[str]:
        """Tokens for the readers, and marks for those that are missing."""
        rate = self._rate(written.tokens.port, name)
        for place, own in self._pointers(written, name):
            at = self._scope.members[id(place)]
            if own != name and not self._on_kernels:
                count = self._elements(written.tokens, name)
                yield f"memcpy({own}, {name}, {count} * sizeof *{own});"
            if isinstance(place, Ring):
                if self._lossy:
                    yield f"{at}.mark({own}, {rate}, there);"
                yield f"{at}.wrote({'k, ' if place.shared else ''}{rate});"
            elif self._lossy:
                index = self._index(written.tokens, name, place.kept, False)
                yield f"memset({at}_missing{_in(place, index, 1)}, !there, {rate});"

    # -- numbers of tokens -------------------------------------------------------------------------
    def _rate(self, port: DeployedPort, name: str) -> str:
        """The tokens of a firing, or of all that share an inference."""
        if len(port.rates) == 1:
            return str(port.rates[0] * self._task.code.batch)
        return f"{name}_rate[i % {len(port.rates)}]"

    def _seen(self, port: DeployedPort, name: str) -> str:
        """The tokens that a firing sees: those that it takes, or a window."""
        return str(port.window) if port.window else self._rate(port, name)

    def _elements(self, tokens: Tokens, name: str) -> str:
        """The elements of the tokens of a firing."""
        return _product(self._rate(tokens.port, name), tokens.size)

    def _index(self, tokens: Tokens, name: str, offset: int, rate: bool) -> list[tuple[int, str]]:
        """The token at which a firing begins, as a sum: numbers of tokens, and what they are
        multiplied with. With `rate`, what it takes is counted as well."""
        port, firings = tokens.port, self._task.firings
        terms: list[tuple[int, str]] = []
        if self._scope.layout.places[self._task.name].iterations > 1:
            terms.append((tokens.in_iteration, "j"))
        if len(port.rates) == 1:
            offset += port.rates[0] if rate else 0
            if firings > 1:
                terms.append((port.rates[0], "i"))
            return [(offset, ""), *terms]
        phases = len(port.rates)
        if firings > phases:
            terms.append((sum(port.rates), f"(i / {phases})"))
        terms.append((1, f"{name}_before[i % {phases}]"))
        if rate:
            terms.append((1, f"{name}_rate[i % {phases}]"))
        return [(offset, ""), *terms]


def _first(task: DeployedTask) -> str:
    """Is a firing the first one of its iteration?"""
    return "" if task.firings == 1 else "i == 0 && "


def _group(task: DeployedTask) -> str:
    """The firings of an inference, where these are several."""
    return f", {task.code.batch}" if task.code.batch > 1 else ""


def _unless(condition: str, first: str = "") -> Iterator[str]:
    yield f"if ({first}!{condition})"
    yield "    return false;"


def _product(count: str, size: int) -> str:
    if count.isdigit():
        return str(int(count) * size)
    return count if size == 1 else f"{count} * {size}"


def _zeroed(task: DeployedTask) -> bool:
    """Are its outputs zero before a firing? Networks write all of them, and so does what copies
    tokens."""
    zeroed = not isinstance(task.code, NETWORKS | LinkCode | BorderCode | CudaCode)
    return zeroed and task.keep is None


def _in(array: Array, place: list[tuple[int, str]], size: int) -> str:
    """What is added to the address of an array, in elements, for the tokens at a place."""
    if not array.turn:
        return _plus(place, size)
    if all(count % array.turn == 0 for count, _ in place):
        return ""
    slot = f"({_plus(place, 1).removeprefix(' + ')}) % {array.turn}"
    return f" + {slot}" if size == 1 else f" + {size} * ({slot})"


def _plus(place: list[tuple[int, str]], size: int) -> str:
    """What is added to the address of an array, in elements."""
    text = ""
    for count, factor in place:
        elements = count * size
        if factor:
            text += f" + {factor}" if elements == 1 else f" + {elements} * {factor}"
        elif elements:
            text += f" {'+' if elements > 0 else '-'} {abs(elements)}"
    return text
