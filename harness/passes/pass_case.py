"""PassCase: passes over a corpus of graphs, as cases with and without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.model.case import Case


@dataclass(frozen=True)
class PassCase:
    """Passes that must keep what graphs mean, on every target.

    A cell on a target that adds passes looks at what they made of its program, property by property
    (:mod:`harness.passes.properties`), before it judges what the target computes; the cell without
    them stands beside it.

    Attributes:
        name: of the passes; cases are called ``name/graph``.
        passes: as a target spells them: ``+cse``, or a pipeline in order, ``+cse+remove_noop``.
        graphs: cases; ``changes`` of each says how often operators are there before and after.
        targets: without the passes, separated by ``|``. All of them are spelled in full.
        tags: of the cases, beside those that they have.
    """

    name: str
    passes: str
    graphs: Sequence[Case]
    targets: str = "portable:fp32"
    tags: frozenset[str] = frozenset({"passes"})

    @property
    def cases(self) -> list[Case]:
        """Each graph as a case that is taken to every target with and without the passes."""
        spelled = [f"{one}|{one}{self.passes}" for one in self.targets.split("|")]
        return [
            replace(
                graph,
                name=f"{self.name}/{graph.name}",
                op=self.name,
                targets="|".join(spelled),
                tags=graph.tags | self.tags,
            )
            for graph in self.graphs
        ]
