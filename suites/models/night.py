"""The recipes that the small models take to one architecture of a kind: at night, on the others."""

from __future__ import annotations

from dataclasses import replace

from harness import Case
from suites.models import language, speech, text, vision
from suites.models.build import FURTHER, USUAL

CASES: list[Case] = [
    replace(
        case,
        name=f"{case.name.split('/')[0]}/night",
        targets=FURTHER,
        tags=(case.tags - {"model"}) | {"nightly"},
    )
    for field in (language, speech, text, vision)
    for case in field.CASES
    if case.targets == USUAL
]
