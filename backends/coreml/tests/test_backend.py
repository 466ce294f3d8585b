"""What the backend says about its payloads, its recipes and the vendor's converter."""

from __future__ import annotations

import logging

import pytest
import torch

from backends.coreml import BACKEND
from backends.coreml.payload import reader
from backends.coreml.payload.tests.payloads import edit_model, lowered, operation_of, real
from backends.coreml.quantization import make_lut_semantics
from backends.coreml.weights import find_problem, find_storage_problem
from harness import Case, ProgramError, Status, Tester, run_cell
from harness.backend_api import DelegatePayload
from harness.pipeline.route import lower

_DECODE = "constexpr_blockwise_shift_scale"


def test_the_constants_of_a_payload_are_its_weights() -> None:
    found = BACKEND.constants(real("stateful"))
    assert sorted(map(len, found.blobs)) == [64, 32 * 16 * 4]
    assert found.instead_of == frozenset()
    # 4-bit codes of 64 columns and 48 rows, a scale for 32 codes, and the bias.
    packed = BACKEND.constants(real("int4"))
    assert sorted(map(len, packed.blobs)) == [48 * 4, 48 * 2 * 4, 48 * 64 // 2]


def test_a_payload_that_cannot_be_read_is_an_error_of_the_listing() -> None:
    broken = DelegatePayload(BACKEND.delegate, real("stateful").data[:-9], {}, {})
    with pytest.raises(ProgramError, match="CoreML payload"):
        list(BACKEND.describe(broken))


@pytest.mark.parametrize(
    ("name", "element", "operation"),
    [("int4", "int4", _DECODE), ("lut4", "uint4", "constexpr_lut_to_dense")],
)
def test_stored_weights_are_verified(name: str, element: str, operation: str) -> None:
    serialized = lowered(name).serialized
    assert find_problem(serialized, element, operation) is None
    program = reader.load(real(name).data, {})
    assert find_storage_problem([program], "int3", operation, 1) == (
        f"{operation} decodes {element}, expected int3"
    )
    assert find_storage_problem([program], element, operation, 2) == (
        f"1 operations read weights of {element}, expected 2"
    )


def test_a_float_weight_is_no_quantized_one() -> None:
    program = reader.load(real("stateful").data, {})
    problem = find_storage_problem([program], "int4", _DECODE, 1)
    assert problem == "0 operations read weights of int4, expected 1"


def test_codes_of_a_palette_decode_to_their_entries() -> None:
    generator = torch.Generator().manual_seed(0)
    decode = make_lut_semantics().decoders["quant::dequantize_codebook"]
    for shape in ((1, 4, 16, 1), (3, 1, 16, 1)):
        codes = torch.randint(0, 16, (6, 8), dtype=torch.uint8, generator=generator)
        tables = torch.randn(shape, generator=generator)
        block = [6 // shape[0], 8 // shape[1]]
        from torchao.prototype.quantization.codebook_coreml import codebook_ops

        expected = codebook_ops.dequantize_codebook(codes.int(), tables, 4, block)
        assert torch.equal(decode(codes, tables, 4, block).values().float(), expected)


def test_lowering_writes_no_bars_and_no_logs(capfd: pytest.CaptureFixture[str]) -> None:
    case = Case("quiet/linear", lambda: (torch.nn.Linear(8, 4), (torch.randn(2, 8),)))
    lower(Tester(case, "coreml:fp32"))
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
    assert logging.getLogger("coremltools").level >= logging.ERROR


def test_a_left_over_node_has_a_reason() -> None:
    class Rest(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.diagonal(x.exp()).acosh().argmax() + x.argmax()

    cell = run_cell(Case("rest", lambda: (Rest(), (torch.rand(4, 4),))), "coreml:fp32")
    reasons = {op: " ".join(each) for op, each in cell.delegation.reasons.items()}
    assert "lists this operator as not supported" in reasons["aten.acosh.default"]
    assert "argmin and argmax of all elements" in reasons["aten.argmax.default"]


def test_dims_orders_are_unsupported() -> None:
    x = torch.randn(1, 3, 4, 5).to(memory_format=torch.channels_last)
    cell = run_cell(Case("last", lambda: (torch.nn.ReLU(), (x,))), "coreml:fp32")
    assert cell.status is Status.UNSUPPORTED
    assert "row-major" in str(cell.error)


def test_a_wrong_type_in_the_payload_ends_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is executed from its bytes: a declared type that is wrong is found there."""

    def lie(message: object) -> None:
        operation_of(message, "relu").outputs[0].type.tensorType.dimensions[0].constant.size = 5

    payload = DelegatePayload("CoreMLBackend", edit_model(real("stateful").data, lie), {}, {})
    from backends.coreml.execution.delegate import make_executor

    with pytest.raises(ProgramError, match=r"relu .*\[4, 16\], it declares fp32\[5, 16\]"):
        make_executor(payload)([torch.ones(4, 32)])
