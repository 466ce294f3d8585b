"""Read a VGF payload: its interface, its segments and its constants, by Arm's ``vgf_dump``."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from backends.vgf.served import FORMATS
from backends.vgf.tools import INSTALL_PACKAGES, find_tool
from harness import ProgramError

MAGIC = b"VGF1"
_DUMP_SECONDS = 60.0


class VgfResource(msgspec.Struct, frozen=True):
    """An entry of the resource table: its role, its format as Vulkan names it, and its shape."""

    category: str
    vk_format: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int | None:
        """Size in bytes; None for a format that no tensor of a program has, or a dynamic shape."""
        if self.vk_format not in FORMATS or min(self.shape, default=1) < 1:
            return None
        return FORMATS[self.vk_format].itemsize * math.prod(self.shape)


class VgfSlot(msgspec.Struct, frozen=True):
    """An input or output of the model: its binding, and the index of its resource."""

    binding: int
    mrt_index: int
    name: str = ""


class VgfConstant(msgspec.Struct, frozen=True):
    """An entry of the constant table: its index, and the index of its resource."""

    index: int
    mrt_index: int


class VgfModule(msgspec.Struct, frozen=True):
    """A module: a graph in SPIR-V with TOSA's instructions, or a compute shader."""

    index: int
    name: str
    type: str
    shader_type: str = ""


class VgfSegment(msgspec.Struct, frozen=True):
    """A step of the model: a dispatch of a module."""

    name: str
    type: str
    module_index: int


class VgfSequence(msgspec.Struct, frozen=True):
    """The interface of a model and its segments in order."""

    inputs: list[VgfSlot]
    outputs: list[VgfSlot]
    segments: list[VgfSegment]


class VgfVersion(msgspec.Struct, frozen=True):
    """The version of the file format."""

    major: int
    minor: int
    patch: int


class VgfModel(msgspec.Struct, frozen=True):
    """A payload, as ``vgf_dump`` prints it."""

    header: VgfVersion
    resources: list[VgfResource]
    modules: list[VgfModule]
    model_sequence: VgfSequence
    constants: list[VgfConstant] = []

    def get_resource(self, slot: VgfSlot | VgfConstant) -> VgfResource:
        """Return the resource of an input, an output or a constant.

        Raises:
            ProgramError: there is no such resource.
        """
        if not 0 <= slot.mrt_index < len(self.resources):
            raise ProgramError(f"the VGF has no resource {slot.mrt_index}")
        return self.resources[slot.mrt_index]


def read_model(data: bytes) -> VgfModel:
    """Read a payload without its code and its constants.

    Raises:
        ProgramError: the bytes are no VGF, or they are damaged.
    """
    with write_payload(data) as file:
        printed = _dump(file)
    try:
        return msgspec.json.decode(printed, type=VgfModel)
    except msgspec.MsgspecError as error:
        raise ProgramError(f"the VGF cannot be read: {error}") from error


def read_parts(data: bytes, option: str, indices: Iterable[int]) -> list[bytes]:
    """Read parts of a payload, such as the code of modules.

    Args:
        data: the payload.
        option: option of ``vgf_dump``: ``--dump-constant`` or ``--dump-spirv``.
        indices: which of them.

    Raises:
        ProgramError: the bytes are no VGF, or have no such part.
    """
    with write_payload(data) as file:
        return [_dump(file, option, str(index)) for index in indices]


def read_constants(data: bytes) -> list[bytes]:
    """Read the constants of a payload.

    Raises:
        ProgramError: the bytes are no VGF, or they are damaged.
    """
    constants = read_model(data).constants
    return read_parts(data, "--dump-constant", (constant.index for constant in constants))


@contextmanager
def write_payload(data: bytes) -> Iterator[Path]:
    """Write a payload to a temporary file; yield its path.

    Raises:
        ProgramError: the bytes are no VGF.
    """
    if not data.startswith(MAGIC):
        raise ProgramError("the payload of VgfBackend does not begin with VGF1")
    with tempfile.NamedTemporaryFile(suffix=".vgf") as file:
        file.write(data)
        file.flush()
        yield Path(file.name)


def _dump(file: Path, *options: str) -> bytes:
    tool = find_tool("vgf_lib", "vgf_dump")
    if tool is None:
        raise ProgramError(f"reading a VGF needs vgf_dump: {INSTALL_PACKAGES}")
    with tempfile.NamedTemporaryFile(suffix=".part") as output:
        command = [str(tool), "--input", str(file), "--output", output.name, *options]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_DUMP_SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ProgramError(f"vgf_dump: {error}") from error
        if done.returncode:
            lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
            words = lines[-1] if lines else f"ended with exit code {done.returncode}"
            raise ProgramError(f"the VGF cannot be read: vgf_dump: {words}")
        return Path(output.name).read_bytes()
