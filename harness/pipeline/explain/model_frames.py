"""The line of a model's own code at which a stage raised."""

from __future__ import annotations

import functools
import linecache
import re
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path

import harness

# Tools that trace, lower or run a model; what models are made of, such as transformers, is theirs.
_TOOLS = frozenset(
    """
    torch torchgen functorch torchao executorch tosa mlx numpy sympy pytest _pytest pluggy xdist
    click rich harness backends reports
    """.split()
)
# What calls any operator, node or pass, whatever it is.
_MACHINERY = re.compile(
    r"/torch/(_ops|_compile|library|_tensor|overrides|functional)\.py"
    r"|/torch/(fx|nn|utils|_library|_subclasses|_functorch|_dynamo|_higher_order_ops)/"
    r"|/executorch/exir/(pass_base|pass_manager|tracer)\.py|/executorch/exir/dialects/"
    r"|/executorch/runtime/|/executorch/exir/program/"
)
# How tracebacks, torch's messages and faulthandler write a frame.
_WRITTEN = re.compile(r'File "([^"\n]+)", line (\d+),? in ')


def model_frame(error: BaseException) -> str | None:
    """The innermost frame of the model in which an error arose, as ``file:line: code``.

    Looks at the tracebacks of the error and of what caused it, at the stack that Dynamo keeps, and
    at the frames that torch writes into messages about nodes of a graph.

    Args:
        error: what a stage raised.

    Returns:
        None where no frame is of a model.
    """
    chain = list(chain_of(error))
    for link in reversed(chain):
        kept = getattr(link, "real_stack", None) or ()
        for frame in reversed([*traceback.extract_tb(link.__traceback__), *kept]):
            if _is_of_a_model(frame.filename):
                return _spell(frame.filename, frame.lineno or 0)
    written = (written_frame(_message(link), innermost_last=True) for link in reversed(chain))
    return next(filter(None, written), None)


def written_frame(text: str, *, innermost_last: bool) -> str | None:
    """The innermost frame of the model among those that a text has, as :func:`model_frame`.

    Args:
        text: a message, or the stack that faulthandler wrote.
        innermost_last: as in tracebacks; faulthandler begins with the innermost.
    """
    frames = _WRITTEN.findall(text)
    for name, line in reversed(frames) if innermost_last else frames:
        if _is_of_a_model(name):
            return _spell(name, int(line))
    return None


def vendor_frame(error: BaseException) -> str:
    """The innermost frame of a vendor's in which an error arose, as :func:`model_frame`; spelled
    from ``site-packages``. Code that calls any operator, node or pass is passed over where there is
    other code.

    Args:
        error: what a stage raised.

    Returns:
        Empty where no frame is a vendor's.
    """
    frames = [
        frame
        for link in reversed(list(chain_of(error)))
        for frame in reversed(traceback.extract_tb(link.__traceback__))
        if _package(frame.filename) in _TOOLS
    ]
    telling = (frame for frame in frames if not _MACHINERY.search(frame.filename))
    found = next(telling, frames[0] if frames else None)
    if found is None:
        return ""
    name = re.split("(?:site|dist)-packages/", found.filename)[-1]
    return f"{name}:{found.lineno}: {(found.line or '').strip()}".removesuffix(": ")


def written_vendor_frame(stack: str) -> str:
    """The innermost frame of a vendor's in a stack that faulthandler wrote, as
    :func:`vendor_frame`."""
    found = [frame for frame in _WRITTEN.findall(stack) if _package(frame[0]) in _TOOLS]
    telling = (frame for frame in found if not _MACHINERY.search(frame[0]))
    name, line = next(telling, found[0] if found else ("", "0"))
    if not name:
        return ""
    return re.split("(?:site|dist)-packages/", _spell(name, int(line)))[-1]


def is_of_the_harness(name: str) -> bool:
    """Whether a file is of this project's harness."""
    return Path(name).is_relative_to(_ours()[0])


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """An error and what it was raised from, outermost first."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _is_of_a_model(name: str) -> bool:
    if name.startswith("<"):
        return False
    if (package := _package(name)) is not None:
        return package not in _TOOLS
    return not any(Path(name).is_relative_to(folder) for folder in _ours())


def _package(name: str) -> str | None:
    """The installed package that a file is of, or None."""
    parts = Path(name).parts
    for place in ("site-packages", "dist-packages"):
        if place in parts:
            return parts[parts.index(place) + 1]
    return None


@functools.cache
def _ours() -> tuple[Path, ...]:
    """What is no model outside of packages: this project and Python's own library."""
    here = Path(harness.__file__).parent
    return here, here.with_name("backends"), Path(sysconfig.get_path("stdlib"))


def _spell(name: str, line: int) -> str:
    code = linecache.getline(name, line).strip()
    return f"{name}:{line}: {code}" if code else f"{name}:{line}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a message that cannot be read has no frames
        return ""
