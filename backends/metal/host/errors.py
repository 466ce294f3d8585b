"""What can be wrong with a kernel, or with one dispatch of it."""

from __future__ import annotations

from harness import ProgramError


class SourceError(ProgramError):
    """The source holds no kernel of that name, or a signature that this host cannot call."""


class CompileError(ProgramError):
    """The compiler refuses the source, or is missing.

    Attributes:
        log: what the compiler wrote, in full.
    """

    def __init__(self, message: str, log: str = "") -> None:
        self.log = log
        super().__init__(message)


class LaunchError(ProgramError):
    """A dispatch that Metal would refuse: arguments that do not fit, an impossible grid."""


class HostMemoryError(ProgramError):
    """This process may not map the memory that executing a kernel takes."""


class KernelFault(ProgramError):
    """A kernel did what it must not while it ran.

    Attributes:
        kernel: its name.
        buffer: the parameter or threadgroup variable concerned, or None.
        index: element of ``buffer`` that was accessed, or None.
        thread: position in the grid (x, y, z) of the thread.
    """

    def __init__(
        self,
        message: str,
        *,
        kernel: str,
        buffer: str | None = None,
        index: int | None = None,
        thread: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        self.kernel = kernel
        self.buffer = buffer
        self.index = index
        self.thread = thread
        super().__init__(message)


class OutOfBounds(KernelFault):
    """An access outside of a buffer or threadgroup variable."""


class DataRace(KernelFault):
    """Two threads access one element, one changes it, and no barrier stands between."""


class ReadOnlyWrite(KernelFault):
    """A write to a ``constant`` buffer."""


class UninitializedRead(KernelFault):
    """Threadgroup memory is read that no thread of the threadgroup has written."""


class LostWrite(KernelFault):
    """Threadgroup memory is written and never read: a reduction narrower than its threadgroup."""


class BarrierDivergence(KernelFault):
    """Some threads of a threadgroup wait at a barrier that others never reach."""


class IntegerDivisionByZero(KernelFault):
    """An integer is divided by zero: undefined in Metal."""


class ThreadgroupMemoryExceeded(KernelFault):
    """The threadgroup variables take more than the 32 KiB that a threadgroup may have."""
