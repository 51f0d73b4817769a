"""Modules of boards: what cannot be told from their processors alone.

All Orins have a GPU of the same compute capability, but not the same accelerators, and not the same
TensorRT that uses them; NPUs of one engine compute in different precisions.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Half-open intervals of versions.
Versions = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Module:
    """`name` is written in platforms. `compute` is the compute capability of its GPU (None: no CUDA
    there), `dla` are the versions of TensorRT that use its DLA: () = it has none. `npu` are the
    precisions in which its NPU computes."""

    name: str
    title: str
    compute: tuple[int, int] | None
    dla: Versions
    npu: tuple[str, ...] = ()

    def dla_works_with(self, tensorrt: tuple[int, ...]) -> bool:
        """Does that TensorRT build engines for its DLA?"""
        return any(first <= tensorrt < end for first, end in self.dla)


#: NVIDIA TensorRT 11.4.1 documentation, "Working with DLA": 10.7 was the last version before it
#: with a DLA, and 11.4.1 has that of the AGX Orin alone, under JetPack 7.2.2. JetPack for Xavier
#: ends at 8.5, for Orin it begins with 8.4. Data sheets: no DLA in Orin Nano and Thor.
MODULES: dict[str, Module] = {
    module.name: module
    for module in (
        Module("xavier", "Xavier", (7, 2), (((8, 0), (8, 6)),)),
        Module("agx_orin", "AGX Orin", (8, 7), (((8, 4), (10, 8)), ((11, 4, 1), (12,)))),
        Module("orin_nx", "Orin NX", (8, 7), (((8, 4), (10, 8)),)),
        Module("orin_nano", "Orin Nano", (8, 7), ()),
        Module("thor", "Thor", (11, 0), ()),
        # Hexagon v68: QNN refuses fp16 there.
        Module("qcs6490", "QCS6490", None, (), ("int8",)),
    )
}
