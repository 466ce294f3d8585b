"""A generated program: the text of a module, which is all there is of it."""

from __future__ import annotations

import hashlib
import linecache
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.model.case import Case

ROWS = 5
"""The size of the dynamic dimension where a program has one; no static dimension is as long."""


@dataclass(frozen=True)
class Program:
    """A module and its inputs.

    Attributes:
        inputs: expressions that make them, in order; they are called ``x0``, ``x1``, ...
        state: expressions that make its buffers, by name.
        steps: statements of ``forward``.
        returns: names of what it returns.
        is_dynamic: whether the first dimension of inputs that are ``ROWS`` long is dynamic.
        draws: whether it draws random numbers.
    """

    inputs: tuple[str, ...]
    state: tuple[tuple[str, str], ...]
    steps: tuple[str, ...]
    returns: tuple[str, ...]
    is_dynamic: bool = False
    draws: bool = False

    @property
    def source(self) -> str:
        """The class, as text."""
        lines = ["class Found(torch.nn.Module):"]
        if self.state:
            lines += ["    def __init__(self):", "        super().__init__()"]
            lines += [
                f"        self.register_buffer({name!r}, {made})" for name, made in self.state
            ]
            lines.append("")
        names = ", ".join(["self", *(f"x{index}" for index in range(len(self.inputs)))])
        lines.append(f"    def forward({names}):")
        lines += textwrap.indent("\n".join(self.steps), "        ").splitlines()
        lines.append(f"        return {', '.join(self.returns)},")
        return "\n".join(lines) + "\n"

    @property
    def name(self) -> str:
        """Of its case: the same for the same text."""
        text = f"{self.inputs}{self.source}{self.is_dynamic}"
        return f"fuzz/{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    def named(self, targets: str) -> str:
        """The name of its case for some targets alone."""
        return self.name + "".join(f"_{part}" for part in re.findall(r"\w+", targets))

    @property
    def ops(self) -> int:
        """How many steps it has."""
        return len(self.steps)

    @property
    def words(self) -> frozenset[str]:
        """What is called in it, Python's operators included."""
        return frozenset(_WORD.findall("\n".join(self.steps))) - {"torch.nn.functional", "torch"}

    def case(self, targets: str = "") -> Case:
        """The program as a case."""
        file, scope = f"<{self.name}>", dict[str, Any]()
        exec(compile(self.text(targets), file, "exec"), scope)
        linecache.cache[file] = (0, None, self.text(targets).splitlines(keepends=True), file)
        (case,) = scope["CASES"]
        assert isinstance(case, Case)
        return case

    def text(self, targets: str = "", about: str = "") -> str:
        """A file of a suite with this program as its one case.

        Args:
            targets: globs over targets, as a case has them.
            about: what is wrong with it.
        """
        about = about.replace("\\", "/").replace('"""', "'''")
        doc = f'"""{textwrap.fill(about, 98)}\n"""\n\n' if about else ""
        imports = "import torch\n\nfrom harness import Case\n\n\n"
        made = f"({', '.join(self.inputs)},)"
        lines = [f"        {self.named(targets)!r},", f"        lambda: (Found(), {made}),"]
        if self.is_dynamic:
            rows = "{0: torch.export.Dim('rows', min=2, max=9)}"
            shapes = ", ".join(rows if self._has_rows(one) else "None" for one in self.inputs)
            longer = ", ".join(one.replace(f"({ROWS}", "(3", 1) for one in self.inputs)
            lines += [f"        dynamic_shapes=({shapes},),"]
            lines += [f"        calls=lambda: [({longer},)],"]
        if self.draws:
            lines.append("        draws=True,")
        if targets:
            lines.append(f"        targets={targets!r},")
        body = "\n".join(lines)
        return f"{doc}{imports}{self.source}\n\nCASES = [\n    Case(\n{body}\n    )\n]\n"

    def _has_rows(self, made: str) -> bool:
        return f"({ROWS}" in made


def shape_text(shape: tuple[int, ...]) -> str:
    """Sizes as arguments."""
    return ", ".join(map(str, shape)) if shape else "()"


INPUTS: Mapping[str, str] = {
    "float32": "torch.randn({})",
    "int64": "torch.randint(-4, 5, ({},))",
    "int32": "torch.randint(-4, 5, ({},), dtype=torch.int32)",
    "bool": "torch.randn({}) > 0",
}
"""What makes a tensor of a dtype and shape."""


def made_as(dtype: str, shape: tuple[int, ...]) -> str:
    """The expression that makes a tensor."""
    if not shape:
        return (
            f"{INPUTS[dtype].format('1')}.reshape(())"
            if dtype != "bool"
            else ("(torch.randn(1) > 0).reshape(())")
        )
    return INPUTS[dtype].format(shape_text(shape))


_WORD = re.compile(r"torch[\w.]+|\.[a-z_]\w*|[-+*/@<>]|==|!=")
