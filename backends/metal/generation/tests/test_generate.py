from __future__ import annotations

import hashlib
import inspect
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from backends.metal.generation import cache, lowbit, upstream
from backends.metal.generation.generate import MissingFallback, generate, preprocess
from backends.metal.generation.generated import Generated, decode
from backends.metal.generation.host_tensor import MPS, HostTensor, to_cpu, to_host
from backends.metal.tests.programs import Apply, Apply3, partition
from harness.pipeline import speed


def calls(generated: Generated) -> str:
    """The part of the wrapper that runs."""
    return generated.wrapper[generated.wrapper.index("::run_impl(") :]


def test_same_program_gives_the_same_text() -> None:
    program = partition(
        torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU()), torch.ones(2, 8)
    )
    first = generate(program)
    generate(partition(Apply(torch.exp), torch.ones(3)))
    assert generate(program) == first


@pytest.mark.nightly
def test_another_process_gives_the_same_text_and_keeps_it_under_the_same_key() -> None:
    def digest() -> str:
        speed.install()  # nodes say where they come from; with it, in fewer words
        torch.manual_seed(0)
        program = partition(torch.nn.Linear(8, 16), torch.ones(2, 8))
        generated = generate(program)
        text = hashlib.sha256(generated.wrapper.encode() + generated.weights).hexdigest()
        return f"{text} {cache.make_key(program, [])}"

    script = "import hashlib, torch\nfrom backends.metal.generation import cache\n"
    script += "from backends.metal.generation.generate import generate\n"
    script += "from harness.pipeline import speed\n"
    script += "from backends.metal.tests.programs import partition\n"
    script += textwrap.dedent(inspect.getsource(digest)) + "print('digest', digest())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.split("digest ")[1].strip() == digest()
    assert "None" not in digest()


def test_the_program_is_not_changed() -> None:
    program = partition(torch.nn.Linear(8, 16), torch.ones(2, 8))
    before = str(program.graph_module.code), dict(program.state_dict)
    generate(program)
    assert (str(program.graph_module.code), program.state_dict) == before
    for node in program.graph.nodes:
        if isinstance(value := node.meta.get("val"), torch.Tensor):
            assert value.device.type == "cpu"


@pytest.mark.parametrize(("rank", "bias"), [(2, True), (2, False), (3, True), (3, False)])
def test_linear_does_not_become_addmm(rank: int, bias: bool) -> None:
    shape = (4, 8) if rank == 2 else (2, 4, 8)
    generated = generate(partition(torch.nn.Linear(8, 16, bias=bias), torch.ones(shape)))
    assert generated.fallbacks == ("aoti_torch_mps_mm_out",)
    assert len(generated.kernels) == bias


def test_linear_becomes_addmm_without_upstreams_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream.MetalBackend, "get_custom_passes", lambda specs: [])
    generated = generate(partition(torch.nn.Linear(8, 16), torch.ones(4, 8)))
    assert generated.fallbacks == ("aoti_torch_mps_addmm_out",)


def test_unknown_fallback_is_upstreams_error_and_keeps_the_code() -> None:
    program = partition(Apply(lambda a: torch.sort(a).values), torch.ones(3, 4))
    with pytest.raises(MissingFallback, match="missing fallback kernels") as caught:
        generate(program)
    assert caught.value.kernels
    assert "run_impl" in caught.value.generated.wrapper


def test_attention_is_one_fused_kernel_with_an_additive_mask() -> None:
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    attention = Apply3(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, mask))
    query, key, value = torch.randn(3, 1, 2, 5, 8)
    generated = generate(partition(attention, query, key, value))
    name = "at::_ops::_scaled_dot_product_attention_math_for_mps_v2::call"
    assert generated.fallbacks == (name,)
    assert "aoti_torch_mps__scaled_dot_product_attention_math_for_mps_v2(arg" in calls(generated)


def test_weights_are_the_programs_own() -> None:
    module = torch.nn.Linear(16, 9)
    generated = generate(partition(module, torch.ones(2, 16)))
    sources = {constant.source: constant for constant in generated.constants}
    assert set(sources) == {"weight", "bias"}
    for name, value in module.named_parameters():
        place = sources[name]
        data = bytearray(generated.weights[place.start : place.start + place.size])
        assert torch.equal(torch.frombuffer(data, dtype=torch.float32), value.detach().flatten())
        assert place.start % 64 == 0


def test_short_constants_are_in_the_code() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("factor", torch.tensor([0.125, 77.5]))
            self.register_buffer("one", torch.tensor(0.375))

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return a * self.factor + self.one

    generated = generate(partition(Scaled(), torch.ones(3, 2)))
    assert not generated.constants
    (kernel,) = generated.kernels.values()
    body = kernel[kernel.index("kernel void") :]
    assert all(number in body for number in ("0.125", "77.5", "0.375"))


def test_constants_of_a_function_are_weights() -> None:
    first, second = torch.randn(2, 3, 9)
    generated = generate(partition(Apply(lambda a: (a - second) * first), torch.ones(3, 9)))
    assert [constant.source for constant in generated.constants] == [
        "_tensor_constant0",
        "_tensor_constant1",
    ]
    data = bytearray(generated.weights[: generated.constants[0].size])
    assert torch.equal(torch.frombuffer(data, dtype=torch.float32), second.flatten())


