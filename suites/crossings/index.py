"""Reading and writing by index: dtype, number and sizes of index tensors, and where they are."""

from __future__ import annotations

import torch

from harness import Case
from suites.crossings.build import Row, cross

FACTORS = {
    "operator": ("index", "put", "accumulate"),
    "indices": ("one", "equal", "broadcast", "apart", "three"),
    "index": ("int64", "int32"),
    "source": ("input", "buffer", "constant"),
    "values": ("full", "one"),
}
_SIZES = (5, 6, 4)
_SHAPES: dict[str, tuple[tuple[int, ...] | None, ...]] = {
    "one": ((3,),),
    "equal": ((3,), (3,)),
    "broadcast": ((3, 1), (4,)),
    "apart": ((3,), None, (3,)),
    "three": ((3,), (1,), (3,)),
}
"""The shapes of the index tensors, by dimension; None for a dimension without."""


def allows(row: Row) -> bool:
    """Whether the row is no repetition: reading has no values."""
    return not (row["operator"] == "index" and row.get("values") == "one")


class Index(torch.nn.Module):
    """Reads or writes a float32 tensor of shape (5, 6, 4) by index tensors.

    Each index tensor has no value twice, so that no two writes go to one element.
    """

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row
        self.where = [i for i, shape in enumerate(_SHAPES[row["indices"]]) if shape is not None]
        self.constants = self.draw()
        if row["source"] == "buffer":
            for place, each in enumerate(self.constants):
                self.register_buffer(f"index{place}", each)

    def draw(self) -> list[torch.Tensor]:
        """Return index tensors."""
        found = []
        for dim, shape in enumerate(_SHAPES[self.row["indices"]]):
            if shape is not None:
                count = torch.Size(shape).numel()
                drawn = torch.randperm(_SIZES[dim])[:count].reshape(shape)
                found.append(drawn.to(getattr(torch, self.row["index"])))
        return found

    def draw_values(self) -> torch.Tensor:
        """Return the values to write."""
        if self.row["values"] == "one":
            return torch.randn(1)
        return torch.randn(torch.empty(_SIZES)[self.place(self.constants)].shape)

    def place(self, given: list[torch.Tensor]) -> tuple[torch.Tensor | slice, ...]:
        """Return the index with a slice for each dimension without an index tensor."""
        index: list[torch.Tensor | slice] = [slice(None)] * (self.where[-1] + 1)
        for dim, each in zip(self.where, given, strict=True):
            index[dim] = each
        return tuple(index)

    def forward(
        self, x: torch.Tensor, values: torch.Tensor, given: list[torch.Tensor]
    ) -> torch.Tensor:
        """Return the read elements, or a copy with the written ones."""
        if self.row["source"] == "buffer":
            given = [getattr(self, f"index{place}") for place in range(len(self.where))]
        elif self.row["source"] == "constant":
            given = [torch.tensor(each.tolist(), dtype=each.dtype) for each in self.constants]
        if self.row["operator"] == "index":
            return x[self.place(given)] + values
        accumulate = self.row["operator"] == "accumulate"
        index = [None if isinstance(each, slice) else each for each in self.place(given)]
        return torch.ops.aten.index_put(x, index, values, accumulate)


def _make_case(name: str, row: Row) -> Case:
    def build() -> tuple[torch.nn.Module, tuple[object, ...]]:
        module = Index(row)
        given = module.draw() if row["source"] == "input" else []
        return module, (torch.randn(_SIZES), module.draw_values(), given)

    return Case(name, build)


# Arm delegates it, unlike the rows of the array that write by tensors of different sizes.
_SIZES_DIFFER = dict(zip(FACTORS, ("put", "three", "int32", "input", "full"), strict=True))

CASES: list[Case] = cross(
    "index", FACTORS, allows, _make_case, integer_targets="", further=[_SIZES_DIFFER]
)
