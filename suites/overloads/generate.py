"""Make calls of an overload from its schema.

Each argument has a set of values (:mod:`suites.overloads.domains`). A call takes a value of each;
calls are drawn until every value occurs in one that eager computes, or as many calls are made as
wanted. The name of the overload is the seed.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.model.seeding import seed_generators_with
from harness.vendors.torch import tree_leaves
from suites.opinfo.sampling import REFUSALS
from suites.overloads.domains import KINDS, OMITTED, PROFILES, TENSORS, VALUES
from suites.overloads.program import Overload, find_operator

MOST = 8
"""Largest number of calls of an overload."""
_TRIES = 12
"""Number of draws for a value that eager refuses together with the other values."""

_Wanted = tuple[list[dict[str, str]], str, str]
"""Rows to choose from, and an argument with the value that a call should have; or empty texts."""

_UNUSED = {"Layout", "Device"}


@dataclass
class Made:
    """The calls of one overload.

    Attributes:
        calls: texts of calls that eager computes.
        refused: texts of calls that it refuses, with its errors.
    """

    calls: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def make_calls(name: str) -> Made:
    """Make calls of the overload ``X.Y``."""
    chooser = random.Random(name)
    schema = find_operator(name)._schema
    rows = _rows(name, schema)
    made = Made()
    main = [row for row in rows if _is_main(row)]
    free = _free_values(schema)
    tail = [(main, name, value) for name, values in free.items() for value in values if main]
    chooser.shuffle(tail)
    # Argument values belong to float32 tensors; each other row of tensors gets one call.
    firsts = [([row], "", "") for row in (main if len(main) > 3 else main[:1])]
    others = [([row], "", "") for row in rows if row not in main]
    spread = main[1:] if len(main) <= 3 else []
    others = [*(([row], "", "") for row in spread), *others]
    queue = [*firsts, *_interleave(tail, others)]
    covered: set[tuple[str, str]] = set()
    for choices, argument, value in queue:
        if len(made.calls) == MOST:
            break
        if argument and (argument, value) in covered:
            continue
        for attempt in range(_TRIES):
            row = chooser.choice(choices)
            values = _draw(schema, row, covered, chooser, attempt)
            if argument and argument not in row:
                values[argument] = value
            text = _write(schema, values)
            if text is None or text in made.calls:
                continue
            if error := made.refused.get(text) or find_refusal(name, text):
                made.refused[text] = error
                continue
            made.calls.append(text)
            if row in main:
                covered |= set(values.items())
            break
    return made


def _is_main(row: dict[str, str]) -> bool:
    """Whether tensors are of float32, or of the dtype that an operator of integers requires, and
    neither empty nor of rank 0."""
    texts = [text for text in row.values() if "(" in text]
    return not any(
        "()" in text or "0" in text.partition("(")[2].split(", ") for text in texts
    ) and (not texts or any("f32" in text for text in texts))


def _interleave(values: list[_Wanted], rows: list[_Wanted]) -> Iterator[_Wanted]:
    """Two argument values, then a row, and so on until both are used up."""
    left, right = iter(values), iter(rows)
    for _ in range(len(values) + len(rows)):
        yield from itertools.islice(left, 2)
        yield from itertools.islice(right, 1)


def find_refusal(name: str, text: str) -> str:
    """Why eager does not compute a call to real tensors; empty if it does."""
    with seed_generators_with(0), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated operators
        try:
            module = Overload(name, (text,))
            inputs = module.make_inputs()
            results = tree_leaves(module(*inputs))
        except (*REFUSALS, AssertionError, LookupError) as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if not inputs and not module.count:
        results = [one for one in results if isinstance(one, torch.Tensor)]
    if not results or not all(isinstance(one, torch.Tensor) for one in results):
        return "returns no tensor"
    if any(one.is_complex() or one.is_quantized or one.is_sparse for one in results):
        return "returns no real, dense tensor"
    return ""


def _rows(name: str, schema: Any) -> list[dict[str, str]]:
    """Values of the arguments that have to fit each other; one of these rows for each call."""
    operator = name.split(".")[0]
    for names, rows in TENSORS.items():
        if operator.removesuffix("_") in names.split() or operator in names.split():
            given = {argument.name: str(argument.real_type) for argument in schema.arguments}
            kept = [
                {key: text for key, text in row.items() if key in given}
                for row in rows
                if all(_fits(given[key], text) for key, text in row.items() if key in given)
            ]
            return [row for at, row in enumerate(kept) if row and row not in kept[:at]] or [{}]
    return list(_generic_rows(operator, schema))


def _fits(kind: str, text: str) -> bool:
    """Whether a text can be a value of a type, as ``2`` cannot be one of a tensor."""
    if text in ("None", OMITTED):
        return kind.startswith("Optional[") or text == OMITTED
    if "List[" in kind:
        return text.startswith("[")
    return ("Tensor" in kind) == text.endswith(")") and not text.startswith("[")


def _generic_rows(operator: str, schema: Any) -> Iterator[dict[str, str]]:
    tensors = [one.name for one in schema.arguments if str(one.real_type) == "Tensor"]
    if not tensors:
        yield {}
        return
    kind = next((kind for names, kind in KINDS.items() if operator in names.split()), "")
    seen = []
    for profile in PROFILES:
        filled = [*profile, *[profile[-1]] * len(tensors)][: len(tensors)]
        row = {name: _with_kind(text, kind) for name, text in zip(tensors, filled, strict=True)}
        if row not in seen:
            seen.append(row)
            yield row


def _with_kind(text: str, kind: str) -> str:
    dtype, *rest = text.partition("(")[0].split(".")
    if not kind or dtype == "bool" or (dtype[0] in "iu" and kind in ("unit", "above1")):
        return text
    return ".".join([dtype, kind, *rest]) + text[text.index("(") :]


def _free_values(schema: Any) -> dict[str, list[str]]:
    """The values of each argument but the tensors; an argument with a default may be left out."""
    found = {}
    for argument in schema.arguments:
        kind = str(argument.real_type)
        plain = kind.removeprefix("Optional[").removesuffix("]" if "Optional[" in kind else "")
        if plain in _UNUSED:
            found[argument.name] = [OMITTED]
            continue
        choices = list(_find_values(plain, argument.name))
        if kind == "Tensor" or (plain == "Tensor" and not choices):
            choices = [] if kind == "Tensor" else ["f32(2, 3, 4, 5)"]
        if kind.startswith("Optional[") and not argument.has_default_value():
            choices.append("None")
        if argument.has_default_value():
            choices.insert(0, OMITTED)
        if choices:
            found[argument.name] = choices
    return found


def _find_values(kind: str, name: str) -> list[str]:
    named = next(
        (values for (of, names), values in VALUES.items() if of == kind and name in names.split()),
        None,
    )
    return VALUES.get((kind, "*"), []) if named is None else named


def _draw(
    schema: Any,
    row: dict[str, str],
    covered: set[tuple[str, str]],
    chooser: random.Random,
    attempt: int,
) -> dict[str, str]:
    """Draw a value of each argument; values without a call come first, unless refused before."""
    values = {}
    for name, choices in _free_values(schema).items():
        fresh = [value for value in choices if (name, value) not in covered]
        simple = OMITTED in choices and attempt > _TRIES // 2
        values[name] = OMITTED if simple else chooser.choice(fresh or choices)
    return values | row


def _write(schema: Any, values: dict[str, str]) -> str | None:
    """The text of a call; None if an argument without a default has no value."""
    parts, by_name = [], False
    for argument in schema.arguments:
        value = values.get(argument.name, OMITTED)
        if value == OMITTED:
            if not argument.has_default_value():
                if not str(argument.real_type).startswith("Optional["):
                    return None
                value = "None"
            else:
                by_name = True
                continue
        by_name = by_name or argument.kwarg_only
        parts.append(f"{argument.name}={value}" if by_name else value)
    return ", ".join(parts)
