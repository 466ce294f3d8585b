"""Facts of a run and of a cell in words, the same words in every report."""

from __future__ import annotations

import re
import shlex
from collections import Counter

from harness.record.cell import Cell, Numerics
from harness.record.evidence import VacuousCause
from harness.record.folder import SAVED
from harness.record.host import Environment
from harness.record.run import Run, RunInfo
from reports import summary, text
from reports.moment import moment
from reports.numbers import was_lowered

NO_REASON = "no reason given"
FIRST_NODE = "first node that leaves the oracle"


def place(info: RunInfo, part: str | None) -> Environment:
    """Where a cell ran: in a merged run that of its part."""
    parts = info.merged_from if part is not None else ()
    return next((one.environment for one in parts if one.name == part), info.environment)


def same_host(before: Environment, after: Environment) -> bool:
    """Whether times of the two mean the same; unknown hosts are not the same."""
    return bool(before.host) and all(
        getattr(before, name) == getattr(after, name)
        for name in ("host", "machine", "processor", "vectors", "cores")
    )


def title(run: Run) -> str:
    """The name of the run folder, which is what people call a run."""
    return text.line(run.path.resolve().name, 120)


def facts(run: Run) -> list[tuple[str, str]]:
    """Pairs of a name and a value, leaving out what the record does not have."""
    info, env = run.info, run.info.environment
    cores = text.count(env.cores, "core") if env.cores else ""
    pairs = [
        ("Seed", str(info.seed)),
        ("Commit", commit(run)),
        ("Started", info.started),
        ("Took", duration(run)),
        ("Command", shlex.join(info.command)),
        ("Selection", info.selection),
        ("Exit status", "" if info.exit_status is None else str(info.exit_status)),
        ("Host", _join(env.host, env.vectors or env.machine)),
        ("Workers", "; ".join(_worker(name, host) for name, host in info.hosts.items())),
        ("System", _join(env.platform, env.processor, cores)),
        ("Python", env.python),
        ("Not run here", _taken(run)),
        ("Slower without", "; ".join(f"{part} ({why})" for part, why in info.slow_parts.items())),
        ("Gone upstream", "; ".join(info.missing_names.values())),
    ]
    return [(name, text.line(value, 600)) for name, value in pairs if value]


def _taken(run: Run) -> str:
    """The cells whose results are those of earlier runs, and which."""
    sources = Counter(cell.cached.run for cell in run.cells if cell.cached is not None)
    if not sources:
        return ""
    shown = [f"{count:,} of {name}" for name, count in sources.most_common(3)]
    more = [f"{len(sources) - 3} more runs"] if len(sources) > 3 else []
    total = text.count(sources.total(), "cell")
    return f"{total}, whose results are of earlier runs: {', '.join([*shown, *more])}"


def taken_from(cell: Cell) -> str:
    """The run that a result is of, where that is an earlier one."""
    source = cell.cached
    return "" if source is None else f"{source.run} on {source.host}, {source.when}"


def _worker(name: str, env: Environment) -> str:
    return f"{name} ({_join(env.host, env.vectors or env.machine, env.revision[:12])})"


def ran_on(cell: Cell, info: RunInfo | None) -> str:
    """Who ran a cell, on a farm also where that is."""
    name = cell.worker or ""
    known = info is not None and name in info.hosts
    return _worker(name, info.hosts[name]) if info is not None and known else name


def commit(run: Run) -> str:
    """The commit, and whether the work tree had changes on top of it."""
    return run.info.environment.revision


def source_link(cell: Cell, info: RunInfo) -> str | None:
    """Where the line that makes a cell's case is on the web; None where that is not known."""
    env = place(info, cell.merged_part)
    match = re.fullmatch(r"([\w/.-]+\.py):(\d+)", cell.source)
    if match is None or not env.git_home or not env.git_commit:
        return None
    blob = "-/blob" if "gitlab" in env.git_home else "blob"
    return f"{env.git_home}/{blob}/{env.git_commit}/{match[1]}#L{match[2]}"


