"""Private names of ExecuTorch that this project uses; ``executorch.pyi`` lists them.

Its partitioners, quantizers and passes are under test, and are imported where they are used.
"""

from __future__ import annotations

from pathlib import Path

from harness.vendors.private_names import PrivateNames

_PTE = "reading and writing .pte files"
USES = {
    "executorch.exir._serialize._flatbuffer": "listing XNNPACK's payloads",
    "executorch.exir._serialize._flatbuffer_program": _PTE,
    "executorch.exir._serialize._named_data_store": f"{_PTE}, and kept Metal code",
    "executorch.exir._serialize._program": _PTE,
    "executorch.exir._serialize.data_serializer": _PTE,
    "executorch.exir.dialects._ops": "operators of the edge dialect",
    "executorch.exir.dialects.edge._ops": "operators of the edge dialect",
    "executorch.exir.program._program": "passes that a target or conform passes adds",
    "executorch.exir.tracer": "messages about graphs that the edge dialect refuses",
}
NAMES = PrivateNames("executorch", Path(__file__).with_suffix(".pyi"), USES)
__getattr__ = NAMES.find
