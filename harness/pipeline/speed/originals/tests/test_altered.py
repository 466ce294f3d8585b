"""A part is left out where a definition that it replaces or assumes is altered."""

from __future__ import annotations

import ast
import inspect
import sys
from types import ModuleType
from typing import Any

import pytest

from harness.pipeline import speed
from harness.pipeline.speed import originals
from harness.pipeline.speed.originals import ASSUMED, REPLACED, list_definitions, sources
from harness.pytest_plugin.tests.sessions import script

NAMES = sorted({name for part in speed.PARTS for name in list_definitions(part)})


def altered(*_: object, **__: object) -> None:
    """Stands for a method or a function that does something else."""
    raise AssertionError("called")


def alter(name: str, patch: pytest.MonkeyPatch) -> str:
    """Give a definition, or one inside it, other code.

    Returns:
        The name of the definition that is altered.
    """
    module, _, qualified = name.partition(":")
    parts = qualified.split(".") if qualified else []
    owner: Any = sys.modules.get(module)
    if getattr(owner, "__file__", None) is None:
        return _alter_file(name, patch)
    for part in parts[:-1]:
        owner = getattr(owner, part)
    if not parts:
        return f"{name}:{_alter_inside(owner, patch)}"
    value = inspect.getattr_static(owner, parts[-1])
    if inspect.isclass(value):
        return f"{name}.{_alter_inside(value, patch)}"
    if isinstance(value, dict):
        patch.setitem(value, next(iter(value)), altered)
    else:
        patch.setattr(owner, parts[-1], property(altered) if _is_property(value) else altered)
    return name


def _is_property(value: object) -> bool:
    return isinstance(value, property)


def _alter_inside(owner: type[Any] | ModuleType, patch: pytest.MonkeyPatch) -> str:
    """Alter a function of a class or a module, or add one where there is none.

    Returns:
        Its name within the owner.
    """
    own = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    for name, value in vars(owner).items():
        if inspect.isfunction(value) and (value.__module__, value.__name__) == (own, name):
            patch.setattr(owner, name, altered)
            return name
    for name, value in vars(owner).items():
        if inspect.isclass(value) and value.__module__ == own:
            return f"{name}.{_alter_inside(value, patch)}"
    patch.setattr(owner, "altered", altered, raising=False)
    return "altered"


def _alter_file(name: str, patch: pytest.MonkeyPatch) -> str:
    """Add a statement to the text of a definition whose module is not imported."""
    module, _, qualified = name.partition(":")
    path = sources.find_file(module)
    block = sources.find_definition(path, qualified.split("."))
    last: Any = block.node.body[-1]  # type: ignore[attr-defined]
    lines = list(sources._lines(path))
    lines.insert(last.end_lineno + block.offset, f"{' ' * last.col_offset}altered = 1\n")
    upstream = sources._lines
    patch.setattr(sources, "_lines", lambda of: lines if of == path else upstream(of))
    return f"{name}.altered" if isinstance(block.node, ast.ClassDef) else name


def _overlap(one: str, other: str) -> bool:
    """Whether one of two definitions is the other or inside it."""
    short, long = sorted((one, other), key=len)
    return long == short or (long.startswith(short) and long[len(short)] in ".:")


