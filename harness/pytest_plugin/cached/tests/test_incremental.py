"""Cells with cached results do not run; the rest of the session is the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.pytest_plugin.tests.sessions import (
    SEGFAULT,
    WORKERS,
    outcomes,
    records,
    run,
    write_suite,
)
from harness.record.cell import Status
from harness.record.folder import load

REUSING = ("--incremental", "--result-cache", "results")

# How a cell of each kind ends, and the entries that it takes for some to.
KINDS = """
import torch
from harness.model.case import Case

class Add(torch.nn.Module):
    def forward(self, x):
        return x + x

class Broken(Add):
    def forward(self, x):
        raise ValueError("broken")

def case(name, module=Add):
    return Case(name, lambda: (module(), (torch.randn(2, 3),)), tags=frozenset({"fp32"}))

CASES = [case("add/passes"), case("bad/fails", Broken), case("bad/known", Broken),
         case("hang/known"), case("bad/unsupported", Broken)]
"""
LIMITATIONS = """
from harness.record.cell import Status
from harness.model.limitation import Limitation
LIMITATIONS = [
    Limitation(target="null:*", case="bad/known", reason="is broken"),
    Limitation(target="null:*", case="hang/*", reason="would hang", run=False),
    Limitation(target="null:*", case="bad/unsupported", reason="is not claimed",
               shown_as=Status.UNSUPPORTED),
]
"""


def taken(folder: Path) -> set[str]:
    return {cell.case for cell in load(folder).cells if cell.cached is not None}


def said(output: str) -> tuple[int, int]:
    """How many cells were taken, and how many ran, by the summary."""
    found = re.search(r"conform: .*?([\d,]+) cells were reused from results, ([\d,]+) ran", output)
    assert found is not None, output
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("workers", ["0", "1"])
def test_the_second_run_takes_what_the_first_one_left(project: Path, workers: str) -> None:
    first = run(project, "-n", workers, *REUSING, folder="first")
    assert (first.returncode, said(first.stdout)) == (0, (0, 5)), first.stdout
    assert not taken(project / "first")
    second = run(project, "-n", workers, *REUSING, folder="second")
    assert (second.returncode, said(second.stdout)) == (0, (5, 0)), second.stdout
    assert "5 passed" in second.stdout
    a, b = load(project / "first"), load(project / "second")
    assert b.is_complete
    assert b.info.expected == a.info.expected
    assert b.info.backends == a.info.backends
    assert records(a, but=_OF_TAKING) == records(b, but=_OF_TAKING)
    (where,) = {(cell.cached.run, cell.cached.host) for cell in b.cells if cell.cached}
    assert where == ("first", a.info.environment.host)


# Besides, nothing differs of one that was taken.
_OF_TAKING = {"cached", "worker", "saved_to"}


@pytest.mark.nightly
def test_processes_and_workers_take_from_each_other_and_record_the_same(project: Path) -> None:
    # As a command: torch sets environment variables that are part of cache keys when imported.
    assert run(project, "-n", "0", *REUSING, folder="alone", anew=True).returncode == 0
    # With a suite beside it, so that the listing of the first does not do.
    other = "from suites.small import case\nCASES = [case('mul/e')]\n"
    (project / "suites" / "other.py").write_text(other)
    result = run(project, "-n", "1", *REUSING, folder="workers")
    assert said(result.stdout) == (5, 1), result.stdout
    assert "6 passed" in result.stdout
    assert taken(project / "workers") == set(outcomes(load(project / "alone")))
    again = run(project, "-n", "0", *REUSING, folder="again", anew=True)
    assert said(again.stdout) == (6, 0), again.stdout
    found = records(load(project / "workers"), but=_OF_TAKING)
    assert found == records(load(project / "again"), but=_OF_TAKING)
    for name, cell in records(load(project / "alone"), but=_OF_TAKING).items():
        assert found[name] == cell


@pytest.mark.nightly
def test_with_everything_known_no_worker_starts_and_nothing_is_imported(project: Path) -> None:
    assert run(project, "-n", "1", *REUSING, folder="first").returncode == 0
    hook = (
        'pytest_plugins = ["harness.pytest_plugin"]\n'
        "def pytest_sessionfinish(session):\n"
        "    import sys\n"
        "    print('loaded torch:', 'torch' in sys.modules, 'suites.small' in sys.modules)\n"
    )
    (project / "conftest.py").write_text(hook)
    assert run(project, "-n", "1", *REUSING, folder="second").returncode == 0
    third = run(project, "-n", "1", "-s", *REUSING, folder="third", anew=True)
    assert said(third.stdout)[0] == 5, third.stdout
    fourth = run(project, "-n", "1", "-s", *REUSING, folder="fourth", anew=True)
    assert said(fourth.stdout) == (5, 0), fourth.stdout
    assert "loaded torch: False False" in fourth.stdout
    assert "worker" not in fourth.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("workers", ["1", "0"])
def test_of_what_an_earlier_session_collected_only_files_with_something_to_run_are_again(
    project: Path, workers: str
) -> None:
    broken = (
        "import torch\nfrom suites.build import Broken\nfrom harness.model.case import Case\n"
        "CASES = [Case('bad/fails', lambda: (Broken(), (torch.randn(2),)))]\n"
    )
    (project / "suites" / "build.py").write_text(
        "import torch\nclass Broken(torch.nn.Module):\n"
        "    def forward(self, x):\n        raise ValueError('broken')\n"
    )
    (project / "suites" / "other.py").write_text(broken)
    first = run(project, "-n", workers, *REUSING, folder="first")
    assert said(first.stdout) == (0, 6), first.stdout
    second = run(project, "-n", workers, *REUSING, "--progress", "lines", folder="second")
    dots = run(project, "-n", workers, *REUSING, folder="dots")
    for result in (second, dots):
        assert (result.returncode, said(result.stdout)) == (1, (5, 1)), result.stdout
        assert "1 failed, 5 passed" in result.stdout
    items = "collected 1 item" if workers == "0" else "1 worker [1 item]"
    assert items in dots.stdout
    percents = [int(number) for number in re.findall(r"\[ *(\d+)%\]", dots.stdout)]
    assert max(percents) == 100
    assert "6 cells on 1 target" in second.stdout
    assert "6 of 6 cells, 1 red" in second.stdout
    for name in ("second", "dots"):
        record = load(project / name)
        assert record.is_complete, record.incompleteness
        assert record.info.expected == load(project / "first").info.expected
        assert len(record.cells) == 6
        assert taken(project / name) == set(outcomes(record)) - {"bad/fails"}
    # Mended, it is stored like any other.
    (project / "suites" / "other.py").write_text(broken.replace("Broken()", "torch.nn.ReLU()"))
    assert said(run(project, "-n", workers, *REUSING, folder="mended").stdout) == (5, 1)
    assert said(run(project, "-n", workers, *REUSING, folder="whole").stdout) == (6, 0)


def test_a_change_runs_what_it_can_affect_and_a_selection_takes_its_part(project: Path) -> None:
    other = "from suites.small import case\nCASES = [case('mul/e')]\n"
    (project / "suites" / "other.py").write_text(other)
    assert run(project, "-n", "0", *REUSING, folder="first").returncode == 0
    some = run(project, "-n", "0", *REUSING, "-k", "add", folder="some")
    assert said(some.stdout) == (3, 0), some.stdout
    (project / "suites" / "other.py").write_text(f"# changed\n{other}")
    result = run(project, "-n", "0", *REUSING, folder="second")
    assert said(result.stdout) == (5, 1), result.stdout
    assert "mul/e" not in taken(project / "second")
    seeded = run(project, "-n", "0", *REUSING, "--seed", "1", folder="seeded")
    assert said(seeded.stdout) == (0, 6), seeded.stdout


@pytest.mark.parametrize("workers", WORKERS)
def test_what_fails_or_does_not_run_is_never_taken(project: Path, workers: str) -> None:
    (project / "suites" / "small.py").write_text(KINDS)
    (project / "suites" / "limitations.py").write_text(LIMITATIONS)
    first = run(project, "-n", workers, *REUSING, folder="first")
    second = run(project, "-n", workers, *REUSING, folder="second")
    assert (first.returncode, second.returncode) == (1, 1), second.stdout
    expected = {
        "add/passes": Status.PASSED,
        "bad/fails": Status.FAILED,
        "bad/known": Status.XFAILED,
        "hang/known": Status.XFAILED,
        "bad/unsupported": Status.UNSUPPORTED,
    }
    assert outcomes(load(project / "first")) == outcomes(load(project / "second")) == expected
    assert taken(project / "second") == {"add/passes", "bad/known", "bad/unsupported"}
    assert said(second.stdout) == (3, 2)
    assert re.search(r"1 failed, 1 passed, 1 skipped, 2 xfailed", second.stdout), second.stdout


@pytest.mark.nightly
def test_a_crash_is_never_taken(project: Path) -> None:
    write_suite(project, SEGFAULT)
    assert run(project, "-n", "1", *REUSING, folder="first").returncode == 1
    second = run(project, "-n", "1", *REUSING, folder="second")
    assert said(second.stdout) == (4, 1), second.stdout
    assert outcomes(load(project / "second"))["death/now"] is Status.CRASHED


@pytest.mark.nightly
def test_damage_in_the_store_runs_the_cell_again(project: Path) -> None:
    assert run(project, "-n", "0", *REUSING, folder="first").returncode == 0
    entries = sorted((project / "results" / "cells").rglob("*.json"))
    entries[0].write_bytes(entries[0].read_bytes()[:-9])
    entries[1].unlink()
    entries[2].write_text("{}")
    result = run(project, "-n", "1", *REUSING, folder="second")
    assert (result.returncode, said(result.stdout)) == (0, (2, 3)), result.stdout
    assert load(project / "second").is_complete


def test_sources_that_change_while_cells_run_leave_no_result(project: Path) -> None:
    suite = project / "suites" / "small.py"
    begins = "class Death(Add):\n    def forward(self, x):\n"
    writes = f"{begins}        open(__file__, 'a').write('#')\n"
    suite.write_text(suite.read_text().replace(begins, writes))
    result = run(project, "-n", "0", *REUSING)
    assert "suites/small.py changed while cells ran" in result.stdout
    assert len(list((project / "results" / "cells").rglob("*.json"))) == 2


def test_a_stale_limitation_is_stale_although_its_cells_did_not_run(project: Path) -> None:
    """Claims about a known issue are cached with results, as long as they count the same cells."""
    suite = (
        "import torch\nfrom harness.model.case import Case\n"
        "class Add(torch.nn.Module):\n    def forward(self, x):\n        return x + x\n"
        "def build():\n    return Add(), (torch.full((2, 3), float('nan')),)\n"
        "CASES = [Case(f'add/{name}', build, targets='tosa:int') for name in NAMES]\n"
    )
    (project / "suites" / "small.py").write_text(f"NAMES = 'ab'\n{suite}")
    (project / "suites" / "limitations.py").write_text(
        "from harness.model.limitation import Limitation\n"
        "LIMITATIONS = [Limitation(target='tosa:*', case='add/*', reason='old')]\n"
    )
    asked = ("-n", "0", *REUSING)
    first = run(project, *asked, folder="first", targets="tosa:int")
    assert "is stale: all 2 of its cells" in first.stdout, first.stdout
    second = run(project, *asked, folder="second", targets="tosa:int")
    assert said(second.stdout) == (2, 0), second.stdout
    assert "is stale: all 2 of its cells" in second.stdout
    assert second.returncode == 1
    # The known issue now counts a third cell: the claims of the two cells are outdated.
    (project / "suites" / "more.py").write_text(f"NAMES = 'c'\n{suite}")
    third = run(project, *asked, folder="third", targets="tosa:int")
    assert "is stale: all 3 of its cells" in third.stdout, third.stdout


@pytest.mark.nightly
def test_keeping_everything_takes_nothing(project: Path) -> None:
    assert run(project, "-n", "0", *REUSING, folder="first").returncode == 0
    result = run(project, "-n", "0", *REUSING, "--keep", "all", "-k", "add/a", folder="second")
    assert "all cells ran, because --keep all" in result.stdout
    assert not taken(project / "second")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--result-cache", "results"), "--result-cache has no effect without --incremental"),
        (("--incremental", "--results", "nope://a"), "--result-cache nope://a: Protocol not known"),
    ],
)
def test_a_place_without_use_or_that_nothing_reaches_is_an_error(
    project: Path, options: tuple[str, ...], message: str
) -> None:
    result = run(project, "-n", "0", *options)
    assert result.returncode == 4
    assert message in result.stderr
    assert not (project / "run").exists()


def test_what_units_take_is_not_learned_from_cells_that_did_not_run(project: Path) -> None:
    assert run(project, "-n", "0", *REUSING, folder="first").returncode == 0
    durations = project / ".pytest_cache" / "v" / "conform" / "durations"
    before = json.loads(durations.read_text())
    before["suites/small.py::add/a"] = 40.0
    durations.write_text(json.dumps(before))
    assert run(project, "-n", "0", *REUSING, folder="second").returncode == 0
    assert json.loads(durations.read_text())["suites/small.py::add/a"] == 40.0


@pytest.mark.nightly
def test_tests_that_are_no_cells_run_as_ever(project: Path) -> None:
    (project / "suites" / "test_more.py").write_text("def test_it():\n    pass\n")
    assert run(project, "-n", "1", *REUSING, folder="first").returncode == 0
    result = run(project, "-n", "1", *REUSING, "-v", folder="second")
    assert said(result.stdout) == (5, 0)
    assert re.search(r"PASSED suites/test_more.py::test_it", result.stdout), result.stdout
    assert "6 passed" in result.stdout
