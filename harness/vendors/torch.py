"""Private names of torch that this project uses; ``torch.pyi`` lists them."""

from __future__ import annotations

from pathlib import Path

from harness.vendors.private_names import PrivateNames

USES = {
    "torch": "cases, control flow run eagerly, and Metal's generation of code",
    "torch._C": "kernels and their dispatcher entries, in the oracle, MLX and Metal",
    "torch._decomp": "error models of operators that torch decomposes",
    "torch._export.verifier": "messages about graphs that a verifier refuses",
    "torch._inductor.codecache": "Metal: taking generated code before Apple's compiler gets it",
    "torch._inductor.codegen.mps": "Metal: generating shaders",
    "torch._inductor.decomposition": "Metal: operators that Inductor claims to generate code for",
    "torch._inductor.fx_passes": "Metal: Inductor's patterns, traced on the CPU",
    "torch._inductor.lowering": "Metal: operators that Inductor claims to generate code for",
    "torch._inductor.utils": "Metal: the layout of generated constants",
    "torch._library.custom_ops": "error models of operators that Python registers",
    "torch._ops": "distinguishing operators from other callables of a graph",
    "torch._prims_common": "Metal: strides of what Inductor's operators give",
    "torch._subclasses.fake_tensor": "Metal: distinguishing partitions, and generating code",
    "torch.ao.quantization.fx": "operators of quantized graphs",
    "torch.fx.graph": "graphs whose inputs are trees",
    "torch.nn.modules.batchnorm": "seeded weights of suites/models",
    "torch.nn.modules.conv": "seeded weights of suites/models",
    "torch.testing._internal.common_methods_invocations": "suites/opinfo",
    "torch.utils": "trees of inputs and outputs",
    "torch.utils._ordered_set": "Metal: generating shaders",
    "torch.utils._python_dispatch": "the oracle and the tracer, which watch every operator",
    "torch.utils._pytree": "trees of inputs and outputs",
    "torch.utils._sympy.numbers": "ranges of dynamic shapes",
    "torch.utils._sympy.value_ranges": "ranges of dynamic shapes",
}
NAMES = PrivateNames("torch", Path(__file__).with_suffix(".pyi"), USES)
__getattr__ = NAMES.find
