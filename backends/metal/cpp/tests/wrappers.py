"""Hand-written wrappers in the form that Inductor generates."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

HEAD = """
AOTInductorModel::AOTInductorModel(std::shared_ptr<ConstantMap> constants_map)
    : AOTInductorModelBase({inputs},
                           {outputs},
                           {constants},
                           device_str) {{
{info}
}}
"""
KERNEL = """
AOTIMetalKernelFunctionHandle get_{name}_handle() {{
    static auto kernel_handle = []() {{
        aoti_torch_mps_create_shader_library({name}_source, &lib_handle);
        aoti_torch_mps_get_kernel_function(lib_handle, "generated_kernel", &kern_handle);
    }}();
    return kernel_handle.first;
}}
"""
RUN = """
void AOTInductorModel::run_impl(
    AtenTensorHandle*
        input_handles, // array of input AtenTensorHandle; handles
    AtenTensorHandle*
        output_handles,
    DeviceStreamType stream,
    AOTIProxyExecutorHandle proxy_executor
) {{
    auto inputs = steal_from_raw_handles_to_raii_handles(input_handles, {inputs});
{taken}
    inputs.clear();
{body}
}} // AOTInductorModel::run_impl
"""
CONSTANT = """\
    constants_info_[{index}].name = "{name}";
    constants_info_[{index}].dtype = cached_torch_dtype_float32;
    constants_info_[{index}].device_type = cached_torch_device_type_mps;
    constants_info_[{index}].offset = 0;
    constants_info_[{index}].data_size = 64;
    constants_info_[{index}].shape = {{{shape}}};
    constants_info_[{index}].stride = {{{stride}}};
"""
SCALE = """
#include <metal_stdlib>
kernel void generated_kernel(
    device float* out_ptr0,
    constant float* in_ptr0,
    uint xindex [[thread_position_in_grid]]
) {
    out_ptr0[xindex] = in_ptr0[xindex] * 2;
}
"""
"""A shader that doubles."""


def wrapper(
    body: str,
    *,
    inputs: int = 1,
    outputs: int = 1,
    constants: Sequence[tuple[str, str, str]] = (),
    kernels: Sequence[str] = (),
) -> str:
    """A wrapper with inputs arg0, arg1, ...; constants are given as name, shape and strides."""
    taken = "".join(f"    auto arg{i} = std::move(inputs[{i}]);\n" for i in range(inputs))
    for index, (name, _, _) in enumerate(constants):
        taken += f"    [[maybe_unused]] auto& {name} = constants_->at({index});\n"
    info = "".join(
        CONSTANT.format(index=index, name=name, shape=shape, stride=stride)
        for index, (name, shape, stride) in enumerate(constants)
    )
    return (
        HEAD.format(inputs=inputs, outputs=outputs, constants=len(constants), info=info)
        + "".join(KERNEL.format(name=name) for name in kernels)
        + RUN.format(
            inputs=inputs, taken=taken, body=textwrap.indent(textwrap.dedent(body), "    ")
        )
    )


def empty(name: str, sizes: str, strides: str, dtype: str = "float32") -> str:
    """Statements that make a buffer."""
    rank = sizes.count(",") + 1
    return (
        f"static constexpr int64_t int_array_{name}_0[] = {{{sizes}}};\n"
        f"static constexpr int64_t int_array_{name}_1[] = {{{strides}}};\n"
        f"AtenTensorHandle {name}_handle;\n"
        f"AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided({rank}, int_array_{name}_0, "
        f"int_array_{name}_1, cached_torch_dtype_{dtype}, cached_torch_device_type_mps, "
        f"this->device_idx_, &{name}_handle));\n"
        f"RAIIAtenTensorHandle {name}({name}_handle);\n"
    )


def view(name: str, parent: str, sizes: str, strides: str, offset: str = "0L") -> str:
    """Statements that make a view."""
    rank = sizes.count(",") + 1
    return (
        f"static constexpr int64_t int_array_{name}_0[] = {{{sizes}}};\n"
        f"static constexpr int64_t int_array_{name}_1[] = {{{strides}}};\n"
        f"auto {name} = wrap_with_raii_handle_if_needed(reinterpret_tensor_wrapper("
        f"{parent}, {rank}, int_array_{name}_0, int_array_{name}_1, {offset}));\n"
    )


def copy(target: str, source: str) -> str:
    """A statement that copies."""
    return f"AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_copy_({target}, {source}, 0));\n"


def launch(kernel: str, target: str, source: str, threads: str) -> str:
    """Statements that run a kernel of two tensors."""
    return (
        f"auto {kernel}_lambda_0 = [&](AOTIMetalKernelFunctionHandle handle) {{\n"
        "    aoti_torch_mps_start_encoding(handle);\n"
        f"    aoti_torch_mps_set_arg_tensor(handle, 0, {target});\n"
        f"    aoti_torch_mps_set_arg_tensor(handle, 1, {source});\n"
        f"    aoti_torch_mps_dispatch_single(handle, static_cast<uint64_t>({threads}));\n"
        "};\n"
        f"std::function<void(AOTIMetalKernelFunctionHandle)> {kernel}_func_wrapper_0 = "
        f"{kernel}_lambda_0;\n"
        f"aoti_torch_mps_run_command_block(get_{kernel}_handle(), "
        f"aoti_torch_mps_shared_callback, &{kernel}_func_wrapper_0);\n"
    )


def output(name: str, index: int = 0) -> str:
    """A statement that returns a tensor to the caller."""
    return f"output_handles[{index}] = {name}.release();\n"
