"""Keys: they change with what a record hangs on, and with nothing else."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import msgspec
import pytest

from harness import registry
from harness.collection.discovery import suite_files
from harness.record.run import BackendState
from harness.results import surroundings
from harness.results.key import Conditions, Keys
from harness.results.sources import Sources
from harness.results.tests.trees import written

ROOT = Path(__file__).parents[3]
AROUND = {"packages": "a", "host": "b"}

SUITES = {
    "suites/one.py": "from suites.build import f\nCASES = []\n",
    "suites/two.py": "CASES = []\n",
    "suites/build.py": "def f(): ...\n",
}
CELLS = [
    f"suites/{module}.py::op/{module}@{target}"
    for module in ("one", "two")
    for target in ("portable:fp32", "xnnpack:fp32", "tosa:int", "null:eager")
]


def keys_of(
    root: Path,
    *,
    around: dict[str, str] = AROUND,
    states: dict[str, BackendState] | None = None,
    **asked: object,
) -> dict[str, str]:
    sources = Sources([root / "suites"], root)
    made = Keys(sources, Conditions(**asked), states or {}, around)  # type: ignore[arg-type]
    return {nodeid: made.of(nodeid) for nodeid in CELLS}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {nodeid for nodeid in before if before[nodeid] != after[nodeid]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return written(tmp_path, SUITES)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Links to a copy of this checkout's sources stand where they are looked for."""
    from harness.results import sources

    for name in ("harness", "backends"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "tests")
        )
    monkeypatch.setattr(sources, "_HARNESS", tmp_path / "harness")
    found = sources.Sources._find

    def find(self: Sources, top: str, installed: bool) -> Path | None:
        return tmp_path / "backends" if top == "backends" else found(self, top, installed)

    monkeypatch.setattr(sources.Sources, "_find", find)
    return written(tmp_path, SUITES)


def test_the_same_gives_the_same_and_every_cell_has_its_own(project: Path) -> None:
    assert keys_of(project) == keys_of(project)
    found = keys_of(project)
    assert len(set(found.values())) == len(CELLS)
    assert all(re.fullmatch("[0-9a-f]{64}", key) for key in found.values())


def test_a_suite_changes_its_own_cells_and_what_it_imports_those_of_all_that_do(
    project: Path,
) -> None:
    before = keys_of(project)
    (project / "suites/two.py").write_text("CASES = [] # other")
    after = keys_of(project)
    assert changed(before, after) == {cell for cell in CELLS if "two" in cell}
    (project / "suites/build.py").write_text("def f(): return 1")
    assert changed(after, keys_of(project)) == {cell for cell in CELLS if "one" in cell}


def test_limitations_beside_and_a_conftest_above_change_what_they_speak_of(project: Path) -> None:
    before = keys_of(project)
    (project / "suites/limitations.py").write_text("LIMITATIONS = []")
    after = keys_of(project)
    assert changed(before, after) == set(CELLS)
    (project / "conftest.py").write_text("")
    assert changed(after, keys_of(project)) == set(CELLS)


@pytest.mark.parametrize(
    ("file", "target"),
    [
        ("backends/xnnpack/quantizer.py", "xnnpack"),
        ("backends/portable.py", "portable"),
        ("backends/tosa/added.json", "tosa"),
    ],
)
def test_a_backend_changes_its_own_cells(checkout: Path, file: str, target: str) -> None:
    path = checkout / file
    before = keys_of(checkout)
    path.write_text(path.read_text() + "\n" if path.exists() else "{}")
    assert changed(before, keys_of(checkout)) == {cell for cell in CELLS if f"@{target}" in cell}


@pytest.mark.parametrize(
    ("file", "all_of_them"),
    [
        ("harness/numerics/bounds.py", True),
        ("harness/pipeline/runner.py", True),
        ("harness/collection/running.py", True),
        ("harness/numerics/new.py", True),
        ("harness/cli/runs.py", False),
        ("harness/collection/progress.py", False),
        ("reports/facts.py", False),
        ("docs/numerics.md", False),
        ("harness/numerics/tests/test_new.py", False),
    ],
)
def test_what_runs_cells_changes_all_and_what_shows_them_none(
    checkout: Path, file: str, all_of_them: bool
) -> None:
    path = checkout / file
    path.parent.mkdir(parents=True, exist_ok=True)
    before = keys_of(checkout)
    path.write_text(path.read_text() + "\n" if path.exists() else "\n")
    assert changed(before, keys_of(checkout)) == (set(CELLS) if all_of_them else set())


