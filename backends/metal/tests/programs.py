"""Partitions as ``MetalBackend.preprocess`` gets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.backend_details import PreprocessResult
from torch.export import ExportedProgram

from backends.metal.generation import upstream


class Apply(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: torch.Tensor) -> Any:
        return self.function(a)


class Apply3(Apply):
    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
        return self.function(a, b, c)


def partitions(
    module: torch.nn.Module, *inputs: torch.Tensor, dynamic_shapes: Any = None
) -> list[ExportedProgram]:
    """Export and partition for Metal; the backend itself is not run."""
    found: list[ExportedProgram] = []

    def keep(edge_program: ExportedProgram, specs: Any) -> PreprocessResult:
        found.append(edge_program)
        return PreprocessResult(processed_bytes=b"")

    exported = torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes)
    with mock.patch.object(upstream.MetalBackend, "preprocess", keep):
        to_edge_transform_and_lower(exported, partitioner=upstream.partitioners())
    return found


def partition(module: torch.nn.Module, *inputs: torch.Tensor, **options: Any) -> ExportedProgram:
    """The only partition."""
    (found,) = partitions(module, *inputs, **options)
    return found