def test_mutated_buffer_is_marked() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(16))

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            self.seen.add_(a)
            return self.seen * 2

    (constant,) = generate(partition(Counter(), torch.ones(16))).constants
    assert constant.mutated
    assert constant.source == "seen"


def test_convolutions_give_channels_last_as_on_mps() -> None:
    generated = generate(partition(torch.nn.Conv2d(3, 8, 3), torch.ones(2, 3, 9, 7)))
    assert "{2L, 8L, 7L, 5L}, {280L, 1L, 40L, 8L}" in calls(generated)
    grouped = generate(partition(torch.nn.Conv2d(6, 9, 3, groups=3), torch.ones(2, 6, 7, 6)))
    assert "{2L, 9L, 5L, 4L}, {180L, 20L, 4L, 1L}" in calls(grouped)


def test_dynamic_sizes_are_expressions() -> None:
    size = torch.export.Dim("size", min=2, max=64)
    program = partition(
        Apply(lambda a: torch.cat([a, a])), torch.ones(4, 16), dynamic_shapes=({0: size},)
    )
    generated = generate(program)
    (given,), (made,) = generated.inputs, generated.outputs
    assert made is not None
    assert given.shape[1] == made.shape[1] == 16
    assert made.shape[0] == f"2*{given.shape[0]}"


def test_strided_input_keeps_its_strides() -> None:
    program = partition(Apply(lambda a: a.softmax(-1)), torch.ones(6, 5).t())
    (given,) = generate(program).inputs
    assert (given.shape, given.strides) == ((5, 6), (1, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_int4_linear_calls_torchaos_kernel(dtype: torch.dtype) -> None:
    lowbit.install()
    from torchao.experimental.quant_api import UIntxWeightOnlyConfig
    from torchao.quantization.quant_api import quantize_

    module = torch.nn.Sequential(torch.nn.Linear(64, 48)).to(dtype)
    quantize_(module, UIntxWeightOnlyConfig(group_size=32, bitwidth=4))
    generated = generate(partition(module, torch.ones(3, 64, dtype=dtype)))
    assert generated.fallbacks == ("torchao::_linear_fp_act_4bit_weight",)
    assert "aoti_torch_mps__linear_fp_act_4bit_weight(" in calls(generated)


@pytest.mark.parametrize("bits", range(1, 8))
def test_packed_weights_read_back(bits: int) -> None:
    weights = torch.randint(0, 2**bits, (3, 16), dtype=torch.uint8)
    packed = lowbit.pack(weights, bits)
    assert packed.shape == (3, 2 * bits)
    for row, expected in zip(packed.tolist(), weights.tolist(), strict=True):
        stream = int.from_bytes(bytes(row), "little")
        assert [stream >> bits * place & (1 << bits) - 1 for place in range(16)] == expected


def test_payload_reads_back() -> None:
    program = partition(torch.nn.Linear(8, 16), torch.ones(2, 8))
    result = preprocess(program, [])
    library, weights = result.processed_bytes.decode().split("\n")
    store = result.data_store_output
    blobs = {key: store.buffers[entry.buffer_index] for key, entry in store.pte_data.items()}
    assert decode(blobs[library], blobs[weights]) == generate(program)


def test_nothing_stays_in_torch() -> None:
    generate(partition(torch.nn.Linear(8, 16), torch.ones(2, 8)))
    from torch._inductor.codecache import AotCodeCompiler
    from torch._inductor.fx_passes import joint_graph, post_grad
    from torch._inductor.utils import get_gpu_type

    attention = torch.ops.aten.scaled_dot_product_attention.default
    with pytest.raises(RuntimeError, match="not linked with support for mps"):
        torch.empty(1).to("mps")
    assert not torch.mps.is_available()
    assert get_gpu_type() == "cuda"
    assert torch._C.DispatchKey.CompositeImplicitAutograd not in attention.py_kernels
    objects = (AotCodeCompiler.compile, joint_graph.lazy_init, post_grad.lazy_init)
    assert all("torch" in item.__module__ for item in objects)
    assert joint_graph.UniformValueConstantFolder.__module__.startswith("torch")


def test_nothing_stays_after_an_error() -> None:
    with pytest.raises(torch._inductor.exc.InductorError):
        generate(partition(Apply(torch.acosh), torch.ones(3)))
    assert not torch.mps.is_available()
    with pytest.raises(RuntimeError, match="not linked with support for mps"):
        torch.empty(1).to("mps")


def test_host_tensor_has_values_and_the_devices_name() -> None:
    parameter = to_host(torch.nn.Parameter(torch.arange(4.0), requires_grad=False))
    assert isinstance(parameter, torch.nn.Parameter)
    assert isinstance(parameter.data, HostTensor)
    assert parameter.device == MPS
    assert (parameter + 1).tolist() == [1, 2, 3, 4]
    assert type(to_cpu(parameter)) is torch.Tensor
    assert to_cpu(parameter).device.type == "cpu"
