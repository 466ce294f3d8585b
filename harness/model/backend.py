"""The backend protocol: recipes, availability, and ``execute``; plus optional protocols.

A backend is one package and one line in the registry. It never subclasses the tester: it reports
whether it is available, lists its recipes, and executes the bytes of a serialized program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from harness.record.program_data import Defect, OperatorClaim

if TYPE_CHECKING:
    from harness.execution.execute import DelegateLoader
    from harness.execution.kernels import Kernels
    from harness.execution.program import DelegatePayload, Program
    from harness.model.case import Inputs
    from harness.model.known_issues.known_issue import KnownIssue
    from harness.model.limitation import Limitation
    from harness.model.precision import Precision
    from harness.model.recipe import KnownPass, Lowered, Recipe
    from harness.model.variations.setting import Setting
    from harness.numerics.formats.semantics import OperatorSemantics
    from harness.record.cell import Numerics


@dataclass(frozen=True)
class Availability:
    """Whether a backend can execute on this host.

    Attributes:
        available: whether it can execute.
        reason: why it cannot, and what to install; empty when available.
        runtime: the runtime that produces the numbers: ``native``, ``reference`` or ``emulated``.
        packages: distributions that the backend consists of, for ``conform list backends``.
        unverified: facts that the backend assumes and that were checked for other releases only;
            empty if they were checked for the installed release.
        can_lower: whether programs can be lowered here even without a runtime; cells then end as
            ``lowered`` instead of ``unavailable``, with the reason.
        tools: tools of this host that affect the numbers besides packages and processor, such as a
            compiler and its version. Cached results of other tools are not reused.
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
    """The outputs of a program.

    Attributes:
        outputs: for each call every value that the program returns, in its order: tensors, numbers
            and None, changed inputs included.
        runtime: the runtime that produced them: ``native``, ``reference`` or ``emulated``.
    """

    outputs: list[list[Any]]
    runtime: str


@dataclass(frozen=True)
class InspectedCell:
    """The state of a cell after its last stage, for ``conform show``.

    Attributes:
        lowered: its program.
        calls: the flat inputs of each call, laid out as the program declares them.
        precision: the rounding model of the target.
        semantics: the meaning of operators that are not tensor arithmetic.
        seed: the seed of the case, for noise.
        problem: the result of the comparison; None if all outputs conform or none was compared.
        numerics: the comparison of each output.
    """

    lowered: Lowered
    calls: Sequence[Inputs]
    precision: Precision
    semantics: OperatorSemantics
    seed: int
    problem: str | None
    numerics: Sequence[Numerics]


class DefectLog:
    """Defects of a vendor's code despite which lowering and execution continued.

    Attributes:
        failure: the exception that the first defect would have raised; None without a defect.
        defects: each defect once, in order of occurrence.
    """

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.defects: list[Defect] = []

    def add(self, failure: Exception, defect: Defect | None = None) -> None:
        """Log a failure, and its defect unless that is logged elsewhere."""
        self.failure = self.failure or failure
        if defect is not None and defect not in self.defects:
            self.defects.append(defect)


_LOG: ContextVar[DefectLog | None] = ContextVar("defect_log", default=None)


@contextmanager
def past_defects() -> Iterator[DefectLog]:
    """Continue despite defects in this block, if the backend supports it.

    The backend then computes the result that the vendor's code would return without the defect.
    """
    log = DefectLog()
    token = _LOG.set(log)
    try:
        yield log
    finally:
        _LOG.reset(token)


def report_defect(failure: Exception, defect: Defect | None = None) -> None:
    """Report a defect of the vendor's code; a backend calls this instead of raising ``failure``.

    Args:
        failure: the exception that ends the cell, such as a
            :class:`~harness.errors.StageFailure`.
        defect: the entry of the record; see :meth:`DefectLog.add`.

    Raises:
        Exception: ``failure``, outside :func:`past_defects`.
    """
    log = _LOG.get()
    if log is None:
        raise failure
    log.add(failure, defect)


