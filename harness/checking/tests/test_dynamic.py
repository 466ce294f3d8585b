"""Dimensions vary as they are asked to, and a second size within the range is run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness.case import Call, Given, arguments
from harness.checking import cases, dynamic, sources
from harness.checking.sources import InputSet, Subject
from harness.errors import CaseError, ConformError


class Masked(torch.nn.Module):
    """Both inputs share batch and length; the width is fixed by a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
        summed: torch.Tensor = (self.inner(x) * mask.unsqueeze(-1)).sum(1)
        return summed * factor


def planned(*asked: str, given: Given | None = None) -> cases.Plan:
    given = given or Call((torch.randn(4, 10, 8),), {"mask": torch.ones(4, 10)})
    subject = Subject("masked", Masked(), (InputSet("example", given),))
    return cases.plan(subject, dynamic.parse(asked))


def shapes_of(given: Given) -> list[tuple[int, ...]]:
    args, kwargs = arguments(given)
    return [tuple(tensor.shape) for tensor in (*args, *kwargs.values())]


def test_all_that_can_vary_is_found_and_run_at_another_size() -> None:
    plan = planned("auto")
    assert plan.notes == [
        "x:0 varies, 2 to 8; runs at 4 and 2",
        "x:1 varies, 2 to 20; runs at 10 and 5",
        "mask:0 varies, 2 to 8; runs at 4 and 2",
        "mask:1 varies, 2 to 20; runs at 10 and 5",
    ]
    calls = plan.cases[0].make().calls
    assert [shapes_of(call) for call in calls] == [[(4, 10, 8), (4, 10)], [(2, 5, 8), (2, 5)]]


def test_a_dimension_that_is_named_takes_along_what_has_to_be_as_long() -> None:
    plan = planned("x:1=3..10")
    assert plan.notes == [
        "x:1 varies, 3 to 10; runs at 10 and 5",
        "mask:1 varies, 3 to 10; runs at 10 and 5",
    ]
    calls = plan.cases[0].make().calls
    assert shapes_of(calls[1]) == [(4, 5, 8), (4, 5)]


def test_the_second_size_keeps_to_the_range_and_to_the_values() -> None:
    x = torch.randn(4, 6)
    subject = Subject("net", torch.nn.Linear(6, 2), (InputSet("example", (x,)),))
    for text, size in (("input:0=4..5", 5), ("input:0=3..4", 3), ("input:0", 2)):
        calls = cases.plan(subject, dynamic.parse([text])).cases[0].make().calls
        (other,) = arguments(calls[1])[0]
        assert len(other) == size
        assert torch.equal(other, x[torch.arange(size) % 4])


def test_nothing_may_vary_is_said_and_run() -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.eye(2, 3)

    subject = Subject("fixed", Fixed(), (InputSet("example", (torch.randn(2, 3),)),))
    plan = cases.plan(subject, dynamic.AUTO)
    assert plan.notes == ["no dimension of the inputs varies: each is a constant to the model"]
    assert plan.cases[0].dynamic_shapes is None
    assert len(plan.cases[0].make().calls) == 1


def test_a_size_that_no_other_may_replace_counts_as_fixed() -> None:
    class Product(torch.nn.Module):
        """Sizes may be 2 and 3 or 3 and 2 alone, which no range says."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(2, 3) + torch.eye(2, 3)

    subject = Subject("product", Product(), (InputSet("example", (torch.randn(3, 2),)),))
    plan = cases.plan(subject, dynamic.AUTO)
    assert len(plan.notes) == 1
    assert plan.notes[0].startswith("no dimension of the inputs varies: no second size within")
    assert plan.cases[0].dynamic_shapes is None
    with pytest.raises(CaseError, match="no second size within the ranges runs"):
        cases.plan(subject, dynamic.parse(["x:0", "x:1"]))


def test_sizes_change_one_by_one_where_they_cannot_together() -> None:
    class Multiples(torch.nn.Module):
        """Of 4 and of 3: within the ranges below the first can only grow, the second shrink."""

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.reshape(-1, 4).sum() + y.reshape(-1, 3)

    given = (torch.randn(8), torch.randn(12))
    subject = Subject("multiples", Multiples(), (InputSet("example", given),))
    (case,) = cases.plan(subject, dynamic.parse(["x:0=8..16", "y:0=2..12"])).cases
    assert shapes_of(case.make().calls[1]) == [(16,), (12,)]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["x:2"], "dimension 2 of x is a constant to it, 8"),
        (["y:0"], "the model has no input 'y'; it has x, mask"),
        (["x:7"], "x has 3 dimensions, counted from 0"),
        (["x:0=5..9"], "the inputs have size 4 there"),
        (["x:0=4..4"], "leaves no two sizes"),
        (["x"], "is neither auto nor NAME:DIM"),
        (["auto", "x:0"], "auto finds all dimensions"),
    ],
)
def test_what_cannot_vary_is_one_line(asked: list[str], said: str) -> None:
    with pytest.raises(ConformError) as caught:
        planned(*asked)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_size_of_one_and_what_is_no_tensor_are_refused() -> None:
    one = Call((torch.randn(1, 10, 8),), {"mask": torch.ones(1, 10), "factor": 3.0})
    with pytest.raises(ConformError, match=r"size 1 there, which torch.export takes for"):
        planned("x:0", given=one)
    with pytest.raises(ConformError, match="factor is a float"):
        planned("factor:0", given=one)


def test_an_exported_file_keeps_its_ranges(folder: Path) -> None:
    batch = torch.export.Dim("batch", min=2, max=16)
    program = torch.export.export(
        Masked().eval(),
        (torch.randn(4, 10, 8),),
        {"mask": torch.ones(4, 10)},
        dynamic_shapes={"x": {0: batch}, "mask": {0: batch}},
    )
    torch.export.save(program, "masked.pt2")
    plan = cases.plan(sources.load("masked.pt2"))
    assert plan.notes == [
        "x:0 varies, 2 to 16; runs at 4 and 2",
        "mask:0 varies, 2 to 16; runs at 4 and 2",
    ]
    torch.save({"x": torch.randn(20, 10, 8), "mask": torch.ones(20, 10)}, "large.pt")
    large = sources.load("masked.pt2", [Path("large.pt")])
    with pytest.raises(CaseError, match=r"does not take the inputs large\.pt: .*<= 16"):
        cases.plan(large)
