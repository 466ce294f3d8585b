"""Render a judgement as SARIF 2.1.0, for code scanning."""

from __future__ import annotations

import hashlib
import urllib.parse
from typing import Any

import msgspec

from harness.record.target import suite_file
from reports import text
from reports.comparison.diff import Change, ChangeKind
from reports.comparison.gate.judge import Judgement

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_OBSTACLE = "could-not-judge"
_WAIVER = "waiver"


def render(judged: Judgement, *, policy: str = "gate.toml") -> str:
    """Render one SARIF run.

    It has a result for each red or waived change, waiver problem and obstacle, and a note for each
    mismatch below ``severity_at_least``.

    Args:
        judged: the judgement.
        policy: path of the policy; results without a suite point to it.
    """
    results = [_change(change, policy) for change in judged.red]
    results += [_change(change, policy) | {"level": "note"} for change in judged.mild]
    for change, waiver in judged.waived:
        why = f"{waiver.reason} ({waiver.owner}, until {waiver.expires})"
        suppressed = [{"kind": "external", "status": "accepted", "justification": why}]
        results.append(_change(change, policy) | {"suppressions": suppressed})
    results += [_line(_WAIVER, line, policy) for line in judged.waivers]
    results += [_line(_OBSTACLE, line, policy) for line in judged.obstacles]
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "conform gate", "rules": _rules()}},
                "invocations": [
                    {
                        "executionSuccessful": not judged.obstacles,
                        "exitCode": judged.exit_code,
                    }
                ],
                "results": results,
            }
        ],
    }
    return msgspec.json.format(msgspec.json.encode(log), indent=1).decode() + "\n"


def _rules() -> list[dict[str, Any]]:
    meanings = {kind.value: kind.meaning for kind in ChangeKind}
    meanings[_WAIVER] = "a waiver expired or matches no change"
    meanings[_OBSTACLE] = "the gate cannot judge the run"
    return [
        {"id": name, "shortDescription": {"text": meaning}} for name, meaning in meanings.items()
    ]


def _change(change: Change, policy: str) -> dict[str, Any]:
    name, detail = text.line(change.id, 400), text.line(change.description, 600)
    suite = change.cell.suite
    # Only a valid module name becomes a path; a record may contain anything.
    module = suite if suite and all(part.isidentifier() for part in suite.split(".")) else ""
    where = suite_file(module) if module else policy
    message = f"{name}: {change.kind.label}: {detail}. Run it again: {change.cell.repro}"
    made = _result(change.kind.value, text.line(message, 1_500), where, name)
    severity = change.cell.severity
    return made if severity is None else made | {"properties": {"severity": severity.value}}


def _line(rule: str, line: str, policy: str) -> dict[str, Any]:
    return _result(rule, text.line(line, 800), policy, text.line(line, 400))


def _result(rule: str, message: str, path: str, subject: str) -> dict[str, Any]:
    identity = hashlib.sha256(f"{rule}\n{subject}".encode()).hexdigest()[:32]
    return {
        "ruleId": rule,
        "level": "error",
        "message": {"text": message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": urllib.parse.quote(path)},
                    "region": {"startLine": 1},
                },
                "logicalLocations": [{"fullyQualifiedName": subject}],
            }
        ],
        "partialFingerprints": {"conformCell/v1": identity},
    }
