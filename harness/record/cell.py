"""Cell: the record of one case on one target. Plain data; imports no torch.

``Cell.to_json()`` writes a line of ``cells.jsonl``; :func:`Cell.from_json` reads it back, also
from earlier schema versions (:mod:`harness.record.migrations`). JSON has no infinities or NaN, so
non-finite floats are written as ``"inf"``, ``"-inf"`` and ``"nan"``.
"""

from __future__ import annotations

import enum
import shlex
from collections.abc import Collection

import msgspec

from harness.record.evidence import MetricValue, Quality, QualityPart, Vacuity, is_conclusive
from harness.record.migrations import get_items, upgrade_cell
from harness.record.number_text import read_number, read_numbers, spell_numbers
from harness.record.program_data import (
    Defect,
    Dimension,
    Divergence,
    Encoding,
    OperatorCall,
    RunProfile,
)
from harness.record.severity import Severity
from harness.record.target import cell_id

SUITES = "suites"
"""The folder of suites unless another is named."""

CROSS_BACKEND = "cross_backend"
"""Tag of a case whose records keep weights and outputs, so that reports compare its targets."""


MODEL, PUBLISHED, NIGHTLY_MODEL = "model", "published", "night_model"
"""Tags of cases that are models: small models, models of published shapes, and small models that
only the nightly run selects."""


def is_model(tags: Collection[str]) -> bool:
    """Whether a case with these tags is a model: the harness times its calls and traces its wrong
    outputs."""
    return not {MODEL, PUBLISHED, NIGHTLY_MODEL}.isdisjoint(tags)


class Status(enum.Enum):
    """How a cell ended. Only ``PASSED`` means executed and within its bound."""

    PASSED = "passed"
    MISMATCH = "mismatch"  # executed, and the outputs are wrong
    FAILED = "failed"  # a stage raised, or a requirement (delegation, check) does not hold
    CRASHED = "crashed"  # the process died, or was refused memory
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"  # the backend is not installed; no statement about conformance
    UNSUPPORTED = "unsupported"  # the target declares that it does not support the case
    LOWERED = "lowered"  # lowered, and no runtime on this host can execute it
    XFAILED = "xfailed"  # failed as a limitation predicts
    XPASSED = "xpassed"  # passed although a limitation says it cannot

    @property
    def is_red(self) -> bool:
        """Whether this outcome alone makes a run fail."""
        return self in _RED


_RED = {
    Status.MISMATCH,
    Status.FAILED,
    Status.CRASHED,
    Status.TIMEOUT,
    Status.XPASSED,
}


class Delegation(msgspec.Struct, frozen=True, kw_only=True):
    """How the partitioner divided a program into delegated and fallback nodes.

    Nodes are calls in the edge dialect, counted once each after lowering; reading a tuple element
    is not a call. Calls of the kernels of a backend's own library count as delegated.
    ``delegated_ops`` and ``undelegated_ops`` map an operator's name to its number of calls.
    ``reasons`` maps a fallback operator to the partitioner's reasons, each with the number of calls
    it applies to; an operator without a stated reason has no entry. ``calls`` are the different
    calls by dtype, rank and the like, sorted; empty in records that were written before it existed.
    """

    delegates: int = 0
    delegated_nodes: int = 0
    undelegated_nodes: int = 0
    delegated_ops: dict[str, int] = {}
    undelegated_ops: dict[str, int] = {}
    reasons: dict[str, dict[str, int]] = {}
    calls: list[OperatorCall] = []

    @property
    def is_empty(self) -> bool:
        """Whether the backend took no node, as a delegate or by a kernel of its own library."""
        return not (self.delegates or self.delegated_nodes)


