"""Make rules that many functions share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from backends.metal.contract.call import CallTensor, RuntimeCall
from backends.metal.contract.layout import FLOATS, is_packed, is_row_major
from backends.metal.contract.rule import PACKED_COPIES, Check, ContractRule, ViolationKind

Shape = tuple[int, ...]


def rank(argument: str, *allowed: int, kind: ViolationKind = ViolationKind.REFUSAL) -> ContractRule:
    """Require one of these ranks of a tensor."""
    names = _either(allowed)

    def check(tensor: CallTensor) -> str | None:
        return None if tensor.rank in allowed else f"rank {tensor.rank}"

    return ContractRule(
        argument, f"rank {names}", f"is not {names}", check_tensor(argument, check), kind
    )


def dtype(
    argument: str, allowed: Collection[str] = FLOATS, kind: ViolationKind = ViolationKind.REFUSAL
) -> ContractRule:
    """Require one of these dtypes of a tensor."""
    names = _either(sorted(allowed))

    def check(tensor: CallTensor) -> str | None:
        return None if tensor.dtype in allowed else f"dtype {tensor.dtype}"

    return ContractRule(argument, names, f"is not {names}", check_tensor(argument, check), kind)


def same_dtype(
    argument: str, other: str, kind: ViolationKind = ViolationKind.DEFECT, link: str | None = None
) -> ContractRule:
    """Require one dtype of two tensors: most kernels check the dtype of only one of them."""

    def check(call: RuntimeCall) -> str | None:
        tensor, model = call.optional(argument), call.optional(other)
        if tensor is None or model is None or tensor.dtype == model.dtype:
            return None
        return f"dtype {tensor.dtype}, {other}'s {model.dtype},"

    broken = "differ" if kind is ViolationKind.REFUSAL else f"differ: it is read as {other}'s"
    return ContractRule(argument, f"dtype of {other}", broken, check, kind, link)


def contiguous(
    argument: str,
    kind: ViolationKind = ViolationKind.DEFECT,
    broken: str = "are not contiguous: the runtime reads them as if they were",
    link: str | None = None,
) -> ContractRule:
    """Require a tensor whose elements are row-major in memory."""

    def check(tensor: CallTensor) -> str | None:
        return None if is_row_major(tensor) else f"strides {tensor.strides}"

    return ContractRule(argument, "contiguous", broken, check_tensor(argument, check), kind, link)


def in_place(argument: str) -> ContractRule:
    """Require a tensor that the runtime does not replace by a copy: a result would be lost."""

    def check(tensor: CallTensor) -> str | None:
        view = not is_packed(tensor.sizes, tensor.strides)
        return f"strides {tensor.strides}" if view else None

    return ContractRule(
        argument,
        "no view with holes",
        "belong to a view that the runtime has replaced by a dense copy: the result is lost",
        check_tensor(argument, check),
        ViolationKind.DEFECT,
        PACKED_COPIES,
    )


def shape(
    argument: str,
    requirement: str,
    expected: Callable[[RuntimeCall], Shape | None],
    kind: ViolationKind = ViolationKind.REFUSAL,
    broken: str = "",
) -> ContractRule:
    """Require the shape that follows from other arguments.

    ``expected`` returns None if the other arguments break their own rules.
    """

    def check(call: RuntimeCall) -> str | None:
        tensor, want = call.optional(argument), expected(call)
        if tensor is None or want is None or tensor.sizes == want:
            return None
        return f"shape {tensor.sizes} is not {want}"

    silent = ": the runtime does not check it" if kind is ViolationKind.DEFECT else ""
    return ContractRule(argument, requirement, broken or silent, check, kind)


def one_of(argument: str, allowed: Iterable[int]) -> ContractRule:
    """Require one of these numbers."""
    values = tuple(allowed)

    def check(call: RuntimeCall) -> str | None:
        value = call.integer(argument)
        return None if value in values else str(value)

    return ContractRule(argument, _either(values), f"is not {_either(values)}", check)


def check_tensor(argument: str, check: Callable[[CallTensor], str | None]) -> Check:
    """Make the check of a tensor argument; a null pointer passes."""

    def run(call: RuntimeCall) -> str | None:
        tensor = call.optional(argument)
        return None if tensor is None else check(tensor)

    return run


def has_ranks(call: RuntimeCall, ranks: dict[str, int]) -> bool:
    """Return whether tensors have these ranks, so that their sizes can be checked."""
    return all(call.tensor(name).rank == want for name, want in ranks.items())


def _either(values: Iterable[object]) -> str:
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last
