"""Mutants are the mistakes that a programmer could make, in code that affects programs."""

from __future__ import annotations

import ast
import random

import pytest

from harness.coverage.mutation.mutant import Mutant
from harness.coverage.mutation.operators import OPERATORS, list_mutants
from harness.coverage.vendor_code import list_vendor_files


def mutate(body: str) -> set[tuple[str, str, str]]:
    """Return operator, text before and text after of the mutants of a function's body."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    found = list_mutants(f"def f(x, y):\n{lines}\n".encode(), "a.py", "area")
    return {(each.operator, each.before, each.after) for each in found}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return x < y", {("comparison", "<", "<=")}),
        ("return x not  in y", {("comparison", "not  in", "in")}),
        ("return x < y <= 2", {("comparison", "<", "<="), ("comparison", "<=", "<"),
                               ("constant", "2", "3")}),
        # The negated condition is the same as another comparison.
        ("if x == y:\n    x.pop()", {("condition", "x == y", "(not (x == y))"),
                                     ("statement", "x.pop()", "pass")}),
        ("if not x:\n    return y", {("condition", "not x", "(x)"), ("guard", "not x", "False")}),
        ("return 1 if x else y", {("condition", "x", "(not (x))"), ("constant", "1", "2")}),
        ("return [a for a in x if a]", {("condition", "a", "(not (a))")}),
        ("return x and y", {("boolean", "x and y", "((x) or (y))")}),
        ("return True", {("constant", "True", "False")}),
        ("return 0.5", {("constant", "0.5", "1.0")}),
        ("return -x", {("arithmetic", "-x", "(x)")}),
        ("return x + y", {("arithmetic", "+", "-")}),
        ("return x // y", {("arithmetic", "//", "*")}),
        ("return g(x, y)", {("arguments", "x, y", "y, x")}),
        ("return g(x, key=y)", {("keyword", ", key=y", "")}),
        ("x += y", {("statement", "x += y", "pass")}),
        ("x.field = y", {("statement", "x.field = y", "pass")}),
        ("x = g(x)", {("statement", "x = g(x)", "pass")}),
        ("def inner():\n    return x is y\nreturn inner", {("comparison", "is", "is not")}),
    ],
)  # fmt: skip
def test_each_kind_of_change(body: str, expected: set[tuple[str, str, str]]) -> None:
    assert mutate(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        '"""Text with 1 number."""',
        "assert x > 1, 2",
        "raise ValueError(f'{x + 1}', 3)",
        "if x < 1:\n    raise ValueError(x, y)",
        "logger.debug(x, 1)",
        "self._log.info(x, y)",
        "print(x, y)",
        "y: Literal[1] = x",
        "return f'{x + 1} of {y}'",
        "return 'a' + x",
        "return 'of %s' % x",
        "return isinstance(x, y)",
        "y = x",
        "from a import b",
    ],
)
def test_code_without_effect_on_programs_is_left_alone(body: str) -> None:
    assert mutate(body) == set()


def test_decorators_defaults_and_modules_are_left_alone() -> None:
    source = "A = 1\n\n@register(2)\ndef f(x: Literal[3] = 4) -> Literal[5]:\n    return x\n"
    assert list_mutants(source.encode(), "a.py", "area") == []


SOURCE = """\
class Visitor:
    def define(self, node):
        if (
            node.kind == 1
            and node.size > 2
        ):
            return 3
        def inner():
            return 4
        return inner()
"""


def test_a_mutant_has_the_lines_of_its_statement() -> None:
    found = list_mutants(SOURCE.encode(), "a.py", "area")
    assert {each.function for each in found} == {"Visitor.define"}
    lines = {(each.before, each.first, each.last) for each in found if each.operator == "constant"}
    assert lines == {("1", 3, 6), ("2", 3, 6), ("3", 7, 7), ("4", 9, 9)}


def test_ids_do_not_depend_on_other_code() -> None:
    moved = '"""Docs: ü."""\n\nLIMIT = 7\n\n\ndef other():\n    return 1\n\n\n' + SOURCE
    before = {each.id for each in list_mutants(SOURCE.encode(), "a.py", "area")}
    after = {each.id for each in list_mutants(moved.encode(), "a.py", "area")}
    assert before < after
    assert before.isdisjoint({each.id for each in list_mutants(SOURCE.encode(), "b.py", "area")})


def test_equal_changes_of_a_function_have_different_ids() -> None:
    found = list_mutants(b"def f():\n    return 1, 1\n", "a.py", "area")
    assert len({each.id for each in found}) == 2


def test_a_diff_shows_the_change() -> None:
    mutant = next(
        each
        for each in list_mutants(SOURCE.encode(), "a.py", "area")
        if each.operator == "comparison" and each.before == ">"
    )
    assert (
        "-            and node.size > 2\n+            and node.size >= 2\n"
        in mutant.format_diff(SOURCE.encode())
    )


@pytest.mark.nightly
def test_mutants_of_vendors_code_compile_and_differ() -> None:
    files = {file.name: file for file in list_vendor_files()}
    mutants: list[Mutant] = []
    for file in files.values():
        mutants += list_mutants(file.path.read_bytes(), file.name, file.area)
    assert len({each.id for each in mutants}) == len(mutants) > 10_000
    assert {each.operator for each in mutants} == set(OPERATORS)
    for mutant in random.Random(0).sample(mutants, 150):
        source = files[mutant.file].path.read_bytes()
        # An expression in parentheses has the same tree.
        trees = [ast.dump(ast.parse(text)) for text in (source, mutant.apply(source))]
        assert trees[0] != trees[1], mutant
