"""How a method's inputs and outputs are nested, as far as its program tells.

A program keeps the trees that it was exported with as text (``ContainerMetadata``), in the format
of ``torch.utils._pytree.treespec_dumps``. That is read here without torch's reader, which looks up
classes by the names in the text. The children of what is no tuple, list or dict count by number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import InputError


@dataclass(frozen=True)
class IOTree:
    """A leaf, or what contains trees.

    Attributes:
        kind: ``leaf``, ``tuple``, ``list``, ``dict``, or the name of another class.
        keys: of the children, in their order.
        children: the trees inside.
    """

    kind: str
    keys: tuple[str | int, ...] = ()
    children: tuple[IOTree, ...] = ()

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.kind == "leaf" else sum(child.leaves for child in self.children)

    def paths(self, at: str = "") -> Iterator[str]:
        """The path of each leaf in order, such as ``[0]['mask']``."""
        if self.kind == "leaf":
            yield at
        for key, child in zip(self.keys, self.children, strict=True):
            yield from child.paths(f"{at}[{key!r}]")

    def flatten(self, value: Any, at: str) -> list[Any]:
        """The leaves of a value that is nested like the tree, in the tree's order.

        Args:
            value: what is given; a tuple may stand for a list, and the reverse.
            at: where it stands, for messages.

        Raises:
            InputError: it is nested differently.
        """
        if self.kind == "leaf":
            return [value]
        is_dict = self.kind == "dict"
        if not isinstance(value, (dict,) if is_dict else (list, tuple)):
            raise InputError(f"{at} is a {type(value).__name__}; the program takes a {self.kind}")
        items: dict[Any, Any] = value if isinstance(value, dict) else dict(enumerate(value))
        if items.keys() != set(self.keys):
            has, wanted = (
                f"the keys {list(keys)}" if is_dict else f"{len(keys)} items"
                for keys in (items, self.keys)
            )
            raise InputError(f"{at} has {has}; the program takes {wanted}")
        return [
            leaf
            for key, child in zip(self.keys, self.children, strict=True)
            for leaf in child.flatten(items[key], f"{at}[{key!r}]")
        ]


def parse_tree(text: str | None) -> IOTree | None:
    """The tree of a text; None where there is none or it is of another format."""
    try:
        version, spec = json.loads(text or "")
        return _tree(spec) if version == 1 else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _tree(spec: Any) -> IOTree:
    if spec["type"] is None:
        return IOTree("leaf")
    children = tuple(map(_tree, spec["children_spec"]))
    kind = spec["type"].removeprefix("builtins.")
    keys: Sequence[str | int] = range(len(children))
    if kind == "dict":
        keys = json.loads(spec["context"])
        if len(keys) != len(children) or not all(isinstance(key, str | int) for key in keys):
            raise ValueError("keys and children do not go together")
    return IOTree(kind, tuple(keys), children)
