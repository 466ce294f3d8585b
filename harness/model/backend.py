"""Backend: its recipes and one ``execute``. Adding a backend is one package and one line.

A backend never subclasses the tester. It says whether it is available and why not, lists its
recipes, and runs the bytes of a serialized program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from harness.record.program_data import Defect

if TYPE_CHECKING:
    from harness.execution.execute import DelegateLoader
    from harness.execution.program import DelegatePayload, Program
    from harness.model.case import Inputs
    from harness.model.known_issues.known_issue import KnownIssue
    from harness.model.limitation import Limitation
    from harness.model.precision import Precision
    from harness.model.recipe import KnownPass, Lowered, Recipe
    from harness.numerics.formats.semantics import OperatorSemantics
    from harness.record.cell import Numerics


@dataclass(frozen=True)
class Availability:
    """Whether a backend can execute on this host.

    Attributes:
        available: it can.
        reason: why not, and what to install; empty when available.
        runtime: what will produce the numbers: ``native``, ``reference`` or ``emulated``.
        packages: distributions the backend is made of, for the version table.
        unverified: what is not known of the installed release, where the backend goes by sources
            that were read of others; empty where they were read.
        can_lower: programs can be lowered here even if nothing can execute them; cells then end
            as ``lowered`` instead of ``unavailable``, with the reason.
        tools: what of this host makes its numbers besides packages and processor, such as a
            compiler and its version: results of other tools are not taken for its own.
    """

    available: bool
    reason: str = ""
    runtime: str = "none"
    packages: tuple[str, ...] = ()
    can_lower: bool = False
    unverified: str = ""
    tools: str = ""


@dataclass(frozen=True)
class Execution:
    """What a program returned.

    Attributes:
        outputs: for each call every value that the program returns, in its order: tensors, numbers
            and None, inputs that it changed among them.
        runtime: who produced them: ``native``, ``reference`` or ``emulated``.
    """

    outputs: list[list[Any]]
    runtime: str


@dataclass(frozen=True)
class InspectedCell:
    """A cell as far as it came, for ``conform show``.

    Attributes:
        lowered: its program.
        calls: the flat inputs of each call, laid out as the program declares them.
        precision: how the target rounds.
        semantics: what operators mean that are no arithmetic of tensors.
        seed: of the case, from which noise is drawn.
        problem: what the comparison found wrong; None where nothing is, or it did not come so far.
        numerics: the values that were compared.
    """

    lowered: Lowered
    calls: Sequence[Inputs]
    precision: Precision
    semantics: OperatorSemantics
    seed: int
    problem: str | None
    numerics: Sequence[Numerics]


class DefectLog:
    """Defects of a vendor's code that lowering and execution went past.

    Attributes:
        failure: what the first one would have raised; None where there is none.
        defects: each once, in the order in which they were met.
    """

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.defects: list[Defect] = []

    def add(self, failure: Exception, defect: Defect | None = None) -> None:
        """Log a defect; without ``defect``, a failure whose defects are logged where it is met."""
        self.failure = self.failure or failure
        if defect is not None and defect not in self.defects:
            self.defects.append(defect)


_LOG: ContextVar[DefectLog | None] = ContextVar("defect_log", default=None)


@contextmanager
def past_defects() -> Iterator[DefectLog]:
    """Go on past defects inside, where the backend can: it computes what the vendor's code would
    return if it kept its contract."""
    log = DefectLog()
    token = _LOG.set(log)
    try:
        yield log
    finally:
        _LOG.reset(token)


def report_defect(failure: Exception, defect: Defect | None = None) -> None:
    """Report a defect of the vendor's code; a backend calls this in place of raising ``failure``.

    Args:
        failure: how the defect ends the cell, such as a :class:`~harness.errors.StageFailure`.
        defect: what the record keeps of it; see :meth:`DefectLog.add`.

    Raises:
        Exception: ``failure``, outside of :func:`past_defects`.
    """
    log = _LOG.get()
    if log is None:
        raise failure
    log.add(failure, defect)


@runtime_checkable
class Backend(Protocol):
    """What a backend package provides."""

    @property
    def name(self) -> str:
        """The part of a target before the colon."""
        ...

    @property
    def recipes(self) -> Mapping[str, Recipe]:
        """The recipes by name."""
        ...

    def availability(self) -> Availability:
        """Ask, without raising, whether this backend can execute here."""
        ...

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Load a serialized program once and run it for each call in turn.

        Args:
            program: the bytes of the ``.pte``.
            calls: flat inputs of each call; mutable buffers persist between calls.

        Raises:
            Exception: whatever the runtime raises; the tester attributes it to stage ``run``.
        """
        ...


