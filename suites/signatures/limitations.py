"""Limitations of module inputs and module state."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation, copy_to_vgf
from suites.mlx.limitations import LIMITATIONS as MLX
from suites.models.limitations import LIMITATIONS as MODELS
from suites.ops.limitations import LIMITATIONS as OPS

_WRITE_BACK = (
    "https://github.com/pytorch/executorch/blob/v1.5.1/exir/passes/"
    "insert_write_back_for_buffers_pass.py"
)

LIMITATIONS: list[Limitation] = [
    Limitation(
        target="coreml:fp32",
        case="state/from_zero",
        reason="Core ML has float16 states only. The converter casts a float32 buffer to float16 "
        "without an error, whatever compute_precision says.",
        link="https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/frontend/"
        "torch/converter.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="null:*|portable:*|xnnpack:*|tosa:fp|mlx:*|coreml:*|openvino:*",
        case="state/from_one",
        reason="A buffer that the program writes begins as zeros, whatever its initial value in "
        "the module. The emitter omits the values unless InitializedMutableBufferPass "
        "(exir/passes/init_mutable_pass.py) lists the buffer, and MLX's load_mutable_buffers "
        "(runtime/MLXInterpreter.h) also fills it with zeros. Workaround: name the buffer in "
        "`InitializedMutableBufferPass`, except for MLX.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/exir/passes/init_mutable_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="xnnpack:fp32",
        case="state/learned_linear|state/learned_mm|state/learned_conv2d|state/learned_prelu",
        reason="The partitioner takes any buffer for a constant weight (is_param_node), also one "
        "that the program writes. The delegate then has no output for the new value, and the "
        "process ends (docs/findings/xnnpack_written_statistics.py). Workaround: "
        "`self.weight * 1.0`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/xnnpack/partition/config/"
        "gemm_configs.py",
        stage="run",
        error="Segmentation fault",
        outcome=Status.CRASHED,
    ),
    copy_limitation(
        OPS,
        "tosa:fp",
        "convolution/2d_weight_is_input",
        "state/learned_linear|state/learned_conv2d",
        error="unsupported param type",
    ),
    copy_limitation(MLX, "mlx:fp32", "convolution/written_weight", "state/learned_conv2d"),
    Limitation(
        target="cortex_m:*",
        case="state/from_*",
        reason="prepare_pt2e leaves a buffer that the program writes in float32 "
        "(_is_mutable_buffer_arg of torchao's prepare.py). The quantizer takes an addition to it "
        "all the same, and _get_add_replacement reads parameters that the buffer does not have. "
        "Workaround: `self.seen.copy_(...)` of a value that no add computes.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/cortex_m/passes/"
        "aten_to_cortex_m_pass.py",
        stage="lower",
        error="KeyError: 0",
    ),
    Limitation(
        target="mlx:*",
        case="inputs/numbers_flags_none",
        reason="ProgramBuilder (builder/program_builder.py) raises an error for an input that is "
        "a number, a bool or None, although export made it a constant that the graph does not "
        "read. Workaround: leave the input out of the exported signature.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/builder/"
        "program_builder.py",
        stage="lower",
        error="Support for input ConstantArgument",
    ),
    Limitation(
        target="tosa:int",
        case="state/from_*",
        reason="RewriteInplaceArithmeticPass, run before quantization, replaces add_, sub_, mul_ "
        "and div_ with operators that do not write, so a buffer keeps its first value "
        "(docs/findings/arm_inplace_state.py). Workaround: `self.seen.copy_(self.seen + x)`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/_passes/"
        "rewrite_inplace_arithmetic_pass.py",
        stage="quantize",
        error="the quantizer's rewriting changed the module",
    ),
    Limitation(
        target="mlx:*",
        case="state/read_before_put",
        reason="tag_mutated_buffer (exir/backend/utils.py) gives a written buffer to the delegate "
        "that reads it, also where the operator that writes it stays outside: the delegate reads a "
        "constant copy with the first value (docs/findings/exir_buffer_written_outside.py). "
        "Workaround: write the buffer by an operator that the delegate takes, such as `copy_`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/exir/backend/utils.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:*|metal:*|coreml:*",
        case="state/returned",
        reason="Where a delegate has a written buffer, the new value can be no other output of the "
        "program: create_exported_program_from_submodule refuses it. Workaround: return "
        "`self.kept * 1`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/exir/lowered_backend_module.py",
        stage="lower",
        error="was tagged to be consumed by the buffer",
    ),
    Limitation(
        target="tosa:int",
        case="state/put",
        reason="prepare_pt2e leaves a buffer that the program writes in float32 "
        "(_is_mutable_buffer_arg of torchao's prepare.py), and CheckProperQuantization does not "
        "ask about index_put: the partitioner takes it with a float operand, and the arithmetic "
        "of the dequantization behind it is no integer operator. Workaround: write by `copy_`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/operator_support/"
        "tosa_supported_operators.py",
        stage="lower",
        error="TOSA spec TOSA-1.0+INT doesn't support float",
    ),
    Limitation(
        target="cortex_m:*",
        case="state/returned",
        reason="torchao's ConstantFolder knows the node by which a buffer is written, not the "
        "buffer. Passes of Cortex-M's quantizer trace the graph again, which reads the buffer by "
        "one node and writes it by another: what reads it gets its value at conversion for ever "
        "(docs/findings/torchao_folds_writes.py). Workaround: pass the state in and out.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/"
        "constant_fold.py",
        stage="quantize",
        error="conversion changed it",
    ),
    copy_limitation(
        MODELS, "cortex_m:int8", "llama/decode_positioned", "state/put", target="cortex_m:*"
    ),
    Limitation(
        target="tosa:int|cortex_m:*",
        case="state/counter*",
        reason="torchao's ConstantFolder recognizes writes by the names copy_ and put_. It folds "
        "an add_ of a constant to a buffer, to the value of one call, and writes to the buffer of "
        "the program that is quantized (docs/findings/torchao_folds_writes.py). Workaround: "
        "`self.count.copy_(self.count + 1)`.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/"
        "constant_fold.py",
        stage="quantize",
        error="prepare changed what it was given: count of the exported program",
    ),
    Limitation(
        target="metal:*",
        case="state/counter*",
        reason="Inductor computes with the first value of a buffer of one element, although the "
        "program writes it (docs/findings/inductor_constant_buffer.py). Workaround: two elements, "
        "or `torch._inductor.config.joint_graph_constant_folding = False`.",
        link="https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/fx_passes/"
        "joint_graph.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="portable:*|xnnpack:*|tosa:fp",
        case="state/reset|state/delay_line",
        reason="_inplace_lineage (exir/passes/insert_write_back_for_buffers_pass.py) takes any "
        "buffer for a value that was written in place: where the new value of a buffer is another "
        "buffer, no copy is inserted (docs/findings/exir_copied_buffer.py). Workaround: "
        "`self.older.copy_(self.last * 1.0)`.",
        link=_WRITE_BACK,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:*",
        case="state/reset",
        reason="Where the new value of a buffer is another buffer, the signature of the delegate "
        "names the other one as written (exir/lowered_backend_module.py), and torch's verifier "
        "refuses it (docs/findings/exir_copied_buffer.py). Workaround: "
        "`self.older.copy_(self.last * 1.0)`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/exir/lowered_backend_module.py",
        stage="lower",
        error="does not point to a buffer that exists",
    ),
    copy_limitation(MLX, "mlx:fp32", "copy/from_other", "state/delay_line", target="mlx:*"),
    Limitation(
        target="portable:*|xnnpack:*|tosa:fp",
        case="state/named_as_argument",
        reason="insert_write_back_for_buffers_pass finds buffers by their name in the module and "
        "inputs by that of the argument, in one table: the input is written in place of a buffer "
        "of the same name (docs/findings/exir_buffer_named_as_input.py). Workaround: rename the "
        "buffer.",
        link=_WRITE_BACK,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="portable:*|tosa:fp|mlx:*",
        case="state/returned_before",
        reason="_insert_copy (exir/passes/insert_write_back_for_buffers_pass.py) writes buffers "
        "at the end of the graph, before the outputs are read: a program that returns the old "
        "value of a buffer returns the new one (docs/findings/exir_returned_buffer.py). "
        "Workaround: return `self.last * 1.0`, read before the write.",
        link=_WRITE_BACK,
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="mlx:*",
        case="state/clone_returned",
        reason="RemoveNoOpsPass (backends/mlx/passes.py) takes every clone for superfluous, also "
        "that of a buffer that is written later: the program returns the new value "
        "(docs/findings/exir_returned_buffer.py). Workaround: return `self.last * 1.0`, read "
        "before the write.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/passes.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="portable:*|xnnpack:*",
        case="state/parameter",
        reason="insert_write_back_for_buffers_pass knows mutations of buffers and inputs, not of "
        "parameters: the new value is returned as a further output, and the parameter stays as it "
        "was (docs/findings/exir_written_parameter.py). Workaround: register the tensor as a "
        "buffer.",
        link=_WRITE_BACK,
        stage="compare",
        error="2 outputs, expected 1",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:fp|mlx:*",
        case="state/parameter",
        reason="The signature of a program with a delegate names the delegate's output as the "
        "parameter that is written, and torch's verifier refuses it "
        "(docs/findings/exir_written_parameter.py). Workaround: register the tensor as a buffer.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/exir/lowered_backend_module.py",
        stage="lower",
        error="does not point to a parameter that exists",
    ),
    Limitation(
        target="portable:*",
        case="state/view_stored",
        reason="ReplaceViewCopyWithViewPass (exir/passes/replace_view_copy_with_view_pass.py) "
        "replaces the copy of a buffer by a view of it, although the program writes the buffer "
        "before the view is read (docs/findings/exir_stored_view.py). Workaround: "
        "`self.older.copy_(self.last.view(2) * 1.0)`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/exir/passes/"
        "replace_view_copy_with_view_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
]
LIMITATIONS += copy_to_vgf(LIMITATIONS)
