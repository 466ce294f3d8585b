"""Who executes a delegate on this host: the runtime, a backend in its stead, or nobody."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.errors import ProgramError, describe
from harness.execution.any_program.native_stderr import printed_to
from harness.execution.execute import native_backends
from harness.execution.program import DelegatePayload
from harness.model import registry
from harness.model.backend import Backend, Delegating, Describing


@dataclass(frozen=True)
class Executor:
    """Who executes a delegate.

    Attributes:
        runtime: ``native``, ``reference`` or ``emulated``; ``none`` where nobody does.
        backend: the name of the backend that knows the delegate; empty where none does.
        reason: why nobody executes it; empty otherwise.
    """

    runtime: str
    backend: str = ""
    reason: str = ""


def executor(delegate: str) -> Executor:
    """Who executes payloads of a delegate, by the name that programs ask for it by."""
    known = registry.by_delegate().get(delegate)
    name = known.name if known else ""
    registered = delegate in native_backends()
    if registered and _is_available(delegate):
        return Executor("native", name)
    if known is None and registered:
        return Executor("none", reason="the runtime has it, and says that it cannot be used here")
    if known is None:
        return Executor("none", reason=f"nothing here knows delegate {delegate!r}")
    state = known.availability()
    if not isinstance(known, Delegating):
        return Executor("none", name, state.reason or f"{name} runs in the runtime alone")
    if not state.available:
        return Executor("none", name, state.reason)
    return Executor(state.runtime, name)


@functools.cache
def _is_available(delegate: str) -> bool:
    """Whether the runtime can use a delegate that it has, such as for a library that is missing."""
    from executorch.runtime import Runtime

    with printed_to(os.devnull):
        return bool(Runtime.get().backend_registry.is_available(delegate))


def require(delegates: Iterable[str]) -> dict[str, Executor]:
    """Who executes each of these delegates.

    Raises:
        ProgramError: nobody executes one of them.
    """
    found = {delegate: executor(delegate) for delegate in delegates}
    for delegate, one in found.items():
        if one.runtime == "none":
            raise ProgramError(
                f"nothing here can execute delegate {delegate!r}: {one.reason}; there are: "
                f"{', '.join(here()) or 'none'}"
            )
    return found


def here() -> list[str]:
    """The delegates that can be executed, each with the runtime that does it."""
    known = dict.fromkeys([*native_backends(), *registry.by_delegate()])
    found = {delegate: executor(delegate).runtime for delegate in known}
    return [f"{delegate} ({runtime})" for delegate, runtime in found.items() if runtime != "none"]


def delegating(name: str) -> Delegating:
    """The backend of that name, as what loads its delegate.

    Raises:
        ProgramError: it does not.
    """
    backend: Backend = registry.backend(name)
    if not isinstance(backend, Delegating):
        raise ProgramError(f"backend {name!r} does not load delegates")
    return backend


def listing(payload: DelegatePayload) -> Iterator[str]:
    """Lines about a payload, of whichever backend reads it; one that says why there are none."""
    known = registry.by_delegate().get(payload.id)
    if not isinstance(known, Describing):
        yield f"nothing here reads payloads of {payload.id}"
        return
    try:
        yield from known.describe(payload)
    except Exception as error:
        # The bytes may be anybody's, and a reader may be out of tree.
        reason = str(error) if isinstance(error, ProgramError) else describe(error, 300)
        yield f"the payload cannot be read: {reason}"
