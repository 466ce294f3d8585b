"""All functions of the runtime, the check of a call, and the table for the documentation."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator

from backends.metal.contract import attention, convolution, launch, matmul, memory, quantized
from backends.metal.contract.call import RuntimeCall, Value
from backends.metal.contract.rule import (
    CHECKED_RELEASES,
    RELEASE,
    ContractRule,
    RuntimeFunction,
    SharedGraph,
    Violation,
    ViolationKind,
)
from harness import is_installed_within
from harness.backend_api import describe_unverified, installed_version

FUNCTIONS: dict[str, RuntimeFunction] = {
    function.name: function
    for module in (matmul, convolution, attention, quantized, memory, launch)
    for function in module.FUNCTIONS
}
"""Functions by name. Another function named aoti_torch_* is in no release that was read."""

_PREFIX = "aoti_torch_"


def implemented(function: str) -> bool:
    """Return whether the installed release implements a function, other than by throwing.

    A release whose sources were not read may have any function.
    """
    row = FUNCTIONS.get(function)
    if row is None:
        return not function.startswith(_PREFIX) or bool(
            describe_unverified(CHECKED_RELEASES, function)
        )
    return row.implemented and is_installed_within(row.since)


@functools.cache
def _absent() -> ContractRule:
    release = f"v{installed_version()}" if installed_version() else RELEASE
    return ContractRule(
        "", "implemented", f"is not in {release}", lambda call: "", ViolationKind.MISSING
    )


def bind(function: str, *arguments: Value) -> RuntimeCall:
    """Make a call from arguments in the wrapper's order.

    Args:
        function: the C name.
        arguments: the arguments; result pointers at the end are ignored.

    Raises:
        TypeError: there are fewer arguments than the function has.
    """
    row = FUNCTIONS.get(function)
    if row is None:
        return RuntimeCall(function, {})
    if len(arguments) < len(row.parameters):
        missing = ", ".join(row.parameters[len(arguments) :])
        raise TypeError(f"{function}: called without {missing}")
    return RuntimeCall(function, dict(zip(row.parameters, arguments, strict=False)))


def check(call: RuntimeCall) -> list[Violation]:
    """Check a call on its own, without the calls before it.

    Returns:
        The violations; none for functions that are not the runtime's.
    """
    row = FUNCTIONS.get(call.function)
    if row is None:
        return [] if implemented(call.function) else [Violation(call, "", "", _absent())]
    if not is_installed_within(row.since):
        return [Violation(call, "", "", _absent())]
    return list(_violations(row, call))


class Checker:
    """Checks the calls of one program in order, including effects of earlier calls."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[str, Hashable], Hashable] = {}

    def check(self, call: RuntimeCall) -> list[Violation]:
        """Check a call as :func:`check` does, and detect a wrongly reused graph."""
        found = check(call)
        row = FUNCTIONS.get(call.function)
        if (
            row is None
            or row.shared is None
            or any(one.kind is ViolationKind.REFUSAL for one in found)
        ):
            return found  # a refused call compiles nothing
        return [*found, *self._check_graph_reuse(row.shared, call)]

    def _check_graph_reuse(self, shared: SharedGraph, call: RuntimeCall) -> Iterator[Violation]:
        variant = shared.variant(call)
        first = self._graphs.setdefault((call.function, shared.key(call)), variant)
        if first != variant:
            yield Violation(call, shared.rule.argument, f"{variant} after {first}", shared.rule)


def _violations(row: RuntimeFunction, call: RuntimeCall) -> Iterator[Violation]:
    for rule in row.rules:
        value = rule.check(call)
        if value is not None:
            yield Violation(call, rule.argument, value, rule)