def is_kept_folder(path: str) -> bool:
    """Whether a record's ``kept`` is what a run writes, and leads nowhere else."""
    return re.fullmatch(rf"{SAVED}/[\w@+.-]+(/[\w@+.-]+)?", path) is not None and ".." not in path


def packages(run: Run) -> list[tuple[str, str]]:
    """Package names with their versions."""
    found = run.info.environment.packages
    return [(text.line(name, 80), text.line(version, 80)) for name, version in found.items()]


def duration(run: Run) -> str:
    """Wall-clock time of the whole run, when it ended and both times can be read."""
    started, ended = moment(run.info.started), moment(run.info.ended)
    return text.seconds((ended - started).total_seconds()) if started and ended else ""


def backend_states(run: Run) -> list[tuple[str, str, str]]:
    """Name, ``available`` or ``unavailable``, and the runtime or the reason."""
    return [
        (
            text.line(name, 80),
            "available" if state.available else "unavailable",
            text.line(
                f"{state.runtime} runtime"
                + (f", unverified: {state.unverified}" if state.unverified else "")
                if state.available
                else state.reason or "no reason recorded",
                500,
            ),
        )
        for name, state in run.info.backends.items()
    ]


def wrongness(cell: Cell) -> str:
    """The worst output of a cell against its bound, or nothing when it has no outputs."""
    worst = summary.worst_output(cell)
    if worst is None:
        return ""
    at = text.worst(worst)
    where = f" at {at[0]}" if at else ""
    severity = "" if cell.severity is None else f"{cell.severity.value}: "
    return (
        f"{severity}output {worst.output} of call {worst.call}: "
        f"error {text.measure(text.error_there(worst))} against a bound of "
        f"{text.measure(worst.bound)}{where} ({text.bound_use(worst.bound_used)}), "
        f"SQNR {text.decibels(worst.sqnr_db)}, {worst.exceeding:,} of "
        f"{text.count(worst.elements, 'element')} exceed their bounds"
    )


def divergence(cell: Cell) -> str:
    """The node where a traced cell leaves the oracle, or why it is not known; else nothing."""
    if (found := cell.first_divergence) is not None:
        if found.fails:
            return text.line(str(found), 600)
        which = "a node that leaves the oracle" if found.note else FIRST_NODE
        return text.line(f"{which}: {found}", 600)
    return (
        text.line(f"first wrong node not known: {cell.trace_skipped}", 600)
        if cell.trace_skipped
        else ""
    )


def known(cell: Cell) -> list[str]:
    """The known issues that a red cell shows the signs of, a line each."""
    return [f"known: {text.line(str(issue), 900)}" for issue in cell.known_issues]


def defects(cell: Cell) -> list[str]:
    """The known defects of a cell's program, a line each."""
    return [text.line(str(defect), 600) for defect in cell.defects]


def evidence(cell: Cell) -> str:
    """Which share of the outputs is conclusive, and the case's reason where that is too little to
    be evidence; nothing where it was not measured."""
    best = max(
        (row for row in cell.numerics if row.conclusive_share is not None),
        key=lambda row: (row.is_conclusive, row.conclusive_share),
        default=None,
    )
    if best is None:
        return ""
    why = vacuous(best)  # names the output
    which = f" of {_output(best)}" if (best.output or best.name) and not why else ""
    share = f"{100 * (best.conclusive_share or 0.0):.3g} % of the elements{which} are conclusive"
    if best.is_conclusive:
        return f"{share}: the best constant gets them wrong"
    reason = cell.vacuous_reason or "the case gives no reason"
    return f"vacuous: {share}; {why}{'; ' if why else ''}{reason}"


def vacuous(row: Numerics) -> str:
    """Which output is no evidence where it conforms, and what in it is the cause; empty where it is
    evidence, and in records that do not say."""
    why = row.vacuous
    if why is None or row.is_conclusive:
        return ""
    if why.cause is VacuousCause.EMPTY:
        return f"{_output(row)}: it has no elements"
    of = f"{why.passing_elements:,} of {text.count(row.elements, 'element')}"
    if why.constant is None:
        return f"{_output(row)}: no perturbed run says anything of {of}: their bounds are infinite"
    what = {
        VacuousCause.EQUAL: "all values are equal"
        if why.passing_elements == row.elements
        else "so many of the values are equal",
        VacuousCause.WIDE: "its bounds are wider than its values",
        VacuousCause.SPREAD: "its bounds are as wide as the spread of its values",
    }[why.cause]
    constant = f"the constant {text.measure(why.constant)}"
    within = "is within its bound" if row.elements == 1 else "are within their bounds"
    return f"{_output(row)}: {of} {within} of {constant}: {what}"


