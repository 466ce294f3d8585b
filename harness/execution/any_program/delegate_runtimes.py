"""Find the runtime that executes a delegate on this host: the native one or a backend's."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.errors import ProgramError, describe
from harness.execution.any_program.native_stderr import redirect_native_stderr
from harness.execution.execute import list_native_backends
from harness.execution.program import DelegatePayload
from harness.model import registry
from harness.model.backend import Backend, DescribesPayloads, LoadsDelegates


@dataclass(frozen=True)
class DelegateRuntime:
    """The runtime of a delegate on this host.

    Attributes:
        runtime: ``native``, ``reference`` or ``emulated``; ``none`` if this host has no runtime.
        backend: name of the backend that declares the delegate; empty if there is none.
        reason: why the runtime is ``none``; empty otherwise.
    """

    runtime: str
    backend: str = ""
    reason: str = ""


def find_delegate_runtime(delegate: str) -> DelegateRuntime:
    """Find the runtime of a delegate by its registered name."""
    known = registry.backends_by_delegate().get(delegate)
    name = known.name if known else ""
    registered = delegate in list_native_backends()
    if registered and _is_available(delegate):
        return DelegateRuntime("native", name)
    if known is None and registered:
        return DelegateRuntime(
            "none", reason="the runtime has it, and says that it cannot be used here"
        )
    if known is None:
        return DelegateRuntime("none", reason=f"nothing here knows delegate {delegate!r}")
    state = known.availability()
    if not isinstance(known, LoadsDelegates):
        return DelegateRuntime("none", name, state.reason or f"{name} runs in the runtime alone")
    if not state.available:
        return DelegateRuntime("none", name, state.reason)
    return DelegateRuntime(state.runtime, name)


@functools.cache
def _is_available(delegate: str) -> bool:
    """Return whether the native runtime can use a registered delegate: a library may be missing."""
    from executorch.runtime import Runtime

    with redirect_native_stderr(os.devnull):
        return bool(Runtime.get().backend_registry.is_available(delegate))


def require_runtimes(delegates: Iterable[str]) -> dict[str, DelegateRuntime]:
    """Find the runtime of each delegate.

    Raises:
        ProgramError: a delegate has no runtime on this host.
    """
    found = {delegate: find_delegate_runtime(delegate) for delegate in delegates}
    for delegate, one in found.items():
        if one.runtime == "none":
            raise ProgramError(
                f"nothing here can execute delegate {delegate!r}: {one.reason}; there are: "
                f"{', '.join(list_executable_delegates()) or 'none'}"
            )
    return found


def list_executable_delegates() -> list[str]:
    """List the delegates that this host can execute, each with its runtime."""
    known = dict.fromkeys([*list_native_backends(), *registry.backends_by_delegate()])
    found = {delegate: find_delegate_runtime(delegate).runtime for delegate in known}
    return [f"{delegate} ({runtime})" for delegate, runtime in found.items() if runtime != "none"]


def get_delegating_backend(name: str) -> LoadsDelegates:
    """Return a backend that loads its delegate.

    Raises:
        ProgramError: the backend loads no delegate.
    """
    backend: Backend = registry.backend(name)
    if not isinstance(backend, LoadsDelegates):
        raise ProgramError(f"backend {name!r} does not load delegates")
    return backend


def describe_payload(payload: DelegatePayload) -> Iterator[str]:
    """Yield the text lines of a payload from its backend, or one line with the reason for none."""
    known = registry.backends_by_delegate().get(payload.id)
    if not isinstance(known, DescribesPayloads):
        yield f"nothing here reads payloads of {payload.id}"
        return
    try:
        yield from known.describe(payload)
    except Exception as error:
        # The bytes are untrusted, and the backend may be a third party's.
        reason = str(error) if isinstance(error, ProgramError) else describe(error, 300)
        yield f"the payload cannot be read: {reason}"
