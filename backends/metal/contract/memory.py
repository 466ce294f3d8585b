"""Tensors and their memory: ``shims/memory.cpp`` and ``aoti/common_shims.cpp``."""

from __future__ import annotations

import math

from backends.metal.contract.call import Call, TensorMeta
from backends.metal.contract.layout import (
    SUPPORTED,
    WIDTHS,
    extent,
    ordered,
    packed,
    row_major,
    seen,
)
from backends.metal.contract.require import dtype, in_place, same_dtype
from backends.metal.contract.rule import (
    AOTI,
    METAL,
    PACKED_COPIES,
    STALE_VIEWS,
    Function,
    Kind,
    Rule,
)

_SOURCE = f"{METAL}/shims/memory.cpp"
_COMMON = f"{AOTI}/common_shims.cpp"
_TENSOR = "extension/tensor/tensor_ptr.cpp"
_MPS, _CPU = 13, 0


def _numel(call: Call) -> str | None:
    sizes = call.integers("sizes")
    return None if math.prod(sizes) > 0 else f"{sizes}"


def _strides(call: Call) -> tuple[int, ...]:
    return call.integers("strides") or row_major(call.integers("sizes"))


def _permutation(call: Call) -> str | None:
    strides = _strides(call)
    return None if ordered(call.integers("sizes"), strides) is not None else str(strides)


def _named_dtype(call: Call) -> str | None:
    found = call.arguments["dtype"]
    return None if found in SUPPORTED else str(found)


def _place(call: Call) -> str | None:
    found = call.arguments["device_type"]
    return None if found in (_MPS, _CPU, "mps", "cpu") else str(found)


def _permuted(check: str = "strides") -> Rule:
    return Rule(
        check,
        "a dense tensor's, its dimensions permuted",
        "are not those of a dense tensor with its dimensions permuted",
        _permutation,
        source=_TENSOR,
        function="make_tensor_ptr",
    )


_DTYPE = Rule(
    "dtype",
    ", ".join(sorted(SUPPORTED)),
    f"is none of {', '.join(sorted(SUPPORTED))}",
    _named_dtype,
    source=f"{METAL}/shims/utils.cpp",
    function="validate_dtype",
)
_TENSOR_DTYPE = dtype("self", SUPPORTED)


def _moved_nothing(call: Call) -> str | None:
    return _numel(call) if call.integer("storage_offset") else None


def _view_permutation(call: Call) -> str | None:
    """A view that is not dense is copied, and is dense then."""
    sizes, strides = call.integers("sizes"), _strides(call)
    return _permutation(call) if packed(sizes, strides) else None


def _offset(call: Call) -> str | None:
    parent, offset = call.tensor("self"), call.integer("storage_offset")
    return str(offset) if offset and parent.origin == "buffer" else None


def _parent(tensor: TensorMeta) -> bool:
    return packed(tensor.sizes, tensor.strides)


def _of_a_copy(call: Call) -> str | None:
    parent = call.tensor("self")
    return None if _parent(parent) else f"strides {parent.strides}"


def _bounds(call: Call) -> str | None:
    parent = call.tensor("self")
    width = WIDTHS.get(parent.dtype)
    if parent.storage_size is None or width is None:
        return None
    start = parent.storage_offset + call.integer("storage_offset")
    stop = (start + extent(call.integers("sizes"), _strides(call))) * width
    if start >= 0 and stop <= parent.storage_size:
        return None
    return f"{start * width}..{stop} of {parent.storage_size} bytes"


def _same_strides(call: Call) -> str | None:
    into, source = call.tensor("self"), call.tensor("src")
    # A host tensor comes with the strides of the program, a device tensor with the runtime's.
    left, right = (seen(tensor) for tensor in (into, source))
    return None if left == right else f"strides {source.strides} into {into.strides}"


def _same_numel(call: Call) -> str | None:
    into, source = (math.prod(call.tensor(name).sizes) for name in ("self", "src"))
    return None if into == source else f"{source} elements into {into}"


def _not_empty(call: Call) -> str | None:
    sizes = call.tensor("src").sizes
    return None if math.prod(sizes) else f"shape {sizes}"


def _enabled(call: Call) -> str | None:
    return "1" if call.arguments["enabled"] else None