def _output(row: Numerics) -> str:
    call = f"call {row.call} " if row.call else ""
    return f"{call}{row.role} {row.output}" + (f" ({row.name})" if row.name else "")


def stages(cell: Cell) -> list[tuple[str, str, str]]:
    """Name, time and most memory of each stage; what is not known is empty."""
    return [
        (
            name,
            text.seconds(cell.stages[name]) if name in cell.stages else "",
            text.memory(cell.memory[name]) if name in cell.memory else "",
        )
        for name in dict.fromkeys([*cell.stages, *cell.memory])
    ]


def overhead(cell: Cell) -> float:
    """Seconds beyond all stages of a cell, so that these and the stages add up to the total.

    Not the record's own: before schema 3 that counted stages of ours in, too.
    """
    return cell.seconds - sum(cell.stages.values())


def model_sqnr(cell: Cell) -> float | None:
    """The lowest SQNR of its outputs against the float model, in dB; None where nothing was
    quantized."""
    found = [row.model_sqnr_db for row in cell.numerics if row.model_sqnr_db is not None]
    return min(found, default=None)


def program(cell: Cell) -> str:
    """The size of a program, and what of it are constants; nothing where there is none."""
    if not cell.program_bytes:
        return ""
    parts = [text.size(cell.program_bytes)]
    if cell.constant_bytes is not None:
        parts.append(f"{text.size(cell.constant_bytes)} of it constants")
    if cell.duplicate_constant_bytes:
        parts.append(f"{text.size(cell.duplicate_constant_bytes)} of these stored twice")
    return ", ".join(parts)


def calls(cell: Cell) -> str:
    """What a call took, the first one and those after it; nothing where that is not known."""
    known = (("first", cell.first_seconds), ("steady", cell.steady_seconds))
    return ", ".join(f"{name} {text.seconds(one)}" for name, one in known if one is not None)


def sizes(cell: Cell) -> str:
    """At which sizes a program whose inputs vary was executed, and at which not; empty for none."""
    lines = [
        f"{one} varies, {one.span}; tested at {', '.join(map(str, dict.fromkeys(one.sizes)))}"
        for one in cell.dynamic_dimensions
    ]
    return "; ".join([*lines, *cell.untried_sizes])


def delegation(cell: Cell) -> str:
    """What the partitioner did with a cell, or nothing when there was no node to give."""
    taken = cell.delegation
    if not was_lowered(taken):
        return ""
    left = text.count(taken.undelegated_nodes, "node")
    if not taken.delegates:
        return f"nothing delegated, {left} left over"
    return (
        f"{text.count(taken.delegates, 'delegate')} with "
        f"{text.count(taken.delegated_nodes, 'node')}, {left} left over"
    )


def left_over(cell: Cell) -> str:
    """The operators that the partitioner left over, or nothing."""
    ops = cell.delegation.undelegated_ops
    return f"left over: {text.calls(ops)}" if ops else ""


def reasons(cell: Cell) -> list[tuple[str, dict[str, int]]]:
    """Why operators were left over: what the partitioner said, with the operators it said it of and
    their calls, most calls first. Where it said nothing that is the reason."""
    taken = cell.delegation
    found: dict[str, dict[str, int]] = {}
    for op, calls in text.by_count(taken.undelegated_ops):
        said = taken.reasons.get(op, {})
        rest = calls - sum(said.values())
        for reason, number in [*said.items(), *([(NO_REASON, rest)] if rest > 0 else [])]:
            found.setdefault(text.line(reason, 300), {})[op] = number
    return sorted(found.items(), key=lambda item: -sum(item[1].values()))


def _join(*parts: str) -> str:
    return " · ".join(part for part in parts if part)
