"""Cached code is used only for the program and environment that it was generated for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.backends.apple.metal.passes.decompose_linear_pass import DecomposeLinearPass
from executorch.exir.backend.backend_details import PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassResult

from backends.metal.generation import cache, generate, surroundings
from backends.metal.generation.identity import identity
from backends.metal.tests.programs import Apply, Apply3, partition


def linear() -> ExportedProgram:
    torch.manual_seed(0)
    return partition(torch.nn.Linear(8, 4), torch.ones(2, 8))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of entries."""
    monkeypatch.setattr(cache, "_folder", lambda: tmp_path)
    monkeypatch.setattr(generate, "is_sped_up", lambda: True)
    return tmp_path


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[ExportedProgram]:
    """The programs that Inductor was called with."""
    asked: list[ExportedProgram] = []
    run = generate._run

    def noted(program: ExportedProgram, specs: Any) -> Any:
        asked.append(program)
        return run(program, specs)

    monkeypatch.setattr(generate, "_run", noted)
    return asked


def content(result: PreprocessResult) -> Any:
    data = result.data_store_output
    assert data is not None
    assert not data.external_data
    named = {
        name: (data.buffers[entry.buffer_index], entry.alignment)
        for name, entry in data.pte_data.items()
    }
    return result.processed_bytes, named, result.debug_handle_map, result._delegate_info_meta


def test_the_second_time_nothing_is_generated(folder: Path, generated: list[Any]) -> None:
    first = generate.preprocess(linear(), [])
    (entry,) = folder.iterdir()
    second = generate.preprocess(linear(), [])
    assert content(first) == content(second)
    assert len(generated) == 1
    assert entry.stat().st_size < 50_000


def test_cached_code_is_run_in_this_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered: list[PreprocessResult] = []
    monkeypatch.setattr(generate, "remember", lambda result: remembered.append(result))
    assert [generate.preprocess(linear(), []) for _ in range(2)] == remembered


def test_without_speed_everything_is_generated(
    folder: Path, generated: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "is_sped_up", lambda: False)
    for _ in range(2):
        generate.preprocess(linear(), [])
    assert len(generated) == 2
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[: len(data) // 2], id="cut"),
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[:-1] + bytes([data[-1] ^ 1]), id="changed"),
        pytest.param(lambda data: b"\0" * len(data), id="zeros"),
    ],
)
def test_a_damaged_entry_is_recreated(
    damage: Callable[[bytes], bytes], folder: Path, generated: list[Any]
) -> None:
    generate.preprocess(linear(), [])
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    generate.preprocess(linear(), [])
    assert len(generated) == 2
    assert entry.read_bytes() == whole


def test_a_place_that_cannot_be_written_is_no_error(
    generated: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "is_sped_up", lambda: True)
    (tmp_path / "file").write_text("")
    for place in (None, tmp_path / "file", tmp_path / "absent"):
        monkeypatch.setattr(cache, "_folder", lambda place=place: place)
        generate.preprocess(linear(), [])
    assert len(generated) == 3


