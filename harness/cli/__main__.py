"""The command with all its subcommands."""

from __future__ import annotations

from typing import Any

import click

from harness.cli import (
    cell_commands,
    check,
    fuzz,
    list_commands,
    passes,
    releases,
    run_commands,
    trace_commands,
)
from harness.cli.new_backend import command as starting
from harness.cli.programs import commands as programs
from harness.cli.sharing import cache, cluster
from harness.errors import ConformError
from reports.commands import baseline, dashboard, diff, export, gate, history, merge


class _OneLineErrors(click.Group):
    """Turns every error raised on purpose into one line on stderr and exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConformError as error:
            click.echo(f"conform: {error}", err=True)
            ctx.exit(2)
        except OSError as error:
            click.echo(f"conform: {error.filename or 'I/O'}: {error.strerror or error}", err=True)
            ctx.exit(2)


@click.group(
    cls=_OneLineErrors,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="executorch-conform", prog_name="conform")
def main() -> None:
    """Multi-backend conformance for ExecuTorch.

    A cell is one case on one target, spelled CASE@BACKEND:RECIPE, for example
    linear/bias@xnnpack:fp32. Commands that read a run take its folder; without one they take
    the newest below runs/.
    """


for _command in (
    run_commands.run,
    run_commands.report,
    check.check,
    cell_commands.show,
    cell_commands.repro,
    programs.inspect,
    programs.execute,
    trace_commands.trace,
    trace_commands.reduce,
    list_commands.backends,
    list_commands.listing,
    list_commands.limitations,
    passes.passes,
    fuzz.fuzz,
    releases.releases,
    releases.bisect,
    cluster.worker,
    cluster.cluster,
    cache.cache,
    starting.new_backend,
    *(module.command for module in (diff, gate, baseline, merge, history, export, dashboard)),
):
    main.add_command(_command)

if __name__ == "__main__":
    main()
