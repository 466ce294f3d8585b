"""Cell: the record of one case on one target. Plain data; imports no torch.

``Cell.to_json()`` is a line of ``cells.jsonl``; :func:`Cell.from_json` reads it back.
JSON has no infinities or NaN, so non-finite floats are written as ``"inf"``, ``"-inf"`` and
``"nan"``.
"""

from __future__ import annotations

import enum
import shlex
from collections.abc import Collection
from typing import Any

import msgspec

from harness.record.defect import Defect
from harness.record.evidence import Vacuity, is_conclusive
from harness.record.number_text import read_number, spell
from harness.record.program_data import Dimension, Encoding
from harness.record.severity import Severity
from harness.record.target import cell_id

SUITES = "suites"
"""The folder in which suites are looked for unless another is named."""

CROSS_BACKEND = "cross_backend"
"""Tag of a case whose records keep weights and outputs, so that reports compare its targets."""


MODEL, PUBLISHED, NIGHT_MODEL = "model", "published", "night_model"
"""Tags of cases that are models: small ones, those of published shapes, and what of the small ones
is left to the night."""


def is_model(tags: Collection[str]) -> bool:
    """Whether a case of these tags is a model: its executions are timed, and its wrong outputs are
    traced."""
    return not {MODEL, PUBLISHED, NIGHT_MODEL}.isdisjoint(tags)


class Status(enum.Enum):
    """How a cell ended. Only ``PASSED`` means executed and within its bound."""

    PASSED = "passed"
    MISMATCH = "mismatch"  # executed, and the outputs are wrong
    FAILED = "failed"  # a stage raised, or a requirement (delegation, check) does not hold
    CRASHED = "crashed"  # the process died, or was refused memory
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"  # the backend is not here; says nothing about conformance
    UNSUPPORTED = "unsupported"  # the target declares that it does not do this
    LOWERED = "lowered"  # lowered, and nothing on this host can execute it
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
    """What the partitioner gave to the backend and what it left over.

    Nodes are calls in the edge dialect, counted once each after lowering; ops map the
    operator's name to its number of calls. Reading a tuple element is not a call. ``reasons`` has,
    for operators that were left over, why: what the backend's partitioner said, with the number of
    calls it said it of. Where it said nothing there is no entry.
    """

    delegates: int = 0
    delegated_nodes: int = 0
    undelegated_nodes: int = 0
    delegated_ops: dict[str, int] = {}
    undelegated_ops: dict[str, int] = {}
    reasons: dict[str, dict[str, int]] = {}


class Numerics(msgspec.Struct, frozen=True, kw_only=True):
    """One output of one call against the float64 oracle; see docs/numerics.md.

    The worst element is the one with the largest error / bound: ``worst_error`` is its error,
    ``bound`` its bound, ``bound_used`` the quotient (at most 1 when the output conforms);
    ``max_abs`` is the largest error of all, which may be another element's. ``severity`` says how
    wrong an output is that does not conform. ``eager_*`` compare with eager in the recipe's
    dtype, ``model_sqnr_db`` with the float model before quantization. ``max_steps`` is the
    largest error in steps of the output's quantization, where the quantized graph ends in one.

    ``role`` says what was compared: an ``output``, or an ``input`` that the program changed, whose
    position ``output`` then is. ``dtype`` names a Python type where a program returns a number.
    ``name`` is its path in the tree of outputs where that has names. ``telling`` is the share of
    the elements that the best constant gets wrong, which alone are conclusive; None in records of
    schema 2 and before. ``vacuous`` says why a pass is no evidence where that share is too small.
    ``pattern`` is what the errors look like, where they look like something: ``scaled by 1.001``.
    ``problem`` says it, too.
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
    telling: float | None = None
    role: str = "output"
    problem: str | None = None
    pattern: str = ""
    worst_error: float | None = None
    severity: Severity | None = None
    vacuous: Vacuity | None = None
    name: str = ""

    @property
    def is_conclusive(self) -> bool:
        """Whether it is evidence if it conforms. What was not measured counts as evidence."""
        return self.telling is None or is_conclusive(self.telling, self.elements)


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one floating output of one call, row-major."""

    call: int
    output: int
    values: list[float]


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the passes a target adds must keep of a program (docs/passes.md).

    ``kept`` is None where it was not looked at. ``detail`` says what broke it, or why nobody
    looked.
    """

    name: str
    kept: bool | None
    detail: str = ""


class Intermediate(msgspec.Struct, frozen=True, kw_only=True):
    """A form of the program between the module and what was lowered, compared with the module.

    ``name`` is ``exported`` (what torch.export made) or ``rewritten`` (the float graph after the
    quantizer rewrote it, without observers). ``problem`` says which output differs and how; None
    where all conform. ``identical`` is there where every value is the module's own, bit for bit:
    then no bound was computed, and ``numerics`` is empty.
    """

    name: str
    identical: bool = False
    numerics: list[Numerics] = []
    problem: str | None = None


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first node of the exported graph where a target leaves the oracle; or the node of the
    program that fails to execute.

    ``module`` is the path of the module that it is from, ``source`` the line of the model.
    ``error`` and ``bound`` are those of the element that uses most of its bound, ``bound_used`` is
    their quotient. ``born`` says whether the error arises in the node itself when it is
    handed the oracle's inputs; None where that is not known. ``note`` is there where the search was
    not taken to its end. ``fails`` is the other kind: the node raises, and there are no values;
    ``stage`` is that which fails then, and ``note`` says how the node was found where that took a
    search. ``arguments`` are what the node is called with, as far as they are known:
    ``float32[1, 3, 8, 8] channels-last``, ``approximate='tanh'``.
    """

    node: str
    op: str
    module: str = ""
    source: str = ""
    shapes: str = ""
    error: float = 0.0
    bound: float = 0.0
    bound_used: float = 0.0
    born: bool | None = None
    note: str = ""
    fails: bool = False
    stage: str = ""
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.fails:
            how = "to execute" if self.stage in ("", "run") else f"in {self.stage}"
            return f"{self._place}: fails {how}{f'; {self.note}' if self.note else ''}"
        how = {True: "born there", False: "not born there", None: "origin not tried"}[self.born]
        return (
            f"{self._place}: error {self.error:.3g}, "
            f"{self.bound_used:.3g} times its bound, {how}{f'; {self.note}' if self.note else ''}"
        )

    @property
    def _place(self) -> str:
        where = "".join(f", {part}" for part in (self.module, self.source) if part)
        return f"{self.node} ({self.op}){where}"


