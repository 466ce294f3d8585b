"""MLX's CollapseDtypeConversionPass drops casts that round."""

import mlx_package
import torch
from common import Observation, main

X = torch.tensor([0.7, 1.7, -2.3])


class There(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.long().float() + 1


def observe() -> Observation:
    mlx_package.install()
    from executorch.backends.mlx.passes import CollapseDtypeConversionPass
    from executorch.exir import EdgeCompileConfig, to_edge

    edge = to_edge(
        torch.export.export(There(), (X,)), compile_config=EdgeCompileConfig(_skip_dim_order=True)
    )
    edge = edge.transform([CollapseDtypeConversionPass()])
    observed = edge.exported_program().module()(X)
    return Observation(
        There()(X).tolist(), observed.tolist(), wrong=bool(torch.allclose(observed, X + 1))
    )


if __name__ == "__main__":
    main(observe)
