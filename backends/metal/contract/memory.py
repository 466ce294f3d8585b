"""Rules for tensors and their memory: ``shims/memory.cpp`` and ``aoti/common_shims.cpp``."""

from __future__ import annotations

import math

from backends.metal.contract.call import CallTensor, RuntimeCall
from backends.metal.contract.layout import (
    SUPPORTED,
    WIDTHS,
    compute_strides,
    extent,
    get_runtime_strides,
    is_packed,
    row_major,
)
from backends.metal.contract.require import dtype, in_place, same_dtype
from backends.metal.contract.rule import (
    AOTI,
    METAL,
    PACKED_COPIES,
    STALE_VIEWS,
    ContractRule,
    RuntimeFunction,
    ViolationKind,
)

_SOURCE = f"{METAL}/shims/memory.cpp"
_COMMON = f"{AOTI}/common_shims.cpp"
_TENSOR = "extension/tensor/tensor_ptr.cpp"
_MPS, _CPU = 13, 0


def _numel(call: RuntimeCall) -> str | None:
    sizes = call.integers("sizes")
    return None if math.prod(sizes) > 0 else f"{sizes}"


def _strides(call: RuntimeCall) -> tuple[int, ...]:
    return call.integers("strides") or row_major(call.integers("sizes"))


def _permutation(call: RuntimeCall) -> str | None:
    strides = _strides(call)
    return None if compute_strides(call.integers("sizes"), strides) is not None else str(strides)


def _named_dtype(call: RuntimeCall) -> str | None:
    found = call.arguments["dtype"]
    return None if found in SUPPORTED else str(found)


def _place(call: RuntimeCall) -> str | None:
    found = call.arguments["device_type"]
    return None if found in (_MPS, _CPU, "mps", "cpu") else str(found)


def _permuted(check: str = "strides") -> ContractRule:
    return ContractRule(
        check,
        "a dense tensor's, its dimensions permuted",
        "are not those of a dense tensor with its dimensions permuted",
        _permutation,
        source=_TENSOR,
        function="make_tensor_ptr",
    )


_DTYPE = ContractRule(
    "dtype",
    ", ".join(sorted(SUPPORTED)),
    f"is none of {', '.join(sorted(SUPPORTED))}",
    _named_dtype,
    source=f"{METAL}/shims/utils.cpp",
    function="validate_dtype",
)
_TENSOR_DTYPE = dtype("self", SUPPORTED)


def _moved_nothing(call: RuntimeCall) -> str | None:
    return _numel(call) if call.integer("storage_offset") else None


def _view_permutation(call: RuntimeCall) -> str | None:
    """Check the strides of a view; the runtime copies a view that is not dense."""
    sizes, strides = call.integers("sizes"), _strides(call)
    return _permutation(call) if is_packed(sizes, strides) else None


def _offset(call: RuntimeCall) -> str | None:
    parent, offset = call.tensor("self"), call.integer("storage_offset")
    return str(offset) if offset and parent.origin == "buffer" else None


def _parent(tensor: CallTensor) -> bool:
    return is_packed(tensor.sizes, tensor.strides)


def _of_a_copy(call: RuntimeCall) -> str | None:
    parent = call.tensor("self")
    return None if _parent(parent) else f"strides {parent.strides}"


def _bounds(call: RuntimeCall) -> str | None:
    parent = call.tensor("self")
    width = WIDTHS.get(parent.dtype)
    if parent.storage_size is None or width is None:
        return None
    start = parent.storage_offset + call.integer("storage_offset")
    stop = (start + extent(call.integers("sizes"), _strides(call))) * width
    if start >= 0 and stop <= parent.storage_size:
        return None
    return f"{start * width}..{stop} of {parent.storage_size} bytes"


def _same_strides(call: RuntimeCall) -> str | None:
    into, source = call.tensor("self"), call.tensor("src")
    # A host tensor has the program's strides, a device tensor the runtime's.
    left, right = (get_runtime_strides(tensor) for tensor in (into, source))
    return None if left == right else f"strides {source.strides} into {into.strides}"


def _same_numel(call: RuntimeCall) -> str | None:
    into, source = (math.prod(call.tensor(name).sizes) for name in ("self", "src"))
    return None if into == source else f"{source} elements into {into}"


def _not_empty(call: RuntimeCall) -> str | None:
    sizes = call.tensor("src").sizes
    return None if math.prod(sizes) else f"shape {sizes}"


def _enabled(call: RuntimeCall) -> str | None:
    return "1" if call.arguments["enabled"] else None


MISSING = ContractRule(
    "", "implemented", "does nothing but throw", lambda call: "", ViolationKind.MISSING
)


def _throws(name: str, *parameters: str) -> RuntimeFunction:
    return RuntimeFunction(name, parameters, _COMMON, (MISSING,), implemented=False)


