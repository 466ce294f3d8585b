"""Cells go to the best runtime in as few groups as possible; differences are reported."""

from harness.cluster.placement import describe_differences, find_best_labels, group_cells
from harness.cluster.tests.farms import place
from harness.record.host import Environment


def test_native_is_preferred_to_emulated_and_lowering_is_last() -> None:
    linux = place("linux", mlx="emulated", tosa="reference", metal="lowers")
    mac = place("mac", mlx="native", tosa="lowers", metal="none")
    assert find_best_labels([linux]) == {
        "mlx": "emulated:mlx",
        "tosa": "reference:tosa",
        "metal": "lowers:metal",
    }
    assert find_best_labels([linux, mac]) == {
        "mlx": "native:mlx", "tosa": "reference:tosa", "metal": "lowers:metal",
    }  # fmt: skip


def test_cells_that_one_worker_can_run_stay_together() -> None:
    linux = place("linux", mlx="emulated", tosa="reference", xnnpack="native")
    mac = place("mac", mlx="native", xnnpack="native")
    cells = ["a@xnnpack:fp32", "a@mlx:fp32", "a@tosa:fp", "a@tosa:int"]
    found = group_cells(cells, [linux, mac], find_best_labels([linux, mac]))
    assert found == [
        (frozenset({"native:xnnpack", "native:mlx"}), ["a@xnnpack:fp32", "a@mlx:fp32"]),
        (frozenset({"reference:tosa"}), ["a@tosa:fp", "a@tosa:int"]),
    ]
    ((needed, together),) = group_cells(cells, [linux], find_best_labels([linux]))
    assert together == cells
    assert needed == {"native:xnnpack", "emulated:mlx", "reference:tosa"}


def test_a_cell_that_no_worker_can_execute_goes_to_one_that_reports_why() -> None:
    only = place("linux", xnnpack="native", metal="none")
    assert group_cells(["a@metal:fp32"], [only], find_best_labels([only])) == [
        (frozenset(), ["a@metal:fp32"])
    ]


def test_differences_are_named() -> None:
    ours = Environment(python="3.11.7", packages={"torch": "2.13.0"}, git_commit="a" * 40)
    theirs = Environment(
        python="3.12.1", packages={"torch": "2.12.0", "mlx": "0.32"}, git_commit="b" * 40
    )
    assert describe_differences(ours, ours) == []
    assert describe_differences(ours, theirs) == [
        "Python 3.12.1 in place of 3.11.7",
        "mlx 0.32 in place of none",
        "torch 2.12.0 in place of 2.13.0",
        "checkout bbbbbbbbbbbb in place of aaaaaaaaaaaa",
    ]