_PAST = """## Past defects

Execution continues after a broken rule, so that one defect does not hide the others
(`conform check --past-defects`, on by default; always on for cells of the suites, except cells
tagged `published`, which take minutes each). The cell stays red at stage `lower`, its error begins
with the first broken rule, and its record lists all broken rules in `defects`, with node and line
of the model. Limitations match the first one. The emulation computes the call as the generated code
intends:

| broken rule | the emulation |
|---|---|
| strides of an operand or result | uses these strides |
| strides that code asserts of a result | lays the result out as asserted |
| a view with holes, which the runtime replaces by a dense copy | uses the view itself |
| a view into memory of this run | reads it after it was written |
| head dimension, rank of a convolution, dtype, tensors without elements | computes the result |
| bias, transposed convolution, causal attention of two lengths, a reused graph | does as torch |
| a kernel that the release does not have, also where lowering says so | calls ATen's kernel |

Execution cannot continue in these cases; the error names the case after `otherwise`:

- A kernel reads or writes outside a buffer, races, diverges at a barrier or divides by zero: the
  behaviour is undefined, and so is every output.
- A view or an asserted shape does not fit its memory, or a copy has another number of elements: no
  layout has the intended elements.
- A missing function is no ATen operator, or takes its arguments through the proxy executor: the
  payload does not contain the description of the call.
- A launch needs more than three dimensions or 1024 threads, for which its kernel is compiled.
- `k` of a top-k or heads of an attention do not fit their operand: there is no result.
- Lowering raises before it generates code (`InductorError`, a refusal of export or of ExecuTorch),
  or the payload comes from elsewhere and runs in a child process.
"""


def contract_document() -> str:
    """Return the documentation page with :func:`contract_table`."""
    rules = sum(len(row.rules) + (row.shared is not None) for row in FUNCTIONS.values())
    others = " and ".join(CHECKED_RELEASES[:-1])
    return f"""# Rules of the Metal runtime for generated code

Generated by `python -m backends.metal.contract`; do not edit. {len(FUNCTIONS)} functions and
{rules} rules, read from the source of ExecuTorch {RELEASE}; {others} differ
where a function names its first release. With any other release the record says `unverified`.
The harness checks every call of a generated wrapper, with its actual arguments, against these
rules; a broken rule fails the cell at stage `lower`.

- **missing**: the release has no such function; the library does not load, or the call throws.
- **refusal**: the runtime returns an error, throws or aborts.
- **defect**: the runtime continues and computes a wrong result; with a link if it is reported.

{_PAST}
## Rules

{contract_table()}"""


def contract_table() -> str:
    """Return the contract in Markdown: a table of rules, and a list of functions without rules."""
    lines = ["| function | argument | requirement | otherwise | source |", "|---|---|---|---|---|"]
    for row in sorted(FUNCTIONS.values(), key=lambda row: row.name):
        rules = row.rules if row.shared is None else (*row.rules, row.shared.rule)
        lines += [_line(row, rule) for rule in rules]
    since = sorted((row.name, row.since) for row in FUNCTIONS.values() if row.since)
    free = sorted(row.name for row in FUNCTIONS.values() if not row.rules)
    notes = sorted((row.name, row.note) for row in FUNCTIONS.values() if row.note)
    return "\n".join(
        [
            *lines,
            "",
            "Functions without requirements: " + ", ".join(f"`{name}`" for name in free) + ".",
            "",
            *(f"- `{name}`: since {release}." for name, release in since),
            *(f"- `{name}`: {note}." for name, note in notes),
            "",
        ]
    )


def _line(row: RuntimeFunction, rule: ContractRule) -> str:
    kind = rule.kind.value
    known = rule.link.rpartition("/")[2] if rule.link else ""
    otherwise = f"[{kind} #{known}]({rule.link})" if known else kind
    name = rule.source.rpartition("/")[2]
    argument = f"`{rule.argument}`" if rule.argument else ""
    source = f"[{name}]({rule.url}), `{rule.function}`"
    return f"| `{row.name}` | {argument} | {rule.requirement} | {otherwise} | {source} |"
