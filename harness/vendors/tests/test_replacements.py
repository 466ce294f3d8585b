"""Every replaced attribute of a vendor is in one list, and undone by one call."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from harness.vendors import replacements
from harness.vendors.replacements import AttributeReplacer

ROOT = Path(__file__).parents[3]

_OURS = ("harness", "backends", "reports", "suites")


def _root(node: ast.expr) -> str | None:
    """Return the variable that an expression reads an attribute or item of."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "vars" and node.args:
        return _root(node.args[0])
    return node.id if isinstance(node, ast.Name) else None


def _imported(tree: ast.Module) -> set[str]:
    """Return the names that a file imports from vendors' packages."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.asname or each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and not _is_ours(node.module or ""):
            found |= {each.asname or each.name for each in node.names}
    return found - set(_OURS) - sys.stdlib_module_names


def _is_ours(module: str) -> bool:
    """Return whether a module has objects of ours or of Python, not of vendors."""
    package = module.partition(".")[0]
    is_own = package in _OURS and not module.startswith("harness.vendors.")
    return is_own or package in sys.stdlib_module_names


def _find_assigned(tree: ast.Module) -> Iterator[str]:
    """Yield imported names whose attributes are assigned, and ``mock`` where it is imported."""
    imported = _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("unittest", "unittest.mock"):
            yield "mock"
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = [each for each in node.targets if not isinstance(each, ast.Name)]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) in (
            "setattr",
            "delattr",
        ):
            targets = node.args[:1]
        for target in targets:
            if (name := _root(target)) in imported:
                yield str(name)


def test_only_the_registry_replaces_attributes() -> None:
    found: dict[str, set[str]] = {}
    for folder in ("harness", "backends", "reports"):
        for path in (ROOT / folder).rglob("*.py"):
            if "tests" not in path.parts:
                names = set(_find_assigned(ast.parse(path.read_text(encoding="utf-8"))))
                if names:
                    found[str(path.relative_to(ROOT))] = names
    assert not found, "use harness.vendors.replacements.AttributeReplacer"


def test_assignments_are_found() -> None:
    text = "import torch.fx\nfrom a import B\n{}"
    for statement in (
        "torch.fx.Graph.lint = 1", "B.name = 1", "setattr(B, 'name', 1)", "vars(B)['name'] = 1",
        "from unittest.mock import patch",
    ):  # fmt: skip
        assert list(_find_assigned(ast.parse(text.format(statement)))), statement
    assert not list(_find_assigned(ast.parse(text.format("x = B()\nx.name = 1"))))


def test_a_replacement_for_a_block_is_listed_and_undone() -> None:
    module, other = ModuleType("some"), ModuleType("other")
    vars(module)["there"] = 1
    before = replacements.list_replacements()
    replace = AttributeReplacer("test")
    with replace.replace_within(module, "there", 2):
        with replace.replace_within(module, "added", 3), replace.replace_within(other, "there", 4):
            found = replacements.list_replacements()[len(before) :]
            assert [str(each) for each in found] == ["some:there", "some:added", "other:there"]
            assert all(each.is_in_place for each in found)
        assert not hasattr(module, "added")
    assert vars(module)["there"] == 1
    assert replacements.list_replacements() == before


def test_nothing_is_undone_where_others_have_replaced_it_since() -> None:
    module = ModuleType("some")
    AttributeReplacer("test.foreign")(module, "name", 1)
    replaced = replacements.list_replacements()[-1]
    vars(module)["name"] = 2
    with pytest.raises(RuntimeError, match="replaced by others since: some:name"):
        replacements.undo_replacements("test.foreign")
    vars(module)["name"] = replaced.value
    replacements.undo_replacements("test.foreign")
    assert not hasattr(module, "name")
