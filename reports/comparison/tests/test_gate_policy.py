"""Policies are read strictly: nothing that is misspelt loosens a gate."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from harness.errors import UsageError
from reports.comparison.diff import ChangeKind
from reports.comparison.gate import policy
from reports.comparison.gate.policy import GateThresholds, Policy, TargetPolicy, Waiver

WAIVER = '[[waiver]]\ncell = "a"\nkind = "fixed"\nreason = "r"\nowner = "o"\nexpires = 2030-01-01\n'

DOCUMENT = Path(__file__).parents[3] / "docs" / "gate.md"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("rde = []", "line 1: .*`rde`.*did you mean red"),
        ("min_cells = 3\n\n[thresholds]\nsqnr_drp_db = 3", "line 4: .*`sqnr_drp_db`.*sqnr_drop_db"),
        ('[[target]]\nmatch = "a"\n[target.thresholds]\nbytes = 3', r"line 4: .*target\[0\]"),
        ('[[target]]\nmtch = "a"', "line 2: .*match"),
        ("[[target]]\nmin_cells = 3", "match"),
        ('red = ["newly-failng"]', "line 1: .*did you mean newly-failing"),
        ('[[waivers]]\ncell = "a"', "line 1: .*did you mean waiver"),
        (WAIVER.replace("owner", "ownr"), "line 5: .*did you mean owner"),
        (WAIVER.replace("expires = 2030-01-01\n", ""), "expires"),
        (WAIVER.replace("2030-01-01", '"soon"'), "expires"),
        (WAIVER.replace('"r"', '" "'), "empty reason"),
        (WAIVER.replace('"fixed"', '"*"'), "kind"),
        ("red = []", "the gate cannot fail"),
        (
            'severity_at_least = "sever"',
            "line 1: .*'sever'.*give 'negligible', 'minor', 'major' or",
        ),
        ("severity_at_least = 3", "line 1: .*severity_at_least.*or 'critical'"),
        ('[[target]]\nmatch = "a"\nseverity_at_least = "big"', r"line 3: .*target\[0\].*give"),
        ('severity_atleast = "major"', "line 1: .*did you mean severity_at_least"),
        ("min_cells = -1", "must not be negative"),
        ('min_cells = "3"', "min_cells"),
        ("subset_min_cells = 0", "must be above 0"),
        ("thresholds.sqnr_drop_db = nan", "sqnr_drop_db is nan"),
        ("thresholds.time_factor = inf", "time_factor is inf"),
        ("thresholds.bound_used_limit = -1", "bound_used_limit is -1"),
        ("red = [", "not TOML"),
        ("red = []\nred = []", "not TOML"),
    ],
)
def test_an_error_names_its_line(content: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        policy.parse(content)
    assert re.search(says, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("none.toml", "binary", "."):
        with pytest.raises(UsageError, match="cannot read the policy"):
            policy.load(tmp_path / name)


def test_a_target_inherits_settings_that_it_does_not_override() -> None:
    read = policy.parse(
        "red = ['bytes-up']\n[thresholds]\nsqnr_drop_db = 1\nbytes_up = 7\n"
        "[[target]]\nmatch = 'tosa:*'\n[target.thresholds]\nsqnr_drop_db = 9\n"
        "[[target]]\nmatch = '*:fp32'\nred = ['fixed']"
    )
    assert read.find_thresholds("tosa:fp").sqnr_drop_db == 9
    assert read.find_thresholds("tosa:fp").bytes_up == 7
    assert read.find_thresholds("mlx:bf16").sqnr_drop_db == 1
    assert read.find_red_kinds("tosa:fp") == {ChangeKind.BYTES_UP}
    assert read.find_red_kinds("mlx:fp32") == {ChangeKind.FIXED}
    assert read.find_red_kinds("mlx:bf16") == {ChangeKind.BYTES_UP}


def test_the_usual_policy_is_red_on_every_loss_of_an_outcome() -> None:
    usual = set(policy.parse("").red)
    measured = {
        ChangeKind.BOUND_UP,
        ChangeKind.DELEGATES_UP,
        ChangeKind.BYTES_UP,
        ChangeKind.PLANNED_MEMORY_UP,
        ChangeKind.TIME_UP,
    }
    # A cell that is not in the baseline keeps a run from being green in another way.
    lost = {
        ChangeKind.DISAPPEARED,
        ChangeKind.NOT_RUN,
        ChangeKind.NEWLY_UNAVAILABLE,
        ChangeKind.NEWLY_LOWERED,
    }
    assert usual == {kind for kind in ChangeKind if kind.is_worse} - measured - lost


def test_the_document_has_every_key_and_kind_and_its_example_is_valid() -> None:
    shown = DOCUMENT.read_text(encoding="utf-8")
    for struct in (Policy, TargetPolicy, Waiver, GateThresholds):
        for field in msgspec.structs.fields(struct):
            assert f"`{field.name}`" in shown or f"\n{field.name} = " in shown, field.name
    for kind in ChangeKind:
        assert f"`{kind.value}`" in shown, kind
    examples = re.findall(r"```toml\n(.*?)```", shown, re.DOTALL)
    assert examples
    for example in examples:
        policy.parse(example)
