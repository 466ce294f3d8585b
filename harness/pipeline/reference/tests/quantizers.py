"""A quantizer that only rewrites the graph."""

from __future__ import annotations

from collections.abc import Callable

from torch.fx import GraphModule
from torchao.quantization.pt2e.quantizer import Quantizer

Change = Callable[[GraphModule], None]


class Rewriting(Quantizer):  # type: ignore[misc]  # torchao has no types here
    """Quantizes nothing; changes the float graph."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        self.change(model)
        model.graph.lint()
        model.recompile()
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        return model

    def validate(self, model: GraphModule) -> None:
        pass
