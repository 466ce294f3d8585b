"""Which worker a cell goes to: the best runtime that there is, native before emulated.

A worker announces what it can execute as resources of Dask's: ``native:MLXBackend``,
``emulated:mlx``, ``reference:tosa``, ``release:1.5.1``, ``memory`` in GiB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.cluster.messages import Hello
from harness.record.host import Environment
from harness.record.run import BackendState
from harness.record.target import split_cell_id

# From the best on. What executes nothing still lowers, and says why it does no more.
_RUNTIMES = ("native", "reference", "emulated")
_LOWERS = "lowers"


@dataclass(frozen=True)
class Place:
    """A worker as the client sees it.

    Attributes:
        address: Dask's.
        name: its name on the farm.
        slots: the cells that it runs at once.
        memory: GiB that they may take together.
        hello: what it says of itself.
    """

    address: str
    name: str
    slots: int
    memory: float
    hello: Hello

    @property
    def labels(self) -> frozenset[str]:
        """The resources that it announces."""
        return frozenset(labels_of(self.hello))


def label_of(backend: str, state: BackendState, delegates: Mapping[str, str]) -> str:
    """What a worker announces of a backend; empty where it can do nothing for it."""
    if not state.available:
        return f"{_LOWERS}:{backend}" if state.can_lower else ""
    # A native runtime is the vendor's, and goes by the name that programs ask for.
    name = delegates.get(backend, backend) if state.runtime == "native" else backend
    return f"{state.runtime}:{name}"


def labels_of(hello: Hello) -> list[str]:
    """All that a worker announces but its memory."""
    found = [label_of(name, state, hello.delegates) for name, state in hello.backends.items()]
    release = hello.environment.packages.get("executorch")
    return [label for label in [*found, f"release:{release}" if release else ""] if label]


def _rank(label: str) -> int:
    kind = label.partition(":")[0]
    return _RUNTIMES.index(kind) if kind in _RUNTIMES else len(_RUNTIMES)


def best(places: Sequence[Place]) -> dict[str, str]:
    """By backend, the label of the best that any worker can do for it; backends of which none can
    do anything are absent."""
    found: dict[str, str] = {}
    for place in places:
        for backend, state in place.hello.backends.items():
            label = label_of(backend, state, place.hello.delegates)
            if label and (backend not in found or _rank(label) < _rank(found[backend])):
                found[backend] = label
    return found


def groups(
    cells: Sequence[str], places: Sequence[Place], labels: Mapping[str, str]
) -> list[tuple[frozenset[str], list[str]]]:
    """Cells of one case in as few groups as workers allow, each with the resources it needs.

    Args:
        cells: their ids.
        places: the workers.
        labels: :func:`best` of them.
    """
    found: list[tuple[frozenset[str], list[str]]] = []
    offers = {place.labels for place in places}
    for cell in cells:
        label = labels.get(split_cell_id(cell)[1].backend)
        # What none can execute is for any of them to say why.
        own = frozenset([label] if label else [])
        for index, (needed, members) in enumerate(found):
            if any(needed | own <= offer for offer in offers):
                found[index] = (needed | own, [*members, cell])
                break
        else:
            found.append((own, [cell]))
    return found


def differences(ours: Environment, theirs: Environment) -> list[str]:
    """How a worker's code differs from this session's, a part each; empty where it does not."""
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
