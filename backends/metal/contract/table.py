"""All functions, the check of a call against them, and the table in the documentation."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator

from backends.metal.contract import attention, convolution, launch, matmul, memory, quantized
from backends.metal.contract.call import Call, Value
from backends.metal.contract.rule import (
    READ,
    RELEASE,
    Function,
    Kind,
    Rule,
    SharedGraph,
    Violation,
)
from harness import describe_unverified, installed_version, is_installed_within

FUNCTIONS: dict[str, Function] = {
    function.name: function
    for module in (matmul, convolution, attention, quantized, memory, launch)
    for function in module.FUNCTIONS
}
"""By name. What is not here, and is called aoti_torch_*, is in no release that was read."""

_PREFIX = "aoti_torch_"


def implemented(function: str) -> bool:
    """Whether the installed release has the function, and it does not just throw. A release that
    nobody read may have any; whether it can be executed here is another matter."""
    row = FUNCTIONS.get(function)
    if row is None:
        return not function.startswith(_PREFIX) or bool(describe_unverified(READ, function))
    return row.implemented and is_installed_within(row.since)


@functools.cache
def _absent() -> Rule:
    release = f"v{installed_version()}" if installed_version() else RELEASE
    return Rule("", "implemented", f"is not in {release}", lambda call: "", Kind.MISSING)


def bind(function: str, *arguments: Value) -> Call:
    """A call, its arguments in the order of the wrapper.

    Args:
        function: its C name.
        arguments: without the results' pointers at the end, or with: what is too much is dropped.

    Raises:
        TypeError: there are fewer arguments than the function has.
    """
    row = FUNCTIONS.get(function)
    if row is None:
        return Call(function, {})
    if len(arguments) < len(row.parameters):
        missing = ", ".join(row.parameters[len(arguments) :])
        raise TypeError(f"{function}: called without {missing}")
    return Call(function, dict(zip(row.parameters, arguments, strict=False)))


def check(call: Call) -> list[Violation]:
    """What the runtime would make of a call, apart from the calls before it.

    Returns:
        Nothing for a call that keeps the contract, and for a function that is not the runtime's.
    """
    row = FUNCTIONS.get(call.function)
    if row is None:
        return [] if implemented(call.function) else [Violation(call, "", "", _absent())]
    if not is_installed_within(row.since):
        return [Violation(call, "", "", _absent())]
    return list(_violations(row, call))


class Checker:
    """Checks the calls of one program in order, and what one call leaves behind for the next."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[str, Hashable], Hashable] = {}

    def check(self, call: Call) -> list[Violation]:
        """As :func:`check`, and whether a graph compiled for an earlier call is reused wrongly."""
        found = check(call)
        row = FUNCTIONS.get(call.function)
        if row is None or row.shared is None or any(one.kind is Kind.REFUSAL for one in found):
            return found  # a refused call compiles nothing
        return [*found, *self._reused(row.shared, call)]

    def _reused(self, shared: SharedGraph, call: Call) -> Iterator[Violation]:
        variant = shared.variant(call)
        first = self._graphs.setdefault((call.function, shared.key(call)), variant)
        if first != variant:
            yield Violation(call, shared.rule.argument, f"{variant} after {first}", shared.rule)


def _violations(row: Function, call: Call) -> Iterator[Violation]:
    for rule in row.rules:
        value = rule.check(call)
        if value is not None:
            yield Violation(call, rule.argument, value, rule)


_PAST = """## Past defects

Execution continues after a broken rule, so that one defect does not hide the others
(`conform check --past-defects`, on by default; always on for cells of the suites but those tagged
`published`, of which executing and judging one takes minutes). The cell stays red at stage `lower`,
its error begins with the first broken rule, and its record lists all of them in `defects`, with
node and line of the model. Limitations match the first one. The emulation computes the call as
the generated code means it:

| broken rule | the emulation |
|---|---|
| strides of an operand or result | honours them |
| strides that code asserts of a result | lays the result out as asserted |
| a view with holes, which the runtime replaces by a dense copy | uses the view itself |
| a view into memory of this run | reads it after it was written |
| head dimension, rank of a convolution, dtype, tensors without elements | computes them |
| bias, transposed convolution, causal attention of two lengths, a reused graph | does as torch |
| a kernel that the release does not have, also where lowering says so | calls ATen's kernel |

Execution cannot continue in these cases; the error says which, after `otherwise`:

- A kernel reads or writes outside of a buffer, races, diverges at a barrier or divides by zero:
  the behaviour is undefined, and so is every output.
- A view or an asserted shape does not fit its memory, or a copy has another number of elements: no
  layout gives the code what it means.
- A function is missing that is no ATen operator, or takes its arguments through the proxy executor,
  whose description of the call is not part of the payload.
- A launch asks for more than three dimensions or 1024 threads, for which its kernel is compiled.
- `k` of a top-k or heads of an attention do not fit their operand: there is no result.
- Lowering raises before there is code (`InductorError`, a refusal of export or of ExecuTorch), or
  the payload comes from elsewhere and runs in a child process.
"""


def contract_document() -> str:
    """The page of the documentation that holds :func:`contract_table`."""
    rules = sum(len(row.rules) + (row.shared is not None) for row in FUNCTIONS.values())
    return f"""# What the Metal runtime asks of generated code

Written by `python -m backends.metal.contract`; do not edit. {len(FUNCTIONS)} functions and
{rules} rules of ExecuTorch {RELEASE}, read from its source; {" and ".join(READ[:-1])} differ
where a function says since when it is there. With any other release the record says `unverified`.
Every call of a generated wrapper is held against them with its actual arguments; a broken rule
fails the cell at stage `lower`.

- **missing**: the release has no such function; the library does not load, or the call throws.
- **refusal**: the runtime returns an error, throws or aborts.
- **defect**: the runtime goes on and computes something else; linked where it is reported.

{_PAST}
## Rules

{contract_table()}"""


def contract_table() -> str:
    """The contract in Markdown: one table of functions with rules, one list of the others."""
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


def _line(row: Function, rule: Rule) -> str:
    kind = rule.kind.value
    known = rule.link.rpartition("/")[2] if rule.link else ""
    otherwise = f"[{kind} #{known}]({rule.link})" if known else kind
    name = rule.source.rpartition("/")[2]
    argument = f"`{rule.argument}`" if rule.argument else ""
    source = f"[{name}]({rule.url}), `{rule.function}`"
    return f"| `{row.name}` | {argument} | {rule.requirement} | {otherwise} | {source} |"
