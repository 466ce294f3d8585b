"""A generated program: the source text of a module and its inputs."""

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
"""The size of the dynamic dimension of a program; no static dimension has this size."""


@dataclass(frozen=True)
class GeneratedProgram:
    """A module and its inputs.

    Attributes:
        inputs: expressions that create the inputs ``x0``, ``x1``, ...
        state: expressions that create the buffers and the layers, by name.
        steps: statements of ``forward``.
        returns: names of the returned values.
        is_dynamic: whether the first dimension of inputs with ``ROWS`` rows is dynamic.
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
        """The source text of the class."""
        lines = ["class Found(torch.nn.Module):"]
        if self.state:
            lines += ["    def __init__(self):", "        super().__init__()"]
            lines += [f"        {_assign(name, made)}" for name, made in self.state]
            lines.append("")
        names = ", ".join(["self", *(f"x{index}" for index in range(len(self.inputs)))])
        lines.append(f"    def forward({names}):")
        lines += textwrap.indent("\n".join(self.steps), "        ").splitlines()
        lines.append(f"        return {', '.join(self.returns)},")
        return "\n".join(lines) + "\n"

    @property
    def name(self) -> str:
        """Name of its case: the same for the same text."""
        text = f"{self.inputs}{self.source}{self.is_dynamic}"
        return f"fuzz/{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    def case_name(self, targets: str) -> str:
        """Name of its case when it is restricted to some targets."""
        return self.name + "".join(f"_{part}" for part in re.findall(r"\w+", targets))

    @property
    def step_count(self) -> int:
        """Number of its statements."""
        return len(self.steps)

    @property
    def called_names(self) -> frozenset[str]:
        """Functions, methods and Python operators that it uses."""
        return frozenset(_WORD.findall("\n".join(self.steps))) - {"torch.nn.functional", "torch"}

    def make_case(self, targets: str = "") -> Case:
        """Return the program as a case."""
        file, scope = f"<{self.name}>", dict[str, Any]()
        exec(compile(self.to_suite_file(targets), file, "exec"), scope)
        linecache.cache[file] = (
            0,
            None,
            self.to_suite_file(targets).splitlines(keepends=True),
            file,
        )
        (case,) = scope["CASES"]
        assert isinstance(case, Case)
        return case

    def to_suite_file(self, targets: str = "", about: str = "") -> str:
        """Return a suite file with this program as its only case.

        Args:
            targets: globs over targets, as in a case.
            about: description of its problem.
        """
        about = about.replace("\\", "/").replace('"""', "'''")
        doc = f'"""{textwrap.fill(about, 98)}\n"""\n\n' if about else ""
        imports = "import torch\n\nfrom harness import Case\n\n\n"
        made = f"({', '.join(self.inputs)},)"
        lines = [f"        {self.case_name(targets)!r},", f"        lambda: (Found(), {made}),"]
        if self.is_dynamic:
            rows = "{0: torch.export.Dim('rows', min=2, max=9)}"
            shapes = ", ".join(rows if self._has_rows(one) else "None" for one in self.inputs)
            longer = ", ".join(one.replace(f"({ROWS}", "(3", 1) for one in self.inputs)
            lines += [f"        dynamic_shapes=({shapes},),"]
            lines += [f"        calls=lambda: [({longer},)],"]
        if self.draws:
            lines.append("        random_outputs=True,")
        if targets:
            lines.append(f"        targets={targets!r},")
        body = "\n".join(lines)
        return f"{doc}{imports}{self.source}\n\nCASES = [\n    Case(\n{body}\n    )\n]\n"

    def _has_rows(self, made: str) -> bool:
        return f"({ROWS}" in made


def is_layer(made: str) -> bool:
    """Return whether an expression of the state creates a layer, not a buffer."""
    return made.startswith("torch.nn.")


def _assign(name: str, made: str) -> str:
    if is_layer(made):
        return f"self.{name} = {made}"
    return f"self.register_buffer({name!r}, {made})"


def format_shape(shape: tuple[int, ...]) -> str:
    """Format sizes as arguments."""
    return ", ".join(map(str, shape)) if shape else "()"


INPUT_EXPRESSIONS: Mapping[str, str] = {
    "float32": "torch.randn({})",
    "int64": "torch.randint(-4, 5, ({},))",
    "int32": "torch.randint(-4, 5, ({},), dtype=torch.int32)",
    "bool": "torch.randn({}) > 0",
}
"""Expressions that create a tensor of a shape, by dtype."""


def format_input(dtype: str, shape: tuple[int, ...]) -> str:
    """Return the expression that creates a tensor."""
    if not shape:
        return (
            f"{INPUT_EXPRESSIONS[dtype].format('1')}.reshape(())"
            if dtype != "bool"
            else ("(torch.randn(1) > 0).reshape(())")
        )
    return INPUT_EXPRESSIONS[dtype].format(format_shape(shape))


_WORD = re.compile(r"torch[\w.]+|\.[a-z_]\w*|[-+*/@<>]|==|!=")
