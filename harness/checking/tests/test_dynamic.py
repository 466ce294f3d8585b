"""Requested dimensions are dynamic, and the ends of their ranges are executed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.export import Dim, export

from harness.checking import cases, dynamic_dimensions, exported_programs, model_sources
from harness.checking.model_sources import CheckedModel, InputSet
from harness.errors import CaseError, ConformError
from harness.model.case import Call, CallInputs, arguments


class Masked(torch.nn.Module):
    """Both inputs share batch and length; the width is fixed by a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
        summed: torch.Tensor = (self.inner(x) * mask.unsqueeze(-1)).sum(1)
        return summed * factor


def planned(*asked: str, given: CallInputs | None = None) -> cases.CasePlan:
    given = given or Call((torch.randn(4, 10, 8),), {"mask": torch.ones(4, 10)})
    subject = CheckedModel("masked", Masked(), (InputSet("example", given),))
    return cases.plan_cases(subject, dynamic_dimensions.parse_dynamic(asked))


def _of(name: str, program: torch.export.ExportedProgram) -> CheckedModel:
    example = exported_programs.example_inputs(program)
    assert example is not None
    return CheckedModel(
        name,
        exported_programs.as_module(program),
        (InputSet("example", example),),
        exported_programs.dynamic_shapes(program),
        program,
    )


def shapes_of(given: CallInputs) -> list[tuple[int, ...]]:
    args, kwargs = arguments(given)
    return [tuple(tensor.shape) for tensor in (*args, *kwargs.values())]


def test_all_dynamic_sizes_are_found_and_run_at_their_ends_and_mixed() -> None:
    plan = planned("auto")
    assert plan.notes == [
        "x:0 varies, 2 to 8; tested at 4, 2, 8",
        "x:1 varies, 2 to 20; tested at 10, 2, 20",
        "mask:0 varies, 2 to 8; tested at 4, 2, 8",
        "mask:1 varies, 2 to 20; tested at 10, 2, 20",
    ]
    calls = plan.cases[0].make().calls
    assert [shapes_of(call)[1] for call in calls] == [
        (4, 10),
        (2, 2),
        (8, 20),
        (2, 20),
        (8, 2),
    ]
    assert all(shapes_of(call)[0] == (*shapes_of(call)[1], 8) for call in calls)


def test_a_named_dimension_also_varies_dimensions_of_equal_size() -> None:
    plan = planned("x:1=3..10")
    assert plan.notes == [
        "x:1 varies, 3 to 10; tested at 10, 3, 6",
        "mask:1 varies, 3 to 10; tested at 10, 3, 6",
    ]
    calls = plan.cases[0].make().calls
    assert shapes_of(calls[1]) == [(4, 3, 8), (4, 3)]


def test_further_sizes_keep_to_the_range_and_to_the_values() -> None:
    x = torch.randn(4, 6)
    subject = CheckedModel("net", torch.nn.Linear(6, 2), (InputSet("example", (x,)),))
    for text, sizes in (
        ("input:0=4..5", [5]),
        ("input:0=3..4", [3]),
        ("input:0", [2, 8]),
        ("input:0=1..16", [1, 16]),
        ("input:0=1..4", [1, 2]),
    ):
        calls = (
            cases.plan_cases(subject, dynamic_dimensions.parse_dynamic([text]))
            .cases[0]
            .make()
            .calls
        )
        assert [arguments(call)[0][0].shape[0] for call in calls[1:]] == sizes
        for call in calls[1:]:
            (other,) = arguments(call)[0]
            assert torch.equal(other, x[torch.arange(len(other)) % 4])


@pytest.mark.parametrize("asked", ["x:0=1..16", "x:0=2..16", "x:0=0..4"])
def test_a_range_that_is_given_is_the_range_that_is_exported(asked: str) -> None:
    plan = planned(asked)
    low, _, high = asked.partition("=")[2].partition("..")
    assert [line.partition(";")[0] for line in plan.notes] == [
        f"x:0 varies, {low} to {high}",
        f"mask:0 varies, {low} to {high}",
    ]
    case = plan.cases[0]
    built = case.make()
    program = dynamic_dimensions.export_with(built.module, built.inputs, case.dynamic_shapes)
    ((lower, upper),) = ((one.lower, one.upper) for one in program.range_constraints.values())
    assert (lower, upper) == (int(low), int(high))
    assert min(shapes_of(call)[0][0] for call in case.make().calls) == max(int(low), 1)


