"""MLX's static cache uses the number of nonzero keys as the position, so a second conversation in
the same program begins after the first."""

import torch
from common import CannotTry, Observation, main
from mlx_package import install


def exportable() -> torch.nn.Module:
    """A decoder as export_llm_hf.py builds it: --use-custom-sdpa, --use-custom-kv-cache."""
    install()
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError as error:
        raise CannotTry(str(error)) from error
    from executorch.backends.mlx.llm.exportable import create_hf_exportable, install_mlx_cache
    from executorch.backends.mlx.llm.hf_attention import register_mlx_attention

    register_mlx_attention()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        attn_implementation="mlx",
    )
    model = LlamaForCausalLM(config).eval()
    model.generation_config.cache_implementation = "static"
    made = create_hf_exportable(model, max_cache_len=32)
    install_mlx_cache(made, config, max_cache_len=32)
    return made


def observe() -> Observation:
    module = exportable()
    prompt = {"input_ids": torch.tensor([[1, 7, 9]]), "cache_position": torch.arange(3)}
    with torch.no_grad():
        program = torch.export.export(module, (), prompt, strict=True).module()
        first = program(**prompt)
        again = program(**prompt)
    off = float((first - again).abs().max())
    print(f"logits of the prompt are {off:.3g} off the second time, of {float(first.std()):.3g}")
    observed = "the same logits" if off < 1e-4 else "other logits"
    return Observation("the same logits", observed, wrong=off >= 1e-4)


if __name__ == "__main__":
    main(observe)
