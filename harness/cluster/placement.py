"""Chooses workers for cells: the best available runtime first, native before emulated.

A worker announces the runtimes that it has as Dask resources: ``native:MLXBackend``,
``emulated:mlx``, ``reference:tosa``, ``release:1.5.1``, ``memory`` in GiB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.cluster.messages import WorkerInfo
from harness.record.host import Environment
from harness.record.run import BackendState
from harness.record.target import split_cell_id

# Best first. A worker that executes nothing can still lower.
_RUNTIMES = ("native", "reference", "emulated")
_LOWERS = "lowers"


@dataclass(frozen=True)
class RemoteWorker:
    """A worker, from the point of view of the session.

    Attributes:
        address: its Dask address.
        name: its name in the cluster.
        slots: number of cells that it runs at once.
        memory: memory in GiB that they may use together.
        info: its description of itself.
    """

    address: str
    name: str
    slots: int
    memory: float
    info: WorkerInfo

    @property
    def labels(self) -> frozenset[str]:
        """Resources that it announces."""
        return frozenset(list_labels(self.info))


def get_label(backend: str, state: BackendState, delegates: Mapping[str, str]) -> str:
    """Build the resource that a worker announces for a backend; empty if it can do nothing."""
    if not state.available:
        return f"{_LOWERS}:{backend}" if state.can_lower else ""
    # Native runtimes are named by the id of the delegate in programs.
    name = delegates.get(backend, backend) if state.runtime == "native" else backend
    return f"{state.runtime}:{name}"


def list_labels(info: WorkerInfo) -> list[str]:
    """List all resources of a worker except its memory."""
    found = [get_label(name, state, info.delegates) for name, state in info.backends.items()]
    release = info.environment.packages.get("executorch")
    return [label for label in [*found, f"release:{release}" if release else ""] if label]


def _rank(label: str) -> int:
    kind = label.partition(":")[0]
    return _RUNTIMES.index(kind) if kind in _RUNTIMES else len(_RUNTIMES)


def find_best_labels(workers: Sequence[RemoteWorker]) -> dict[str, str]:
    """Find the label of the best runtime of each backend on any worker.

    Backends that no worker can lower or execute are absent.
    """
    found: dict[str, str] = {}
    for worker in workers:
        for backend, state in worker.info.backends.items():
            label = get_label(backend, state, worker.info.delegates)
            if label and (backend not in found or _rank(label) < _rank(found[backend])):
                found[backend] = label
    return found


def group_cells(
    cells: Sequence[str], workers: Sequence[RemoteWorker], labels: Mapping[str, str]
) -> list[tuple[frozenset[str], list[str]]]:
    """Cells of one case in as few groups as workers allow, each with the resources it needs.

    Args:
        cells: their ids.
        places: the workers.
        labels: result of :func:`find_best_labels` for them.
    """
    found: list[tuple[frozenset[str], list[str]]] = []
    offers = {worker.labels for worker in workers}
    for cell in cells:
        label = labels.get(split_cell_id(cell)[1].backend)
        # If no worker can execute the cell, any worker can record the reason.
        own = frozenset([label] if label else [])
        for index, (needed, members) in enumerate(found):
            if any(needed | own <= offer for offer in offers):
                found[index] = (needed | own, [*members, cell])
                break
        else:
            found.append((own, [cell]))
    return found


def describe_differences(ours: Environment, theirs: Environment) -> list[str]:
    """List the differences between the packages and checkouts of this session and a worker."""
    found = []
    if ours.python != theirs.python:
        found.append(f"Python {theirs.python} in place of {ours.python}")
    for name in sorted({*ours.packages, *theirs.packages}):
        here, there = ours.packages.get(name), theirs.packages.get(name)
        if here != there:
            found.append(f"{name} {there or 'missing'} in place of {here or 'none'}")
    if ours.revision != theirs.revision:
        found.append(
            f"checkout {theirs.revision or 'unknown'} in place of {ours.revision or 'unknown'}"
        )
    return found
