"""Messages between a supervisor and its worker process, and the channel that they are sent on.

A request is one message; the process answers with events, the last of which is :class:`Finished` or
:class:`Refused`. A client adds its own events: the decoder of its channel gets a union of msgspec
structs. The supervisor never executes an answer, because a program may control the process.
"""

from __future__ import annotations

import socket
import struct
import time

import msgspec

_LENGTH = struct.Struct("!Q")
# A frame is read in pieces of at most this size, so that a wrong length allocates nothing.
_PIECE = 1 << 20


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The process has imported its module and waits for a request."""


class Finished(msgspec.Struct, frozen=True, tag=True):
    """The request is done; ``answer`` is its result, if it has one."""

    answer: bytes = b""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The request cannot be done; ``message`` says why.

    ``is_out_of_memory`` is set where an allocation failed.
    """

    message: str
    is_out_of_memory: bool = False


class CellStarted(msgspec.Struct, frozen=True, tag=True):
    """A cell started; ``printed`` is the length in bytes of the process' log before it."""

    cell: str
    printed: int = 0


class StageStarted(msgspec.Struct, frozen=True, tag=True):
    """The running cell started a stage."""

    stage: str


class ProgramLowered(msgspec.Struct, frozen=True, tag=True):
    """The running cell has its program and is executed next; ``record`` is its record so far."""

    record: str


class CellEnded(msgspec.Struct, frozen=True, tag=True):
    """A cell ended; its record and the claim about its known issue are lines of JSON."""

    cell: str
    record: str
    claim: str | None = None


Outcome = Finished | Refused
CellEvent = CellStarted | StageStarted | ProgramLowered | CellEnded


class Channel:
    """Sends and receives frames over a socket: a length, then a message in MessagePack."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def send(self, message: msgspec.Struct, deadline: float | None = None) -> None:
        """Send a message.

        Args:
            message: the message.
            deadline: when to give up, in ``time.monotonic`` seconds.

        Raises:
            TimeoutError: the deadline has passed.
            OSError: the other side is gone.
        """
        self.send_frame(msgspec.msgpack.encode(message), deadline)

    def send_frame(self, frame: bytes, deadline: float | None = None) -> None:
        """Send bytes as one frame; errors as for :meth:`send`."""
        self._set_timeout(deadline)
        self._socket.sendall(_LENGTH.pack(len(frame)))
        if frame:
            self._socket.sendall(frame)

    def receive_frame(self, deadline: float | None = None) -> bytes:
        """Receive one frame; errors as for :meth:`send`."""
        (size,) = _LENGTH.unpack(self._receive_bytes(_LENGTH.size, deadline))
        return self._receive_bytes(size, deadline)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _receive_bytes(self, size: int, deadline: float | None) -> bytes:
        pieces: list[bytes] = []
        while size:
            self._set_timeout(deadline)
            piece = self._socket.recv(min(size, _PIECE))
            if not piece:
                raise ConnectionResetError("the other side is gone")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _set_timeout(self, deadline: float | None) -> None:
        if deadline is None:
            self._socket.settimeout(None)
            return
        if (remaining := deadline - time.monotonic()) <= 0:
            raise TimeoutError
        self._socket.settimeout(remaining)
