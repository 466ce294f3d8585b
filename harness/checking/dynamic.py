"""Dimensions that vary: asked for by name or found out, and inputs of another size within them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim, ExportedProgram, ShapesCollection

from harness.case import Call, Given, arguments
from harness.checking import symbols
from harness.errors import CaseError, UsageError, describe
from harness.pipeline.explaining.frames import model_frame
from harness.private.torch import tree_flatten, tree_unflatten

AUTO = "auto"
"""Asks for every dimension that the model lets vary."""

# How torch.export refuses a dimension that the model fixes.
_CONSTANT = re.compile(
    r"L\['(\w+)'\][^\n]*size\(\)\[(\d+)\] as dynamic but [^\n]* a constant \((\d+)\)"
)
_SPELLING = re.compile(r"(\w+):(\d+)(?:=(\d+)\.\.(\d+))?")


@dataclass(frozen=True)
class Varying:
    """One dimension of one input that is asked to vary.

    Attributes:
        name: parameter of the module's ``forward``.
        dim: number of the dimension.
        low: least size; None for what export finds.
        high: largest size; None for twice that of the example.
    """

    name: str
    dim: int
    low: int | None = None
    high: int | None = None

    @classmethod
    def parse(cls, text: str) -> Varying:
        """Read ``NAME:DIM`` or ``NAME:DIM=MIN..MAX``.

        Raises:
            UsageError: it is not spelled that way, or the range is empty.
        """
        found = _SPELLING.fullmatch(text)
        if found is None:
            raise UsageError(
                f"--dynamic {text!r} is neither {AUTO} nor NAME:DIM[=MIN..MAX], such as x:0=1..16"
            )
        name, dim, low, high = found.groups()
        if low is None:
            return cls(name, int(dim))
        if int(low) >= int(high):
            raise UsageError(f"--dynamic {text!r}: {low}..{high} leaves no two sizes")
        return cls(name, int(dim), int(low), int(high))

    def __str__(self) -> str:
        return f"{self.name}:{self.dim}"


def parse(texts: Sequence[str]) -> list[Varying] | str | None:
    """What ``--dynamic`` asks for: dimensions, :data:`AUTO`, or nothing.

    Raises:
        UsageError: a spelling is wrong, or both are asked for.
    """
    if AUTO in texts:
        if set(texts) != {AUTO}:
            raise UsageError(f"--dynamic {AUTO} finds all dimensions; leave out the others")
        return AUTO
    return [Varying.parse(text) for text in texts] or None


def export(
    module: torch.nn.Module, given: Given, asked: Sequence[Varying] | str
) -> tuple[ExportedProgram, Any]:
    """Export with the dimensions that are asked to vary, to learn what of them the model lets vary.

    A dimension of another input that has to have the same size varies with one that is named.

    Returns:
        The program, and the dimensions as ``torch.export.export`` takes them for these inputs.

    Raises:
        UsageError: a name or dimension is not there, or is of no tensor.
        CaseError: the model does not export so, or a dimension that is named is a constant to it.
    """
    if isinstance(asked, str):
        found = _shapes(module, given, [], follow=True)
        return exported(module, given, found), found
    try:
        found = _shapes(module, given, asked, follow=False)
        return exported(module, given, found), found
    except CaseError:
        found = _shapes(module, given, asked, follow=True)
        return exported(module, given, found), found


def _shapes(
    module: torch.nn.Module, given: Given, asked: Sequence[Varying], *, follow: bool
) -> Any:
    """The dimensions that are named; where others follow, those of their sizes if any is named,
    else all."""
    args, kwargs = arguments(given)
    parameters = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    named: dict[int, dict[int, Any]] = {}
    sizes: set[int] = set()
    for one in asked:
        tensor = parameters.get(one.name)
        if not isinstance(tensor, torch.Tensor) or one.dim >= tensor.dim():
            raise UsageError(f"--dynamic {one}: {_what_is(one, tensor, parameters)}")
        size = tensor.shape[one.dim]
        _check_size(one, size)
        high = 2 * size if one.high is None else one.high
        named.setdefault(id(tensor), {})[one.dim] = Dim.DYNAMIC(min=one.low, max=high)
        sizes.add(size)
    collection: Any = ShapesCollection()  # type: ignore[no-untyped-call]  # torch's is untyped
    for leaf in tree_flatten((args, kwargs))[0]:
        if isinstance(leaf, torch.Tensor):
            hints = named.get(id(leaf), {})
            if follow and not hints:
                hints = {
                    dim: Dim.AUTO(max=2 * size) if not asked else Dim.AUTO
                    for dim, size in enumerate(leaf.shape)
                    if size > 1 and (not asked or size in sizes)
                }
            collection[leaf] = hints
    return collection.dynamic_shapes(module, args, kwargs)


def exported(module: torch.nn.Module, given: Given, dynamic_shapes: Any) -> ExportedProgram:
    """Export with these dynamic shapes.

    Raises:
        CaseError: as :func:`export`.
    """
    args, kwargs = arguments(given)
    try:
        return torch.export.export(
            module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False
        )
    except Exception as error:
        if found := _CONSTANT.search(str(error)):
            name, dim, size = found.groups()
            said = f"dimension {dim} of {name} is a constant to it, {size}"
        else:
            frame = model_frame(error)
            said = f"{describe(error, 400)}{f', at {frame}' if frame else ''}"
        raise CaseError(f"the model does not export with such dimensions: {said}") from error


def vary(program: ExportedProgram, given: Given) -> Given:
    """Inputs of another size, made of the given ones by cutting or repeating them.

    Sizes are halved, made one less, one more, doubled, the least, the largest: all of them in the
    same way if the program's guards accept that, else one of them.

    Raises:
        CaseError: no other size is accepted.
    """
    current = _values(program, given)
    refusal = "there is no other size"
    for sizes in _candidates(program, current):
        resized = _resize(program, given, sizes)
        problem = refusal_of(program, resized)
        if problem is None:
            return resized
        refusal = problem
    raise CaseError(f"no second size within the ranges runs: {refusal}")


def refusal_of(program: ExportedProgram, given: Given) -> str | None:
    """Why an exported program does not take these inputs, or None."""
    args, kwargs = arguments(given)
    try:
        with torch.no_grad():
            program.module()(*args, **kwargs)
    except Exception as error:
        return describe(error, 300)
    return None


def ranges(program: ExportedProgram, given: Given, other: Given) -> Iterator[str]:
    """Lines that say what varies, between what, and at which sizes it runs."""
    names = symbols.input_names(program)
    first, second = (tree_flatten(arguments(one))[0] for one in (given, other))
    for name, shape, before, after in zip(
        names, symbols.input_shapes(program), first, second, strict=True
    ):
        for dim, size in enumerate(shape or ()):
            if isinstance(size, torch.SymInt):
                low, high = symbols.extent(program, size)
                span = f"from {low}" if high is None else f"{low} to {high}"
                sizes = f"{before.shape[dim]} and {after.shape[dim]}"
                yield f"{name}:{dim} varies, {span}; runs at {sizes}"


def _what_is(one: Varying, value: Any, parameters: dict[str, Any]) -> str:
    if isinstance(value, torch.Tensor):
        return f"{one.name} has {value.dim()} dimensions, counted from 0"
    if one.name in parameters:
        return f"{one.name} is a {type(value).__name__}; dimensions are of tensors"
    return f"the model has no input {one.name!r}; it has {', '.join(parameters)}"


def _check_size(one: Varying, size: int) -> None:
    low, high = one.low or 0, size if one.high is None else one.high
    if not low <= size <= high:
        raise UsageError(f"--dynamic {one}={low}..{high}: the inputs have size {size} there")
    if size < 2:
        raise UsageError(
            f"--dynamic {one}: the inputs have size {size} there, which torch.export takes for a "
            f"constant; give inputs of size 2 or more"
        )


def _values(program: ExportedProgram, given: Given) -> dict[Any, int]:
    """The values that symbols have in these inputs."""
    alone = symbols.free_symbols(program)
    values: dict[Any, int] = {}
    leaves = tree_flatten(arguments(given))[0]
    for shape, leaf in zip(symbols.input_shapes(program), leaves, strict=True):
        for dim, size in enumerate(shape or ()):
            if isinstance(size, torch.SymInt) and size.node.expr in alone:
                values.setdefault(size.node.expr, leaf.shape[dim])
    return values


def _candidates(program: ExportedProgram, current: dict[Any, int]) -> Iterator[dict[Any, int]]:
    """Other values of all symbols, then of one of them, within their ranges."""
    others = {
        name: _other_sizes(current[name], *symbols.extent(program, size))
        for name, size in symbols.free_symbols(program).items()
    }
    for sizes in zip(*others.values(), strict=True):
        if None not in sizes:
            yield dict(zip(others, sizes, strict=True))
    for name, wanted in others.items() if len(others) > 1 else ():
        for size in filter(None, wanted):
            yield {**current, name: size}


def _other_sizes(size: int, low: int, high: int | None) -> list[int | None]:
    """Halved, one less, one more, doubled, least, largest; None for what is not within the range or
    is the size itself."""
    top = 2 * size if high is None else high
    wanted = [max(low, size // 2), size - 1, size + 1, min(2 * size, top), low, top]
    return [other if max(low, 1) <= other <= top and other != size else None for other in wanted]


def _resize(program: ExportedProgram, given: Given, sizes: dict[Any, int]) -> Given:
    leaves, spec = tree_flatten(arguments(given))
    resized = []
    for shape, leaf in zip(symbols.input_shapes(program), leaves, strict=True):
        for dim, size in enumerate(shape or ()):
            wanted = symbols.value_of(size, sizes)
            if wanted != leaf.shape[dim]:
                leaf = leaf.index_select(dim, torch.arange(wanted) % leaf.shape[dim])
        resized.append(leaf)
    args, kwargs = tree_unflatten(resized, spec)
    return Call(args, kwargs) if kwargs else tuple(args)
