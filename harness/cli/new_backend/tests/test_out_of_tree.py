"""A backend out of tree, as ``conform new-backend`` writes it, in the registry and in suites."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from harness import Case, Exporter, Status, Target, run_cell
from harness.cli import main
from harness.errors import ConflictingBackends, LimitationError
from harness.model import registry
from harness.session.catalogue import render_limitations
from harness.session.discovery import load_suite

CASE = Case("linear/some", lambda: (torch.nn.Linear(8, 4), (torch.randn(2, 8),)))

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put the written repository on the path, its entry points as an installed distribution has
    them."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(*names: str, of: str = "mine", edit: tuple[str, str] = ("", "")) -> Path:
        done = CliRunner().invoke(main, ["new-backend", of, "--into", str(tmp_path)])
        assert done.exit_code == 0, done.output
        code = tmp_path / f"conform_{of}" / "backend.py"
        assert edit[0] in code.read_text()
        code.write_text(code.read_text().replace(*edit) if edit[0] else code.read_text())
        info = tmp_path / f"conform_{of}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: conform-{of}\nVersion: 1.0\n")
        points = "".join(f"{name} = conform_{of}.backend:BACKEND\n" for name in names or (of,))
        (info / "entry_points.txt").write_text(f"[conform.backends]\n{points}")
        _forget()
        return tmp_path

    yield installed
    monkeypatch.undo()
    _forget()
    for name in [name for name in sys.modules if name.startswith("conform_")]:
        del sys.modules[name]


def _forget() -> None:
    registry._entry_points.cache_clear()
    registry.backend.cache_clear()
    registry._match_targets.cache_clear()


def test_plain_and_nightly_runs_include_it(install: Install) -> None:
    before = registry.default_targets(), registry.nightly_targets()
    install()
    assert [str(each) for each in registry.default_targets()[len(before[0]) :]] == ["mine:fp32"]
    assert [str(each) for each in registry.nightly_targets()[len(before[1]) :]] == ["mine:int8"]
    assert Target("mine", "fp32") in registry.select_targets(CASE, None)
    assert registry.is_nightly(CASE, Target("mine", "int8"), None)


def test_a_limitation_of_a_recipe_applies_to_its_variants(install: Install) -> None:
    install()
    mine, float32 = Target("mine", "int8"), Target("mine", "fp32")
    quantized = replace(CASE, targets="xnnpack:int8|tosa:int", plain_targets="xnnpack:int8")
    assert registry.select_targets(quantized, [mine, float32]) == [mine]
    assert mine in registry.select_targets(quantized, None)
    assert not registry.is_nightly(quantized, mine, None)
    assert registry.is_nightly(replace(quantized, plain_targets="tosa:*"), mine, None)
    other = replace(CASE, targets="xnnpack:int8_dynamic")
    assert not registry.select_targets(other, [mine, float32])
    # An exporter makes programs for the backends that it knows by name.
    exported = replace(quantized, exporter=Exporter("theirs", lambda *_: None, "xnnpack:int8"))  # type: ignore[arg-type, return-value]
    assert not registry.select_targets(exported, [mine])


def test_its_limitations_apply_to_suites_of_this_repository(install: Install) -> None:
    folder = install()
    suite = folder / "anyones.py"
    suite.write_text("from harness import Case\nCASES = []\n")
    loaded = load_suite(suite)
    assert not loaded.declared
    case = Case("gelu/tanh", lambda: (torch.nn.GELU("tanh"), (torch.randn(4, 32),)))
    cells = {
        str(target): run_cell(case, target, limitations=loaded.limitations).status
        for target in (Target("mine", "fp32"), Target("portable", "fp32"))
    }
    assert cells == {"mine:fp32": Status.XFAILED, "portable:fp32": Status.PASSED}
    table = render_limitations(folder)
    assert "## backends outside of this repository\n\n1 entries" in table
    assert "`gelu/tanh*` | `mine:*`" in table


def test_limitations_of_a_backend_apply_to_it_only(install: Install) -> None:
    install(
        edit=("limitations = GAPS", "limitations = [*GAPS, GAPS[0].__class__('*', '*', 'all')]")
    )
    with pytest.raises(LimitationError, match="speaks of its own targets alone, such as mine:"):
        registry.limitations()


def test_the_name_of_a_built_in_backend_is_an_error(install: Install) -> None:
    install("xnnpack")
    with pytest.raises(ConflictingBackends, match=r"conform-mine \(conform_mine.*built-in"):
        registry.default_targets()
    done = CliRunner().invoke(main, ["list", "backends"])
    assert done.exit_code == 2
    assert "rename its entry point" in done.output


def test_two_backends_of_one_name_are_an_error(install: Install) -> None:
    folder = install()
    info = folder / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[conform.backends]\nmine = other:BACKEND\n")
    _forget()
    with pytest.raises(ConflictingBackends, match="both register a backend 'mine'"):
        registry.names()


def test_a_backend_with_another_name_is_missing_with_the_reason(install: Install) -> None:
    install("yours")
    answer = registry.backend("yours").availability()
    assert not answer.available
    assert answer.reason.endswith("is registered as 'yours' and calls itself 'mine'")


def test_a_plain_run_expects_every_installed_backend(install: Install) -> None:
    install(edit=("from conform_mine.gaps", "from conform_mine.nowhere"))
    plain = registry.find_backend_states(["null"], None)
    assert set(plain) == {"mine", "null"}
    assert not plain["mine"].available
    assert "conform_mine.backend does not import" in plain["mine"].reason
    assert set(registry.find_backend_states(["null"], [Target("null", "eager")])) == {"null"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["xnnpack"], "backend 'xnnpack' exists already"),
        (["Mine"], "is not a valid backend name"),
        (["import"], "is not a valid backend name"),
        (["mine", "--into", "full"], "is not empty"),
    ],
)
def test_nonsense_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    done = CliRunner().invoke(main, ["new-backend", *arguments])
    assert done.exit_code == 2
    assert says in done.output
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full"]
