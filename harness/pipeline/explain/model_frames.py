"""Find the lines of model code and of vendor code at which an error was raised."""

from __future__ import annotations

import functools
import linecache
import re
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path

import harness

# Packages that trace, lower or run models. Libraries of models, such as transformers, are models.
_TOOLS = frozenset(
    """
    torch torchgen functorch torchao executorch tosa mlx numpy sympy pytest _pytest pluggy xdist
    click rich harness backends reports
    """.split()
)
# Generic code that calls any operator, node or pass.
_GENERIC_CODE = re.compile(
    r"/torch/(_ops|_compile|library|_tensor|overrides|functional)\.py"
    r"|/torch/(fx|nn|utils|_library|_subclasses|_functorch|_dynamo|_higher_order_ops)/"
    r"|/executorch/exir/(pass_base|pass_manager|tracer)\.py|/executorch/exir/dialects/"
    r"|/executorch/runtime/|/executorch/exir/program/"
)
# The format of a frame in tracebacks, in torch's messages and of faulthandler.
_WRITTEN = re.compile(r'File "([^"\n]+)", line (\d+),? in ')


def find_model_frame(error: BaseException) -> str | None:
    """Find the innermost frame of model code in an error, as ``file:line: code``.

    Searches the tracebacks of the error and its causes, the stack that Dynamo keeps, and the
    frames that torch writes into messages about nodes of a graph.

    Args:
        error: the error of a stage.

    Returns:
        None if there is no frame of model code.
    """
    chain = list(exception_chain(error))
    for link in reversed(chain):
        kept = getattr(link, "real_stack", None) or ()
        for frame in reversed([*traceback.extract_tb(link.__traceback__), *kept]):
            if _is_model_file(frame.filename):
                return _format_frame(frame.filename, frame.lineno or 0)
    written = (find_frame_in_text(_message(link), innermost_last=True) for link in reversed(chain))
    return next(filter(None, written), None)


def find_frame_in_text(text: str, *, innermost_last: bool) -> str | None:
    """Find the innermost frame of model code in a text, as ``file:line: code``.

    Args:
        text: a message, or a stack of faulthandler.
        innermost_last: True for tracebacks; False for faulthandler, which writes the innermost
            frame first.
    """
    frames = _WRITTEN.findall(text)
    for name, line in reversed(frames) if innermost_last else frames:
        if _is_model_file(name):
            return _format_frame(name, int(line))
    return None


def find_vendor_frame(error: BaseException) -> str:
    """Find the innermost frame of vendor code in which an error was raised.

    It has the format of :func:`find_model_frame`, with the path from ``site-packages``. Generic
    code that calls any operator, node or pass is skipped if there is other vendor code.

    Args:
        error: the error of a stage.

    Returns:
        Empty if there is no frame of vendor code.
    """
    frames = [
        frame
        for link in reversed(list(exception_chain(error)))
        for frame in reversed(traceback.extract_tb(link.__traceback__))
        if _package(frame.filename) in _TOOLS
    ]
    specific = (frame for frame in frames if not _GENERIC_CODE.search(frame.filename))
    found = next(specific, frames[0] if frames else None)
    if found is None:
        return ""
    name = re.split("(?:site|dist)-packages/", found.filename)[-1]
    return f"{name}:{found.lineno}: {(found.line or '').strip()}".removesuffix(": ")


def find_vendor_frame_in_stack(stack: str) -> str:
    """Find the innermost frame of vendor code in a stack of faulthandler.

    The format is that of :func:`find_vendor_frame`.
    """
    found = [frame for frame in _WRITTEN.findall(stack) if _package(frame[0]) in _TOOLS]
    specific = (frame for frame in found if not _GENERIC_CODE.search(frame[0]))
    name, line = next(specific, found[0] if found else ("", "0"))
    if not name:
        return ""
    return re.split("(?:site|dist)-packages/", _format_frame(name, int(line)))[-1]


def is_harness_file(name: str) -> bool:
    """Whether a file is of this project's harness."""
    return Path(name).is_relative_to(_non_model_folders()[0])


def exception_chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, outermost first."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _is_model_file(name: str) -> bool:
    if name.startswith("<"):
        return False
    if (package := _package(name)) is not None:
        return package not in _TOOLS
    return not any(Path(name).is_relative_to(folder) for folder in _non_model_folders())


def _package(name: str) -> str | None:
    """The installed package that contains a file, or None."""
    parts = Path(name).parts
    for place in ("site-packages", "dist-packages"):
        if place in parts:
            return parts[parts.index(place) + 1]
    return None


@functools.cache
def _non_model_folders() -> tuple[Path, ...]:
    """Folders outside of site-packages without models: this project and Python's library."""
    here = Path(harness.__file__).parent
    return here, here.with_name("backends"), Path(sysconfig.get_path("stdlib"))


def _format_frame(name: str, line: int) -> str:
    code = linecache.getline(name, line).strip()
    return f"{name}:{line}: {code}" if code else f"{name}:{line}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a message that cannot be read has no frames
        return ""
