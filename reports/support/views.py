"""Tables of operators: what each target claims to take, and what cells of a run showed of it."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from msgspec import structs

from harness.coverage.claims import TargetClaims
from harness.record.cell import Cell, Status
from harness.record.program_data import OperatorCall, OperatorClaim
from harness.record.run import Run


class Support(enum.Enum):
    """What a run shows of an operator on a target."""

    YES = "yes"
    PARTLY = "partly"
    FAILS = "fails"
    UNPROVEN = "unproven"
    NO = "no"
    UNTESTED = "untested"
    UNCLAIMED = ""


class Evidence(enum.Enum):
    """What a cell shows of a call in its program."""

    PASSED = "passed"
    VACUOUS = "vacuous"
    XFAILED = "xfailed"
    RED = "red"
    OPEN = "open"  # lowered only, or a failure that another operator explains
    FALLBACK = "never delegated"


_CONVERSIONS = ("quantize_", "choose_qparams")
_FAILURES = (Evidence.XFAILED, Evidence.RED)


@dataclass(frozen=True, order=True)
class CallSignature:
    """With what an operator is called; see :class:`~harness.record.program_data.OperatorCall`."""

    dtype: str
    rank: int
    layout: str
    dynamic: bool
    quantized: bool


@dataclass
class OperatorRow:
    """An operator on a target.

    Attributes:
        op: its name; that of the core ATen operator for each way to call that one.
        is_core: whether it is a core ATen operator.
        claim: the claim; None without one.
        calls: for each signature the number of cells by what they show.
        examples: for each kind of evidence the id of a cell.
        reasons: the partitioner's reasons for fallback calls, with their number.
    """

    op: str
    is_core: bool
    claim: OperatorClaim | None = None
    calls: dict[CallSignature, Counter[Evidence]] = field(default_factory=dict)
    examples: dict[Evidence, str] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def support(self) -> Support:
        """What all cells together show."""
        found = {kind for counts in self.calls.values() for kind in counts}
        if not found:
            return Support.UNCLAIMED if self.claim is None else Support.UNTESTED
        fails = not found.isdisjoint(_FAILURES)
        if Evidence.PASSED in found:
            return Support.PARTLY if fails else Support.YES
        if fails:
            return Support.FAILS
        return Support.NO if found == {Evidence.FALLBACK} else Support.UNPROVEN

    @property
    def is_delegated(self) -> bool:
        """Whether a cell delegates it."""
        return any(counts.keys() != {Evidence.FALLBACK} for counts in self.calls.values())

    def select(self, *kinds: Evidence) -> list[CallSignature]:
        """The signatures of which these kinds are the strongest evidence, sorted; of failures all,
        because another argument or value fails where one passes."""
        return sorted(
            each
            for each, counts in self.calls.items()
            if any(kind in counts for kind in kinds if kind in _FAILURES)
            or next(kind for kind in Evidence if kind in counts) in kinds
        )


@dataclass
class SupportTable:
    """The operators of a target.

    Attributes:
        target: the target.
        claims: its claims; None if the run has none.
        rows: core ATen operators first, by name.
    """

    target: str
    claims: TargetClaims | None
    rows: list[OperatorRow]

    @property
    def counts(self) -> Counter[Support]:
        """Number of core ATen operators by what the run shows."""
        return Counter(row.support for row in self.rows if row.is_core)

    @property
    def called(self) -> int:
        """Number of core ATen operators that cells call."""
        counts = self.counts
        return counts.total() - counts[Support.UNTESTED] - counts[Support.UNCLAIMED]

    @property
    def gaps(self) -> list[OperatorRow]:
        """Operators that are claimed, and that cells call and never delegate."""
        return [row for row in self.rows if row.claim is not None and row.support is Support.NO]

    @property
    def untested(self) -> list[OperatorRow]:
        """Operators that are claimed, and that no cell calls."""
        return [row for row in self.rows if row.support is Support.UNTESTED]

    @property
    def unclaimed(self) -> list[OperatorRow]:
        """Operators that a cell delegates although they are not claimed. Partitioners also take the
        conversions around an operator, whether or not they claim them."""
        if self.claims is None or self.claims.operators is None:
            return []
        return [
            row
            for row in self.rows
            if row.claim is None
            and row.is_delegated
            and not any(word in row.op for word in _CONVERSIONS)
        ]


def build_tables(
    run: Run, claims: Mapping[str, TargetClaims], target: str = ""
) -> list[SupportTable]:
    """Build the table of each target of a run, sorted by target.

    Targets with added or removed passes, and programs of several delegates, are left out: they are
    no statement about a recipe.

    Args:
        run: the run.
        claims: claims by target.
        target: only of this target, or of this backend; empty for all.
    """
    cells: defaultdict[str, list[Cell]] = defaultdict(list)
    for cell in run.cells:
        if cell.delegation.calls and _is_plain(cell.target):
            cells[cell.target].append(cell)
    core = next((each.core for each in claims.values() if each.core), {})
    names = {spelling: name for name, spellings in core.items() for spelling in spellings}
    return [
        _build_table(name, cells[name], claims.get(name), names)
        for name in sorted(cells.keys() | claims.keys())
        if target in ("", name, name.partition(":")[0])
    ]


def list_unclaimed_targets(run: Run, claims: Mapping[str, TargetClaims]) -> list[str]:
    """The targets of a run whose claims it lacks, without variations and programs of several."""
    found = {cell.target for cell in run.cells if cell.delegation.calls and _is_plain(cell.target)}
    return sorted(found - claims.keys())


def _is_plain(target: str) -> bool:
    return not set("+-/") & set(target)


def _build_table(
    target: str, cells: Iterable[Cell], claims: TargetClaims | None, names: Mapping[str, str]
) -> SupportTable:
    rows = {name: OperatorRow(name, is_core=True) for name in names.values()}

    def find_row(op: str) -> OperatorRow:
        name = names.get(op) or _name_functional(op)
        return rows.setdefault(name, OperatorRow(name, is_core=False))

    for op, claim in ((claims and claims.operators) or {}).items():
        row = find_row(op)
        row.claim = row.claim or claim
    is_kernels = claims is not None and claims.kernels
    for cell in cells:
        for call in cell.delegation.calls:
            row = find_row(call.op)
            kind = _weigh(cell, call, has_kernel=is_kernels and row.claim is not None)
            signature = CallSignature(
                call.dtype, call.rank, call.layout, call.dynamic, call.quantized
            )
            row.calls.setdefault(signature, Counter())[kind] += 1
            row.examples.setdefault(kind, cell.id)
        for op, reasons in cell.delegation.reasons.items():
            find_row(op).reasons.update(reasons)
    ordered = sorted(rows.values(), key=lambda row: (not row.is_core, row.op))
    return SupportTable(target, claims, ordered)


def _name_functional(op: str) -> str:
    """Return the name of the operator that an in-place one computes: ``aten.silu.default``."""
    namespace, _, rest = op.partition(".")
    base, _, overload = rest.partition(".")
    if not overload or base.startswith("__"):  # such as __lshift__
        return op
    return f"{namespace}.{base.removesuffix('_')}.{overload}"


def _weigh(cell: Cell, call: OperatorCall, *, has_kernel: bool) -> Evidence:
    """Return what a cell shows of a call.

    Args:
        cell: the cell.
        call: a call of its program.
        has_kernel: whether the target is the runtime's kernels, and one of them is the operator's.
    """
    if not (call.delegated or has_kernel):
        return Evidence.FALLBACK
    if cell.status is Status.PASSED:
        return Evidence.PASSED if cell.is_conclusive else Evidence.VACUOUS
    if cell.status is Status.XFAILED or cell.status.is_red:
        kind = Evidence.RED if cell.status.is_red else Evidence.XFAILED
        return kind if _is_cause(cell, call) else Evidence.OPEN
    return Evidence.OPEN


def _is_cause(cell: Cell, call: OperatorCall) -> bool:
    """Whether the failure is that of the operator: it diverges first, or is the only one."""
    if cell.first_divergence is not None:
        return _strip(cell.first_divergence.op) == _strip(call.op)
    others = {_strip(each.op) for each in cell.delegation.calls if "quantize_" not in each.op}
    return _strip(call.op) == _strip(cell.op) or others == {_strip(call.op)}


def _strip(op: str) -> str:
    """Return an operator's name without namespace, overload and underscores: ``add``."""
    parts = op.split(".")
    return (parts[1] if len(parts) > 1 else op).removesuffix("_copy").strip("_")


