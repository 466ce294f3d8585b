"""Read the graph of a SPIR-V module: TOSA's instructions in order, with the types of their values.

Numbers are those of SPIR-V (spirv.h) and of its instruction set TOSA.001000.1
(TOSA.001000.1.h in KhronosGroup/SPIRV-Headers).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from harness import ProgramError

_MAGIC = 0x07230203
_HEADER_WORDS = 5
_EXT_INST_IMPORT, _EXT_INST = 11, 12
_TYPE_BOOL, _TYPE_INT, _TYPE_FLOAT, _TYPE_TENSOR = 20, 21, 22, 4163
_CONSTANT, _CONSTANT_COMPOSITE = 43, 44
_BFLOAT16 = 0  # FPEncodingBFloat16KHR
_TOSA = "TOSA.001000.1"

OPERATORS = (
    "ARGMAX AVG_POOL2D CONV2D CONV3D DEPTHWISE_CONV2D FFT2D MATMUL MAX_POOL2D RFFT2D "
    "TRANSPOSE_CONV2D CLAMP ERF SIGMOID TANH ADD ARITHMETIC_RIGHT_SHIFT BITWISE_AND BITWISE_OR "
    "BITWISE_XOR INTDIV LOGICAL_AND LOGICAL_LEFT_SHIFT LOGICAL_RIGHT_SHIFT LOGICAL_OR LOGICAL_XOR "
    "MAXIMUM MINIMUM MUL POW SUB TABLE ABS BITWISE_NOT CEIL CLZ COS EXP FLOOR LOG LOGICAL_NOT "
    "NEGATE RECIPROCAL RSQRT SIN SELECT EQUAL GREATER GREATER_EQUAL REDUCE_ALL REDUCE_ANY "
    "REDUCE_MAX REDUCE_MIN REDUCE_PRODUCT REDUCE_SUM CONCAT PAD RESHAPE REVERSE SLICE TILE "
    "TRANSPOSE GATHER SCATTER RESIZE CAST RESCALE"
).split()
"""The instructions by number."""


@dataclass(frozen=True)
class GraphOperator:
    """An instruction of TOSA: its name, the type of its result, and those of its operands.

    Types are such as ``f32[1, 8]``. Attributes and shapes are operands as well.
    """

    name: str
    result: str
    operands: tuple[str, ...]


def read_operators(module: bytes) -> list[GraphOperator]:
    """Read the operators of a module in order; a compute shader has none.

    Raises:
        ProgramError: the bytes are no SPIR-V module.
    """
    types: dict[int, str] = {}  # of types and of values, by id
    constants: dict[int, int] = {}
    shapes: dict[int, str] = {}
    sets: dict[int, str] = {}
    operators = []
    for opcode, words in _read_instructions(module):
        match opcode, words:
            case _ if opcode == _EXT_INST_IMPORT and words:
                name = struct.pack(f"<{len(words) - 1}I", *words[1:]).partition(b"\0")[0]
                sets[words[0]] = name.decode(errors="replace")
            case _ if opcode == _TYPE_BOOL and words:
                types[words[0]] = "bool"
            case (_, [result, width, *_]) if opcode == _TYPE_INT:
                types[result] = f"i{width}"  # TOSA's graphs have no signs
            case (_, [result, width, *encoding]) if opcode == _TYPE_FLOAT:
                types[result] = "bf16" if encoding == [_BFLOAT16] else f"f{width}"
            case (_, [result, element, _, shape]) if opcode == _TYPE_TENSOR:
                types[result] = f"{types.get(element, '?')}{shapes.get(shape, '[?]')}"
            case (_, [kind, result, value, *_]) if opcode == _CONSTANT:
                constants[result], types[result] = value, types.get(kind, "?")
            case (_, [kind, result, *items]) if opcode == _CONSTANT_COMPOSITE:
                shapes[result] = f"[{', '.join(str(constants.get(item, '?')) for item in items)}]"
                types[result] = types.get(kind, f"constant{shapes[result]}")
            case (_, [kind, result, group, number, *items]) if opcode == _EXT_INST:
                types[result] = types.get(kind, "?")
                if sets.get(group) == _TOSA:
                    known = number < len(OPERATORS)
                    operators.append(
                        GraphOperator(
                            OPERATORS[number] if known else f"TOSA instruction {number}",
                            types[result],
                            tuple(types.get(item, "?") for item in items),
                        )
                    )
            case (_, [kind, result, *_]) if kind in types and result not in types:
                types[result] = types[kind]  # such as an input, or a constant of the graph
    return operators


def _read_instructions(module: bytes) -> Iterator[tuple[int, list[int]]]:
    """Yield the opcode and the operands of each instruction.

    Raises:
        ProgramError: the bytes are no SPIR-V module.
    """
    words = [each for (each,) in struct.iter_unpack("<I", module[: len(module) // 4 * 4])]
    if len(words) < _HEADER_WORDS or words[0] != _MAGIC:
        raise ProgramError("a module of the VGF is not SPIR-V")
    at = _HEADER_WORDS
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if not 0 < count <= len(words) - at:
            raise ProgramError("an instruction of a SPIR-V module of the VGF has a wrong length")
        yield opcode, words[at + 1 : at + count]
        at += count