@pytest.mark.parametrize(
    "asked",
    [
        {"seed": 1},
        {"compare_runtimes": True},
        {"lower_only": True},
        {"speed": False},
        {"cell_timeout": 5.0},
        {"cell_memory": 4.0},
        {"trace_time": 1.0},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_what_is_asked_of_cells_changes_all(project: Path, asked: dict[str, object]) -> None:
    assert changed(keys_of(project), keys_of(project, **asked)) == set(CELLS)


def test_every_condition_is_tried() -> None:
    tried = {"seed", "compare_runtimes", "lower_only", "speed", "cell_timeout", "cell_memory"}
    assert {*tried, "trace_time", "demanding"} == {
        field.name for field in msgspec.structs.fields(Conditions)
    }


def test_delegation_that_is_demanded_changes_the_targets_of_which_it_is(project: Path) -> None:
    after = keys_of(project, demanding=frozenset({"tosa:int"}))
    assert changed(keys_of(project), after) == {cell for cell in CELLS if "tosa" in cell}


@pytest.mark.parametrize(
    "state",
    [
        BackendState(available=True, runtime="emulated"),
        BackendState(available=False, reason="not here", can_lower=True),
        BackendState(available=True, runtime="native", tools="g++ 13"),
    ],
)
def test_what_a_backend_says_of_itself_changes_its_cells(
    project: Path, state: BackendState
) -> None:
    before = keys_of(project, states={"tosa": BackendState(available=True, runtime="native")})
    after = keys_of(project, states={"tosa": state})
    assert changed(before, after) == {cell for cell in CELLS if "tosa" in cell}


def test_what_is_around_changes_all(project: Path) -> None:
    after = keys_of(project, around={"packages": "other", "host": "b"})
    assert changed(keys_of(project), after) == set(CELLS)


def test_what_a_claim_counts_hangs_on_its_folder_and_on_the_targets(project: Path) -> None:
    def claim(selected: list[str] | None) -> str:
        sources = Sources([project / "suites"], project)
        return Keys(sources, Conditions(), {}, AROUND).claims(CELLS[0], selected)

    before = claim(None)
    assert claim(None) == before
    assert claim(["tosa:int"]) != before
    (project / "suites/two.py").write_text("CASES = [1]")
    assert claim(None) != before


def test_packages_differ_by_version_and_by_what_was_installed_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(version: str, record: str) -> str:
        for old in tmp_path.glob("*.dist-info"):
            shutil.rmtree(old)
        folder = tmp_path / f"thing-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: thing\nVersion: {version}\n")
        (folder / "RECORD").write_text(record)
        return surroundings.packages()

    monkeypatch.setattr("sys.path", [str(tmp_path)])
    one = install("1", "thing/a.so,sha256=aa,1\n")
    built = install("1", "thing/a.so,sha256=bb,1\n")
    assert one != built
    noise = "thing/a.so,sha256=bb,1\n../../../bin/thing,sha256=cc,1\nthing-1.dist-info/RECORD,,\n"
    assert install("1", noise + "thing/__pycache__/a.pyc,,\n") == built
    assert install("2", "") != built


def test_variables_that_reach_vendors_count_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = surroundings.variables()
    monkeypatch.setenv("EDITOR", "vi")
    assert surroundings.variables() == before
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert surroundings.variables() != before


def test_a_plain_run_has_its_keys_in_a_moment() -> None:
    """Six and a half thousand, with the sources read and parsed for the first time."""
    start = time.process_time()
    sources = Sources([ROOT / "suites"], ROOT)
    made = Keys(sources, Conditions(), {}, surroundings.around())
    files = [path.relative_to(ROOT).as_posix() for path in suite_files(ROOT / "suites")]
    targets = registry.default_targets()
    number = 1100
    found = {
        made.of(f"{files[case % len(files)]}::op/case{case}@{target}")
        for case in range(number)
        for target in targets
    }
    assert len(found) == number * len(targets) > 6500
    assert time.process_time() - start < 6  # 1.3 s on a core that has nothing else to do
