"""What the runtime asks of a call, as data, and how a call breaks it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from backends.metal.contract.call import Call

RELEASE = "v1.5.1"
READ = ("1.4.1", "1.5.0", "1.5.1")
"""The releases whose runtime was read; functions say since when they are there."""
REPOSITORY = "https://github.com/pytorch/executorch"
DELEGATE = "MetalBackend"
"""The name under which the runtime registers the delegate, and programs ask for it."""

METAL = "backends/apple/metal/runtime"
AOTI = "backends/aoti"

# What this release's tests in the wheel do not yet have is not in it: 22952, 22957, 22984.
CONV_STRIDES = f"{REPOSITORY}/issues/22951"
STALE_VIEWS = f"{REPOSITORY}/issues/22956"
PACKED_COPIES = f"{REPOSITORY}/issues/22983"
MASK_DTYPE = f"{REPOSITORY}/pull/17996"
NO_ADDMM = f"{REPOSITORY}/pull/19924"

Check: TypeAlias = Callable[[Call], "str | None"]
"""Says what is wrong, with the value; None if nothing is."""


class Kind(enum.Enum):
    """What happens on the device."""

    MISSING = "missing"
    """There is no such function: the library does not load, or the call throws."""
    REFUSAL = "refusal"
    """The runtime returns an error, throws or aborts."""
    DEFECT = "defect"
    """The runtime goes on and computes something else."""


@dataclass(frozen=True)
class Rule:
    """One requirement.

    Attributes:
        argument: the parameter that it is about.
        requirement: what must hold, for the table.
        broken: how a violation's line goes on after the value.
        check: finds out.
        kind: what happens otherwise.
        link: the upstream issue, if there is one.
        source: file in the repository; the function's own unless given.
        function: function in that file.
    """

    argument: str
    requirement: str
    broken: str
    check: Check
    kind: Kind = Kind.REFUSAL
    link: str | None = None
    source: str = ""
    function: str = ""

    @property
    def url(self) -> str:
        """The source at the pinned release; empty for a function that has none."""
        return f"{REPOSITORY}/blob/{RELEASE}/{self.source}" if self.source else ""


@dataclass(frozen=True)
class Violation:
    """A call that the runtime would refuse, or compute wrongly.

    Attributes:
        call: what was called.
        argument: the parameter at fault; empty where the function itself is.
        value: what is wrong, with the figures.
        rule: what would have been right.
    """

    call: Call
    argument: str
    value: str
    rule: Rule

    @property
    def kind(self) -> Kind:
        """Whether the function is missing, refuses the call, or mistreats it silently."""
        return self.rule.kind

    @property
    def link(self) -> str:
        """The upstream issue of a known defect, or the source that the rule came from."""
        return self.rule.link or self.rule.url

    def __str__(self) -> str:
        subject = " ".join(filter(None, (self.argument, self.value, self.rule.broken)))
        subject = subject.replace(" :", ":")
        where = self.rule.source.rpartition("/")[2]
        return f"{self.call.function}: {subject} [{self.kind.value}] {where}".rstrip()


@dataclass(frozen=True)
class SharedGraph:
    """Calls for which the runtime reuses one compiled graph though they need different ones.

    Attributes:
        key: what the runtime tells graphs apart by.
        variant: what it should have as well.
        rule: its requirement; ``check`` is not asked.
    """

    key: Callable[[Call], Hashable]
    variant: Callable[[Call], Hashable]
    rule: Rule


@dataclass(frozen=True)
class Function:
    """One function that generated code may call.

    Attributes:
        name: in C.
        parameters: names in order, lengths of arrays included, without the results' pointers.
        source: file in the repository.
        rules: what it asks.
        implemented: releases have it, and it does not just throw.
        since: the first release that has it; empty where all that were read do.
        shared: its flaw in caching graphs, if it has one.
        note: for the table.
    """

    name: str
    parameters: tuple[str, ...]
    source: str
    rules: tuple[Rule, ...] = ()
    implemented: bool = True
    since: str = ""
    shared: SharedGraph | None = None
    note: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        placed = tuple(self._placed(rule) for rule in self.rules)
        object.__setattr__(self, "rules", placed)
        if self.shared is not None:
            shared = replace(self.shared, rule=self._placed(self.shared.rule))
            object.__setattr__(self, "shared", shared)

    def _placed(self, rule: Rule) -> Rule:
        return replace(rule, source=rule.source or self.source, function=rule.function or self.name)
