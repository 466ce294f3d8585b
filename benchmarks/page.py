"""Write docs/performance.md from benchmark results, or compare new results with them.

    python -m benchmarks.against_upstream --json docs/performance/against-xnnpack.json
    python -m benchmarks.page                    # docs/performance.md and its plots
    python -m benchmarks.page --check FOLDER     # fails where a ratio in FOLDER is worse

Ratios are compared, never seconds: machines differ, and one machine varies from hour to hour.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MEASUREMENTS = Path("docs/performance")
PAGE = Path("docs/performance.md")
SLACK = 0.8
"""A new ratio is worse if it is below this share of the worst stored round."""

Figures = dict[str, Any]

_HEAD = """# Performance

Written by `python -m benchmarks.page` from the JSON files in [performance/](performance/), which
the commands below wrote. Seconds are of one machine and one hour; ratios are of rounds in which
both sides ran in turn. `python -m benchmarks.page --check FOLDER` fails where a new ratio is below
{slack:.0%} of the worst round stored here; the nightly workflow runs it.
"""


def load_measurements(folder: Path) -> dict[str, Figures]:
    """Return all measurements in a folder, by file name."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.json"))
    }


def _format_table(head: str, rows: list[str]) -> str:
    columns = head.count("|") + 1
    rule = "|".join(["---"] + ["---:"] * (columns - 1))
    return "\n".join(f"| {line} |" for line in (head, rule, *rows))


def _format_ratio(ratio: Figures) -> str:
    return f"{ratio['median']:.1f} ({ratio['least']:.1f} to {ratio['most']:.1f})"


def _format_host(found: Figures) -> str:
    host = found["host"]
    packages = ", ".join(f"{name} {version}" for name, version in host["packages"].items())
    return f"{host['cores']} cores, {host['machine']}, Python {host['python']}, {packages}."


def format_upstream(name: str, found: Figures) -> str:
    """Format the section on upstream's suite and ours."""
    rows = []
    for number, each in enumerate(found["rounds"], 1):
        (their_wall, their_cpu), (wall, cpu) = each["upstream"], each["ours"]
        rows.append(
            f"{number} | {their_wall:.0f} | {wall:.0f} | {their_wall / wall:.1f} "
            f"| {their_cpu:.0f} | {cpu:.0f} | {their_cpu / cpu:.1f}"
        )
    head = "round | upstream, wall s | ours | ratio | upstream, CPU s | ours | ratio"
    lost = found["lost"]
    reasons: dict[str, list[str]] = {}
    for each in lost:
        reasons.setdefault(f"{each['status']}: {each['reason']}", []).append(each["cell"])
    listed = "\n".join(
        f"- {len(cells)} {'cell' if len(cells) == 1 else 'cells'} ({cells[0]}"
        f"{', …' if len(cells) > 1 else ''}), {why}"
        for why, cells in sorted(reasons.items(), key=lambda item: -len(item[1]))
    )
    targets = found["targets"]
    before = found.get("before")
    warm = " --warm" if before else ""
    first = f"Ours ran once before and took {before[0]:.0f} s.\n" if before else ""
    wall_ratio, cpu_ratio = _format_ratio(found["wall"]), _format_ratio(found["cpu"])
    return f"""## Upstream's operator suite, flow `{found["flow"]}`, against ours on {targets}

`python -m benchmarks.against_upstream{warm} --flow {found["flow"]} --targets {targets}`:
{found["functions"]} test functions, {found["cells"]} of our cells, {found["workers"]} processes.
Upstream takes **{wall_ratio} times the wall time** and {cpu_ratio} times
the CPU. {first}{_format_host(found)}

![Wall seconds](performance/{name}.svg)

{_format_table(head, rows)}

Of the programs that upstream passes, {len(lost)} of our cells do not pass{":" if lost else "."}

{listed}
"""


