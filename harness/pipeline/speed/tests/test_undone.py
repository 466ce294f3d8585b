"""Each attribute that is replaced is in the list, and one call undoes all."""

from __future__ import annotations

import json

import pytest

from harness.pytest_plugin.tests.sessions import script

_CODE = """
import importlib, json, sys
from harness.pipeline import speed
from harness.vendors import replacements as replacing
import torch
from backends.metal.generation import generate
from harness import Case, Tester

speed.find_disabled_parts()  # imports the parts, which replaces nothing
for part in speed.PARTS:
    importlib.import_module(f"harness.pipeline.speed.{part}")

def attributes():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("harness", "backends", "__main__", "__mp_main__"):
            continue
        for key, value in list(getattr(module, "__dict__", {}).items()):
            if key in ("before", "__warningregistry__"):
                continue
            found[name, key] = value
            if isinstance(value, type) and str(value.__module__).partition(".")[0] != "harness":
                found |= {(f"{value.__module__}:{value.__qualname__}", each): one
                          for each, one in list(vars(value).items())}
    return found

def changed(was):
    now = attributes()
    return sorted({key for (_, key), value in was.items() if _ and now.get((_, key)) is not value}
                  | {key for _, key in now.keys() - was.keys()})

before = attributes()
speed.install()
generate.install()
ours = changed(before)
listed = sorted({each.name for each in replacing.list_replacements()})
in_place = [str(each) for each in replacing.find_overwritten()]
parts = sorted({each.part for each in replacing.list_replacements()})
replacing.undo_replacements()
changed_after = changed(before)
programs = []
for wanted in (True, False, True):
    if wanted:
        speed.install()
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 4), torch.nn.ReLU()]
    case = Case.from_module("layers", torch.nn.Sequential(*layers), (torch.ones(2, 4),))
    tester = Tester(case, "xnnpack:int8")
    programs.append(tester.export().quantize().lower().to_executorch().serialize().program)
    if wanted:
        speed.uninstall()
left = len(replacing.list_replacements())
print(json.dumps({"ours": ours, "listed": listed, "overwritten": in_place, "parts": parts,
                  "after": changed_after, "same": len(set(programs)) == 1, "left": left,
                  "known": list(speed.PARTS), "is_sped_up": replacing.is_sped_up()}))
"""


@pytest.mark.nightly
def test_what_is_replaced_is_listed_and_can_be_undone() -> None:
    found = json.loads(script(_CODE, anew=True).stdout.splitlines()[-1])
    assert len(found["ours"]) > 40
    assert set(found["ours"]) <= set(found["listed"])
    assert found["overwritten"] == []
    parts = {f"speed.{part}" for part in found["known"]}
    assert parts <= set(found["parts"]) <= parts | {"metal"}
    assert found["after"] == []
    assert found["left"] == 0
    assert found["same"]
    assert found["is_sped_up"] is False
