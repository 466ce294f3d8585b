"""The settings of a run that begins, and reasons to refuse it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from harness.errors import RunUnwritable, UnknownTarget
from harness.model import registry
from harness.pytest_plugin.items import HOSTS, REQUIRED_DELEGATION, SELECTED
from harness.record.folder import format_now
from harness.record.host import read_environment
from harness.record.run import RunInfo
from harness.record.target import Target
from harness.session.backend_states import VendorStates


def describe_run(
    config: pytest.Config,
    command: Sequence[str],
    targets: Iterable[Target],
    states: VendorStates | None,
) -> RunInfo:
    """Describe a run that begins now.

    Args:
        config: configuration of the process that writes records.
        command: the command of the session.
        targets: targets of its cells.
        states: states of the backends in the process that runs cells; None if unknown.
    """
    option, selected = config.getoption, config.stash[SELECTED]
    plain = registry.default_targets() if selected is None else selected
    return RunInfo(
        started=format_now(),
        seed=option("conform_seed"),
        command=list(command),
        targets=[str(target) for target in dict.fromkeys([*plain, *targets])],
        selection=" and ".join(
            f"({text})" for text in (option("keyword"), option("markexpr")) if text
        ),
        environment=read_environment(config.rootpath),
        lower_only=option("conform_lower_only"),
        speed=not option("conform_no_speed"),
        slow_parts={} if states is None else states.slow_parts,
        missing_names={} if states is None else states.missing_names,
        hosts=config.stash.get(HOSTS, {}),
    )


def check_required_delegation(config: pytest.Config, selected: Iterable[Target]) -> None:
    """Refuse required delegation on targets without cells.

    Raises:
        UnknownTarget: a required target has no cell.
    """
    if idle := config.stash[REQUIRED_DELEGATION].difference(selected):
        names = ", ".join(map(str, sorted(idle)))
        raise UnknownTarget(f"--require-delegation: no cell is selected on {names}")


def includes_suites(config: pytest.Config) -> bool:
    """Whether the arguments of the session include suites."""
    suites = [config.rootpath / name for name in config.getini("conform_suites")]
    start = config.invocation_params.dir
    named = [(start / str(name).partition("::")[0]).resolve() for name in config.args]
    return any(
        path == suite or path in suite.parents or suite in path.parents
        for path in named
        for suite in suites
    )


@contextmanager
def end_session_if_unwritable() -> Iterator[None]:
    """End the session with one line if a record cannot be written."""
    try:
        yield
    except RunUnwritable as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.INTERNAL_ERROR)
