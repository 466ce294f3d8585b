"""Facts about a run or a cell as text. Every report uses the same wording."""

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
from reports.moment import parse_time
from reports.numbers import was_lowered

NO_REASON = "no reason given"
FIRST_NODE = "first diverging node"

_SLOWEST_OPERATORS = 4


def cell_environment(info: RunInfo, part: str | None) -> Environment:
    """The environment in which a cell ran; in a merged run, the environment of its part."""
    parts = info.merged_from if part is not None else ()
    return next((one.environment for one in parts if one.name == part), info.environment)


def same_host(before: Environment, after: Environment) -> bool:
    """Whether times of the two environments are comparable; an unknown host never is."""
    return bool(before.host) and all(
        getattr(before, name) == getattr(after, name)
        for name in ("host", "machine", "processor", "vectors", "cores")
    )


def title(run: Run) -> str:
    """The name of the run folder."""
    return text.line(run.path.resolve().name, 120)


def facts(run: Run) -> list[tuple[str, str]]:
    """Pairs of a name and a value, without facts that the record does not have."""
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
        ("Cached results", _describe_reused(run)),
        ("Speed parts off", "; ".join(f"{part} ({why})" for part, why in info.slow_parts.items())),
        ("Removed upstream", "; ".join(info.missing_names.values())),
    ]
    return [(name, text.line(value, 600)) for name, value in pairs if value]


def _describe_reused(run: Run) -> str:
    """How many results were reused from earlier runs, and from which."""
    sources = Counter(cell.cached.run for cell in run.cells if cell.cached is not None)
    if not sources:
        return ""
    shown = [f"{count:,} of {name}" for name, count in sources.most_common(3)]
    more = [f"{len(sources) - 3} more runs"] if len(sources) > 3 else []
    total = text.count(sources.total(), "cell")
    return f"{total} reused from earlier runs: {', '.join([*shown, *more])}"


def result_source(cell: Cell) -> str:
    """The earlier run from which a cached result comes; empty if the cell ran in this run."""
    source = cell.cached
    return "" if source is None else f"{source.run} on {source.host}, {source.when}"


def _worker(name: str, env: Environment) -> str:
    return f"{name} ({_join(env.host, env.vectors or env.machine, env.revision[:12])})"


def worker_text(cell: Cell, info: RunInfo | None) -> str:
    """The worker that ran a cell; on a cluster with its host."""
    name = cell.worker or ""
    known = info is not None and name in info.hosts
    return _worker(name, info.hosts[name]) if info is not None and known else name


def commit(run: Run) -> str:
    """The commit, and whether the work tree had local changes."""
    return run.info.environment.revision


def source_link(cell: Cell, info: RunInfo) -> str | None:
    """URL of the source line that defines a cell's case; None if it is not known."""
    env = cell_environment(info, cell.merged_part)
    match = re.fullmatch(r"([\w/.-]+\.py):(\d+)", cell.source)
    if match is None or not env.git_home or not env.git_commit:
        return None
    blob = "-/blob" if "gitlab" in env.git_home else "blob"
    return f"{env.git_home}/{blob}/{env.git_commit}/{match[1]}#L{match[2]}"


def is_kept_folder(path: str) -> bool:
    """Whether a record's ``kept`` is a path inside the run folder, as runs write it."""
    return re.fullmatch(rf"{SAVED}/[\w@+.-]+(/[\w@+.-]+)?", path) is not None and ".." not in path


def packages(run: Run) -> list[tuple[str, str]]:
    """Package names and versions."""
    found = run.info.environment.packages
    return [(text.line(name, 80), text.line(version, 80)) for name, version in found.items()]


def duration(run: Run) -> str:
    """Wall-clock time of the run; empty if it did not end or a time is unreadable."""
    started, ended = parse_time(run.info.started), parse_time(run.info.ended)
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


def describe_worst_output(cell: Cell) -> str:
    """The worst output of a cell and its bound; empty if the cell has no outputs."""
    worst = summary.worst_output(cell)
    if worst is None:
        return ""
    at = text.worst(worst)
    where = f" at {at[0]}" if at else ""
    severity = "" if cell.severity is None else f"{cell.severity.value}: "
    return (
        f"{severity}output {worst.output} of call {worst.call}: "
        f"error {text.measure(text.error_there(worst))}, bound "
        f"{text.measure(worst.bound)}{where} ({text.output_use(worst)}), "
        f"SQNR {text.decibels(worst.sqnr_db)}, {worst.exceeding:,} of "
        f"{text.count(worst.elements, 'element')} exceed their bounds"
    )


