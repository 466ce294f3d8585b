"""A command that behaves like ``python`` but runs in a process forked from a fork server.

It is started without site-packages and imports little, because it stands for each forked process.
Where the server has ended, or the arguments are not those of a worker, it becomes a new Python
process. It is also imported, by :mod:`.fork_server`.
"""

from __future__ import annotations

import array
import marshal
import os
import signal
import socket
import struct
import sys

_LENGTH = struct.Struct("!Q")
_MAX_DESCRIPTORS = 64
_FLAGS = ("-u", "-P", "-B")


def parse(arguments: list[str]) -> tuple[list[str], str, str, list[str]]:
    """Divide the arguments of ``python``.

    Returns:
        Flags, ``-c`` or ``-m``, code or module, and the arguments of these.

    Raises:
        ValueError: other options.
    """
    at = 0
    while at < len(arguments) and arguments[at] in _FLAGS:
        at += 1
    if len(arguments) < at + 2 or arguments[at] not in ("-c", "-m"):
        raise ValueError(f"not the arguments of a worker: {arguments}")
    return arguments[:at], arguments[at], arguments[at + 1], arguments[at + 2 :]


def receive_request(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a request and its descriptors.

    Raises:
        OSError: it is incomplete.
    """
    head, received, _, _ = socket.recv_fds(connection, _LENGTH.size, _MAX_DESCRIPTORS)
    if len(head) < _LENGTH.size:
        raise ConnectionResetError("the request is incomplete")
    (size,) = _LENGTH.unpack(head)
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("the request is incomplete")
        data += piece
    return bytes(data), received


def _request(server: str, arguments: list[str]) -> socket.socket:
    """Send the request; return the socket on which the exit code comes."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("\0" + server)
    descriptors = [each for each in map(int, os.listdir("/proc/self/fd")) if _is_inherited(each)]
    request = marshal.dumps(
        {
            "arguments": arguments,
            "folder": os.getcwd(),
            "environ": dict(os.environ),
            "descriptors": descriptors,
        }
    )
    ancillary = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
    connection.sendmsg([_LENGTH.pack(len(request))], [ancillary])
    connection.sendall(request)
    # Only the process holds them from now on, so that their other ends see its end.
    for number in descriptors:
        if number > 2:
            os.close(number)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)
    return connection


def _is_inherited(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:
        return False


def _end_as(code: int) -> None:
    """End as the process ended."""
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


def main(server: str, *given: str) -> None:
    """Run ``python`` with these arguments in a process forked from the server."""
    arguments = list(given)
    try:
        parse(arguments)
        connection = _request(server, arguments)
    except (ValueError, OSError):
        os.execv(sys.executable, [sys.executable, *arguments])
    # The process gets a keyboard interrupt itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    data = connection.recv(4)
    _end_as(struct.unpack("i", data)[0] if len(data) == 4 else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