@pytest.fixture
def left_out(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``speed.find_disabled_parts`` for which the definitions of one module are digested again."""
    monkeypatch.delenv(speed.NO_SPEED_VARIABLE, raising=False)
    assert not speed.find_disabled_parts(), "a part is off before anything is altered"

    def ask(name: str) -> dict[str, str]:
        module = name.partition(":")[0]
        kept = {
            key: value
            for key, value in originals._problems.items()
            if key.partition(":")[0] != module
        }
        with monkeypatch.context() as patch:
            patch.setattr(originals, "_problems", kept)
            speed._find_incompatible_parts.cache_clear()
            return dict(speed.find_disabled_parts())

    yield ask
    speed._find_incompatible_parts.cache_clear()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.one_of(3)
def test_exactly_the_parts_that_depend_on_it_are_left_out(
    name: str, left_out: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        where = alter(name, patch)
        found = left_out(name)
    expected = {
        part
        for part in speed.PARTS
        if any(_overlap(each, where) for each in list_definitions(part))
    }
    assert found.keys() == expected
    for part in expected:
        if name in list_definitions(part):
            assert f"{name} " in found[part]
    assert not left_out(name)


def test_both_tables_are_of_the_parts_that_there_are() -> None:
    assert set(REPLACED) == set(ASSUMED) == set(speed.PARTS)


def test_every_method_of_a_pass_counts(left_out: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from executorch.exir.passes.const_prop_pass import ConstPropPass

    name = f"{ConstPropPass.__module__}:ConstPropPass"
    for method in ("__init__", "call_operator"):
        with monkeypatch.context() as patch:
            patch.setattr(ConstPropPass, method, altered)
            assert list(left_out(name)) == ["passes.skipped_walks"]
    with monkeypatch.context() as patch:
        patch.setattr(ConstPropPass, "call_sym", altered, raising=False)
        assert list(left_out(name)) == ["passes.skipped_walks"]


def test_digests_are_the_same_once_speed_is_installed() -> None:
    speed.install()
    for name in NAMES:
        assert originals._find_problem(name) == ""


def test_known_digests_are_of_names_in_the_tables() -> None:
    assert sorted(originals._read_known_digests()) == NAMES
    assert all(originals._read_known_digests().values())


# A pass of exir does something else, also for operators whose arguments are of one float dtype,
# which the unaltered one leaves as they are.
ALTERED = """
import hashlib, json, sys, tempfile
from pathlib import Path
import torch
from executorch.exir.passes.remove_mixed_type_operators import RemoveMixedTypeOperators
from harness import Case, CellOptions, run_cell
from harness.pipeline import speed
from harness.pipeline.speed import originals

upstream = RemoveMixedTypeOperators.call_operator
def call_operator(self, op, args, kwargs, meta):
    if op is torch.ops.aten.add.Tensor:
        op = torch.ops.aten.mul.Tensor
    return upstream(self, op, args, kwargs, meta)
RemoveMixedTypeOperators.call_operator = call_operator
# The process that this one is forked from has asked before.
originals._problems.clear()
speed._find_incompatible_parts.cache_clear()

class Mixed(torch.nn.Module):
    def forward(self, x, y):
        return torch.where(y > 1, x + x, x)

if sys.argv[1] == "with":
    speed.install()
case = Case("test/mixed", lambda: (Mixed(), (torch.randn(4), torch.arange(4))))
with tempfile.TemporaryDirectory() as folder:
    program = Path(folder, "program.pte")
    cell = run_cell(case, "portable:fp32", options=CellOptions(lower_only=True, save=program))
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
print(json.dumps([cell.status.value, digest, sorted(speed.find_disabled_parts())]))
"""


def test_an_altered_pass_does_what_it_does_without_speed() -> None:
    with_speed, without = (_lower(mode) for mode in ("with", "without"))
    assert with_speed[:2] == without[:2]
    assert with_speed[0] == "lowered"
    assert with_speed[2] == ["passes.skipped_walks"]


def _lower(mode: str) -> list[Any]:
    ran = script(ALTERED, mode)
    assert ran.returncode == 0, ran.stderr
    found: list[Any] = ast.literal_eval(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.nightly
def test_what_dynamo_wraps_is_not_altered() -> None:
    """torch._dynamo wraps Tracer.trace and others when it is first used, in any test before."""
    code = """
import torch
from torch._dynamo.eval_frame import TorchPatcher
TorchPatcher.patch()
assert hasattr(torch.fx.Tracer.trace, "_torchdynamo_disable")
from harness.pipeline import speed
print(dict(speed.find_disabled_parts()))
"""
    assert script(code, anew=True).stdout.splitlines()[-1] == "{}"