def list_shown(table: SupportTable) -> list[OperatorRow]:
    """Core ATen operators that are claimed or called, and others that are called."""
    return [row for row in table.rows if row.calls or (row.is_core and row.claim is not None)]


def describe_json(tables: Iterable[SupportTable]) -> list[dict[str, object]]:
    """All rows of tables as data for other tools."""
    return [
        {
            "target": table.target,
            "packages": {} if table.claims is None else table.claims.packages,
            "problem": "" if table.claims is None else table.claims.problem,
            "operators": [_describe_row_json(row) for row in table.rows if row.calls or row.claim],
        }
        for table in tables
    ]


def _describe_row_json(row: OperatorRow) -> dict[str, object]:
    return {
        "op": row.op,
        "core": row.is_core,
        "shown": row.support.value,
        "claim": None if row.claim is None else structs.asdict(row.claim),
        "calls": [
            {**asdict(each), **{kind.value: number for kind, number in counts.items()}}
            for each, counts in sorted(row.calls.items())
        ],
        "examples": {kind.value: cell for kind, cell in row.examples.items()},
        "reasons": dict(row.reasons.most_common()),
    }


def list_core(tables: Sequence[SupportTable]) -> list[list[OperatorRow]]:
    """The core ATen operators by name, each with its row of every table."""
    by_table = [{row.op: row for row in table.rows if row.is_core} for table in tables]
    names = sorted({name for rows in by_table for name in rows})
    return [[rows[name] for rows in by_table] for name in names]
