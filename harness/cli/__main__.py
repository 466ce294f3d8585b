"""Command ``conform`` with all its subcommands."""

from __future__ import annotations

import copy
from typing import Any

import click

from harness.cli import (
    cell_commands,
    check,
    fuzz,
    list_commands,
    releases,
    run_commands,
    trace_commands,
)
from harness.cli.coverage import coverage, mutate
from harness.cli.new_backend import command as new_backend
from harness.cli.passes import commands as passes
from harness.cli.programs import commands as programs
from harness.cli.sharing import cache, cluster
from harness.errors import ConformError
from reports.commands import baseline, dashboard, diff, export, gate, history, merge

_SECTIONS: dict[str, tuple[tuple[click.Command, str], ...]] = {
    "Run": (
        (run_commands.run, "Run cells of the suites and write a run folder."),
        (check.check, "Run your own model on every target."),
        (cell_commands.repro, "Run one cell in this process."),
        (programs.execute, "Execute a program (.pte) and print its outputs."),
        (fuzz.fuzz, "Generate programs until one gets a wrong result."),
    ),
    "Look": (
        (run_commands.report, "Print a run; write report.md and report.html."),
        (cell_commands.show, "Print one cell of a run, or the contents of a program (.pte)."),
        (list_commands.listing, "List cases, targets, backends, limitations and more."),
        (history.command, "Show how results changed over many runs."),
        (dashboard.command, "Write a web site of many runs."),
    ),
    "Compare": (
        (diff.command, "Compare two runs, worst changes first."),
        (gate.command, "Check a run against a baseline and a policy."),
        (baseline.command, "Keep a run as a text file for git."),
        (merge.command, "Merge several runs into one."),
        (export.command, "Convert a run for other tools."),
        (releases.releases, "Run, compare and bisect releases of ExecuTorch."),
    ),
    "Explain": (
        (trace_commands.trace, "Find the first diverging node of a cell."),
        (trace_commands.reduce, "Shrink a red cell to a minimal program."),
        (passes.passes, "List graph passes; check or bisect them."),
        (coverage.coverage, "Find lowering code that no cell executes."),
        (mutate.mutate, "Find mistakes in lowering code that no cell notices."),
    ),
    "Extend": (
        (new_backend.new_backend, "Create a repository for a new backend."),
        (cluster.cluster, "Run cells on several machines: keys, scheduler, workers."),
        (cache.cache, "List and prune the caches of this user."),
    ),
}


# Earlier places of commands. They still work, and help does not show them.
_MOVED = {
    "backends": (list_commands.backends, "list backends"),
    "limitations": (list_commands.limitations, "list limitations"),
    "bisect": (releases.bisect, "releases bisect"),
    "worker": (cluster.worker, "cluster worker"),
}


class _Conform(click.Group):
    """Prints subcommands by section, and expected errors as one line with exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConformError as error:
            click.echo(f"conform: {error}", err=True)
            ctx.exit(2)
        except OSError as error:
            click.echo(f"conform: {error.filename or 'I/O'}: {error.strerror or error}", err=True)
            ctx.exit(2)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one line per command, below the name of its section."""
        width = max(len(name) for name, each in self.commands.items() if not each.hidden)
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{command.name:<{width}}", line) for command, line in commands]
                )


@click.group(
    cls=_Conform,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="executorch-conform", prog_name="conform")
def main() -> None:
    """Test ExecuTorch backends for conformance.

    A cell is one case on one target and is named CASE@BACKEND:RECIPE, for example
    linear/bias@xnnpack:fp32. Commands that read a run take its folder; the default is the newest
    run in runs/.
    """


for _commands in _SECTIONS.values():
    for _command, _ in _commands:
        main.add_command(_command)
main.add_command(programs.inspect)
for _name, (_command, _place) in _MOVED.items():
    _moved = copy.copy(_command)
    _moved.hidden, _moved.deprecated = True, f"Use: conform {_place}"
    main.add_command(_moved, _name)

if __name__ == "__main__":
    main()