def divergence(cell: Cell) -> str:
    """The first diverging node of a traced cell, or the reason why it is not known."""
    if (found := cell.first_divergence) is not None:
        if found.fails:
            return text.line(str(found), 600)
        which = "a diverging node" if found.note else FIRST_NODE
        return text.line(f"{which}: {found}", 600)
    return (
        text.line(f"{FIRST_NODE} not known: {cell.trace_skipped}", 600)
        if cell.trace_skipped
        else ""
    )


def known_issues(cell: Cell) -> list[str]:
    """The known issues whose symptoms a red cell shows, one line each."""
    return [f"known issue: {text.line(str(issue), 900)}" for issue in cell.known_issues]


def defects(cell: Cell) -> list[str]:
    """The known defects of a cell's program, one line each."""
    return [text.line(str(defect), 600) for defect in cell.defects]


def evidence(cell: Cell) -> str:
    """The share of elements that is conclusive; for a vacuous cell also the reason.

    Empty if it was not measured.
    """
    best = max(
        (row for row in cell.numerics if row.conclusive_share is not None),
        key=lambda row: (row.is_conclusive, row.conclusive_share),
        default=None,
    )
    if best is None:
        return ""
    why = vacuous(best)
    which = f" of {_output(best)}" if (best.output or best.name) and not why else ""
    share = f"{100 * (best.conclusive_share or 0.0):.3g} % of the elements{which} are conclusive"
    if best.is_conclusive:
        return f"{share}: the best constant gets them wrong"
    reason = cell.vacuous_reason or "the case gives no reason"
    return f"vacuous: {share}; {why}{'; ' if why else ''}{reason}"


def vacuous(row: Numerics) -> str:
    """Why an output is vacuous; empty for a conclusive output and for older records."""
    why = row.vacuous
    if why is None or row.is_conclusive:
        return ""
    if why.cause is VacuousCause.EMPTY:
        return f"{_output(row)}: it has no elements"
    of = f"{why.passing_elements:,} of {text.count(row.elements, 'element')}"
    if why.constant is None:
        return f"{_output(row)}: the bounds of {of} are infinite"
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
    """Name, time and memory peak of each stage; a value that is not known is empty."""
    return [
        (
            name,
            text.seconds(cell.stages[name]) if name in cell.stages else "",
            text.memory(cell.memory[name]) if name in cell.memory else "",
        )
        for name in dict.fromkeys([*cell.stages, *cell.memory])
    ]


def overhead(cell: Cell) -> float:
    """Seconds of a cell outside its stages; stages and overhead add up to the total.

    Computed here because records before schema 3 count some stages as overhead.
    """
    return cell.seconds - sum(cell.stages.values())


def model_sqnr(cell: Cell) -> float | None:
    """The lowest SQNR of the outputs against the float model, in dB; None if not quantized."""
    found = [row.model_sqnr_db for row in cell.numerics if row.model_sqnr_db is not None]
    return min(found, default=None)


def quality(cell: Cell) -> str:
    """How far the quantized graph is from the float model; empty if it was not measured."""
    found = cell.quality
    if found is None:
        return ""
    word = ", degraded" if found.is_degraded else ""
    shares = ", ".join(f"{name} {share:.2g}" for name, share in found.clipped.items())
    word += f"; share of values that are clipped: {shares}" if shares else ""
    return (
        f"SQNR {text.decibels(found.sqnr_db)} of the quantized graph against the float model "
        f"(output {found.output}, all calls); {text.decibels(found.expected_db)} expected of "
        f"{text.count(found.roundings, 'rounding')}{word}"
    )


def metrics(cell: Cell) -> str:
    """The metrics of a case; empty if it has none."""
    return "; ".join(str(metric) for metric in cell.metrics)


def degradation(cell: Cell) -> str:
    """Why a pass is a degraded one; empty if it is not."""
    found = [quality(cell)] if cell.quality is not None and cell.quality.is_degraded else []
    return "; ".join([*found, *(str(metric) for metric in cell.metrics if metric.is_degraded)])


