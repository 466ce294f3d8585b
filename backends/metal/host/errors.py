"""Errors of a kernel, or of one dispatch of it."""

from __future__ import annotations

from harness import ProgramError


class SourceError(ProgramError):
    """The source has no kernel of that name, or the kernel has an unsupported signature."""


class CompileError(ProgramError):
    """The compiler rejects the source, or is missing.

    Attributes:
        log: the compiler's full output.
    """

    def __init__(self, message: str, log: str = "") -> None:
        self.log = log
        super().__init__(message)


class LaunchError(ProgramError):
    """A dispatch that Metal would refuse: arguments that do not fit, an impossible grid."""


class HostMemoryError(ProgramError):
    """This process cannot map the memory that a kernel needs."""


class KernelFault(ProgramError):
    """A kernel violated a rule of Metal while it ran.

    Attributes:
        kernel: name of the kernel.
        buffer: the parameter or threadgroup variable concerned, or None.
        index: accessed element of ``buffer``, or None.
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
    """An access outside a buffer or threadgroup variable."""


class DataRace(KernelFault):
    """Two threads access one element without a barrier in between, and one of them writes."""


class ReadOnlyWrite(KernelFault):
    """A write to a ``constant`` buffer."""


class UninitializedRead(KernelFault):
    """A read of threadgroup memory that no thread of the threadgroup has written."""


class LostWrite(KernelFault):
    """A write to threadgroup memory that is never read: a reduction misses some threads."""


class BarrierDivergence(KernelFault):
    """Some threads of a threadgroup wait at a barrier that others never reach."""


class IntegerDivisionByZero(KernelFault):
    """An integer division by zero, which is undefined in Metal."""


class ThreadgroupMemoryExceeded(KernelFault):
    """The threadgroup variables take more than the 32 KiB that a threadgroup may have."""
