"""Limitations of earlier releases only. ``until`` names the first release without them."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import missing_feature

_SOURCE = "https://github.com/pytorch/executorch/blob/v1.4.1/backends/mlx/"
_SDPA = "scaled_dot_product_attention"
_CLAIMED = (
    "SDPAHandler (patterns.py) of 1.4.1 fuses every attention that matches its pattern, including "
    "those that the kernel does not compute: "
)


RELEASES: list[Limitation] = [
    missing_feature(
        "mlx:*",
        "update_and_attend/llama",
        "cache outside the graph for transformers' attention (backends/mlx/llm/hf_attention.py)",
        stage="build",
        error="has no attribute 'register_mlx_offgraph_attention'",
    ),
    missing_feature(
        "mlx:*",
        "update_and_attend/*",
        "executorch.extension.llm.cache",
        stage="build",
        error="executorch.extension.llm.cache",
    ),
    missing_feature(
        "mlx:*",
        "moe/dynamic_sizes_between",
        "mlx::moe_gather_inputs",
        stage="build",
        error="has no attribute 'moe_gather_inputs'",
    ),
    missing_feature(
        "mlx:*",
        "moe/dynamic|moe/dynamic_two_layers|moe/gate_and_up_in_one|moe/one_token_one_expert"
        "|moe/sorted|moe/unsorted|gather_qmm/routed_sorted|gather_qmm/routed_unsorted",
        "argument sort_cutoff of SwitchMLP, the number of tokens from which it sorts "
        "(backends/mlx/llm/switch.py)",
        stage="build",
        error="unexpected keyword argument 'sort_cutoff'",
    ),
    missing_feature(
        "mlx:*",
        "gather_mm/told_unsorted",
        "tensor argument sorted_indices of mlx::gather_mm",
        stage="export",
        error="Expected a value of type 'bool' for argument 'sorted_indices'",
    ),
    Limitation(
        target="mlx:fp32",
        case="remainder/negative_size|floor_divide/negative_size|neg/size_as_start",
        reason="1.4.1 does not unpack the tuple that a delegate returns when its only value is a "
        "size, so the next node gets the tuple.",
        stage="to_executorch",
        error="bad operand type for unary -: 'tuple'",
        until="1.5.0",
    ),
    Limitation(
        target="mlx:fp32",
        case=f"{_SDPA}/rank_2_causal|{_SDPA}/rank_3|{_SDPA}/rank_3_causal_more_keys"
        f"|{_SDPA}/rank_5|{_SDPA}/broadcast_batch",
        reason=_CLAIMED + "attention of other ranks than 4, and keys of another batch size.",
        link=_SOURCE + "patterns.py",
        stage="run",
        error="[scaled_dot_product_attention]",
        until="1.5.0",
    ),
    Limitation(
        target="mlx:fp32",
        case=f"{_SDPA}/causal_one_query|{_SDPA}/causal_dynamic_keys|{_SDPA}/causal_more_keys"
        f"|{_SDPA}/causal_fewer_keys",
        reason=_CLAIMED + "torch aligns a causal mask with the first key, MLX with the last. "
        "Results differ where there are not as many keys as queries.",
        link=_SOURCE + "patterns.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
        until="1.5.0",
    ),
]