class Numerics(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of one output of one call with the float64 oracle; see docs/numerics.md.

    The worst element is the one with the largest error / bound: ``worst_error`` is its error,
    ``bound`` its bound, ``bound_used`` the quotient (at most 1 when the output conforms).
    ``max_abs`` is the largest error of all elements, perhaps of another one. ``exceeding`` counts
    elements outside their bounds. ``severity`` grades an output that does not conform. ``eager_*``
    compare with eager in the recipe's dtype, ``model_sqnr_db`` with the float model before
    quantization. ``max_steps`` is the largest error in quantization steps of the output, where the
    quantized graph ends in a quantized value. ``rms_steps`` is the root mean square of the errors
    of the tensor or slice that uses most of ``rms_steps_limit``; ``bound_used`` is at least that.

    ``role`` is ``output``, or ``input`` for an input that the program changes; ``output`` is then
    the input's position. ``dtype`` names a Python type where a program returns a number. ``name``
    is the output's path in a tree of named outputs. ``conclusive_share`` is the share of elements
    that the best constant gets wrong, the only elements that are evidence; 1 where the limit of all
    errors together rejects every constant; None in records of schema 2 and before. ``vacuous``
    explains why a pass is no evidence where that share is too small. ``pattern`` describes the
    errors if they follow a simple rule: ``scaled by 1.001``; ``problem`` repeats it.
    """

    call: int
    output: int
    dtype: str
    shape: list[int]
    max_abs: float
    mean_abs: float
    max_ulp: float | None
    sqnr_db: float
    rel_fro: float
    cosine: float
    bound: float
    bound_used: float
    exceeding: int
    elements: int
    worst_index: list[int] | None = None
    worst_actual: float | None = None
    worst_expected: float | None = None
    eager_max_abs: float | None = None
    eager_sqnr_db: float | None = None
    model_sqnr_db: float | None = None
    max_steps: float | None = None
    rms_steps: float | None = None
    rms_steps_limit: float | None = None
    conclusive_share: float | None = None
    role: str = "output"
    problem: str | None = None
    pattern: str = ""
    worst_error: float | None = None
    severity: Severity | None = None
    vacuous: Vacuity | None = None
    name: str = ""

    @property
    def is_conclusive(self) -> bool:
        """Whether a conforming output is evidence; True where the share was not measured."""
        share = self.conclusive_share
        return share is None or is_conclusive(share, self.elements)


class OutputValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one floating output of one call, row-major."""

    call: int
    output: int
    values: list[float]


class PassProperty(msgspec.Struct, frozen=True, kw_only=True):
    """A property of a program that the target's added passes must preserve (docs/passes.md).

    ``holds`` is None where the property was not checked. ``detail`` describes the violation, or why
    there was no check.
    """

    name: str
    holds: bool | None
    detail: str = ""


class Intermediate(msgspec.Struct, frozen=True, kw_only=True):
    """A form of the program between the module and the lowered graph, compared with the module.

    ``name`` is ``exported`` (the result of torch.export), ``rewritten`` (the float graph after the
    quantizer rewrote it, without observers) or ``quantized`` (the graph with quantize and
    dequantize operators). ``problem`` says what is wrong; None where nothing is. ``identical``
    means that every value equals the module's bit for bit: then no bound was computed, and
    ``numerics`` is empty. For ``quantized`` it means that it equals what the harness rounds
    itself, and ``numerics`` compares with the module within the noise of the quantization.
    """

    name: str
    identical: bool = False
    numerics: list[Numerics] = []
    problem: str | None = None


class LimitationRef(msgspec.Struct, frozen=True, kw_only=True):
    """The limitation that explains a cell."""

    reason: str
    link: str | None = None


class KnownIssueRef(msgspec.Struct, frozen=True, kw_only=True):
    """A known issue that a red cell matches: its cause, evidence, and a workaround for the model;
    ``link`` and ``workaround`` are empty where there is none."""

    cause: str
    link: str = ""
    workaround: str = ""

    def __str__(self) -> str:
        link = f" ({self.link})" if self.link else ""
        advice = f"; workaround: {self.workaround}" if self.workaround else ""
        return f"{self.cause.rstrip('.')}{link}{advice.rstrip('.')}"


class CacheOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a record that was reused from the result cache: ``run`` is the name of the run
    folder that executed the cell, ``host`` its machine, ``when`` the cell ended there."""

    run: str
    host: str
    when: str


class Cell(msgspec.Struct, kw_only=True):
    """The record of one case on one target.

    Times and sizes. ``stages`` and ``seconds`` are wall-clock seconds; ``overhead`` is the part of
    ``seconds`` outside stages, references and vendor calls. ``memory`` is the peak of each stage in
    bytes above the process at the start of the cell, child processes included; empty where it was
    not measured. ``program_bytes`` is the size of the serialized program, ``constant_bytes`` its
    constants (constant segment, named data, and payloads that can be read),
    ``duplicate_constant_bytes`` the part of these that is stored more than once; None without a
    program. ``planned_memory`` is the bytes of each planned memory by memory id from 1 on, at the
    largest dynamic sizes. ``first_seconds`` is the time of the first call of a loaded program,
    ``steady_seconds`` the median of a few further calls; None if there was no such call.

    Evidence. ``severity`` is that of the worst output of a mismatch, expected or not; None
    otherwise, and in records of schema 3 and before. ``vacuous_reason`` is the case's reason why
    its pass is vacuous. ``encodings`` are its quantized weights, where the recipe can find them;
    ``outputs`` the values, of cases tagged :data:`CROSS_BACKEND` only. ``intermediates`` compares
    forms of the program before lowering with the module, in order. ``side_effects`` names state of
    the caller that a vendor's call changed, such as ``buffer mask``. ``quality`` compares the
    quantized graph with the float model, where a quantizer made it. ``metrics`` are those of the
    case. ``defects`` are those that
    execution went past (``--past-defects``). ``dynamic_dimensions`` are the inputs' dynamic
    dimensions with the executed sizes, ``untried_sizes`` the sizes that were not executed, and why.
    ``refused_call`` is the number of the first call that the program refuses although its sizes are
    within their ranges.

    Failures. ``model_frame`` is the line of the model's code, ``file:line: code``, at which the
    stage raised; ``vendor_frame`` the innermost line of a vendor's Python, relative to
    ``site-packages``. ``first_divergence`` is the result of tracing; ``trace_skipped`` says why a
    model with wrong outputs has none. ``known_issues`` are those whose conditions the cell meets;
    they change neither ``status`` nor exit codes. ``profile`` is measured by checks alone, in the
    ExecuTorch runtime. ``attempts`` says how each earlier attempt ended,
    of a cell that lost its worker or process.

    Origin. ``source`` is the suite's line that makes the case, ``suites/ops/unary.py:12``.
    ``command`` runs the cell again where no suite has its case. ``merged_part`` names the part of a
    merged run. ``saved_to`` is the folder of the saved program, inputs and outputs, relative to the
    run folder; empty without one. ``cached`` is set where the cell did not run here: the rest of
    the record is then that of another run (docs/incremental.md).
    """

    case: str
    target: str
    status: Status
    suite: str = ""
    op: str = ""
    tags: list[str] = []
    seed: int = 0
    stage: str | None = None
    error: str | None = None
    traceback: str | None = None
    runtime: str = "none"
    delegation: Delegation = Delegation()
    numerics: list[Numerics] = []
    stages: dict[str, float] = {}
    memory: dict[str, int] = {}
    seconds: float = 0.0
    overhead: float = 0.0
    program_bytes: int = 0
    constant_bytes: int | None = None
    duplicate_constant_bytes: int | None = None
    planned_memory: list[int] = []
    first_seconds: float | None = None
    steady_seconds: float | None = None
    limitation: LimitationRef | None = None
    encodings: list[Encoding] = []
    outputs: list[OutputValues] = []
    worker: str | None = None
    merged_part: str | None = None
    vacuous_reason: str = ""
    model_frame: str | None = None
    command: str = ""
    first_divergence: Divergence | None = None
    trace_skipped: str = ""
    properties: list[PassProperty] = []
    changed_ops: dict[str, tuple[int, int]] = {}
    saved_to: str = ""
    source: str = ""
    attempts: list[str] = []
    cached: CacheOrigin | None = None
    severity: Severity | None = None
    defects: list[Defect] = []
    dynamic_dimensions: list[Dimension] = []
    untried_sizes: list[str] = []
    refused_call: int | None = None
    intermediates: list[Intermediate] = []
    side_effects: list[str] = []
    vendor_frame: str = ""
    known_issues: list[KnownIssueRef] = []
    profile: RunProfile | None = None
    quality: Quality | None = None
    metrics: list[MetricValue] = []

    @property
    def id(self) -> str:
        """``case@backend:recipe``."""
        return cell_id(self.case, self.target)

    @property
    def repro(self) -> str:
        """The command that runs this cell again."""
        return self.command or f"conform repro {shlex.quote(self.id)}{self._repro_options}"

    @property
    def peak_memory(self) -> int | None:
        """The peak memory of all stages, in bytes; None where it was not measured."""
        return max(self.memory.values(), default=None)

    @property
    def trace_command(self) -> str:
        """The command that finds the first diverging node."""
        return f"conform trace {shlex.quote(self.id)}{self._repro_options}"

    @property
    def _repro_options(self) -> str:
        """The options for its seed, and for the folder of its suite if that is not the default."""
        folder = self.suite.partition(".")[0]
        suites = f" --suites {shlex.quote(folder)}" if folder not in ("", SUITES) else ""
        return f" --seed {self.seed}{suites}"

    @property
    def nothing_delegated(self) -> bool:
        """Whether the cell executed and the backend took no node."""
        return self.runtime != "none" and self.delegation.is_empty

    @property
    def is_degraded(self) -> bool:
        """Whether the model no longer does its job: its quantized graph is too far from the float
        model, or a metric is beyond its limit. False where neither was measured."""
        far = self.quality is not None and self.quality.is_degraded
        return far or any(metric.is_degraded for metric in self.metrics)

    @property
    def conclusive_share(self) -> float | None:
        """The largest share of conclusive elements of an output; None where not measured."""
        shares = (row.conclusive_share for row in self.numerics)
        return max((share for share in shares if share is not None), default=None)

    @property
    def is_conclusive(self) -> bool:
        """Whether a pass is evidence: at least one output has enough conclusive elements. Records
        without that measurement count as conclusive."""
        return self.conclusive_share is None or any(
            row.conclusive_share is not None and row.is_conclusive for row in self.numerics
        )

    def to_json(self) -> str:
        """One line of strict JSON, without a newline."""
        return msgspec.json.encode(spell_numbers(msgspec.to_builtins(self))).decode()

    @classmethod
    def from_json(cls, line: str | bytes) -> Cell:
        """Inverse of :meth:`to_json`.

        Raises:
            msgspec.MsgspecError: not JSON, or not a cell record.
        """
        record = msgspec.json.decode(line)
        if isinstance(record, dict):
            upgrade_cell(record)
            # Only numeric fields: elsewhere "inf" is text.
            for part in (
                record,
                record.get("stages"),
                record.get("first_divergence"),
                *get_items(record, "metrics"),
                record.get("quality"),
                *get_items(record.get("quality"), "parts"),
                *(rows := get_items(record, "numerics")),
                *(row.get("vacuous") for row in rows if isinstance(row, dict)),
                *(
                    row
                    for form in get_items(record, "intermediates")
                    for row in get_items(form, "numerics")
                ),
            ):
                read_numbers(part, _TEXT_FIELDS)
            for output in get_items(record, "outputs"):
                if isinstance(output, dict) and isinstance(output.get("values"), list):
                    output["values"] = [read_number(value) for value in output["values"]]
        return msgspec.convert(record, type=cls)


_TEXT_FIELDS = {
    field.name
    for record in (Cell, Numerics, Divergence, QualityPart, MetricValue)
    for field in msgspec.structs.fields(record)
    if field.type in (str, str | None)
}