def test_two_inputs_may_be_given_one_range_each() -> None:
    plan = planned("x:0=1..16", "mask:0=1..12")
    assert plan.notes == [
        "x:0: 1 to 16 was asked for; the model or torch.export makes it 1 to 12",
        "x:0 varies, 1 to 12; tested at 4, 1, 12",
        "mask:0 varies, 1 to 12; tested at 4, 1, 12",
    ]


def test_a_range_that_the_model_narrows_is_reported() -> None:
    class Limited(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._check(x.shape[0] <= 6)
            return x * 2

    subject = CheckedModel("limited", Limited(), (InputSet("example", (torch.randn(4, 3),)),))
    plan = cases.plan_cases(subject, dynamic_dimensions.parse_dynamic(["x:0=1..16"]))
    assert plan.notes == [
        "x:0: 1 to 16 was asked for; the model or torch.export makes it 1 to 6",
        "x:0 varies, 1 to 6; tested at 4, 1, 6",
    ]


def test_sizes_of_files_and_sizes_that_are_added_are_in_one_statement() -> None:
    sets = tuple(InputSet(f"n{n}.pt", (torch.randn(n, 6),)) for n in (4, 8))
    subject = CheckedModel("net", torch.nn.Linear(6, 2), sets)
    plan = cases.plan_cases(subject, dynamic_dimensions.parse_dynamic(["input:0=1..16"]))
    assert plan.notes == ["input:0 varies, 1 to 16; tested at 4 (n4.pt), 8 (n8.pt), 1, 16"]
    (case,) = plan.cases
    assert [len(arguments(call)[0][0]) for call in case.make().calls] == [4, 8, 1, 16]


def test_separate_programs_have_separate_statements() -> None:
    sets = tuple(InputSet(f"{n}.pt", (torch.randn(4, n),)) for n in (6, 5))

    class Sum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(0)

    plan = cases.plan_cases(
        CheckedModel("sum", Sum(), sets), dynamic_dimensions.parse_dynamic(["x:0=2..9"])
    )
    assert plan.notes == [
        "sum: x:0 varies, 2 to 9; tested at 4, 2, 9",
        "sum/5.pt: x:0 varies, 2 to 9; tested at 4, 2, 9",
    ]


def test_a_size_in_range_that_the_module_refuses_is_skipped_and_reported() -> None:
    class Fussy(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.compiler.is_exporting() and x.shape[0] > 10:
                raise ValueError("too many rows")
            return x * 2

    subject = CheckedModel("fussy", Fussy(), (InputSet("example", (torch.randn(4, 3),)),))
    plan = cases.plan_cases(subject, dynamic_dimensions.parse_dynamic(["x:0=1..16"]))
    assert plan.notes == [
        "x:0 varies, 1 to 16; tested at 4, 1",
        "x:0 = 16 was not executed: it is in the range, and the module itself raises "
        "ValueError: too many rows",
    ]


def test_a_model_without_dynamic_sizes_is_reported_and_run() -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.eye(2, 3)

    subject = CheckedModel("fixed", Fixed(), (InputSet("example", (torch.randn(2, 3),)),))
    plan = cases.plan_cases(subject, dynamic_dimensions.AUTO)
    assert plan.notes == ["no dimension of the inputs is dynamic: each is constant in the model"]
    assert plan.cases[0].dynamic_shapes is None
    assert len(plan.cases[0].make().calls) == 1


def test_a_size_that_no_other_may_replace_counts_as_fixed() -> None:
    class Product(torch.nn.Module):
        """The sizes may only be 2 and 3 or 3 and 2, which ranges cannot express."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(2, 3) + torch.eye(2, 3)

    subject = CheckedModel("product", Product(), (InputSet("example", (torch.randn(3, 2),)),))
    plan = cases.plan_cases(subject, dynamic_dimensions.AUTO)
    assert len(plan.notes) == 1
    assert plan.notes[0].startswith("no dimension of the inputs is dynamic: x:0 = 2")
    assert plan.cases[0].dynamic_shapes is None
    with pytest.raises(CaseError, match="no second size within the ranges can be executed"):
        cases.plan_cases(subject, dynamic_dimensions.parse_dynamic(["x:0", "x:1"]))


def test_sizes_change_one_by_one_where_they_cannot_together() -> None:
    class Multiples(torch.nn.Module):
        """Sizes are multiples of 4 and of 3: the first can only grow, the second only shrink."""

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.reshape(-1, 4).sum() + y.reshape(-1, 3)

    given = (torch.randn(8), torch.randn(12))
    subject = CheckedModel("multiples", Multiples(), (InputSet("example", given),))
    plan = cases.plan_cases(subject, dynamic_dimensions.parse_dynamic(["x:0=8..16", "y:0=2..12"]))
    (case,) = plan.cases
    sizes = [[shape[0] for shape in shapes_of(call)] for call in case.make().calls]
    assert sizes == [[8, 12], [8, 6], [16, 12], [16, 6], [12, 9]]
    assert plan.notes[2].startswith("y:0 = 2 was not executed: the program's guards exclude it")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["x:2"], "dimension 2 of x has the constant size 8"),
        (["y:0"], "the model has no input 'y'; it has x, mask"),
        (["x:7"], "x has 3 dimensions, counted from 0"),
        (["x:0=5..9"], "the inputs have size 4 there"),
        (["x:0=4..4"], "needs at least two sizes"),
        (["x"], "is neither auto nor NAME:DIM"),
        (["auto", "x:0"], "auto includes all dimensions"),
    ],
)
def test_a_dimension_that_cannot_vary_is_a_one_line_error(asked: list[str], said: str) -> None:
    with pytest.raises(ConformError) as caught:
        planned(*asked)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sizes_of_one_and_inputs_that_are_no_tensors_are_refused() -> None:
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
    plan = cases.plan_cases(model_sources.load_model("masked.pt2"))
    assert plan.notes == [
        "x:0 varies, 2 to 16; tested at 4, 2, 16",
        "mask:0 varies, 2 to 16; tested at 4, 2, 16",
    ]
    torch.save({"x": torch.randn(20, 10, 8), "mask": torch.ones(20, 10)}, "large.pt")
    large = model_sources.load_model("masked.pt2", [Path("large.pt")])
    with pytest.raises(CaseError, match=r"does not take the inputs large\.pt: .*<= 16"):
        cases.plan_cases(large)


@pytest.mark.parametrize(
    ("rows", "note"),
    [
        (Dim("rows", min=1), "x:0 varies, 1 and more; tested at 4, 1, 8, 40"),
        (Dim("rows"), "x:0 varies, 0 and more; tested at 4, 1, 8, 40"),
        (Dim("rows", min=1, max=9), "x:0 varies, 1 to 9; tested at 4, 1, 9"),
        (2 * Dim("half", min=1, max=8), "x:0 varies, 2 to 16; tested at 4, 2, 16"),
        (Dim.AUTO, "x:0 varies, 2 and more; tested at 4, 2, 8, 40"),
    ],
)
def test_the_range_of_a_program_that_was_exported_stays(rows: object, note: str) -> None:
    program = export(torch.nn.ReLU(), (torch.randn(4, 3),), dynamic_shapes=({0: rows},))
    plan = cases.plan_cases(_of("relu", program))
    assert plan.notes == [note.replace("x:0", "input:0")]


def test_sizes_that_share_a_symbol_keep_to_each_other_when_exported_again() -> None:
    class Paired(torch.nn.Module):
        def forward(
            self, x: torch.Tensor, y: torch.Tensor, *, z: dict[str, torch.Tensor]
        ) -> object:
            return x.repeat(2, 1) + y, z["a"] * 2

    n, m = Dim("n", min=1, max=8), Dim("m", min=1)
    program = export(
        Paired(),
        (torch.randn(3, 2), torch.randn(6, 2)),
        {"z": {"a": torch.randn(5)}},
        dynamic_shapes={"x": {0: n}, "y": {0: 2 * n}, "z": {"a": {0: m}}},
    )
    plan = cases.plan_cases(_of("paired", program))
    assert plan.notes == [
        "x:0 varies, 1 to 8; tested at 3, 1, 8",
        "y:0 varies, 2 to 16; tested at 6, 2, 16",
        "z_a:0 varies, 1 and more; tested at 5, 1, 10, 50",
    ]
