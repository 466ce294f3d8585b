"""Replace the code of a vendor's function in this process."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import types
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping

from harness.coverage.mutation.mutant import Mutant
from harness.coverage.vendor_code import VendorFile
from harness.errors import ConformError

_CachedFunction = type(functools.cache(lambda: None))


class MutantInvalid(ConformError):
    """A mutated function does not compile, or cannot replace the function."""


class FunctionIndex:
    """The functions of the vendors' files that exist in this process.

    Args:
        files: all files, by name.
    """

    def __init__(self, files: Mapping[str, VendorFile]) -> None:
        self._files = files
        self._paths = {str(file.path) for file in files.values()}
        self._functions: defaultdict[tuple[str, str, int], list[types.FunctionType]] = defaultdict(
            list
        )
        self._caches: defaultdict[str, list[functools._lru_cache_wrapper[object]]] = defaultdict(
            list
        )
        gc.unfreeze()  # frozen objects are not listed

    def update(self, mutant: Mutant | None) -> None:
        """Import the file of a mutant, and add the functions that are new.

        All objects are frozen afterwards: processes that are forked share them.
        """
        if mutant is not None:
            with warnings.catch_warnings(), contextlib.suppress(Exception):
                warnings.simplefilter("ignore")
                importlib.import_module(_name_module(mutant.file))
        for each in gc.get_objects():
            kind = type(each)  # isinstance would ask weak proxies, whose objects may be gone
            if kind is types.FunctionType:
                code = each.__code__
                if code.co_filename in self._paths:
                    self._functions[_key(code)].append(each)
            elif kind is _CachedFunction:
                code = getattr(each.__wrapped__, "__code__", None)
                if code is not None and code.co_filename in self._paths:
                    self._caches[code.co_filename].append(each)
        gc.freeze()

    def install(self, mutant: Mutant) -> None:
        """Replace the code of the function of a mutant, and clear the caches of its file.

        Other files' caches stay: filling those of XNNPACK's pattern graphs takes 0.8 s. Cells that
        execute the function do so outside of them.

        Raises:
            MutantInvalid: it does not compile, or there is no such function.
        """
        path = self._files[mutant.file].path
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as "is" with a literal
                module = compile(
                    mutant.apply(path.read_bytes()), str(path), "exec", dont_inherit=True
                )
        except SyntaxError as error:
            raise MutantInvalid(f"does not compile: {error}") from error
        # Inner functions exist before the call if a decorator made them at import.
        inner = f"{mutant.function}.<locals>."
        codes = [
            code
            for code in _list_codes(module)
            if code.co_qualname == mutant.function or code.co_qualname.startswith(inner)
        ]
        found = [(each, code) for code in codes for each in self._functions[_key(code)]]
        if not found:
            raise MutantInvalid(f"no function {mutant.function} in this process")
        for function, code in found:
            try:
                function.__code__ = code
            except ValueError as error:
                raise MutantInvalid(f"cannot replace the function: {error}") from error
        for cache in self._caches[str(path)]:
            cache.cache_clear()


def _list_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each
            yield from _list_codes(each)


def _key(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _name_module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
