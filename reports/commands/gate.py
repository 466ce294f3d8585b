"""``conform gate``: judge a run by its changes from a baseline."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

import click

from harness.errors import ConformError
from reports.commands.common import read_run, read_side, write_text

_USUAL = Path(".ci/gate.toml")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("gate")
@click.option("--baseline", required=True, type=click.Path(path_type=Path), metavar="B",
              help="Run folder or stored baseline to compare the run with; required.")  # fmt: skip
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    type=_FILE,
    help="Policy file; default: .ci/gate.toml if it exists, else the defaults in docs/gate.md.",
)
@click.option(
    "--subset",
    type=click.IntRange(1),
    metavar="N",
    help="Judge selected cells, of which at least N must be conclusive: numbers of cells and "
    "targets that the policy requires do not apply.",
)
@click.option("--markdown", type=_FILE, help="Write Markdown for a comment on a pull request.")
@click.option("--sarif", type=_FILE, help="Write SARIF 2.1.0 for code scanning.")
@click.option("--junit", type=_FILE, help="Write JUnit XML.")
@click.option(
    "--annotations/--no-annotations",
    default=None,
    help="Print GitHub workflow commands; default: only if GITHUB_ACTIONS is true.",
)
def command(
    baseline: Path,
    run: Path,
    policy: Path | None,
    subset: int | None,
    markdown: Path | None,
    sarif: Path | None,
    junit: Path | None,
    annotations: bool | None,
) -> None:
    """Judge RUN by its changes from a baseline; a policy decides which changes are red.

    Exit code 0 green, 1 red, 2 could not judge: the run is empty or incomplete, cells or
    backends of the baseline are missing, seeds differ, or a file cannot be read. A red change
    gives exit code 1 even if the run is incomplete.
    """
    try:
        code = _gate(baseline, run, policy, subset, (markdown, sarif, junit), annotations)
    except (ConformError, OSError):
        raise
    except Exception:
        # Python would exit with 1, which means red here.
        traceback.print_exc()
        code = 2
    sys.exit(code)


def _gate(
    baseline: Path,
    run: Path,
    policy: Path | None,
    subset: int | None,
    files: tuple[Path | None, Path | None, Path | None],
    annotations: bool | None,
) -> int:
    from reports.comparison import gate
    from reports.comparison.gate import github, junit, markdown, sarif, terminal

    if policy is None and _USUAL.is_file():
        policy = _USUAL
    rules = gate.Policy() if policy is None else gate.load(policy)
    under = "the defaults" if policy is None else str(policy)
    judged = gate.judge(read_side(baseline), read_run(run), rules, subset=subset)
    if annotations is None:
        annotations = os.environ.get("GITHUB_ACTIONS") == "true"
    if annotations:
        begin, end = github.make_stop_commands()
        click.echo(begin)
        try:
            terminal.render(judged, under)
        finally:
            click.echo(end)
        for line in github.render(judged):
            click.echo(line)
    else:
        terminal.render(judged, under)
    comment, code_scanning, tests = files
    if comment is not None:
        write_text(comment, markdown.render(judged))
    if code_scanning is not None:
        write_text(code_scanning, sarif.render(judged, policy=(policy or _USUAL).as_posix()))
    if tests is not None:
        write_text(tests, junit.render(judged))
    return judged.exit_code
