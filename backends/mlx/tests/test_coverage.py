"""Every instruction of the schema is executed by a cell of a suite, or by a hand-assembled program
if no module lowers to it.

The tables name the cell or program for each instruction. It counts if the executor reported the
instruction from a cell that ran to its end, so a table that is out of date fails.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from torch.utils._pytree import tree_leaves

from backends.mlx.execution.delegate import make_cache, make_executor, make_handle
from backends.mlx.execution.tests.assembled import PROGRAMS
from backends.mlx.execution.tests.test_metal_kernel import PROGRAMS as KERNELS
from backends.mlx.payload.graph import DELEGATE, Node
from backends.mlx.payload.tests.payloads import nodes
from harness import Case, Limitation, Target, Tester
from harness.backend_api import Interpreter, Program, RuntimeKernels
from harness.model.limitation import find_limitation
from harness.pipeline.route import lower
from harness.session.discovery import load_suites

SUITES = Path(__file__).parents[3] / "suites"

CELLS = {
    "unary/in_one_program@mlx:fp32": """
        Abs Arccos Arccosh Arcsin Arcsinh Arctan Arctanh Ceil Cos Cosh Erf Exp Expm1 Floor Gelu
        Log Log10 Log1p Log2 Neg Reciprocal Round Rsqrt Sigmoid Sign Silu Sin Sinh Sqrt Square
        Tan Tanh Trunc
    """,
    "binary/in_one_program@mlx:fp32": """
        Add Atan2 Clip Divide Equal FloorDivide Greater GreaterEqual Less LessEqual LogAddExp
        Maximum Minimum Multiply NotEqual Power Remainder Subtract
    """,
    "logic/in_one_program@mlx:fp32": """
        AsType BitwiseAnd BitwiseInvert BitwiseOr BitwiseXor LogicalAnd LogicalNot LogicalOr Where
    """,
    "reduce/in_one_program@mlx:fp32": """
        All Any Argmax Argmin ArgPartition Argsort Cumsum LayerNorm LogSumExp Max Mean Min
        Partition Prod Softmax Sort Sum TakeAlongAxis Var
    """,
    "rearrange/in_one_program@mlx:fp32": """
        ARange AsStrided BroadcastTo Concatenate ExpandDims Flip Full FullLike Gather IdCopy Pad
        Repeat Reshape Roll ScatterAdd Slice SliceUpdate Split Squeeze Stack Take Tile Transpose
        Tril Triu
    """,
    "kv_cache_update/operator_ring@mlx:fp32": "AddInt ItemInt ModInt SubtractInt SymSize",
    "moe/dynamic@mlx:fp32": "Addmm FloorDivideInt GatherMm If MultiplyInt",
    "convolution/1d@mlx:fp32": "Conv1D",
    "convolution/2d@mlx:fp32": "Conv2D",
    "convolution/3d@mlx:fp32": "Conv3D",
    "convolution/transposed_1d@mlx:fp32": "ConvTranspose1D",
    "convolution/transposed_2d@mlx:fp32": "ConvTranspose2D",
    "convolution/transposed_3d@mlx:fp32": "ConvTranspose3D",
    "copy/converts@mlx:fp32": "Contiguous",
    "gated_delta_rule/dynamic@mlx:fp32": "Scan",
    "gather_qmm/routed_sorted@mlx:int4": "GatherQmm",
    "index_copy/cache@mlx:fp32": "IndexCopy",
    "quantized_embedding/tied@mlx:int4": "Dequantize QuantizedMatmul",
    "rms_norm/cast@mlx:bf16": "RMSNorm",
    "rope/plain@mlx:fp32": "Rope",
    "scaled_dot_product_attention/causal@mlx:fp32": "Sdpa",
    "std/biased_keepdim@mlx:fp32": "Std",
    "update_and_attend/flat@mlx:fp32": "UpdateAndAttend",
}
"""Instructions by the cell that executes them."""

ASSEMBLED = {
    "median": "Median",
    "elementwise": "MetalKernel",
    "noop": "Noop",
    # Upstream's sampling emits it, behind a branch that cannot be taken: see the limitations.
    "random_bits": "RandomBits",
    "tri": "Tri",
}
"""Instructions that no cell can execute, by the program assembled for them."""


def kinds(words: str) -> set[str]:
    return {f"{word}Node" for word in words.split()}


@functools.cache
def cases() -> dict[str, tuple[Case, tuple[Limitation, ...]]]:
    suites = [*load_suites(SUITES / "ops"), *load_suites(SUITES / "mlx")]
    return {case.name: (case, suite.limitations) for suite in suites for case in suite.cases}


def executed(case: Case, target: Target) -> set[str]:
    """The node types that the executor reports while a cell runs."""
    tester = Tester(case, target)
    if tester.recipe.quantize_weights is not None:
        tester.quantize_weights()
    lower(tester)
    program = Program(tester.program)
    seen: set[str] = set()

    def see(chain: int, place: int, node: Node, tensors: list[Any], values: list[Any]) -> None:
        seen.add(node.kind)

    loaders = {DELEGATE: lambda part: make_handle(make_executor(part, make_cache(program)), see)}
    interpreter = Interpreter(program, loaders, RuntimeKernels())
    for inputs in tester.built.calls:
        interpreter(program.arrange(tree_leaves(inputs)))
    return seen


def test_the_tables_name_every_node_type() -> None:
    named = set().union(*map(kinds, (*CELLS.values(), *ASSEMBLED.values())))
    missing = set(nodes()) - named
    assert not missing, f"no cell is named for {', '.join(sorted(missing))}"
    unknown = named - set(nodes())
    assert not unknown, f"the schema has no {', '.join(sorted(unknown))}"


@pytest.mark.one_of(3)
@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_executes_the_instructions_of_the_table(cell: str) -> None:
    name, _, spelled = cell.partition("@")
    target = Target.parse(spelled)
    case, limitations = cases()[name]
    assert find_limitation(limitations, case, target) is None, "a known gap covers nothing"
    missing = kinds(CELLS[cell]) - executed(case, target)
    assert not missing, f"{cell} does not execute {', '.join(sorted(missing))}"


@pytest.mark.parametrize("name", ASSEMBLED)
def test_an_assembled_program_executes_the_instructions_of_the_table(name: str) -> None:
    seen: set[str] = set()
    program = KERNELS[name] if name in KERNELS else PROGRAMS[name]
    program.run(lambda chain, place, node, tensors, values: seen.add(node.kind))
    assert kinds(ASSEMBLED[name]) <= seen
