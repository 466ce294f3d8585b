"""Replace functions of torch so that it compiles for MPS on a host without MPS.

The replacements are active only within :func:`pretend_mps`, in one thread at a time.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

from backends.metal.generation import composite
from backends.metal.generation.host_tensor import HostTensor, fake_dispatch, make_tensor, to_cpu
from harness.vendors.replacements import AttributeReplacer
from harness.vendors.torch import (
    _C,
    AotCodeCompiler,
    DispatchKey,
    FakeTensorMode,
    MetalKernel,
    OpOverload,
    OrderedSet,
    TorchDispatchMode,
    _inductor,
    get_gpu_type,
    joint_graph,
    post_grad,
    tree_map_only,
)

# A base M4. Inductor uses the number only to decide whether the GPU is "big"; it is not.
CORES = 10

Compile = Callable[..., Any]
"""Replaces ``AotCodeCompiler.compile``, which calls Apple's compiler."""

_LOCK = threading.RLock()
_replacer = AttributeReplacer("metal.pretend")


@contextlib.contextmanager
def pretend_mps(compile: Compile) -> Iterator[None]:
    """Let Inductor generate code for MPS within this context; restore torch afterwards.

    Args:
        compile: called with the generated code in place of ``AotCodeCompiler.compile``.
    """
    with _LOCK, contextlib.ExitStack() as stack:
        stack.enter_context(_device_guard())
        for target, name, value in _attributes(compile):
            stack.enter_context(_replacer.replace_within(target, name, value))
        stack.enter_context(_kernels(composite.KERNELS))
        # torch caches the kind of GPU of the host.
        get_gpu_type.cache_clear()
        stack.callback(get_gpu_type.cache_clear)
        yield


def _attributes(compile: Compile) -> list[tuple[Any, str, Any]]:
    return [
        (_inductor, "aot_compile", _with_buffers(_inductor.aot_compile)),
        (AotCodeCompiler, "compile", staticmethod(compile)),
        (FakeTensorMode, "dispatch", fake_dispatch(FakeTensorMode.dispatch)),
        (torch, "tensor", make_tensor(torch.tensor)),
        (torch.mps, "is_available", lambda: True),
        (_C, "_mps_get_core_count", lambda: CORES),
        (_C, "_conv_determine_backend_memory_format", composite.convolution_format),
        # The class collects headers of all kernels of the process; the text must not depend on it.
        (MetalKernel, "headers", OrderedSet(["utils"])),
        (joint_graph, "lazy_init", _on_cpu(joint_graph.lazy_init)),
        (post_grad, "lazy_init", _on_cpu(post_grad.lazy_init)),
        (joint_graph, "UniformValueConstantFolder", _HostFolder),
    ]


def _with_buffers(aot_compile: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``aot_compile`` so that host tensors among a module's constants become buffers.

    Tracing embeds constants and requires them on its device; buffers become inputs of the trace.
    Names are the same as in tracing.
    """

    def with_buffers(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        known = {name for name, _ in module.named_parameters(remove_duplicate=False)}
        known.update(name for name, _ in module.named_buffers(remove_duplicate=False))
        order = {node: place for place, node in enumerate(module.graph.nodes)}
        constants = [
            (min((order[user] for user in node.users), default=0), node, value)
            for node in module.graph.find_nodes(op="get_attr")
            if node.target not in known
            and isinstance(value := attrgetter(node.target)(module), HostTensor)
        ]
        constants.sort(key=lambda entry: entry[0])
        for number, (_, node, value) in enumerate(constants):
            node.target = f"_tensor_constant{number}"
            module.register_buffer(node.target, value, persistent=False)
        module.recompile()
        return aot_compile(module, *args, **kwargs)

    return with_buffers


def _on_cpu(initialize: Callable[..., Any]) -> Callable[..., Any]:
    """Trace Inductor's patterns on the CPU, once per process; patterns contain no device."""

    def traced_on_cpu(device: Any = None, *args: Any, **kwargs: Any) -> Any:
        return initialize(torch.device("cpu"), *args, **kwargs)

    return traced_on_cpu


class _OnCpu(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs operators for the device on the CPU, with real values."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        cpu = torch.device("cpu")
        args, kwargs = tree_map_only(torch.device, lambda _: cpu, (args, kwargs or {}))
        return func(*args, **(kwargs or {}))


class _HostFolder(joint_graph.UniformValueConstantFolder):
    """Inductor's constant folder, which computes with the values of the weights."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        with _OnCpu():  # type: ignore[no-untyped-call]
            super().__init__(*args, **kwargs)

    def run(self) -> Any:  # type: ignore[override]
        with _OnCpu():  # type: ignore[no-untyped-call]
            return super().run()

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        return to_cpu(value) if isinstance(value, HostTensor) else value


@contextlib.contextmanager
def _kernels(table: Mapping[OpOverload, Callable[..., Any]]) -> Iterator[None]:
    """Replace the Python kernels of composite operators within this context."""
    key = DispatchKey.CompositeImplicitAutograd
    before = {op: dict(op.py_kernels) for op in table}
    try:
        for op, kernel in table.items():
            op.py_kernels[key] = kernel
            op._dispatch_cache.clear()
        yield
    finally:
        for op, kernels in before.items():
            op.py_kernels.clear()
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()


# c10/core/DeviceType.h, and the registry in c10/core/impl/DeviceGuardImplInterface.h.
_MPS_SLOT, _META_SLOT = 13, 14
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"


@contextlib.contextmanager
def _device_guard() -> Iterator[None]:
    """Register the meta device's guard, which does nothing, for MPS.

    C++ code enters a device guard around ``contiguous``, ``to`` and others before it dispatches
    to fake tensors, and rejects a device without a guard. A build with MPS keeps its own guard.
    """
    suffix = "dylib" if sys.platform == "darwin" else "so"
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / f"libc10.{suffix}"))
    slots = (ctypes.c_void_p * (_META_SLOT + 1)).in_dll(library, _REGISTRY)
    if slots[_MPS_SLOT]:
        yield
        return
    slots[_MPS_SLOT] = slots[_META_SLOT]
    try:
        yield
    finally:
        slots[_MPS_SLOT] = None
