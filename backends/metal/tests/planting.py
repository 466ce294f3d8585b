"""Plant faults in generated code, at every place where they fit, and see which are caught.

    python -m backends.metal.tests.planting [CASE ...]

prints each fault that was missed. A fault is a change of the text that Inductor emitted: of a
kernel, of a function pasted before it, or of the wrapper's ``run_impl``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from unittest import mock

import msgspec
from torch.utils._pytree import tree_leaves

from backends.metal import delegate
from backends.metal.backend import BACKEND
from backends.metal.generation.generated import SHADER, Generated
from backends.metal.host.kernel_source import parse
from backends.metal.tests.planting_rules import RULES, Match, Place
from harness import Case, Tester
from harness.backend_api import Program, describe
from harness.numerics.compare import compare
from harness.pipeline.route import lower


@dataclass(frozen=True)
class Fault:
    """One change of one program.

    Attributes:
        kind: the rule's.
        where: the line, and what it changes there, before and after.
        code: the changed program.
    """

    kind: str
    where: str
    code: Generated


@dataclass
class Outcome:
    """How each planted fault was detected; None where it was not."""

    caught: dict[tuple[str, str, str], str | None] = field(default_factory=dict)

    @property
    def missed(self) -> list[tuple[str, str, str]]:
        """Case, kind and place of each fault that nothing caught."""
        return [key for key, how in self.caught.items() if how is None]

    @property
    def kinds(self) -> set[str]:
        """Kinds that were planted."""
        return {kind for _, kind, _ in self.caught}

    @property
    def share(self) -> float:
        """Part of the faults that was caught."""
        return 1 - len(self.missed) / max(1, len(self.caught))

    def __str__(self) -> str:
        head = (
            f"{len(self.caught) - len(self.missed)} of {len(self.caught)} planted faults of "
            f"{len(self.kinds)} kinds were caught ({self.share:.1%})"
        )
        return "\n".join([head, *(f"  missed in {' | '.join(key)}" for key in self.missed)])


def faults(code: Generated, most: int = 2) -> Iterator[Fault]:
    """All faults that fit a program; of each rule at most as many places, spread over those."""
    seen: set[str] = set()
    for rule in RULES:
        found = [
            match
            for start, end in _ranges(code.wrapper, rule.place)
            for match in re.compile(rule.pattern).finditer(code.wrapper, start, end)
        ]
        for at in sorted({index * (len(found) - 1) // max(1, most - 1) for index in range(most)}):
            if not found:
                continue
            match = found[at]
            if _dead(code.wrapper, match):
                continue
            new = rule.replacement
            text = new(match) if callable(new) else match.expand(new)
            changed = code.wrapper[: match.start()] + text + code.wrapper[match.end() :]
            if changed != code.wrapper and changed not in seen:
                seen.add(changed)
                line = code.wrapper.count("\n", 0, match.start()) + 1
                where = f"line {line}: {' '.join(match[0].split())} -> {' '.join(text.split())}"
                yield Fault(rule.kind, where, msgspec.structs.replace(code, wrapper=changed))


def _dead(wrapper: str, match: Match) -> bool:
    """Whether the change is to a value that nothing uses."""
    line = wrapper[wrapper.rfind("\n", 0, match.start()) + 1 : match.end() + 1]
    name = re.match(r"\s*auto (tmp\d+) = ", line)
    end = wrapper.find(')MTL"', match.start())
    return name is not None and not re.search(rf"\b{name[1]}\b", wrapper[match.end() + 1 : end])


def _ranges(wrapper: str, place: Place) -> Iterator[tuple[int, int]]:
    if place == "wrapper":
        yield wrapper.index("inputs.clear();"), wrapper.index("} // AOTInductorModel::run_impl")
        return
    for shader in SHADER.finditer(wrapper):
        own = shader.start(2) + len(parse(shader[2]).preamble)
        if place == "kernel":
            yield own, shader.end(2)
            continue
        for name in dict.fromkeys(
            re.findall(r"metal::(threadgroup_\w+)\(", wrapper[own : shader.end(2)])
        ):
            yield from _function(wrapper, name, shader.start(2), own)
        # 64-bit sums have no instruction of their own and shuffle.
        text = wrapper[own : shader.end(2)]
        if "threadgroup long" in text and "threadgroup_sum(" in text:
            yield from _function(wrapper, "long>, T> simd_sum", shader.start(2), own)


def _function(wrapper: str, name: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    found = re.compile(rf" {name}\(").search(wrapper, start, end)
    if found is not None:
        yield found.start(), wrapper.index("\n}\n", found.start())


class Prepared:
    """A case whose unchanged program conforms."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.tester = Tester(case, "metal:fp32")
        lower(self.tester)
        self.tester.run().compare()
        if not self.tester.verdict.passed:
            raise ValueError(f"{case.name} does not conform: {self.tester.verdict.problem}")
        self.program = Program(self.tester.program)
        (payload,) = self.program.delegates
        self.code = delegate.read_code(payload)
        self.calls = [
            self.program.arrange(tree_leaves(inputs)) for inputs in self.tester.built.calls
        ]

    def caught(self, code: Generated) -> str | None:
        """How a changed program is found out, or None."""
        with mock.patch.object(delegate, "read_code", return_value=code):
            try:
                outputs = BACKEND.emulate(self.tester.program, self.calls).outputs
            except Exception as error:  # Any reason counts: the cell is red.
                return describe(error)
        verdict = compare(outputs, self.tester.reference, declared=self.program.outputs)
        return None if verdict.passed else f"mismatch: {verdict.problem}"


def plant_all(cases: Iterable[Case], most: int = 2) -> Outcome:
    """Plant every fault that fits in every case."""
    outcome = Outcome()
    for case in cases:
        prepared = Prepared(case)
        for fault in faults(prepared.code, most):
            key = (case.name, fault.kind, fault.where)
            outcome.caught[key] = prepared.caught(fault.code)
    return outcome


if __name__ == "__main__":
    import warnings

    from backends.metal.tests.planted_cases import CASES

    warnings.filterwarnings("ignore")
    chosen = [case for case in CASES if not sys.argv[1:] or case.name in sys.argv[1:]]
    result = plant_all(chosen)
    for key, how in result.caught.items():
        print(" | ".join(key), "=>", how)
    print(result)
