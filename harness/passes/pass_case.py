"""Make cases of passes: a corpus of graphs, each with and without the passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.model.case import Case


@dataclass(frozen=True)
class PassCase:
    """Passes that must preserve the meaning of graphs on every target.

    A cell on a target that adds passes checks the properties of its program before and after them
    (:mod:`harness.passes.properties`), and then the outputs of the target. Another cell runs the
    target without the passes.

    Attributes:
        name: name of the passes; cases are called ``name/graph``.
        passes: as in a target: ``+cse``, or a pipeline in order, ``+cse+remove_noop``.
        graphs: cases; ``changes`` of each gives the number of operators before and after.
        targets: targets without the passes, separated by ``|``, without wildcards.
        tags: tags of the cases, added to their own.
    """

    name: str
    passes: str
    graphs: Sequence[Case]
    targets: str = "portable:fp32"
    tags: frozenset[str] = frozenset({"passes"})

    @property
    def cases(self) -> list[Case]:
        """Each graph as a case for every target with and without the passes."""
        targets = [f"{one}|{one}{self.passes}" for one in self.targets.split("|")]
        return [
            replace(
                graph,
                name=f"{self.name}/{graph.name}",
                op=self.name,
                targets="|".join(targets),
                tags=graph.tags | self.tags,
            )
            for graph in self.graphs
        ]