@runtime_checkable
class Backend(Protocol):
    """The protocol that every backend implements."""

    @property
    def name(self) -> str:
        """The part of a target before the colon."""
        ...

    @property
    def recipes(self) -> Mapping[str, Recipe]:
        """The recipes by name."""
        ...

    def availability(self) -> Availability:
        """Return whether this backend can execute here; never raises."""
        ...

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Load a serialized program once and run it for each call in turn.

        Args:
            program: the bytes of the ``.pte``.
            calls: flat inputs of each call; mutable buffers persist between calls.

        Raises:
            Exception: any exception of the runtime; the tester attributes it to stage ``run``.
        """
        ...


@runtime_checkable
class CanEmulate(Protocol):
    """A backend that can emulate even where the vendor's runtime is available."""

    def emulate(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Execute as :meth:`Backend.execute` does, but never natively."""
        ...


@runtime_checkable
class LoadsDelegates(Protocol):
    """A backend that executes payloads of its delegate without the vendor's runtime."""

    @property
    def delegate(self) -> str:
        """The id of the delegate in programs."""
        ...

    def loader(self, program: Program) -> DelegateLoader:
        """Return the loader of the delegate's payloads in a program.

        The program may also have payloads of other delegates. A loader takes a payload and returns
        a function that executes it. The function gets a list of all arguments, inputs first, and
        writes to the outputs. Strides are the program's; ``read_memory`` and ``write_memory`` copy
        bytes as a driver does.

        Raises:
            UnsupportedProgram: by both, where the payload needs something that cannot be executed
                here; the cell is ``unsupported``.
        """
        ...


@runtime_checkable
class LoadsKernels(Protocol):
    """A backend that replaces operators by those of its own kernel library, not by delegates."""

    @property
    def library(self) -> str:
        """The namespace of its operators in programs, such as ``cortex_m``."""
        ...

    def kernels(self) -> Kernels:
        """Return the kernels of the library, for runtimes that lack them."""
        ...


def get_library(backend: Backend) -> str:
    """Return the namespace of a backend's own operators; empty if it has none."""
    return backend.library if isinstance(backend, LoadsKernels) else ""


@runtime_checkable
class SelectsTargets(Protocol):
    """An out-of-tree backend that selects recipes for runs without ``--targets``."""

    @property
    def plain(self) -> Sequence[str]:
        """The names of the recipes that a plain run selects."""
        ...

    @property
    def nightly(self) -> Sequence[str]:
        """The names of the recipes that only a nightly run selects."""
        ...


@runtime_checkable
class KnowsLimitations(Protocol):
    """An out-of-tree backend that brings limitations for all suites."""

    @property
    def limitations(self) -> Sequence[Limitation]:
        """The limitations, of this backend's targets only; entries of the suite take precedence."""
        ...


@runtime_checkable
class KnowsIssues(Protocol):
    """An out-of-tree backend that brings known issues for any model."""

    @property
    def known_issues(self) -> Sequence[KnownIssue]:
        """The known issues."""
        ...


@runtime_checkable
class OffersPasses(Protocol):
    """A backend with its own graph passes, which a target can add (``backend:recipe+pass``)."""

    @property
    def passes(self) -> Mapping[str, KnownPass]:
        """The passes by name."""
        ...


@runtime_checkable
class OffersSettings(Protocol):
    """A backend with its own settings, which a target can name (``backend:recipe+setting``)."""

    @property
    def settings(self) -> Mapping[str, Setting]:
        """The settings by name."""
        ...


@runtime_checkable
class DescribesPayloads(Protocol):
    """A backend that can describe payloads of its delegate in any program."""

    @property
    def delegate(self) -> str:
        """The id of the delegate in programs."""
        ...

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """Return lines that describe a payload's bytes; nothing is executed.

        Raises:
            ProgramError: the payload cannot be read.
        """
        ...


@dataclass(frozen=True)
class LoweringCode:
    """The Python code that lowers programs for a backend, for ``conform coverage`` and for the
    cells that a change of ExecuTorch can affect.

    Attributes:
        modules: packages and modules of the vendor, such as ``executorch.backends.xnnpack``.
        excluded: packages and modules within these that lower nothing for this backend. Folders
            named ``test``, ``tests`` or ``third-party`` are always excluded.
        shared: packages and modules of other backends that lower programs for this one, too.
        copies: a package of these whose modules are executed from a copy in another folder, and
            that folder.
    """

    modules: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    copies: tuple[tuple[str, Path], ...] = ()


@runtime_checkable
class NamesLoweringCode(Protocol):
    """A backend that names the vendor's code whose execution is recorded."""

    @property
    def lowering_code(self) -> LoweringCode:
        """The code that lowers programs for this backend only."""
        ...


@runtime_checkable
class ClaimsOperators(Protocol):
    """A backend that knows which operators the vendor's code says it takes."""

    def claim_operators(self, recipe: Recipe) -> Mapping[str, OperatorClaim]:
        """Return the operators by name in records (:func:`~harness.backend_api.op_name`).

        It reads the registries of the installed code, so that no claim can be out of date.

        Raises:
            Exception: the vendor's code cannot be imported, or has changed.
        """
        ...


@dataclass(frozen=True)
class PayloadConstants:
    """The constants of a payload.

    Attributes:
        blobs: the bytes of each constant.
        instead_of: keys of named data that need no further count: data that holds these constants,
            and data that is not constant, such as code.
    """

    blobs: Sequence[bytes | memoryview]
    instead_of: frozenset[str] = frozenset()


@runtime_checkable
class ReportsConstants(Protocol):
    """A backend whose payloads contain constants that the program does not list."""

    @property
    def delegate(self) -> str:
        """The id of the delegate in programs."""
        ...

    def constants(self, payload: DelegatePayload) -> PayloadConstants:
        """Return the constants of a payload.

        Raises:
            ProgramError: the payload cannot be read.
        """
        ...


@runtime_checkable
class InspectsCells(Protocol):
    """A backend that can explain its part of a program; ``conform show`` prints it."""

    def inspect(self, attempt: InspectedCell) -> Iterable[str]:
        """Return lines about the program of a cell after its last stage."""
        ...


@dataclass(frozen=True)
class MissingBackend:
    """Placeholder for a backend whose package cannot be imported, so that reports list it."""

    name: str
    reason: str
    recipes: Mapping[str, Recipe] = field(default_factory=dict)

    def availability(self) -> Availability:
        """Return unavailable, with the import error as reason."""
        return Availability(False, self.reason)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Raise; the tester checks availability first."""
        raise RuntimeError(self.reason)
