"""A cache key changes with every dependency of a record, and with nothing else."""

import shutil
import sysconfig
from pathlib import Path

import pytest

import harness
from harness.record.run import BackendState
from harness.session.result_cache import platform_facts
from harness.session.result_cache.cache_key import CacheKeys, Conditions
from harness.session.result_cache.dependencies import Sources
from harness.session.result_cache.imports import ModuleImports

ROOT = Path(harness.__file__).parents[1]
CELLS = [
    "suites/ops/unary.py::abs/plain@mlx:fp32",
    "suites/ops/unary.py::abs/plain@metal:fp32",
    "suites/ops/matmul.py::mm/plain@xnnpack:fp32",
]
PARSED: dict[Path, ModuleImports] = {}
"""What files import, which no test changes."""

STATES = {
    name: BackendState(available=True, runtime="emulated") for name in ("mlx", "metal", "xnnpack")
}


def keys(
    changed: Path | None = None,
    conditions: Conditions | None = None,
    states: dict[str, BackendState] | None = None,
) -> dict[str, str]:
    """Those of the cells, as if a file had other contents."""
    sources = Sources([ROOT / "suites"], ROOT)
    sources._parsed = PARSED
    if changed is not None:
        assert changed.is_file()
        sources._digests[changed] = "0" * 64
    made = CacheKeys(sources, conditions or Conditions(), STATES if states is None else states)
    return {cell: made.cell_key(cell) for cell in CELLS}


def changed_by(**how: object) -> set[str]:
    before, after = keys(), keys(**how)  # type: ignore[arg-type]
    return {cell.rpartition("@")[2] for cell in CELLS if before[cell] != after[cell]}


def test_keys_are_the_same_every_time_and_all_different() -> None:
    assert keys() == keys()
    assert len(set(keys().values())) == len(CELLS)


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("file", "cells"),
    [
        ("backends/mlx/execution/kernels/linear.py", {"mlx:fp32"}),
        ("backends/metal/backend.py", {"metal:fp32"}),
        # MLX programs may have Metal kernels of their own, which Metal's host compiles.
        ("backends/metal/host/library.py", {"mlx:fp32", "metal:fp32"}),
        ("backends/xnnpack/lift.py", {"xnnpack:fp32"}),
        ("harness/numerics/compare.py", {"mlx:fp32", "metal:fp32", "xnnpack:fp32"}),
        ("harness/pipeline/runner.py", {"mlx:fp32", "metal:fp32", "xnnpack:fp32"}),
        ("suites/ops/unary.py", {"mlx:fp32", "metal:fp32"}),
        ("suites/ops/matmul.py", {"xnnpack:fp32"}),
        ("harness/cluster/client.py", set()),
        ("reports/summary.py", set()),
        ("README.md", set()),
        ("backends/mlx/execution/tests/conftest.py", set()),
    ],
)
def test_a_changed_file_changes_the_keys_of_dependent_cells(file: str, cells: set[str]) -> None:
    assert changed_by(changed=ROOT / file) == cells


@pytest.mark.parametrize(
    "conditions",
    [
        Conditions(seed=1),
        Conditions(lower_only=True),
        Conditions(compare_runtimes=True),
        Conditions(speed=False),
        Conditions(trace_time=5),
    ],
)
def test_options_of_cells_are_part_of_the_key(conditions: Conditions) -> None:
    assert len(changed_by(conditions=conditions)) == 3


def test_delegation_that_is_demanded_counts_for_its_target() -> None:
    assert changed_by(conditions=Conditions(demanding=frozenset({"mlx:fp32"}))) == {"mlx:fp32"}


def test_another_runtime_counts_for_its_backend() -> None:
    native = {**STATES, "mlx": BackendState(available=True, runtime="native")}
    assert changed_by(states=native) == {"mlx:fp32"}


def test_packages_and_the_kind_of_host_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys()
    for name in ("describe_packages", "describe_host", "describe_variables"):
        with monkeypatch.context() as patch:
            patch.setattr(platform_facts, name, lambda: "other")
            assert set(keys().values()).isdisjoint(before.values()), name


def test_packages_are_installed_ones_without_vendored_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever imports setuptools has its vendored packages on the path from then on."""
    read = platform_facts.describe_packages.__wrapped__

    def put(on: Path) -> str:
        info = on / "conform_probe-1.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: conform-probe\nVersion: 1\n")
        monkeypatch.syspath_prepend(on)
        return read()

    site = tmp_path / "site-packages"
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(site))
    before = read()
    assert put(site / "other" / "_vendor") == before
    assert put(site) != before


def test_a_variable_that_vendors_read_is_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    before = platform_facts.describe_variables()
    monkeypatch.setenv("TORCHINDUCTOR_FREEZING", "1")
    assert platform_facts.describe_variables() != before


def test_where_a_checkout_lies_does_not_count(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        root = tmp_path / name
        shutil.copytree(ROOT / "suites" / "quick", root / "suites" / "quick")
        (root / "suites" / "__init__.py").touch()
        sources = Sources([root / "suites"], root)
        cell = "suites/quick/cases.py::quick/x@mlx:fp32"
        made.append(CacheKeys(sources, Conditions(), STATES).cell_key(cell))
    assert made[0] == made[1]
