"""The code of a function is replaced wherever the function is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from harness.coverage.mutation.install import FunctionIndex, MutantInvalid
from harness.coverage.mutation.mutant import Mutant
from harness.coverage.mutation.operators import list_mutants
from harness.coverage.vendor_code import VendorFile

SOURCE = """\
import functools

TABLE = {}


def register(function):
    @functools.wraps(function)
    def called(*args):
        return function(*args)

    TABLE[function.__name__] = called
    return called


@register
def decorated(x):
    return x + 10


@functools.cache
def cached():
    return 20


class Base:
    def size(self):
        return 30


class Derived(Base):
    def size(self):
        def inner():
            return super(Derived, self).size() + 40
        return inner()

    @staticmethod
    def constant():
        return 50


class Resetting(Base):
    def reset(self):
        super().size()
        return 60
"""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FunctionIndex]:
    path = tmp_path / "mutated_module.py"
    path.write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield FunctionIndex({path.name: VendorFile(path, path.name, "area")})
    sys.modules.pop("mutated_module", None)


def find(before: str) -> Mutant:
    found = list_mutants(SOURCE.encode(), "mutated_module.py", "area")
    return next(each for each in found if each.before == before)


def install(index: FunctionIndex, before: str) -> ModuleType:
    module = importlib.import_module("mutated_module")
    mutant = find(before)
    index.update(mutant)
    index.install(mutant)
    return module


def test_a_function_behind_decorators(index: FunctionIndex) -> None:
    module = install(index, "10")
    assert module.TABLE["decorated"](1) == 12
    assert module.decorated(1) == 12


def test_a_cache_of_the_file_is_cleared(index: FunctionIndex) -> None:
    assert importlib.import_module("mutated_module").cached() == 20
    assert install(index, "20").cached() == 21


def test_methods_and_functions_in_functions(index: FunctionIndex) -> None:
    module = install(index, "40")
    assert module.Derived().size() == 71
    assert install(index, "50").Derived.constant() == 51


def test_a_module_that_is_not_imported_yet(index: FunctionIndex) -> None:
    mutant = find("30")
    index.update(mutant)
    index.install(mutant)
    assert importlib.import_module("mutated_module").Base().size() == 31


def test_a_function_that_loses_its_closure_is_invalid(index: FunctionIndex) -> None:
    with pytest.raises(MutantInvalid, match="cannot replace the function"):
        install(index, "super().size()")
    assert install(index, "60").Resetting().reset() == 61


def test_an_unknown_function_is_invalid(index: FunctionIndex) -> None:
    index.update(None)
    with pytest.raises(MutantInvalid, match=r"no function Base\.length in this process"):
        index.install(msgspec.structs.replace(find("30"), function="Base.length"))


def test_code_that_does_not_compile_is_invalid(index: FunctionIndex) -> None:
    with pytest.raises(MutantInvalid, match="does not compile"):
        index.install(msgspec.structs.replace(find("30"), after="(("))