class LimitationRef(msgspec.Struct, frozen=True, kw_only=True):
    """The limitation that explains a cell."""

    reason: str
    link: str | None = None


class KnownRef(msgspec.Struct, frozen=True, kw_only=True):
    """A known issue that a red cell shows the signs of: its cause, what shows it, and what a model
    can do about it; the last two are empty where there is none."""

    cause: str
    link: str = ""
    workaround: str = ""

    def __str__(self) -> str:
        link = f" ({self.link})" if self.link else ""
        advice = f"; workaround: {self.workaround}" if self.workaround else ""
        return f"{self.cause.rstrip('.')}{link}{advice.rstrip('.')}"


class Cached(msgspec.Struct, frozen=True, kw_only=True):
    """Where a record is from that this run took from the store of results: ``run`` is the name of
    the folder of the run that executed the cell, ``host`` its machine, ``when`` it ended there."""

    run: str
    host: str
    when: str


class Cell(msgspec.Struct, kw_only=True):
    """The record of one case on one target.

    ``stages`` and ``seconds`` are wall-clock seconds; ``overhead`` is the part of
    ``seconds`` that no stage, reference or vendor call accounts for; ``program_bytes`` is
    the size of the serialized program. ``constant_bytes`` is what of it are constants, in its
    constant segment, in named data and in payloads as far as they can be read,
    ``duplicate_constant_bytes`` what of that is there once more than it need be; None where there
    is no program, as in records of before. ``planned_memory`` is the bytes that the memory plan
    takes for values, by memory id from 1 on, at the largest dynamic sizes. ``first_seconds`` and
    ``steady_seconds`` are of the first call once a program is loaded and of the middle of a few
    further ones, on this host
    whatever the runtime; None where nothing was executed, or once only. ``encodings`` are its
    quantized weights, where the recipe says how to find them; ``outputs`` the values, of cases
    tagged :data:`CROSS_BACKEND` only.
    ``memory`` is what each stage held at most, in bytes above what the process held as the cell
    began, child processes included; empty where it was not measured, as in records of before.
    ``severity`` is that of the worst output of a mismatch, expected or not; None for all else, and
    in records of schema 3 and before.
    ``part`` names the part of a merged run it is from. ``untelling`` is the case's own reason why
    its outputs carry no signal. ``frame`` is the line of the model's own code, ``file:line: code``,
    at which its stage raised, where that is known. ``command`` runs the cell again where no suite
    has its case. ``first_divergence`` is there where the cell was traced; ``untraced`` says why a
    model whose outputs are wrong has none. ``kept`` is the folder, relative to the run's, that has
    its program, inputs and outputs; empty where nothing was kept. ``source`` is the line of the
    suite that makes its case, ``suites/ops/unary.py:12``. ``attempts`` says, of a cell whose worker
    or process was lost, how each try before the last ended. ``cached`` is there where the cell did
    not run here, and all else in the record is what another run made of it (docs/incremental.md).
    ``defects`` are all those that its execution went past (``--past-defects``).
    ``dynamic`` are the dimensions of inputs that vary, with the sizes that were executed;
    ``untried_sizes`` says which were not, and why. ``refused_call`` is the number of the first call
    that the program refuses for its sizes, which are within their ranges.
    ``intermediates`` compares forms of the program between the module and what was lowered with the
    module, in their order. ``vendor_frame`` is the innermost line of a vendor's Python at which its
    stage raised, spelled from ``site-packages``. ``known`` are the known issues whose signs it
    shows: hints, which change neither ``status`` nor exit codes. ``altered`` names what a vendor's
    call changed although it belongs to its caller, such as ``buffer mask``.
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
    outputs: list[Output] = []
    worker: str | None = None
    part: str | None = None
    untelling: str = ""
    frame: str | None = None
    command: str = ""
    first_divergence: Divergence | None = None
    untraced: str = ""
    properties: list[Property] = []
    changed_ops: dict[str, tuple[int, int]] = {}
    kept: str = ""
    source: str = ""
    attempts: list[str] = []
    cached: Cached | None = None
    severity: Severity | None = None
    defects: list[Defect] = []
    dynamic: list[Dimension] = []
    untried_sizes: list[str] = []
    refused_call: int | None = None
    intermediates: list[Intermediate] = []
    altered: list[str] = []
    vendor_frame: str = ""
    known: list[KnownRef] = []

    @property
    def id(self) -> str:
        """``case@backend:recipe``."""
        return cell_id(self.case, self.target)

    @property
    def repro(self) -> str:
        """The command that runs this cell again."""
        return self.command or f"conform repro {shlex.quote(self.id)}{self._where}"

    @property
    def peak_memory(self) -> int | None:
        """The most that any stage held, in bytes; None where it was not measured."""
        return max(self.memory.values(), default=None)

    @property
    def why(self) -> str:
        """The command that finds the first node where it leaves the oracle."""
        return f"conform trace {shlex.quote(self.id)}{self._where}"

    @property
    def _where(self) -> str:
        """Its seed, and the folder of its suite where that is not the usual one."""
        folder = self.suite.partition(".")[0]
        aside = f" --suites {shlex.quote(folder)}" if folder not in ("", SUITES) else ""
        return f" --seed {self.seed}{aside}"

    @property
    def nothing_delegated(self) -> bool:
        """Whether the cell executed without the backend having taken a single node."""
        return self.runtime != "none" and self.delegation.delegates == 0

    @property
    def telling(self) -> float | None:
        """The share of conclusive elements, of the output with most; None where not measured."""
        return max((row.telling for row in self.numerics if row.telling is not None), default=None)

    @property
    def is_telling(self) -> bool:
        """Whether a pass is conclusive: of one output at least enough elements are. Records from
        before this was measured count as conclusive."""
        return self.telling is None or any(
            row.telling is not None and row.is_conclusive for row in self.numerics
        )

    def to_json(self) -> str:
        """One line of strict JSON, without a newline."""
        return msgspec.json.encode(spell(msgspec.to_builtins(self))).decode()

    @classmethod
    def from_json(cls, line: str | bytes) -> Cell:
        """Inverse of :meth:`to_json`.

        Raises:
            msgspec.MsgspecError: not JSON, or not a cell record.
        """
        record = msgspec.json.decode(line)
        if isinstance(record, dict):
            forms = [each for each in record.get("intermediates") or () if isinstance(each, dict)]
            # Only where numbers stand: elsewhere "inf" is a word.
            for part in (
                record,
                record.get("stages"),
                record.get("first_divergence"),
                *(rows := record.get("numerics") or ()),
                *(row.get("vacuous") for row in rows if isinstance(row, dict)),
                *(row for each in forms for row in each.get("numerics") or ()),
            ):
                _read_spelled(part)
            for output in record.get("outputs") or ():
                if isinstance(output, dict) and isinstance(output.get("values"), list):
                    output["values"] = [read_number(value) for value in output["values"]]
        return msgspec.convert(record, type=cls)


_WORDS = {
    field.name
    for record in (Cell, Numerics, Divergence)
    for field in msgspec.structs.fields(record)
    if field.type in (str, str | None)
}


def _read_spelled(part: Any) -> None:
    for key, value in part.items() if isinstance(part, dict) else ():
        if key not in _WORDS:
            part[key] = read_number(value)
