"""Parse a generated AOTI wrapper: its functions, its shaders, its constants."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from backends.metal.cpp.parser import parse_function
from backends.metal.cpp.syntax import CppFunction, CppSource, UnknownStatement, WrapperError

RUN = "AOTInductorModel::run_impl"
CONSTANT_RUN = "AOTInductorModel::_const_run_impl"

# Four fifths of a wrapper are the same in every wrapper. A pattern that starts with a word skips
# them several times faster than a pattern that starts at a line.
_FUNCTION = re.compile(
    r"void (AOTInductorModel::(?:run_impl|_const_run_impl)"
    r"|check_input_\w+|__check_inputs_outputs)(?=\()"
)
_BEFORE = ("", "static ", "AOTI_NOINLINE ", "AOTI_NOINLINE static ")
_COUNTS = re.compile(r": AOTInductorModelBase\((\d+),\s*(\d+),\s*(\d+),")
_HANDLE = re.compile(
    r"^AOTIMetalKernelFunctionHandle (get_\w+_handle)\(\) \{(.*?)^\}", re.MULTILINE | re.DOTALL
)
_LIBRARY = re.compile(r"aoti_torch_mps_create_shader_library\((\w+)_source,")
_KERNEL = re.compile(r'aoti_torch_mps_get_kernel_function\(\w+, "(\w+)",')
_CONSTANT = re.compile(r"^ *constants_info_\[(\d+)\]\.(\w+) = (.*);$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class KernelName:
    """The origin of a kernel.

    Attributes:
        library: the shader library's variable, such as ``mps_lib_0``.
        function: the kernel in its source.
    """

    library: str
    function: str


@dataclass(frozen=True, slots=True)
class ConstantInfo:
    """A constant as the wrapper describes it to the runtime.

    Attributes:
        name: the wrapper's name for it.
        dtype: torch's name, such as ``float32``.
        device: ``mps`` or ``cpu``.
        shape: sizes.
        strides: strides in elements.
        offset: offset of its first element in its storage, in elements.
        nbytes: bytes of its storage, as aligned in the weights.
    """

    name: str
    dtype: str
    device: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Wrapper:
    """A parsed wrapper. It has no state, so several machines can share it.

    Attributes:
        source: the wrapper's text.
        functions: ``run_impl`` and the functions that it calls.
        kernels: kernels by the function that returns their handle.
        constants: constants in the order of the runtime's list.
        inputs: number of input tensors.
        outputs: number of output tensors.
    """

    source: CppSource
    functions: Mapping[str, CppFunction]
    kernels: Mapping[str, KernelName]
    constants: tuple[ConstantInfo, ...]
    inputs: int
    outputs: int

    @staticmethod
    def parse(wrapper: str) -> Wrapper:
        """Parse a wrapper.

        Raises:
            UnknownStatement: the parser does not support a statement; the message quotes its line.
            WrapperError: the text is not an AOTI wrapper.
        """
        source = CppSource(wrapper)
        counts = _COUNTS.search(wrapper)
        functions = {
            found[1]: parse_function(source, found[1], found.end()) for found in _functions(wrapper)
        }
        if counts is None or RUN not in functions:
            raise WrapperError(f"the source is not an AOTI wrapper: it has no {RUN}")
        constants = _constants(source)
        if len(constants) != int(counts[3]):
            raise WrapperError(f"{counts[3]} constants are declared, {len(constants)} described")
        program = Wrapper(
            source, functions, _kernels(source), constants, int(counts[1]), int(counts[2])
        )
        if CONSTANT_RUN in functions and functions[CONSTANT_RUN].body:
            line = functions[CONSTANT_RUN].body[0].line
            raise UnknownStatement(
                "constants are folded at run time, which MetalBackend does not request",
                line,
                source.quote(line),
            )
        return program

    @property
    def run(self) -> CppFunction:
        """The function that executes a call of the model."""
        return self.functions[RUN]

    @functools.cached_property
    def text(self) -> str:
        """The C++ of ``run_impl``."""
        text = self.source.text
        found = next(m for m in _functions(text) if m[1] == RUN)
        return text[_line(text, found.start()) : text.find("\n}", found.end()) + 2]


def _line(text: str, at: int) -> int:
    """Return the start of the line with this character."""
    return text.rfind("\n", 0, at) + 1


def _functions(text: str) -> Iterator[re.Match[str]]:
    """Find the heads of the functions to parse, up to their parameters."""
    for found in _FUNCTION.finditer(text):
        if text[_line(text, found.start()) : found.start()] in _BEFORE:
            yield found


def _find_lines(pattern: re.Pattern[str], text: str, word: str) -> Iterator[re.Match[str]]:
    """Find matches of a pattern whose lines contain a word; start at the word's first line."""
    first = text.find(word)
    return iter(()) if first < 0 else pattern.finditer(text, _line(text, first))


def _kernels(source: CppSource) -> dict[str, KernelName]:
    found: dict[str, KernelName] = {}
    for handle in _find_lines(_HANDLE, source.text, "AOTIMetalKernelFunctionHandle get_"):
        library, kernel = _LIBRARY.search(handle[2]), _KERNEL.search(handle[2])
        if library is None or kernel is None:
            raise source.error(f"{handle[1]} creates no kernel", handle.start())
        found[handle[1]] = KernelName(library[1], kernel[1])
    return found


def _constants(source: CppSource) -> tuple[ConstantInfo, ...]:
    fields: dict[int, dict[str, str]] = {}
    for line in _find_lines(_CONSTANT, source.text, "constants_info_["):
        fields.setdefault(int(line[1]), {})[line[2]] = line[3]
    try:
        return tuple(_constant(fields[index]) for index in range(len(fields)))
    except (KeyError, ValueError) as error:
        raise WrapperError(f"the description of a constant is incomplete: {error}") from error


def _constant(field: Mapping[str, str]) -> ConstantInfo:
    device = field["device_type"].split(",")[0].strip()
    return ConstantInfo(
        name=field["name"].strip('"'),
        dtype=field["dtype"].removeprefix("cached_torch_dtype_"),
        device=device.removeprefix("cached_torch_device_type_"),
        shape=_numbers(field["shape"]),
        strides=_numbers(field["stride"]),
        offset=int(field["offset"]),
        nbytes=int(field["data_size"]),
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part.rstrip("L")) for part in text.strip("{} ").split(",") if part.strip())
