"""What can go wrong, drawn once.

::

    ConformError                      one line: what is wrong, where, what to do
    ├── UsageError                    the caller asked for something that does not exist
    │   ├── UnknownTarget             no such backend, or no such recipe of it
    │   ├── UnknownCell               no such case, or no such cell in a run
    │   ├── ConflictingOptions        one thing was given in two ways that disagree
    │   └── ConflictingBackends       two backends are registered by one name
    ├── InputError                    a file of inputs cannot be read, or inputs do not fit
    ├── CaseError                     a case cannot be built, or its inputs do not fit
    │   └── NotDeterministic          two runs of its module differ, so there is nothing to expect
    ├── StageOrderError               a stage was called before the one it needs
    ├── StageFailure                  a stage ran and failed; carries stage and cause
    ├── AlteredByCall                 a vendor's call changed the module or inputs of its caller
    ├── CheckFailure                  a graph check (check, check_count, ...) does not hold
    ├── ProgramError                  a serialized program cannot be read or interpreted
    │   ├── SizeRefused               it refuses a size that it is declared for
    │   ├── MissingKernels            it calls operators that the runtime has no kernels for
    │   ├── UnsupportedProgram        it asks for what the backend does not claim to execute here
    │   └── OutOfMemory               what executes it was refused memory
    ├── LimitationError               a limitation entry matches nothing, or is malformed
    ├── ReleaseError                  a release cannot be found, installed or compared
    ├── PrivateNameError              a vendor's private name is gone; also an ImportError
    └── RunError                      a run folder cannot be read or written
        ├── RunUnreadable             missing, truncated, or not a run
        └── RunUnwritable             the folder or disk refuses

Only the command line and the pytest plugin turn these into text and exit codes; everything
below them raises, and a cell's status is decided where the fact is known.
"""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 3
_BULLETS = ("- ", "* ", "• ")


class ConformError(Exception):
    """Base of every error this project raises on purpose; ``str()`` is one readable line."""


class UsageError(ConformError):
    """The caller named something that does not exist or does not go together."""


class UnknownTarget(UsageError):
    """No registered backend, or no such recipe of it."""


class UnknownCell(UsageError):
    """No case of that name in the suites, or no such cell in a run."""


class ConflictingOptions(UsageError):
    """One option was given in two places that disagree."""


class ConflictingBackends(UsageError):
    """Two installed distributions register a backend by one name, or one shadows a built-in."""


class InputError(ConformError):
    """A file of inputs cannot be read, or inputs do not fit the program that they are for."""


class CaseError(ConformError):
    """A case cannot be built, or its inputs do not fit its module."""


class NotDeterministic(CaseError):
    """Two runs of a case's module on the same inputs differ: it draws numbers or keeps state that
    is not a buffer."""


class StageOrderError(ConformError):
    """A stage was called before the stage whose artifact it needs."""


class StageFailure(ConformError):
    """A stage ran and failed.

    Attributes:
        stage: name of the stage, as in ``Cell.stage``.
        cause: the exception that the stage raised.
    """

    def __init__(self, stage: str, cause: BaseException) -> None:
        self.stage = stage
        self.cause = cause
        super().__init__(f"{stage}: {describe(cause)}")


class AlteredByCall(ConformError):
    """A vendor's call changed what belongs to its caller.

    Attributes:
        names: what was changed, such as ``buffer mask``.
    """

    def __init__(self, call: str, names: Sequence[str]) -> None:
        self.names = list(names)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        super().__init__(f"{call} changed what it was given: {', '.join(names[:_NAMED])}{more}")


class CheckFailure(ConformError):
    """A graph check does not hold."""


class ProgramError(ConformError):
    """A serialized program cannot be read or interpreted."""


class SizeRefused(ProgramError):
    """A program refuses inputs of a size that is in the range it was exported with.

    Attributes:
        call: number of the first call that it refuses.
    """

    def __init__(self, call: int, message: str) -> None:
        self.call = call
        super().__init__(message)


class MissingKernels(ProgramError):
    """A program calls operators around its delegates that the runtime has no kernels for.

    Attributes:
        names: of the kernels, ``namespace::name.overload``.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(
            f"the runtime has no kernel {', '.join(self.names)}, which the program calls"
        )


class UnsupportedProgram(ProgramError):
    """A program asks for what its backend does not claim to execute on this host."""


class OutOfMemory(ProgramError):
    """What executes a program in another process was refused memory there."""


class LimitationError(ConformError):
    """A limitation entry is malformed or matches nothing."""


class ReleaseError(ConformError):
    """A release of ExecuTorch cannot be found, installed, or held against another."""


class PrivateNameError(ConformError, ImportError):
    """A vendor has renamed, moved or removed a name that we use without being promised it."""


class RunError(ConformError):
    """A run folder cannot be used."""


class RunUnreadable(RunError):
    """The folder is missing, truncated, or not a run."""


class RunUnwritable(RunError):
    """The folder or the disk refuses a write."""


def printable(text: str) -> str:
    """The text with whatever UTF-8 cannot carry (lone surrogates) escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def describe(error: BaseException, limit: int = 600) -> str:
    """One line for a record: the class and the first meaningful line of the message, with
    what that announces.

    Pass managers wrap an error in "An error occurred when running ..."; the innermost cause
    is what a reader needs, so the chain is followed to its end, or to an error of our own,
    which is written to be read. A chain that is a circle ends where it would begin again.
    """
    root = error
    seen = {id(root)}
    while not isinstance(root, ConformError):
        cause = root.__cause__
        if cause is None or id(cause) in seen:
            break
        seen.add(id(cause))
        root = cause
    lines = [line.strip() for line in _text(root).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    is_list = False
    for line in lines[1:]:
        # What a colon announces is the message: a line, or all items of a list.
        is_item = line.startswith(_BULLETS)
        if not (text.endswith(":") or (is_list and is_item)):
            break
        is_list = is_item
        text += f" {line}"
    name = type(root).__name__
    line = f"{name}: {text}" if text else name
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _text(error: BaseException) -> str:
    try:
        return printable(str(error))
    except Exception as failure:
        return f"(its message cannot be read: {type(failure).__name__})"