def _plain(names: str, source: str = _COMMON) -> tuple[RuntimeFunction, ...]:
    return tuple(RuntimeFunction(f"aoti_torch_{name}", (), source) for name in names.split())


_BUFFERS, _ALLOCATE = f"{METAL}/shims/et_metal.mm", "metal_allocate_buffer"
_ALLOCATED = "leave no byte to allocate"

FUNCTIONS = (
    RuntimeFunction(
        "aoti_torch_empty_strided",
        ("ndim", "sizes", "strides", "dtype", "device_type", "device_index"),
        _SOURCE,
        (
            _DTYPE,
            ContractRule("sizes", "no 0", _ALLOCATED, _numel, source=_BUFFERS, function=_ALLOCATE),
            _permuted(),
            ContractRule("device_type", "mps or cpu", "is not mps or cpu", _place),
        ),
        note="allocates the product of sizes and ignores strides",
    ),
    RuntimeFunction(
        "aoti_torch_create_tensor_from_blob_v2",
        ("data", "ndim", "sizes", "strides", "storage_offset", "dtype", "device_type"),
        _SOURCE,
        (_DTYPE, _permuted()),
        note="creates constants; the caller keeps the memory",
    ),
    RuntimeFunction(
        "aoti_torch__reinterpret_tensor",
        ("self", "ndim", "sizes", "strides", "storage_offset"),
        _SOURCE,
        (
            _TENSOR_DTYPE,
            ContractRule(
                "sizes",
                "no 0, unless storage_offset is 0",
                "leave no byte for the buffer that stands for the view",
                _moved_nothing,
                function="metal_buffer_nocopy",
                source=_BUFFERS,
            ),
            ContractRule(
                "strides",
                "a permuted dense tensor's, or with holes or repetition",
                "fill the memory, but are not those of a dense tensor with its dimensions permuted",
                _view_permutation,
                source=_TENSOR,
                function="make_tensor_ptr",
            ),
            ContractRule(
                "storage_offset",
                "0, unless self is an input or a constant",
                "into memory of this run: Metal treats the view as a buffer of its own and reads "
                "it before it is written",
                _offset,
                ViolationKind.DEFECT,
                STALE_VIEWS,
            ),
            ContractRule(
                "self",
                "dense",
                "belong to a view that the runtime has replaced by a dense copy",
                _of_a_copy,
                ViolationKind.DEFECT,
                PACKED_COPIES,
            ),
            ContractRule(
                "self",
                "room for the view",
                "are not within its memory",
                _bounds,
                ViolationKind.DEFECT,
            ),
        ),
        note="a view with holes, or with strides of 0, becomes a dense copy of current values",
    ),
    RuntimeFunction("aoti_torch_new_tensor_handle", ("self",), _SOURCE, (_TENSOR_DTYPE,)),
    RuntimeFunction("aoti_torch_delete_tensor_object", ("self",), _SOURCE),
    RuntimeFunction(
        "aoti_torch_copy_",
        ("self", "src", "non_blocking"),
        _SOURCE,
        (
            _TENSOR_DTYPE,
            same_dtype("src", "self", ViolationKind.REFUSAL),
            ContractRule("src", "as many elements as self", "do not fit", _same_numel),
            ContractRule("src", "strides of self", "differ", _same_strides),
            in_place("self"),
            ContractRule("src", "no 0 in its shape", "has no byte to copy", _not_empty),
        ),
        note="the delegate copies inputs into contiguous tensors with it, and outputs into tensors "
        "with the program's dim order",
    ),
    _throws("aoti_torch_clone_preserve_strides", "self"),
    _throws("aoti_torch_clone", "self"),
    _throws("aoti_torch_get_storage_size", "self"),
    _throws("aoti_torch_create_tensor_from_blob", "data", "ndim", "sizes", "strides"),
    RuntimeFunction(
        "aoti_torch_get_storage_offset", ("self",), _COMMON, note="always 0: views move the pointer"
    ),
    RuntimeFunction(
        "aoti_torch_get_device_type",
        ("self",),
        f"{METAL}/shims/tensor_attribute.cpp",
        note="always mps, also for a tensor on the host",
    ),
    RuntimeFunction(
        "aoti_torch_grad_mode_set_enabled",
        ("enabled",),
        _COMMON,
        (ContractRule("enabled", "0", "cannot be set", _enabled),),
    ),
    *_plain("get_data_ptr get_strides get_sizes get_dtype get_device_index get_dim get_numel"),
    *_plain("grad_mode_is_enabled device_type_cpu layout_strided dtype_element_size warn check"),
    *_plain("device_type_mps", f"{METAL}/shims/tensor_attribute.cpp"),
    *_plain(
        " ".join(
            f"dtype_{name}"
            for name in "float32 bfloat16 float16 uint8 int8 int16 int32 int64 bool".split()
        )
    ),
)
