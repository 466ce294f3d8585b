"""Faults of an MX implementation, planted in the executed program, turn every MX target red.

A program is lowered once a target. Faults of weights and bias are planted in the bytes of the
serialized program, faults of the encoding of an activation in the call of the reference model; both
are judged by the reference of the program without a fault.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import pytest
import torch
import tosa_reference_model
from flatbuffers.number_types import UOffsetTFlags
from tosa import DType

from backends.tests.mx_encoders import Array
from backends.tosa import reference, served
from backends.tosa.graph import read_root
from backends.tosa.semantics import RULE
from harness import Case, Tester
from harness.backend_api import Program
from harness.numerics.compare import compare
from harness.numerics.formats.microscaling import (
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    Element,
    decode_scales,
    encode,
)
from harness.numerics.formats.packing import unpack_codes

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own

TOSA = {
    "tosa:mxfp4": E2M1,
    "tosa:mxfp6_e2m3": E2M3,
    "tosa:mxfp6_e3m2": E3M2,
    "tosa:mxfp8_e4m3": E4M3,
    "tosa:mxfp8_e5m2": E5M2,
}
ELEMENT = {**TOSA, "mlx:mxfp8": E4M3, "mlx:nvfp4": E2M1}
ROWS, COLUMNS = 16, 64


def build() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Neighbouring blocks have different scales.

    The greatest magnitudes of the input's blocks are powers of two, which every format represents,
    so encoding an encoded block again does not change it.
    """
    layer, x = torch.nn.Linear(COLUMNS, ROWS), torch.randn(5, COLUMNS).clamp(-3.9, 3.9)
    with torch.no_grad():
        layer.weight[:, COLUMNS // 2 :] *= 5
        x[:, 5], x[:, COLUMNS // 2 + 5] = 4.0, -4.0
        x[:, COLUMNS // 2 :] *= 4
    return layer, (x,)


def misread(element: Element, codes: Array) -> Array:
    """Decode codes as another format of the same width."""
    if element is E2M1:  # The only format of its width: read as sign and integer.
        return numpy.where(codes & 8, -1.0, 1.0) * (codes & 7)
    other = {E2M3: E3M2, E3M2: E2M3, E4M3: E5M2, E5M2: E4M3}[element]
    return numpy.nan_to_num(other.table.numpy()[codes])


@dataclass
class Lowered:
    """A program, and the positions of weight and bias in its bytes.

    Attributes:
        tester: has run.
        element: of the weight.
        block: how many neighbours share a scale.
        float_weight: (ROWS, COLUMNS), before quantization, in units of the whole weight's scale.
        stored: the bytes of codes, scales and bias in the program.
    """

    tester: Tester
    element: Element
    block: int
    float_weight: Array
    stored: dict[str, bytes]

    def run(self, program: bytes | None = None) -> bool:
        """Whether these bytes, the program's own by default, get a green verdict."""
        tester = self.tester
        program = tester.program if program is None else program
        arranged = [Program(program).arrange(list(inputs)) for inputs in tester.built.calls]
        execution = tester.backend.execute(program, arranged)
        return compare(execution.outputs, tester.reference).passed

    def with_bytes(self, **changed: bytes) -> bytes:
        """The program with other codes, scales or bias."""
        program = self.tester.program
        for name, data in changed.items():
            assert data != self.stored[name]
            assert len(data) == len(self.stored[name])
            assert program.count(self.stored[name]) == 1
            program = program.replace(self.stored[name], data)
        return program

    @property
    def codes(self) -> Array:
        """A code a byte: (ROWS, COLUMNS)."""
        data = unpack_codes(self.stored["codes"], self.element.bits)
        return numpy.frombuffer(data, numpy.uint8).reshape(ROWS, COLUMNS)

    @property
    def scales(self) -> Array:
        """Scale codes: (ROWS, blocks)."""
        return numpy.frombuffer(self.stored["scales"], numpy.uint8).reshape(ROWS, -1)

    @property
    def powers(self) -> Array:
        """Return the decoded scales, one an element."""
        codes = torch.from_numpy(self.scales.copy())
        values = decode_scales(codes) if self.block == 32 else E4M3.table[codes.long()]
        return numpy.repeat(values.numpy(), self.block, 1)

    def pack(self, codes: Array) -> bytes:
        """Codes as the program stores them: from the lowest bit up."""
        bits = numpy.unpackbits(codes.astype(numpy.uint8)[..., None], axis=-1, bitorder="little")
        return numpy.packbits(bits[..., : self.element.bits].ravel(), bitorder="little").tobytes()

    def code(self, values: Array, truncate: bool = False) -> Array:
        """Codes of values over their scale: the nearest, or the next towards zero."""
        table = self.element.table.numpy()
        positive = table[: len(table) // 2]
        positive = positive[positive <= self.element.largest]
        sizes = numpy.abs(values)
        if truncate:
            found = numpy.searchsorted(positive, sizes, side="right") - 1
        else:
            found = numpy.abs(positive - sizes[..., None]).argmin(-1)
        return found | numpy.where(numpy.signbit(values), 1 << self.element.bits - 1, 0)


@functools.cache
def lowered(target: str) -> Lowered:
    tester = Tester(Case("mx/faults", build), target)
    tester.quantize_weights().export().lower().to_executorch().serialize().compute_reference().run().compare()
    element = ELEMENT[target]
    state = tester.exported.state_dict
    weight, whole = state.get("weight"), 1.0
    names = {"codes": "qdata", "scales": "scale"}
    if weight is None:
        parts = {kind: state[f"weight_{name}"] for kind, name in names.items()}
    else:
        parts = {kind: getattr(weight, name) for kind, name in names.items()}
        whole = float(getattr(weight, "per_tensor_scale", 1.0))
    stored = {
        kind: part.detach().contiguous().view(torch.uint8).numpy().tobytes()
        for kind, part in {**parts, "bias": state["bias"]}.items()
    }
    block = ROWS * COLUMNS // len(stored["scales"])
    given = tester.built.module.get_parameter("weight").detach().double().numpy() / whole
    made = Lowered(tester, element, block, given, stored)
    if element.bits == 6:  # torchao has a byte a code, TOSA packs them
        codes = numpy.frombuffer(stored["codes"], numpy.uint8)
        made.stored["codes"] = made.pack(codes)
    return made


def one_exponent(program: Lowered) -> bytes:
    """The scale of one block of one row is twice as large."""
    scales = program.scales.copy()
    scales[3, 1] += 1 if program.block == 32 else 8  # nvfp4's are E4M3
    return program.with_bytes(scales=scales.tobytes())


def truncated(program: Lowered) -> bytes:
    """Weights are rounded towards zero."""
    ratios = program.float_weight / program.powers
    assert (program.code(ratios) == program.codes).mean() > 0.99, "else this plants something else"
    return program.with_bytes(codes=program.pack(program.code(ratios, truncate=True)))


def shifted_block(program: Lowered) -> bytes:
    """The first element of a block is scaled as the block before."""
    values = program.element.table.numpy()[program.codes]
    before = numpy.roll(program.powers, 1, axis=1)
    before[:, 0] = program.powers[:, 0]
    return program.with_bytes(codes=program.pack(program.code(values * before / program.powers)))


def other_payload(program: Lowered) -> bytes:
    """Codes are read as another element format: by the declared type where there is one."""
    other = {E2M3: "FP6E3M2", E3M2: "FP6E2M3", E4M3: "FP8E5M2", E5M2: "FP8E4M3"}
    if program.tester.target.backend != "tosa" or program.element is E2M1:
        return program.with_bytes(
            codes=program.pack(program.code(misread(program.element, program.codes)))
        )
    names = {value: name for name, value in vars(DType.DType).items()}
    payload = Program(program.tester.program).delegates[0].data
    edited, changed = bytearray(payload), 0
    block = read_root(payload).Regions(0).Blocks(0)
    for tensor in map(block.Tensors, range(block.TensorsLength())):
        if names[tensor.Type()] in other.values():
            # The field after name and shape in the table of a tensor (tosa.fbs).
            at = UOffsetTFlags.py_type(tensor._tab.Offset(8)) + tensor._tab.Pos
            wanted = getattr(DType.DType, other[program.element])
            edited[at : at + 4] = int(wanted).to_bytes(4, "little")
            changed += 1
    assert changed == 2, "the activation's codes and the weight's"
    assert program.tester.program.count(payload) == 1
    return program.tester.program.replace(payload, bytes(edited))


def bias_dropped(program: Lowered) -> bytes:
    """The bias is zero."""
    return program.with_bytes(bias=bytes(len(program.stored["bias"])))


def bias_twice(program: Lowered) -> bytes:
    """The bias is added twice."""
    bias = numpy.frombuffer(program.stored["bias"], numpy.float32)
    return program.with_bytes(bias=(2 * bias).tobytes())


FAULTS = (one_exponent, truncated, shifted_block, other_payload, bias_dropped, bias_twice)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("target", ELEMENT)
def test_the_program_without_a_fault_passes(target: str) -> None:
    program = lowered(target)
    assert program.tester.verdict.passed
    assert program.run(), "and so it is when it is executed as the faulty ones are"
    assert program.tester.verdict.numerics[0].bound_used < 1


@pytest.mark.one_of(3)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("target", ELEMENT)
def test_a_fault_in_weight_or_bias_is_red(target: str, fault: Callable[[Lowered], bytes]) -> None:
    program = lowered(target)
    assert not program.run(fault(program))


# Outputs of a wrong CAST_TO_BLOCK_SCALED, given as inputs that it encodes exactly.


def cast_one_exponent(x: torch.Tensor, element: Element) -> torch.Tensor:
    """One block's scale is twice as large."""
    values = encode(x, element, RULE).values()
    values[0, 32:64] *= 2
    return values


def cast_truncated(x: torch.Tensor, element: Element) -> torch.Tensor:
    """Rounded towards zero."""
    made = encode(x, element, RULE)
    beyond = made.values().abs() > x.double().abs()
    return made.values() - torch.where(beyond, made.steps() * x.sign(), 0.0)


def cast_shifted_block(x: torch.Tensor, element: Element) -> torch.Tensor:
    """The first element of the second block takes the first block's scale."""
    made = encode(x, element, RULE)
    values, powers = made.values(), decode_scales(made.scales)
    values[:, 32] *= powers[:, 0] / powers[:, 1]
    return values


def cast_other_payload(x: torch.Tensor, element: Element) -> torch.Tensor:
    """Codes are interpreted as another element format."""
    made = encode(x, element, RULE)
    values = torch.from_numpy(misread(element, made.codes.numpy()))
    return values * decode_scales(made.scales).repeat_interleave(32, 1)


CAST_FAULTS = (cast_one_exponent, cast_truncated, cast_shifted_block, cast_other_payload)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    def plant(wrong: Callable[[torch.Tensor], torch.Tensor]) -> None:
        honest: Any = tosa_reference_model.run

        def run(graph: bytes, inputs: list[Array], **options: Any) -> Any:
            found = [wrong(torch.from_numpy(given)).float().numpy() for given in inputs]
            assert not numpy.array_equal(found[0], inputs[0])
            return honest(graph, found, **options)

        # In this process, where the model can be spoilt.
        monkeypatch.setattr(served, "import_model", lambda: run)
        monkeypatch.setattr(reference.CHILD, "ask", lambda request, _: served.answer(request))

    yield plant
    monkeypatch.undo()


@pytest.mark.parametrize("fault", CAST_FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("target", TOSA)
def test_a_fault_in_the_cast_is_red(
    target: str, fault: Callable[..., torch.Tensor], planted: Callable[..., None]
) -> None:
    program = lowered(target)
    planted(functools.partial(fault, element=TOSA[target]))
    assert not program.run()


@pytest.mark.parametrize("target", TOSA)
def test_a_correct_cast_of_encoded_values_passes(target: str, planted: Callable[..., None]) -> None:
    """The faults above fail because of the fault, not because inputs are encoded twice."""
    program = lowered(target)
    planted(lambda x: encode(x, TOSA[target], RULE).values())
    assert program.run()
