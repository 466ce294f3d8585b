"""Lower for OpenVINO's CPU plugin and run with the delegate of executorch's wheel.

Import it before anything runs: the delegate reads the path of OpenVINO's C library, and the plugin
the most capable instruction set that it may use, from the environment. Without bfloat16 products
the plugin computes float32 programs in float32.
"""

import contextlib
import io
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from common import CannotTry
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.compile_spec_schema import CompileSpec

os.environ["OV_CPU_MAX_ISA"] = "AVX512_CORE_VNNI"


def make_partitioner() -> Any:
    """Make the partitioner, and let the delegate find OpenVINO.

    Raises:
        CannotTry: a package is missing.
    """
    for name in ("openvino", "nncf"):
        if find_spec(name) is None:
            # The test that runs all scripts skips those that a CPU cannot run.
            raise CannotTry(f"this CPU has no OpenVINO plugin: {name} is not installed")
    from executorch.backends.openvino.partitioner import OpenvinoPartitioner

    folder = Path(find_spec("openvino").submodule_search_locations[0], "libs")
    os.environ.setdefault("OPENVINO_LIB_PATH", str(max(folder.glob("libopenvino_c.so*"))))
    return OpenvinoPartitioner([CompileSpec("device", b"CPU")])


def lower_program(
    module: torch.nn.Module, inputs: tuple[Any, ...], dynamic_shapes: Any = None
) -> bytes:
    """Lower a module and return the bytes of its program."""
    exported = torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints unsupported operators
        edge = to_edge_transform_and_lower(exported, partitioner=[make_partitioner()])
    return bytes(edge.to_executorch().buffer)
