"""Derives known issues from limitations.

Cause, workaround, link, stage and outcome are copied from the limitation, so that each is written
down once. A limitation's reason ends with its workaround, if there is one.
This module adds the signs by which the issue is recognised in other models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from harness import KnownIssue, Limitation, Status
from harness.model.known_issues.operator_names import base_name
from harness.record.target import Target, matches_any_glob, matches_target
from suites.metal.limitations import LIMITATIONS as METAL
from suites.mlx.limitations import LIMITATIONS as MLX
from suites.models.limitations import LIMITATIONS as MODELS
from suites.mxfp.limitations import LIMITATIONS as MXFP
from suites.opinfo.limitations import LIMITATIONS as OPINFO
from suites.ops.limitations import LIMITATIONS as OPS
from suites.passes.limitations import LIMITATIONS as PASSES
from suites.quant.limitations import LIMITATIONS as QUANT
from suites.signatures.limitations import LIMITATIONS as SIGNATURES
from suites.upstream.limitations import LIMITATIONS as UPSTREAM

# Suites whose case names begin with the operator.
_BY_OPERATOR = [*OPS, *METAL, *MLX]
_OTHERS = [*MODELS, *QUANT, *SIGNATURES, *MXFP, *PASSES]
_ALL = [*_BY_OPERATOR, *_OTHERS, *OPINFO, *UPSTREAM]

# Errors that many causes share. The modules beside this one list the signs of these limitations.
_OF_ANY_CAUSE = re.compile(
    r"^$|elements exceed the bound|rounding the values|quantized wrongly$|failed with error 0x"
    r"|^AssertionError$"
    r"|StopIteration|list index out of range|tuple index out of range|^index out of range$"
    r"|not enough values|Failed to load method|tensors used as indices|for a planned tensor of$"
    r"|cannot be broadcast|data must be a sequence|has no attribute|integer modulo by zero"
    r"|broadcast_shapes"
    r"|unsupported param type|Failed to create static (slice|transpose)|^Aborted$|looks infinite"
    r"|the runtime has no kernel|the passes do not keep outputs|no stack trace"
    r"|changed the module|conversion changed it|^KeyError: 'val'$|got -256"
    r"|dtype \w+, expected|has \d+ elements$|Unknown operator|cumulative_length|declared:"
    r"|^Invalid user$|^is tagged with$|^dim_is_valid$|Cannot view a tensor|input 0 has shape"
    r"|assert_size_stride|a call returned shape|Expected matching dtypes|Invalid TOSA graph"
    r"|out of bounds for array with 0|InductorError: NotImplementedError|has no name"
    r"|^Segmentation fault$|^Failed to insert$|^Cannot delete input node$|^placeholder node for"
    r"|^invalid index of a 0-dim tensor$|indices are mlx.core.float32|mismatching batch"
    r"|Expected start \+ size values between|flatc|at non-singleton dimension"
    r"|^Attempting to broadcast"
)
# Errors that name the problem, but not the operator.
_WITH_OPERATOR = re.compile(
    r"Unsupported dtype|TOSA spec|taking Tensor inputs|The size of tensor|mismatched dtypes"
    r"|Expected \d-dimensional|bytes \w+\(|TOSA_UNPREDICTABLE|\[transpose\]|out of range"
    r"|Invalid axis"
    r"|Received non-empty|a dimension of size 0|before anything writes|has shape|field step"
    r"|output 0: shape|Only inexact|Found unsupported node|len\(\) of|the program passes"
    r"|^ZeroDivisionError$|reference model was ended by|shape should be broadcastable"
    r"|\[reshape\]|Expected start|got torch|are not contiguous|convolution: input strides"
)


def issue(on: str, case: str, /, *, error: str | None = None, **signs: Any) -> KnownIssue:
    """Make a known issue of a limitation, with its signs in any model.

    Args:
        on: target of the limitation.
        case: case of the limitation.
        error: a regular expression that replaces the limitation's error text.
        signs: attributes of the issue that replace the limitation's.

    Raises:
        LookupError: no limitation matches.
    """
    wanted = Target.parse(on)
    entry = next(
        (
            one
            for one in _ALL
            if matches_target(one.target, wanted)
            and matches_any_glob(one.case, case)
            and not one.until
        ),
        None,
    )
    if entry is None:
        raise LookupError(f"no limitation of {case} on {on}")
    return _issue(entry, _pattern(entry.error) if error is None else error, **signs)


def derive_issues() -> Iterator[KnownIssue]:
    """Make the issues of all limitations whose error has a single cause."""
    for entry in _ALL:
        if entry.stage in ("build", "compare") or _OF_ANY_CAUSE.search(entry.error):
            continue
        op = "*"
        if _WITH_OPERATOR.search(entry.error):
            op = _operators(entry)
            if op == "*":
                continue
        yield _issue(entry, _pattern(entry.error), op=op)


def _issue(entry: Limitation, error: str, **signs: Any) -> KnownIssue:
    cause, _, workaround = entry.reason.partition(" Workaround: ")
    given = {
        "cause": cause,
        "workaround": workaround.removesuffix("."),
        "target": entry.target,
        "stage": entry.stage,
        "outcome": entry.outcome,
        "error": error,
        "link": entry.link or "",
        "host": entry.host,
        "since": entry.since,
        "until": entry.until,
        **signs,
    }
    return KnownIssue(**given)


def _operators(entry: Limitation) -> str:
    """Operators of a limitation's cases, as globs; ``*`` when the case names do not tell."""
    found: dict[str, None] = {}
    for case in entry.case.split("|"):
        first, _, rest = case.partition("/")
        if entry in OPINFO:
            first = rest.partition("/")[0].partition("-")[0]
        elif entry not in _BY_OPERATOR:
            return "*"
        if "*" in first or not first:
            return "*"
        found[base_name(first)] = None
    if "mm" in found:  # a product has other names before and after lowering
        found |= dict.fromkeys(("bmm", "matmul", "addmm", "linear"))
    return "|".join(found)


def _pattern(text: str) -> str:
    """Turn an error text into a regular expression that matches it with any sizes."""
    if text == "elements exceed the bound":
        return ""
    return re.sub(r"(?<![\w.])\d+(?:,\\ \d+)*,?", r"[\\d, ]+", re.escape(text))


MISMATCH = Status.MISMATCH
