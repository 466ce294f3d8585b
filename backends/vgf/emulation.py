"""Execute a VGF payload on Arm's ML emulation layer for Vulkan, in a child process.

A child loads a payload once: the first payload of a process takes half a second, others a
twentieth, the first call a sixth of a second (lavapipe compiles shaders), further calls less than a
millisecond. Calls therefore need no batching.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy
import torch

from backends.vgf.payload import VgfModel, VgfSlot, read_model, write_payload
from backends.vgf.served import FORMATS, VgfProgram, VgfRequest, VgfResult, VgfTensor
from backends.vgf.tools import make_environment
from harness import ProgramError
from harness.backend_api import (
    ChildProcess,
    DelegateHandle,
    DelegatePayload,
    read_memory,
    write_memory,
)

# The default of --cell-timeout: time for a whole cell.
CALL_SECONDS = 300.0


@functools.cache
def get_child() -> ChildProcess:
    """Return the child process of this process; the first request starts it."""
    return ChildProcess(
        Path(__file__).with_name("served.py"),
        "Arm's emulation layer for Vulkan",
        make_environment(),
        limit_memory=True,
    )


def load(payload: DelegatePayload) -> DelegateHandle:
    """Read the payload's interface and return a function that executes the payload.

    Raises:
        ProgramError: the payload is no VGF, or a tensor has a format that no program has.
    """
    model = read_model(payload.data)
    inputs, outputs = (
        [_describe_tensor(model, slot) for slot in slots]
        for slots in (model.model_sequence.inputs, model.model_sequence.outputs)
    )
    key = hashlib.sha256(payload.data).hexdigest()
    loaded_in: int | None = None  # process id of the child that has the payload

    def send(request: VgfRequest) -> VgfResult:
        answer = get_child().ask(msgspec.msgpack.encode(request), CALL_SECONDS)
        try:
            return msgspec.msgpack.decode(answer, type=VgfResult)
        except msgspec.MsgspecError as error:
            raise ProgramError(f"the emulation layer sent a malformed answer: {error}") from error

    def call(arguments: list[Any]) -> None:
        nonlocal loaded_in
        _check_arguments(arguments, [*inputs, *outputs], len(inputs))
        request = VgfRequest(
            key, [read_memory(each).tobytes() for each in arguments[: len(inputs)]]
        )
        is_loaded = loaded_in is not None and loaded_in == get_child().pid
        result = send(request) if is_loaded else VgfResult(False)
        if not result.is_loaded:
            with write_payload(payload.data) as file:
                request.program = VgfProgram(str(file), inputs, outputs)
                result = send(request)
            loaded_in = get_child().pid
        for data, declared, tensor in zip(
            result.outputs, outputs, arguments[len(inputs) :], strict=True
        ):
            array = numpy.frombuffer(data, FORMATS[declared.format].dtype)
            write_memory(array.reshape(declared.shape), tensor)

    return call


def _describe_tensor(model: VgfModel, slot: VgfSlot) -> VgfTensor:
    resource = model.get_resource(slot)
    if resource.nbytes is None:
        raise ProgramError(
            f"{slot.name} of the VGF is {resource.vk_format}{list(resource.shape)}, which no "
            "tensor of a program is"
        )
    return VgfTensor(slot.binding, resource.vk_format, resource.shape)


def _check_arguments(arguments: Sequence[Any], declared: list[VgfTensor], inputs: int) -> None:
    """Compare a call's arguments with the tensors that the payload declares.

    Raises:
        ProgramError: their number differs, one is no tensor, or sizes differ.
    """
    if len(arguments) != len(declared):
        raise ProgramError(
            f"the VGF has {inputs} inputs and {len(declared) - inputs} outputs, the program passes "
            f"{len(arguments)} arguments"
        )
    for number, (value, tensor) in enumerate(zip(arguments, declared, strict=True)):
        if not isinstance(value, torch.Tensor):
            raise ProgramError("the VGF delegate takes and returns tensors only")
        size = FORMATS[tensor.format].itemsize
        shape = [value.shape[dim] for dim in value.dim_order()]
        # Dimensions of size 1 are the same in memory; passes add and remove them.
        if value.element_size() != size or [n for n in shape if n != 1] != [
            n for n in tensor.shape if n != 1
        ]:
            raise ProgramError(
                f"argument {number} is {value.dtype}{shape} in memory order, the VGF declares "
                f"{tensor.format}{list(tensor.shape)}"
            )