@runtime_checkable
class CanEmulate(Protocol):
    """A backend that can execute without the vendor's runtime where that is registered, too."""

    def emulate(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """As ``execute``, never natively."""
        ...


@runtime_checkable
class LoadsDelegates(Protocol):
    """A backend that executes payloads of its delegate where the runtime of the host cannot."""

    @property
    def delegate(self) -> str:
        """The name by which programs ask for the delegate."""
        ...

    def loader(self, program: Program) -> DelegateLoader:
        """How the delegate's payloads in a program are loaded; it may have others' beside them."""
        ...


@runtime_checkable
class SelectsTargets(Protocol):
    """A backend out of tree that says which of its recipes a run takes that names no targets."""

    @property
    def plain(self) -> Sequence[str]:
        """Names of the recipes that a plain run selects."""
        ...

    @property
    def nightly(self) -> Sequence[str]:
        """Names of those that a night selects beside them."""
        ...


@runtime_checkable
class KnowsLimitations(Protocol):
    """A backend out of tree whose known gaps travel with it, whichever suite meets them."""

    @property
    def limitations(self) -> Sequence[Limitation]:
        """The gaps. They come after those of a case's suite, and speak of this backend alone."""
        ...


@runtime_checkable
class KnowsIssues(Protocol):
    """A backend out of tree whose known issues are recognised in any model."""

    @property
    def known_issues(self) -> Sequence[KnownIssue]:
        """The issues, with the signs of each."""
        ...


@runtime_checkable
class OffersPasses(Protocol):
    """A backend with graph passes of its own that a target can name."""

    @property
    def passes(self) -> Mapping[str, KnownPass]:
        """The passes by name."""
        ...


@runtime_checkable
class DescribesPayloads(Protocol):
    """A backend that can read payloads of its delegate, whoever lowered them."""

    @property
    def delegate(self) -> str:
        """The name by which programs ask for the delegate."""
        ...

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """Lines about a payload: what its bytes say, nothing is executed.

        Raises:
            ProgramError: the payload cannot be read.
        """
        ...


@dataclass(frozen=True)
class PayloadConstants:
    """Constants in a payload.

    Attributes:
        blobs: the bytes of each.
        instead_of: keys of the named data that they were found in, and of what is there and is no
            constant, such as code.
    """

    blobs: Sequence[bytes | memoryview]
    instead_of: frozenset[str] = frozenset()


@runtime_checkable
class ReportsConstants(Protocol):
    """A backend whose payloads have constants that the program around them does not show."""

    @property
    def delegate(self) -> str:
        """The name by which programs ask for the delegate."""
        ...

    def constants(self, payload: DelegatePayload) -> PayloadConstants:
        """The constants of a payload.

        Raises:
            ProgramError: the payload cannot be read.
        """
        ...


@runtime_checkable
class InspectsCells(Protocol):
    """A backend that can show what it made of a program; ``conform show`` prints it."""

    def inspect(self, attempt: InspectedCell) -> Iterable[str]:
        """Lines about the program of a cell that has come as far as it could."""
        ...


@dataclass(frozen=True)
class MissingBackend:
    """Stands for a backend whose package cannot be imported, so that it is reported."""

    name: str
    reason: str
    recipes: Mapping[str, Recipe] = field(default_factory=dict)

    def availability(self) -> Availability:
        """Always unavailable, with the import error as reason."""
        return Availability(False, self.reason)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Never called: the tester asks for availability first."""
        raise RuntimeError(self.reason)
