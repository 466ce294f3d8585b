"""Rules that many functions share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from backends.metal.contract.call import Call, TensorMeta
from backends.metal.contract.layout import FLOATS, dense, packed
from backends.metal.contract.rule import PACKED_COPIES, Check, Kind, Rule

Shape = tuple[int, ...]


def rank(argument: str, *allowed: int, kind: Kind = Kind.REFUSAL) -> Rule:
    """The tensor has one of these ranks."""
    names = _either(allowed)

    def check(tensor: TensorMeta) -> str | None:
        return None if tensor.rank in allowed else f"rank {tensor.rank}"

    return Rule(argument, f"rank {names}", f"is not {names}", given(argument, check), kind)


def dtype(argument: str, allowed: Collection[str] = FLOATS, kind: Kind = Kind.REFUSAL) -> Rule:
    """The tensor has one of these dtypes."""
    names = _either(sorted(allowed))

    def check(tensor: TensorMeta) -> str | None:
        return None if tensor.dtype in allowed else f"dtype {tensor.dtype}"

    return Rule(argument, names, f"is not {names}", given(argument, check), kind)


def same_dtype(
    argument: str, other: str, kind: Kind = Kind.DEFECT, link: str | None = None
) -> Rule:
    """Two tensors have one dtype. Most kernels take it from one of them and do not ask again."""

    def check(call: Call) -> str | None:
        tensor, model = call.optional(argument), call.optional(other)
        if tensor is None or model is None or tensor.dtype == model.dtype:
            return None
        return f"dtype {tensor.dtype}, {other}'s {model.dtype},"

    broken = "differ" if kind is Kind.REFUSAL else f"differ: it is read as {other}'s"
    return Rule(argument, f"dtype of {other}", broken, check, kind, link)


def contiguous(
    argument: str,
    kind: Kind = Kind.DEFECT,
    broken: str = "are not contiguous: the runtime reads them as if they were",
    link: str | None = None,
) -> Rule:
    """The tensor's memory, taken in row-major order, is the tensor."""

    def check(tensor: TensorMeta) -> str | None:
        return None if dense(tensor) else f"strides {tensor.strides}"

    return Rule(argument, "contiguous", broken, given(argument, check), kind, link)


def in_place(argument: str) -> Rule:
    """The tensor is not one that the runtime replaces by a copy: what is written would be lost."""

    def check(tensor: TensorMeta) -> str | None:
        view = not packed(tensor.sizes, tensor.strides)
        return f"strides {tensor.strides}" if view else None

    return Rule(
        argument,
        "no view with holes",
        "are those of a view that the runtime has replaced by a dense copy: the result is lost",
        given(argument, check),
        Kind.DEFECT,
        PACKED_COPIES,
    )


def shape(
    argument: str,
    requirement: str,
    expected: Callable[[Call], Shape | None],
    kind: Kind = Kind.REFUSAL,
    broken: str = "",
) -> Rule:
    """The tensor has the shape that follows from others; None leaves it to their own rules."""

    def check(call: Call) -> str | None:
        tensor, want = call.optional(argument), expected(call)
        if tensor is None or want is None or tensor.sizes == want:
            return None
        return f"shape {tensor.sizes} is not {want}"

    silent = ": the runtime does not look" if kind is Kind.DEFECT else ""
    return Rule(argument, requirement, broken or silent, check, kind)


def one_of(argument: str, allowed: Iterable[int]) -> Rule:
    """A number is one of a few."""
    values = tuple(allowed)

    def check(call: Call) -> str | None:
        value = call.integer(argument)
        return None if value in values else str(value)

    return Rule(argument, _either(values), f"is not {_either(values)}", check)


def given(argument: str, check: Callable[[TensorMeta], str | None]) -> Check:
    """A check of one tensor, which may be left out."""

    def run(call: Call) -> str | None:
        tensor = call.optional(argument)
        return None if tensor is None else check(tensor)

    return run


def ranked(call: Call, ranks: dict[str, int]) -> bool:
    """The tensors have these ranks, so that a rule about their sizes can be asked."""
    return all(call.tensor(name).rank == want for name, want in ranks.items())


def _either(values: Iterable[object]) -> str:
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last
