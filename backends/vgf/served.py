"""Execute VGF payloads in a child process by Arm's scenario runner; define requests and results.

The environment of the process selects the emulation layers and the Vulkan driver, and native code
may crash on payloads from elsewhere. This module does not import torch, so that a child starts
quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy


@dataclass(frozen=True)
class TensorFormat:
    """A format of tensors: its name in the scenario runner, and NumPy's type of its elements."""

    name: str
    dtype: str

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return numpy.dtype(self.dtype).itemsize


FORMATS = {
    "VK_FORMAT_R8_BOOL_ARM": TensorFormat("R8BoolArm", "|b1"),
    "VK_FORMAT_R8_SINT": TensorFormat("R8Sint", "|i1"),
    "VK_FORMAT_R8_UINT": TensorFormat("R8Uint", "|u1"),
    "VK_FORMAT_R16_SINT": TensorFormat("R16Sint", "<i2"),
    "VK_FORMAT_R32_SINT": TensorFormat("R32Sint", "<i4"),
    "VK_FORMAT_R64_SINT": TensorFormat("R64Sint", "<i8"),
    "VK_FORMAT_R16_SFLOAT": TensorFormat("R16Sfloat", "<f2"),
    "VK_FORMAT_R16_SFLOAT_FPENCODING_BFLOAT16_ARM": TensorFormat("R16Bfloat16Arm", "<u2"),
    "VK_FORMAT_R32_SFLOAT": TensorFormat("R32Sfloat", "<f4"),
}
"""The formats of tensors that programs have, by Vulkan's name."""


class VgfTensor(msgspec.Struct, array_like=True, frozen=True):
    """An input or output of a payload: its binding, its format in :data:`FORMATS`, its shape."""

    binding: int
    format: str
    shape: tuple[int, ...]


class VgfProgram(msgspec.Struct, array_like=True, frozen=True):
    """A payload for the child: path of its file, its inputs and outputs in order."""

    file: str
    inputs: list[VgfTensor]
    outputs: list[VgfTensor]


class VgfRequest(msgspec.Struct, array_like=True):
    """A request to execute a payload.

    Attributes:
        key: a unique name of the payload.
        inputs: the bytes of each input, in C order.
        program: the payload; None if the child already has the one of this name.
    """

    key: str
    inputs: list[bytes]
    program: VgfProgram | None = None


class VgfResult(msgspec.Struct, array_like=True):
    """The result of a request.

    Attributes:
        is_loaded: False if the child does not have the payload; nothing was executed then.
        outputs: the bytes of each output, in C order.
    """

    is_loaded: bool
    outputs: list[bytes] = []


class _Loaded:
    """A payload whose pipelines exist: it executes in less than a millisecond."""

    def __init__(self, program: VgfProgram) -> None:
        import scenario_runner as vendor

        builder = vendor.ScenarioBuilder()
        info = vendor.VgfInfo()
        info.load_source(program.file)
        dispatch = vendor.DispatchVgfData(builder.add_vgf(info))
        self._inputs, self._outputs = (
            [(builder.add_tensor(tensor.shape, _find_format(tensor)), tensor) for tensor in tensors]
            for tensors in (program.inputs, program.outputs)
        )
        dispatch.bindings = [
            vendor.TypedBinding(0, tensor.binding, key, vendor.DescriptorType.TensorArm)
            for key, tensor in (*self._inputs, *self._outputs)
        ]
        builder.add_dispatch_vgf(dispatch)
        self._scenario: Any = builder.build()

    def execute(self, inputs: list[bytes]) -> list[bytes]:
        for (key, tensor), data in zip(self._inputs, inputs, strict=True):
            array = numpy.frombuffer(data, FORMATS[tensor.format].dtype)
            self._scenario.upload(key, array.reshape(tensor.shape))
        self._scenario.run()
        return [self._scenario.download(key).tobytes() for key, _ in self._outputs]


def _find_format(tensor: VgfTensor) -> Any:
    import scenario_runner

    return getattr(scenario_runner.Format, FORMATS[tensor.format].name)


# Payloads that the child has, oldest first; it drops the oldest.
_LOADED: dict[str, _Loaded] = {}
_MAX_LOADED = 16


def answer(request: bytes) -> bytes:
    """Execute the payload of an encoded :class:`VgfRequest`; return an encoded result."""
    decoded = msgspec.msgpack.decode(request, type=VgfRequest)
    if decoded.program is not None:
        if len(_LOADED) >= _MAX_LOADED:
            del _LOADED[next(iter(_LOADED))]
        _LOADED[decoded.key] = _Loaded(decoded.program)
    if decoded.key not in _LOADED:
        return msgspec.msgpack.encode(VgfResult(False))
    return msgspec.msgpack.encode(VgfResult(True, _LOADED[decoded.key].execute(decoded.inputs)))