def format_stages(name: str, found: Figures) -> str:
    """Format the section on stages and the vendors' bare calls."""
    rows = []
    for target, each in found["targets"].items():
        bare, ours = each["bare"], each["ours"]
        cells = [f"{bare[stage]:.0f} / {ours[stage]:.0f}" for stage in _stages(found)]
        rows.append(
            f"{target} | {each['cells']} | {' | '.join(cells)} | {ours['outside']:.1f} "
            f"| {_format_ratio(each['ratio'])}"
        )
    head = f"target | cells | {' | '.join(_stages(found))} | outside | bare to ours"
    return f"""## Stages

`python -m benchmarks.stages`: milliseconds of a cell, bare calls of the vendors / ours, median of
{found["rounds"]} rounds on one thread. "Outside" is the time of our cells outside of the vendors'
stages, including the references and the runs that bounds are derived from; the aim is below 8 ms.
The ratio is of whole cells, including that time. For Metal, the first round generates code and the
others use the cached code. {_format_host(found)}

![Milliseconds a cell](performance/{name}.svg)

{_format_table(head, rows)}
"""


def _stages(found: Figures) -> list[str]:
    first = next(iter(found["targets"].values()))
    return [stage for stage in first["bare"] if stage != "outside"]


def format_references(name: str, found: Figures) -> str:
    """Format the section on the references of models."""
    rows = [
        f"{cell['model']} | {cell['target']} | {cell['lowering']:.1f} | {cell['running']:.1f} "
        f"| {cell['reference']:.1f} | {cell['ratio']:.2f} | {cell['gib']:.2f}"
        for cell in found["cells"]
    ]
    head = "model | target | lowering, s | run, s | reference, s | ratio | GiB"
    return f"""## References

`python -m benchmarks.reference MODEL... --targets LIST`: CPU seconds of a cell on one thread, for
trained networks of the Python package index. The ratio is the reference divided by lowering (from
the export to the bytes) and running together; the aim is at most 2. GiB is the peak memory of the
reference. {_format_host(found)}

![Reference, in units of lowering and running](performance/{name}.svg)

{_format_table(head, rows)}
"""


def format_scaling(name: str, found: Figures) -> str:
    """Format the section on runs of different sizes."""
    rows = [
        f"{run['cells']} | {run['workers']} | {run['wall']:.0f} | {run['milliseconds']:.0f} "
        f"| {run['same_cells']:.2f} | {run['peak']:.2f} | {run['growth']:+.2f}"
        for run in found["runs"]
    ]
    head = "cells | workers | wall s | ms a cell | the same cells | GiB | growth"
    return f"""## Scaling

`python -m benchmarks.scaling`: samples of upstream's operators on five targets. "The same cells"
is the time of the smallest run's cells in this run, divided by their time in the smallest run; it
includes waiting for a core where there are more workers than cores. GiB is the peak memory of a
worker process, growth its increase in the last half of the run. {_format_host(found)}

![Milliseconds a cell](performance/{name}.svg)

{_format_table(head, rows)}
"""


def format_cluster(name: str, found: Figures) -> str:
    """Format the section on a cluster whose cells only wait."""
    rows = [
        f"{run['workers']} | {run['cells']:,} | {run['seconds_of_a_cell']:g} "
        f"| {run['seconds']:.1f} | {run['overhead_ms']:.2f} | {_efficiency(run)}"
        for run in found["runs"]
    ]
    head = "workers | cells | a cell sleeps, s | run, s | overhead, ms a cell | efficiency"
    return f"""## A cluster

`python -m benchmarks.cluster`: a real scheduler, workers and client ([cluster.md](cluster.md)) on
one machine; cells sleep and run nothing. The efficiency is the seconds that all slept, divided by
the seconds of the run times the workers. {_format_host(found)}

![Efficiency](performance/{name}.svg)

{_format_table(head, rows)}
"""


def _efficiency(run: Figures) -> str:
    return f"{run['efficiency']:.1%}" if run["seconds_of_a_cell"] else ""


Sections = dict[str, tuple[Callable[[str, Figures], str], Callable[[Any, Figures], None]]]


def _plot_against(axes: Any, found: Figures) -> None:
    sides = ("upstream", "ours")
    for at, side in enumerate(sides):
        walls = [each[side][0] for each in found["rounds"]]
        axes.barh([at + 0.25 * number for number in range(len(walls))], walls, 0.22, label=side)
    axes.set_yticks([at + 0.125 * (len(found["rounds"]) - 1) for at in (0, 1)], sides)
    axes.invert_yaxis()
    axes.set_xlabel("wall seconds, one bar for each round")


def _plot_stages(axes: Any, found: Figures) -> None:
    for at, each in enumerate(found["targets"].values()):
        for offset, way, color in ((-0.2, "bare", "tab:gray"), (0.2, "ours", "tab:blue")):
            axes.barh(at + offset, sum(each[way].values()), 0.36, color=color, label=way)
    axes.set_yticks(range(len(found["targets"])), list(found["targets"]))
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds a cell")
    axes.legend(["bare calls", "ours"])


