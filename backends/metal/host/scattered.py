"""Find buffers that a kernel only stores to, at indices that it loads from tensors.

``index_put`` and ``scatter`` without accumulation become a store ``out_ptr0[tmp5] = ...`` with a
loaded index. For equal indices PyTorch does not define which value remains
(``torch.Tensor.index_put_``: "the behavior is undefined if indices contain duplicate elements";
``scatter_``: "picked arbitrarily"), so writes of several threads are no race. Inductor does not
load a small constant tensor of indices but writes it as a temporary. Its own indices consist of
thread positions (``x0``, ``r0_1``); its temporaries (``tmp5``) are values of tensors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
# In Inductor's code a variable gets its value once, in its declaration.
_DECLARED = re.compile(r"\b(?:auto|bool|char|uchar|short|ushort|int|uint|long|ulong|u?int\d+_t)\s+")
_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=(?!=)(?P<value>[^;]*);")
_TEMPORARY = re.compile(r"\btmp\d+\b")
_STORE = re.compile(r"\s*=(?!=)")


def find_scattered(body: str, pointers: Iterable[str]) -> frozenset[str]:
    """Return the names of pointers that a kernel only stores to, at loaded indices.

    Args:
        body: the kernel's body in Metal.
        pointers: names of the pointer parameters.
    """
    text = _COMMENT.sub(" ", body)
    names = frozenset(pointers)
    loaded = _find_loaded(text, names)
    return frozenset(name for name in names if _only_scatters(text, name, names, loaded))


def _find_loaded(text: str, pointers: frozenset[str]) -> frozenset[str]:
    """Find variables whose value depends on memory."""
    values = [
        (match["name"], match["value"])
        for declared in _DECLARED.finditer(text)
        if (match := _ASSIGNED.match(text, declared.end()))
    ]
    loaded: set[str] = set()
    while True:
        more = {
            name
            for name, value in values
            if name not in loaded and _depends(value, pointers | loaded)
        }
        if not more:
            return frozenset(loaded)
        loaded |= more


def _only_scatters(text: str, name: str, pointers: frozenset[str], loaded: frozenset[str]) -> bool:
    stores = list(_uses(text, name))
    return bool(stores) and all(
        index is not None and (_TEMPORARY.search(index) or _depends(index, pointers | loaded))
        for index in stores
    )


def _uses(text: str, name: str) -> Iterator[str | None]:
    """Yield the index of each store through a pointer, and None for any other use of it."""
    for match in re.finditer(rf"\b{name}\b", text):
        opening = re.compile(r"\s*\[").match(text, match.end())
        end = None if opening is None else _closing(text, opening.end())
        if opening is None or end is None or not _STORE.match(text, end + 1):
            yield None
        else:
            yield text[opening.end() : end]


def _closing(text: str, start: int) -> int | None:
    """Return the position of the closing bracket of one that was opened before ``start``."""
    depth = 1
    for match in re.finditer(r"[\[\]]", text[start:]):
        depth += 1 if match[0] == "[" else -1
        if not depth:
            return start + match.start()
    return None


def _depends(expression: str, names: frozenset[str]) -> bool:
    return any(match[0] in names for match in _NAME.finditer(expression))
