"""The graphs on which ``conform passes check`` runs passes."""

from __future__ import annotations

from dataclasses import replace

from suites.passes.graphs import CAST, MOVED, REPEATED, WRITABLE
from suites.selection import take_one_of

CASES = [
    replace(graph, name=f"graph/{kind}_{graph.name}", op="graph", targets="portable:fp32",
            tags=graph.tags | {"passes"}, changed_ops={})
    for kind, graphs in (("repeated", REPEATED), ("written", WRITABLE), ("moved", MOVED),
                         ("cast", CAST))
    for graph in graphs
]  # fmt: skip
CASES = take_one_of(2, CASES)