def _plot_references(axes: Any, found: Figures) -> None:
    cells = found["cells"]
    axes.barh(range(len(cells)), [cell["ratio"] for cell in cells], color="tab:blue")
    axes.axvline(2, color="tab:gray", linestyle=":")
    names = [f"{cell['model']}, {cell['target']}" for cell in cells]
    axes.set_yticks(range(len(cells)), names, fontsize=6)
    axes.invert_yaxis()
    axes.set_xlabel("reference / (lowering + run)")


def _plot_scaling(axes: Any, found: Figures) -> None:
    workers = found["runs"][0]["workers"]
    runs = [run for run in found["runs"] if run["workers"] == workers]
    axes.plot([run["cells"] for run in runs], [run["milliseconds"] for run in runs], "o-")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("cells of a run")
    axes.set_ylabel("milliseconds a cell")


def _plot_cluster(axes: Any, found: Figures) -> None:
    runs = sorted(
        (run for run in found["runs"] if run["seconds_of_a_cell"]), key=lambda run: run["workers"]
    )
    workers = [run["workers"] for run in runs]
    axes.plot(workers, [100 * run["efficiency"] for run in runs], "o-")
    axes.axhline(90, color="tab:gray", linestyle=":")
    axes.set_ylim(0, 102)
    axes.set_xlabel("workers; each cell sleeps for a second")
    axes.set_ylabel("efficiency, %")


SECTIONS: Sections = {
    "against_upstream": (format_upstream, _plot_against),
    "stages": (format_stages, _plot_stages),
    "reference": (format_references, _plot_references),
    "scaling": (format_scaling, _plot_scaling),
    "cluster": (format_cluster, _plot_cluster),
}


def write_page() -> None:
    """Write the page and a plot for each measurement."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "conform"  # the same figures are the same file
    from matplotlib import pyplot

    parts = [_HEAD.format(slack=SLACK)]
    for benchmark, (section, plot) in SECTIONS.items():
        for name, found in load_measurements(MEASUREMENTS).items():
            if found["benchmark"] != benchmark:
                continue
            parts.append(section(name, found))
            figure, axes = pyplot.subplots(figsize=(8, 2.6), layout="constrained")
            plot(axes, found)
            axes.spines[["top", "right"]].set_visible(False)
            figure.savefig(MEASUREMENTS / f"{name}.svg", metadata={"Date": None})
            pyplot.close(figure)
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    print(f"wrote {PAGE}")


def _ratios(found: Figures) -> Iterator[tuple[str, Figures]]:
    if found["benchmark"] == "against_upstream":
        yield "wall", found["wall"]
        yield "CPU", found["cpu"]
    if found["benchmark"] == "stages":
        for target, each in found["targets"].items():
            yield target, each["ratio"]


def find_regressions(old: dict[str, Figures], new: dict[str, Figures]) -> list[str]:
    """Return the ratios of a new measurement that are worse, one line each.

    Raises:
        SystemExit: a stored measurement was not repeated, or none is stored.
    """
    telling = {name for name, found in old.items() if next(_ratios(found), None) is not None}
    if missing := sorted(telling - new.keys()):
        sys.exit(f"not measured again: {', '.join(missing)}")
    if not old:
        sys.exit(f"no measurements in {MEASUREMENTS}")
    found = []
    for name in sorted(telling):
        before, ratios = old[name], dict(_ratios(new[name]))
        for which, ratio in _ratios(before):
            if which not in ratios:
                found.append(f"{name}, {which}: not measured again")
            elif ratios[which]["median"] < (least := SLACK * ratio["least"]):
                now = ratios[which]["median"]
                found.append(f"{name}, {which}: {now:.2f}, below {least:.2f}")
    return found


def main() -> None:
    """Write the page, or check new results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", type=Path, metavar="FOLDER", help="compare the measurements in FOLDER"
    )
    given = parser.parse_args()
    if given.check is None:
        write_page()
    elif behind := find_regressions(
        load_measurements(MEASUREMENTS), load_measurements(given.check)
    ):
        sys.exit("\n".join(["worse ratios:", *behind]))
    else:
        print("no ratio is worse")


if __name__ == "__main__":
    main()