MISSING = Rule("", "implemented", "does nothing but throw", lambda call: "", Kind.MISSING)


def _throws(name: str, *parameters: str) -> Function:
    return Function(name, parameters, _COMMON, (MISSING,), implemented=False)


def _plain(names: str, source: str = _COMMON) -> tuple[Function, ...]:
    return tuple(Function(f"aoti_torch_{name}", (), source) for name in names.split())


_BUFFERS, _ALLOCATE = f"{METAL}/shims/et_metal.mm", "metal_allocate_buffer"
_ALLOCATED = "leave no byte to allocate"

FUNCTIONS = (
    Function(
        "aoti_torch_empty_strided",
        ("ndim", "sizes", "strides", "dtype", "device_type", "device_index"),
        _SOURCE,
        (
            _DTYPE,
            Rule("sizes", "no 0", _ALLOCATED, _numel, source=_BUFFERS, function=_ALLOCATE),
            _permuted(),
            Rule("device_type", "mps or cpu", "is not mps or cpu", _place),
        ),
        note="allocates the product of sizes, whatever the strides",
    ),
    Function(
        "aoti_torch_create_tensor_from_blob_v2",
        ("data", "ndim", "sizes", "strides", "storage_offset", "dtype", "device_type"),
        _SOURCE,
        (_DTYPE, _permuted()),
        note="what constants are made with; the memory stays the caller's",
    ),
    Function(
        "aoti_torch__reinterpret_tensor",
        ("self", "ndim", "sizes", "strides", "storage_offset"),
        _SOURCE,
        (
            _TENSOR_DTYPE,
            Rule(
                "sizes",
                "no 0, unless storage_offset is 0",
                "leave no byte for the buffer that stands for the view",
                _moved_nothing,
                function="metal_buffer_nocopy",
                source=_BUFFERS,
            ),
            Rule(
                "strides",
                "a permuted dense tensor's, or with holes or repetition",
                "fill the memory, but are not those of a dense tensor with its dimensions permuted",
                _view_permutation,
                source=_TENSOR,
                function="make_tensor_ptr",
            ),
            Rule(
                "storage_offset",
                "0, unless self is an input or a constant",
                "into memory of this run: the view is a buffer of its own to Metal, and is read "
                "before it is written",
                _offset,
                Kind.DEFECT,
                STALE_VIEWS,
            ),
            Rule(
                "self",
                "dense",
                "are those of a view that the runtime has replaced by a dense copy",
                _of_a_copy,
                Kind.DEFECT,
                PACKED_COPIES,
            ),
            Rule("self", "room for the view", "are not within its memory", _bounds, Kind.DEFECT),
        ),
        note="a view with holes, or with strides of 0, becomes a dense copy of what is there now",
    ),
    Function("aoti_torch_new_tensor_handle", ("self",), _SOURCE, (_TENSOR_DTYPE,)),
    Function("aoti_torch_delete_tensor_object", ("self",), _SOURCE),
    Function(
        "aoti_torch_copy_",
        ("self", "src", "non_blocking"),
        _SOURCE,
        (
            _TENSOR_DTYPE,
            same_dtype("src", "self", Kind.REFUSAL),
            Rule("src", "as many elements as self", "do not fit", _same_numel),
            Rule("src", "strides of self", "differ", _same_strides),
            in_place("self"),
            Rule("src", "no 0 in its shape", "has no byte to copy", _not_empty),
        ),
        note="the delegate copies its inputs with it, into contiguous tensors, and its outputs, "
        "into tensors with the program's dim order",
    ),
    _throws("aoti_torch_clone_preserve_strides", "self"),
    _throws("aoti_torch_clone", "self"),
    _throws("aoti_torch_get_storage_size", "self"),
    _throws("aoti_torch_create_tensor_from_blob", "data", "ndim", "sizes", "strides"),
    Function(
        "aoti_torch_get_storage_offset", ("self",), _COMMON, note="always 0: views move the pointer"
    ),
    Function(
        "aoti_torch_get_device_type",
        ("self",),
        f"{METAL}/shims/tensor_attribute.cpp",
        note="always mps, also for a tensor on the host",
    ),
    Function(
        "aoti_torch_grad_mode_set_enabled",
        ("enabled",),
        _COMMON,
        (Rule("enabled", "0", "cannot be set", _enabled),),
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
