"""Compile shader sources to a library of kernels that run on the CPU."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

from backends.metal.host import native, toolchain
from backends.metal.host.errors import LaunchError, SourceError
from backends.metal.host.kernel_source import KernelSource, Signature, entry, parse
from backends.metal.host.launch import MAX_THREADS, Grid, argument_memory, check_geometry


class Library:
    """The kernels of one or more shader sources.

    Put the sources of one program into one library: sources with the same headers are compiled
    together, at the first dispatch or by :meth:`prepare`.

    Args:
        sources: Metal source, with headers inserted or included.
        cache: folder of compiled kernels; the user's cache folder by default.

    Attributes:
        sources: the parsed sources.
        cache: the argument.

    Raises:
        SourceError: a source has no kernel, or one that the host cannot call.
    """

    def __init__(self, *sources: str, cache: Path | None = None) -> None:
        self.sources = tuple(parse(source) for source in sources)
        self.cache = cache

    def kernel(self, name: str = "generated_kernel", source: int = 0) -> Kernel:
        """Return the kernel of that name in the ``source``-th source.

        Raises:
            SourceError: the source has no such kernel.
        """
        for signature in self.sources[source].kernels:
            if signature.name == name:
                return Kernel(self, source, signature)
        known = ", ".join(signature.name for signature in self.sources[source].kernels)
        raise SourceError(f"no kernel {name} in the Metal source; it defines {known}")

    def prepare(self, *, checked: bool = True) -> None:
        """Compile the sources that are not in the cache, and load all of them.

        Raises:
            CompileError: the compiler is missing or rejects a source.
        """
        for source in range(len(self.sources)):
            self._load(source, checked)

    @functools.cached_property
    def _units(self) -> dict[str, list[int]]:
        units: dict[str, list[int]] = {}
        for index, source in enumerate(self.sources):
            units.setdefault(source.preamble, []).append(index)
        return units

    @functools.cached_property
    def _libraries(self) -> dict[tuple[str, bool], ctypes.CDLL]:
        return {}

    def _load(self, source: int, checked: bool) -> ctypes.CDLL:
        preamble = self.sources[source].preamble
        key = (preamble, checked)
        if key not in self._libraries:
            members = self._units[preamble]
            text = make_source([(index, self.sources[index]) for index in members])
            path = toolchain.compile_library(
                make_header(preamble), text, checked=checked, cache=self.cache
            )
            self._libraries[key] = ctypes.CDLL(str(path))
        return self._libraries[key]

    def _entry(self, source: int, name: str, checked: bool) -> int:
        function = getattr(self._load(source, checked), _symbol(source, name))
        return ctypes.cast(function, ctypes.c_void_p).value or 0


class Kernel:
    """A kernel of a :class:`Library`.

    Attributes:
        signature: its parameters.
        max_threads: most threads of a threadgroup.
    """

    def __init__(self, library: Library, source: int, signature: Signature) -> None:
        self._library = library
        self._source = source
        self._entries: dict[bool, int] = {}
        self.signature = signature
        self.max_threads = min(signature.max_threads or MAX_THREADS, MAX_THREADS)

    def dispatch(
        self, arguments: Sequence[object], grid: Grid, group: Grid, *, checked: bool = True
    ) -> None:
        """Run the kernel once; outputs are written in place.

        Args:
            arguments: one for each argument slot, in order: an array or
                :class:`~backends.metal.host.Buffer` for a pointer, a number or its bytes for a
                scalar.
            grid: number of threads in x, y and z.
            group: threads of a threadgroup; threadgroups at the edge of the grid may have fewer.
            checked: report bad accesses and races; outputs do not change after a fault. Without
                checks, a bad access is undefined behaviour of C++.

        Raises:
            LaunchError: arguments, grid or group do not fit the kernel.
            CompileError: the compiler is missing or rejects the source.
            KernelFault: the kernel violated a rule of Metal.
        """
        name = self.signature.name
        parameters = self.signature.arguments
        if len(arguments) != len(parameters):
            raise LaunchError(
                f"kernel {name} takes {len(parameters)} arguments, not {len(arguments)}"
            )
        memory = [
            argument_memory(name, parameter, value)
            for parameter, value in zip(parameters, arguments, strict=True)
        ]
        check_geometry(name, grid, group, self.max_threads)
        if checked not in self._entries:
            self._entries[checked] = self._library._entry(self._source, name, checked)
        if 0 in grid:
            return
        native.run(
            self._entries[checked],
            self.signature,
            memory,
            grid,
            group,
            checked=checked,
            cache=self._library.cache,
        )


def make_header(preamble: str) -> str:
    """Return the beginning of the C++ of Metal sources with this preamble."""
    return f'#include <metal_stdlib>\n#line 1 "preamble.metal"\n{preamble}\n'


def make_source(sources: Sequence[tuple[int, KernelSource]]) -> str:
    """Return the C++ of several Metal sources with the same preamble, each in its namespace."""
    # Metal has no double: code that uses it must not compile here.
    text = ["#pragma GCC poison double\n"]
    for index, source in sources:
        text += [f"namespace source{index} {{\n", f'#line {source.line} "source{index}.metal"\n']
        text += [source.body, '\n#line 1 "entries"\n']
        text += [entry(kernel, _symbol(index, kernel.name)) for kernel in source.kernels]
        text.append("}\n")
    return "".join(text)


def _symbol(source: int, name: str) -> str:
    return f"conform_{source}_{name}"
