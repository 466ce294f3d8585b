"""All exception classes of this project.

::

    ConformError                      one line: what is wrong, where, what to do
    ├── UsageError                    the caller named something that does not exist
    │   ├── UnknownTarget             no such backend, or no such recipe of it
    │   ├── UnknownCell               no such case, or no such cell in a run
    │   ├── ConflictingOptions        two options contradict each other
    │   └── ConflictingBackends       two backends are registered with one name
    ├── InputError                    a file of inputs cannot be read, or inputs do not fit
    ├── CaseError                     a case cannot be built, or its inputs do not fit
    │   └── NotDeterministic          two runs of its module differ, so there is no reference
    ├── StageOrderError               a stage was called before a stage that it needs
    ├── StageFailure                  a stage ran and failed; carries stage and cause
    ├── AlteredByCall                 a vendor's call changed the module or inputs of its caller
    ├── CheckFailure                  a graph check (check, check_count, ...) does not hold
    ├── ProgramError                  a serialized program cannot be read or interpreted
    │   ├── SizeRefused               it refuses a size within its declared range
    │   ├── MissingKernels            it calls operators without a kernel in the runtime
    │   ├── UnsupportedProgram        it needs a feature that the backend does not support here
    │   └── OutOfMemory               the process that executes it ran out of memory
    ├── LimitationError               a limitation entry matches nothing, or is malformed
    ├── ReleaseError                  a release cannot be found, installed or compared
    ├── PrivateNameError              a vendor's private name is gone; also an ImportError
    └── RunError                      a run folder cannot be read or written
        ├── RunUnreadable             missing, truncated, or not a run
        └── RunUnwritable             the folder or disk refuses

Only the command line and the pytest plugin convert these to text and exit codes; all other code
raises, and sets a cell's status where the cause is known.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence

_TRACEBACK_LINES = 60
_NAMED = 3
_BULLETS = ("- ", "* ", "• ")


class ConformError(Exception):
    """Base of all intended errors of this project; ``str()`` is one readable line."""


class UsageError(ConformError):
    """The caller named something that does not exist, or things that do not fit together."""


class UnknownTarget(UsageError):
    """The backend is not registered, or has no such recipe."""


class UnknownCell(UsageError):
    """The suites have no such case, or the run has no such cell."""


class ConflictingOptions(UsageError):
    """Two options contradict each other."""


class ConflictingBackends(UsageError):
    """Two installed distributions register one backend name, or one shadows a built-in."""


class InputError(ConformError):
    """A file of inputs cannot be read, or inputs do not fit their program."""


class CaseError(ConformError):
    """A case cannot be built, or its inputs do not fit its module."""


class NotDeterministic(CaseError):
    """Two runs of a case's module on the same inputs differ: the module draws random numbers, or
    keeps state outside buffers."""


class StageOrderError(ConformError):
    """A stage was called before a stage whose artifact it needs."""


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
    """A vendor's call changed the module or inputs of its caller.

    Attributes:
        names: the changed values, such as ``buffer mask``.
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
    """A program refuses inputs whose size is in the exported range.

    Attributes:
        call: number of the first refused call.
    """

    def __init__(self, call: int, message: str) -> None:
        self.call = call
        super().__init__(message)


class MissingKernels(ProgramError):
    """A program calls fallback operators without a kernel in the runtime.

    Attributes:
        names: the missing kernels, ``namespace::name.overload``.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(
            f"the runtime has no kernel {', '.join(self.names)}, which the program calls"
        )


class UnsupportedProgram(ProgramError):
    """A program needs a feature that its backend does not support on this host.

    Backends raise it, also from ``execute``; the cell is ``unsupported``.
    """


class OutOfMemory(ProgramError):
    """The child process that executes a program ran out of memory."""


class WorkerEnded(ConformError):
    """A worker process ended or did not start; the message follows its name in a sentence."""


class LimitationError(ConformError):
    """A limitation entry is malformed or matches nothing."""


class ReleaseError(ConformError):
    """A release of ExecuTorch cannot be found, installed, or compared with another."""


class PrivateNameError(ConformError, ImportError):
    """A vendor renamed, moved or removed a private name that this project uses."""


class RunError(ConformError):
    """A run folder cannot be used."""


class RunUnreadable(RunError):
    """The folder is missing, truncated, or not a run."""


class RunUnwritable(RunError):
    """The folder or the disk refuses a write."""


def printable(text: str) -> str:
    """Return the text with characters that UTF-8 cannot encode (lone surrogates) escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def format_traceback(error: BaseException) -> str:
    """Return a traceback as printable text, at most its last 60 lines."""
    lines = printable("".join(traceback.format_exception(error))).splitlines()
    if len(lines) > _TRACEBACK_LINES:
        lines = [f"... {len(lines) - _TRACEBACK_LINES} lines above", *lines[-_TRACEBACK_LINES:]]
    return "\n".join(lines)


def describe(error: BaseException, limit: int = 600) -> str:
    """Return one line for a record: the class and the first meaningful line of the message.

    Pass managers wrap errors in "An error occurred when running ...", so this follows the chain of
    causes to its end, or to an error of this project. A cyclic chain ends before its repetition. If
    the first line ends with a colon, the next line or list is part of the text.
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
