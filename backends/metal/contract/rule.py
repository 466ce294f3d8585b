"""Rules of the runtime as data: functions, their rules, and violations."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from backends.metal.contract.call import RuntimeCall

RELEASE = "v1.5.1"
CHECKED_RELEASES = ("1.4.1", "1.5.0", "1.5.1")
"""Releases whose runtime sources were read; a function names the first release that has it."""
REPOSITORY = "https://github.com/pytorch/executorch"
DELEGATE = "MetalBackend"
"""The delegate's name in programs and in the runtime's registry."""

METAL = "backends/apple/metal/runtime"
AOTI = "backends/aoti"

# Not in this release, since its tests do not have them yet: 22952, 22957, 22984.
CONV_STRIDES = f"{REPOSITORY}/issues/22951"
STALE_VIEWS = f"{REPOSITORY}/issues/22956"
PACKED_COPIES = f"{REPOSITORY}/issues/22983"
MASK_DTYPE = f"{REPOSITORY}/pull/17996"
NO_ADDMM = f"{REPOSITORY}/pull/19924"

Check: TypeAlias = Callable[[RuntimeCall], "str | None"]
"""Returns the offending value, for the message; None if the call follows the rule."""


class ViolationKind(enum.Enum):
    """The effect of a violation on the device."""

    MISSING = "missing"
    """The function does not exist: the library does not load, or the call throws."""
    REFUSAL = "refusal"
    """The runtime returns an error, throws or aborts."""
    DEFECT = "defect"
    """The runtime continues and computes a wrong result."""


@dataclass(frozen=True)
class ContractRule:
    """A rule for an argument of a function.

    Attributes:
        argument: name of the parameter.
        requirement: the requirement, for the table in the documentation.
        broken: end of a violation's message, after parameter and value.
        check: checks a call.
        kind: the effect of a violation.
        link: the upstream issue, if there is one.
        source: file in the repository; by default the function's.
        function: function in that file.
    """

    argument: str
    requirement: str
    broken: str
    check: Check
    kind: ViolationKind = ViolationKind.REFUSAL
    link: str | None = None
    source: str = ""
    function: str = ""

    @property
    def url(self) -> str:
        """URL of the source at the pinned release; empty if there is no source."""
        return f"{REPOSITORY}/blob/{RELEASE}/{self.source}" if self.source else ""


@dataclass(frozen=True)
class Violation:
    """A call that breaks a rule: the runtime refuses it or computes a wrong result.

    Attributes:
        call: the call.
        argument: the offending parameter; empty if the function itself is missing.
        value: the offending value, in words.
        rule: the broken rule.
    """

    call: RuntimeCall
    argument: str
    value: str
    rule: ContractRule

    @property
    def kind(self) -> ViolationKind:
        """The effect: the function is missing, refuses the call, or silently errs."""
        return self.rule.kind

    @property
    def link(self) -> str:
        """URL of the upstream issue of a known defect, or of the rule's source."""
        return self.rule.link or self.rule.url

    def __str__(self) -> str:
        subject = " ".join(filter(None, (self.argument, self.value, self.rule.broken)))
        subject = subject.replace(" :", ":")
        where = self.rule.source.rpartition("/")[2]
        return f"{self.call.function}: {subject} [{self.kind.value}] {where}".rstrip()


@dataclass(frozen=True)
class SharedGraph:
    """A defect of the runtime's graph cache: calls that need different graphs share one.

    Attributes:
        key: returns the runtime's cache key of a call.
        variant: returns values that the cache key should also contain.
        rule: the requirement; its ``check`` is not used.
    """

    key: Callable[[RuntimeCall], Hashable]
    variant: Callable[[RuntimeCall], Hashable]
    rule: ContractRule


@dataclass(frozen=True)
class RuntimeFunction:
    """A function of the runtime that generated code may call.

    Attributes:
        name: the C name.
        parameters: names in order, including lengths of arrays, without result pointers.
        source: file in the repository.
        rules: the rules for its arguments.
        implemented: whether releases implement it, other than by throwing.
        since: the first release that has it; empty if all releases that were read have it.
        shared: the defect of its graph cache, if it has one.
        note: a remark for the table.
    """

    name: str
    parameters: tuple[str, ...]
    source: str
    rules: tuple[ContractRule, ...] = ()
    implemented: bool = True
    since: str = ""
    shared: SharedGraph | None = None
    note: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        rules = tuple(self._with_source(rule) for rule in self.rules)
        object.__setattr__(self, "rules", rules)
        if self.shared is not None:
            shared = replace(self.shared, rule=self._with_source(self.shared.rule))
            object.__setattr__(self, "shared", shared)

    def _with_source(self, rule: ContractRule) -> ContractRule:
        return replace(rule, source=rule.source or self.source, function=rule.function or self.name)