def test_a_result_that_is_too_large_is_not_cached(
    folder: Path, generated: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_LARGEST", 100)
    for _ in range(2):
        generate.preprocess(linear(), [])
    assert len(generated) == 2
    assert not list(folder.iterdir())


def _renamed(program: ExportedProgram) -> None:
    next(node for node in program.graph.nodes if node.op == "call_function").name += "_other"


def _said(program: ExportedProgram) -> None:
    for node in program.graph.nodes:
        node.meta["stack_trace"] = "elsewhere"


def _weighed(program: ExportedProgram) -> None:
    with torch.no_grad():
        next(iter(program.state_dict.values())).view(-1)[-1] += 1


def _trained(program: ExportedProgram) -> None:
    value = next(iter(program.state_dict.values()))
    value.requires_grad_(not value.requires_grad)


def _given(program: ExportedProgram) -> None:
    node = next(node for node in program.graph.nodes if node.op == "call_function")
    node.args = (*node.args, 1)


@pytest.mark.parametrize(
    "change", [_renamed, _said, _weighed, _trained, _given], ids=lambda change: change.__name__
)
def test_any_change_makes_another_program(change: Callable[[ExportedProgram], None]) -> None:
    changed = linear()
    change(changed)
    assert identity(linear(), []) == identity(linear(), []) is not None
    assert identity(changed, []) not in (None, identity(linear(), []))


def test_types_of_tensors_and_specs_distinguish_programs() -> None:
    wide = torch.ones(4, 8)
    inputs = [torch.ones(8, 4), wide.T, torch.ones(8, 4).double(), wide, torch.ones(1, 8, 4)]
    found = [identity(partition(Apply(torch.exp), each), []) for each in inputs]
    found += [identity(partition(Apply(torch.sin), inputs[0]), [])]
    found += [identity(partition(Apply(torch.exp), inputs[0]), [CompileSpec("a", b"b")])]
    assert None not in found
    assert len(set(found)) == len(found)


def test_different_numbers_have_different_spellings() -> None:
    def scaled(factor: Any) -> str | None:
        return identity(partition(Apply(lambda a: a * factor), torch.ones(3)), [])

    found = [scaled(factor) for factor in (1, 1.0, 0.1, 0.1 + 2**-20, -0.0, 0.0, float("inf"))]
    assert None not in found
    assert len(set(found)) == len(found)


def test_values_without_a_spelling_are_not_cached() -> None:
    size = torch.export.Dim("size", min=2, max=9)
    assert (
        identity(partition(Apply(torch.exp), torch.ones(4), dynamic_shapes=({0: size},)), [])
        is None
    )
    with torch.library._scoped_library("conform_kept_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeExplicitAutograd")
        library.impl("twice", torch.empty_like, "Meta")
        twice = Apply(lambda a: torch.ops.conform_kept_test.twice(a))
        assert identity(partition(twice, torch.ones(4)), []) is None
    program = linear()
    next(iter(program.graph.nodes)).meta["val"] = object()
    assert identity(program, []) is None
    branches = Apply3(lambda a, b, c: torch.cond(a.sum() > 0, torch.add, torch.sub, (b, c)))
    branching = partition(branches, *(torch.ones(2) for _ in range(3)))
    assert len(list(branching.graph_module.modules())) == 3
    assert identity(branching, []) is None


def test_programs_of_a_patched_upstream_are_not_cached(
    folder: Path, generated: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    generate.preprocess(linear(), [])
    monkeypatch.setattr(DecomposeLinearPass, "call", lambda _, graph: PassResult(graph, False))
    assert b"addmm" in library(generate.preprocess(linear(), []))
    assert len(generated) == 2
    assert len(list(folder.iterdir())) == 1


def library(result: PreprocessResult) -> bytes:
    (code, _), *_ = content(result)[1].values()
    return bytes(code)


def test_settings_distinguish_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    plain = cache.make_key(linear(), [])
    with config.patch(max_fusion_size=3):
        assert cache.make_key(linear(), []) not in (plain, None)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert cache.make_key(linear(), []) not in (plain, None)
    monkeypatch.undo()
    assert cache.make_key(linear(), []) == plain


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that generates code, as pip installs it."""
    code, told = tmp_path / "generating", tmp_path / "generating-1.0.dist-info"
    for place in (code, told):
        place.mkdir()
    (code / "__init__.py").write_text("a = 1")
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: generating\nVersion: 1.0\n")
    (told / "RECORD").write_text("generating/__init__.py,sha256=abc,5\n")
    _date(code / "__init__.py", 100)
    _date(told / "RECORD", 200)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(surroundings, "_GENERATING", ("generating",))
    yield code
    sys.modules.pop("generating", None)


def _date(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


def lines() -> list[str]:
    return list(surroundings._lines())


def test_other_surroundings_have_other_entries(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "part.py").write_text("1")
    monkeypatch.setattr(surroundings, "_OURS", (ours,))
    found = [lines(), lines()]
    assert found[0] == found[1]
    (package / "__init__.py").write_text("a = 2")  # an edit of an installed file
    found.append(lines())
    _date(package / "__init__.py", 100)
    (tmp_path / "generating-1.0.dist-info" / "RECORD").write_text("generating/a.py,sha256=cd,5\n")
    found.append(lines())  # another build
    (ours / "part.py").write_text("2")
    found.append(lines())
    (tmp_path / "other-2.0.dist-info").mkdir()
    found.append(lines())
    monkeypatch.setenv("TORCH_LOGS", "")
    found.append(lines())
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "anywhere")
    assert lines() == found[-1]
    assert len({tuple(each) for each in found[1:]}) == len(found) - 1


def test_entries_of_earlier_environments_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "cache_folder", lambda name: tmp_path / name)
    old, recent = (tmp_path / "metal-generated" / name for name in ("old", "recent"))
    for each in (old, recent):
        each.mkdir(parents=True)
        (each / "entry").write_bytes(b"1")
    _date(old, 100)
    folder = cache._folder.__wrapped__()
    assert folder is not None
    assert {each.name for each in folder.parent.iterdir()} == {"recent", surroundings.digest()}