def quality_parts(cell: Cell) -> list[tuple[str, ...]]:
    """The roundings of a quantizer that cost most, worst first, as rows of :data:`QUALITY_HEAD`."""
    parts = [] if cell.quality is None else cell.quality.parts
    return [
        (
            part.node,
            text.decibels(part.alone_db),
            "" if part.without_db is None else text.decibels(part.without_db),
            f"{part.clipped:.2%}" if part.clipped else "",
            f"{part.codes:,} of {part.available:,}" if part.available else "",
            part.module or part.source.partition(": ")[0],
        )
        for part in parts
    ]


def quality_search(cell: Cell) -> str:
    """The modules that ``--reach-sqnr`` found; empty where it did not search."""
    found = cell.quality
    if found is None or found.reached_db is None:
        return ""
    if not found.keep_float:
        return f"reaches {text.decibels(found.reached_db)} with all modules quantized"
    options = " ".join(f"--keep-float {shlex.quote(name)}" for name in found.keep_float)
    if found.wanted_db is not None and found.reached_db < found.wanted_db:
        wanted = text.decibels(found.wanted_db)
        return f"does not reach {wanted}: {text.decibels(found.reached_db)} with all of {options}"
    return f"reaches {text.decibels(found.reached_db)} with {options}"


QUALITY_HEAD = (
    "tensor", "SQNR alone", "SQNR without", "clipped", "codes used", "module",
)  # fmt: skip
"""Columns of :func:`quality_parts`. Alone: only this tensor is rounded; without: all others are."""


def program(cell: Cell) -> str:
    """The sizes of a program and of its constants; empty if there is no program."""
    if not cell.program_bytes:
        return ""
    parts = [text.size(cell.program_bytes)]
    if cell.constant_bytes is not None:
        parts.append(f"{text.size(cell.constant_bytes)} of them constants")
    if cell.duplicate_constant_bytes:
        parts.append(f"{text.size(cell.duplicate_constant_bytes)} of constants stored twice")
    return ", ".join(parts)


def calls(cell: Cell) -> str:
    """Time of the first call and of later calls of the program; empty if not measured."""
    known = (("first", cell.first_seconds), ("steady", cell.steady_seconds))
    times = ", ".join(f"{name} {text.seconds(one)}" for name, one in known if one is not None)
    return _join(times, run_profile(cell))


def run_profile(cell: Cell) -> str:
    """Time of delegates and fallback nodes in the runtime, and of the slowest operators; empty if
    not measured."""
    profile = cell.profile
    if profile is None or not profile.fallback:
        return ""
    slowest = sorted(profile.fallback.items(), key=lambda item: -item[1])[:_SLOWEST_OPERATORS]
    named = ", ".join(f"{name} {text.seconds(spent)}" for name, spent in slowest)
    fallback = text.seconds(sum(profile.fallback.values()))
    return (
        f"delegates {text.seconds(profile.delegates)}, fallback nodes {fallback} "
        f"({profile.fallback_share:.0%}): {named}"
    )


def tested_sizes(cell: Cell) -> str:
    """The sizes of dynamic dimensions at which a program was tested, and the untested ones."""
    lines = [
        f"{one} varies, {one.span}; tested at {', '.join(map(str, dict.fromkeys(one.sizes)))}"
        for one in cell.dynamic_dimensions
    ]
    return "; ".join([*lines, *cell.untried_sizes])


def delegation(cell: Cell) -> str:
    """Number of delegates, delegated nodes and fallback nodes; empty if not lowered."""
    taken = cell.delegation
    if not was_lowered(taken):
        return ""
    fallback = text.count(taken.undelegated_nodes, "fallback node")
    if not taken.delegates:
        return f"nothing delegated, {fallback}"
    return (
        f"{text.count(taken.delegates, 'delegate')} with "
        f"{text.count(taken.delegated_nodes, 'node')}, {fallback}"
    )


def fallback_ops(cell: Cell) -> str:
    """The operators of the fallback nodes with their number of calls; empty for none."""
    ops = cell.delegation.undelegated_ops
    return f"fallback: {text.calls(ops)}" if ops else ""


def reasons(cell: Cell) -> list[tuple[str, dict[str, int]]]:
    """The partitioner's reasons for fallback nodes, most calls first.

    Each comes with its operators and their number of calls. Operators without a reason are listed
    under :data:`NO_REASON`.
    """
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
