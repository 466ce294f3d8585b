"""Names of operators in reports, programs and the runtime, and lookup by these names."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from executorch.exir import schema

from harness.errors import ProgramError
from harness.vendors.torch import OpOverload, _dispatch_get_all_op_names


def op_name(target: Any) -> str:
    """Return the name of a call target as reports spell it: ``aten.add.Tensor``."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return getattr(target, "__name__", str(target))
    overload = schema.overload_name or "default"
    return f"{schema.name.replace('::', '.')}.{overload}"


@functools.cache
def list_core_operators() -> dict[str, list[str]]:
    """List core ATen operators by name, each with the names that edge programs call it by.

    A view is also called as a copy, ``aten.view_copy.default``; an operator that writes to a new
    tensor also in place, ``aten.add_.Tensor``; a copy also with a dim order. Operators that return
    sizes and numbers are left out.
    """
    from executorch.exir.passes.dim_order_ops_registry import DimOrderOpsMap

    by_dim_order = {op_name(aten): op_name(edge) for aten, edge in DimOrderOpsMap.items()}
    found = {}
    for operator in list_operators("aten"):
        if torch.Tag.core not in operator.tags or not _makes_tensor(operator):
            continue
        base, overload = operator._schema.name, operator._schema.overload_name
        variants = [find_operator(f"{base}{suffix}.{overload}") for suffix in ("_copy", "_")]
        names = [op_name(each) for each in (operator, *variants) if each is not None]
        found[names[0]] = [*names, *filter(None, [by_dim_order.get(names[0])])]
    return found


def _makes_tensor(operator: OpOverload) -> bool:
    schema = operator._schema
    return not schema.is_mutable and any("Tensor" in str(each.type) for each in schema.returns)


def list_operators(namespace: str) -> Iterator[OpOverload]:
    """Yield the operators of a namespace that are registered with torch, sorted by name."""
    for name in sorted(_dispatch_get_all_op_names()):
        if name.startswith(f"{namespace}::") and (found := find_operator(name)) is not None:
            yield found


def find_operator(name: str) -> OpOverload | None:
    """Return the operator of a name such as ``aten::add.Tensor``; None if torch has none."""
    packet, _, overload = name.partition(".")
    namespace, _, base = packet.partition("::")
    functions = getattr(getattr(torch.ops, namespace), base, None)
    found: OpOverload | None = getattr(functions, overload or "default", None)
    return found


def kernel_name(operator: schema.Operator) -> str:
    """Return ``namespace::name.overload``, as the runtime's registry spells it."""
    return f"{operator.name}.{operator.overload}" if operator.overload else operator.name


def list_native_kernels() -> frozenset[str]:
    """List the kernels that this host's runtime has now, as ``namespace::name.overload``."""
    from executorch.runtime import Runtime

    register_operators()
    return frozenset(Runtime.get().operator_registry.operator_names)


def find_missing_kernels(plan: schema.ExecutionPlan) -> list[str]:
    """List the kernels of a plan that this host's runtime lacks, sorted by name."""
    return sorted({kernel_name(operator) for operator in plan.operators} - list_native_kernels())


def resolve_operator(name: str, overload: str) -> OpOverload | None:
    """Return the operator of a kernel call; None for ``et_view``, which only aliases.

    Raises:
        ProgramError: this process has registered no such operator.
    """
    if name == "executorch_prim::et_view":
        return None
    namespace, _, base = name.partition("::")
    try:
        packet = getattr(getattr(torch.ops, namespace), base)
        found: OpOverload = getattr(packet, overload or "default")
    except (AttributeError, RuntimeError) as error:
        raise ProgramError(f"kernel {name}.{overload} is not registered here") from error
    return found


def is_dynamic(value: Any) -> bool:
    """Return whether a declared value is a tensor with dynamic dimensions."""
    return (
        isinstance(value, schema.Tensor)
        and value.shape_dynamism != schema.TensorShapeDynamism.STATIC
    )


@functools.cache
def register_operators() -> None:
    """Register the operators that a ``.pte`` may call with torch: dim order, prims, quantized."""
    import executorch.exir.passes.dim_order_ops_registry
    import executorch.exir.passes.executorch_prim_ops_registry
    import executorch.kernels.quantized  # noqa: F401

    from harness.vendors.torch import _decomposed  # noqa: F401
