"""Write data/<family>/: a tiny random model of each family in Hugging Face form and the logits transformers gives it.

Run by hand with torch and transformers installed: python make_golden_families.py

Weights are scaled so that attention is far from flat and logits are of unit size; norms and biases are random;
inputs run past the sliding window and past the original RoPE length. Each family lists changes of its configuration
that must move its logits: a golden file that a wrong window, scaling or cap would also pass is refused here.
README.md says what the files hold.
"""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

OUT = Path(__file__).parent / "data"
TOKENS = 80
MUST_MOVE = 0.02  # least change of some logit that counts as a difference
MAX_ERROR = 2e-5  # of the float32 logits against float64: the model must be well conditioned
SIZES = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,  # not hidden_size / num_attention_heads
    "max_position_embeddings": 128,
}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LONG = {"rope_type": "default", "rope_theta": 100000.0}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 48,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
    "beta_fast": 4.0,
    "beta_slow": 1.0,
}
LOCAL_GLOBAL = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    "full_attention": {"rope_type": "default", "rope_theta": 10000.0},
}
LOCAL_GLOBAL_LINEAR = {**LOCAL_GLOBAL, "full_attention": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 8.0}}
GEMMA2 = {"sliding_window": 16, "query_pre_attn_scalar": 24, "attn_logit_softcapping": 5.0}
GEMMA3 = {"sliding_window": 16, "query_pre_attn_scalar": 24, "num_hidden_layers": 7}

# name -> (configuration class, settings, changes of the settings that must change the logits)
FAMILIES: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]]]] = {
    "llama2": ("Llama", {"rope_parameters": PLAIN, "rms_norm_eps": 1e-5}, [{"rms_norm_eps": 0.5}]),
    "llama3": ("Llama", {"rope_parameters": LLAMA3}, [{"rope_parameters": {**PLAIN, "rope_theta": 500.0}}]),
    "llama-linear": (
        "Llama",
        {"rope_parameters": {**PLAIN, "rope_type": "linear", "factor": 4.0}},
        [{"rope_parameters": PLAIN}],
    ),
    "smollm2": ("Llama", {"rope_parameters": LONG, "tie_word_embeddings": True}, [{"rope_parameters": PLAIN}]),
    "mistral": ("Mistral", {"rope_parameters": PLAIN, "sliding_window": 16}, [{"sliding_window": 17}]),
    "qwen2": ("Qwen2", {"rope_parameters": LONG, "tie_word_embeddings": True}, [{"rope_parameters": PLAIN}]),
    "qwen2.5-yarn": ("Qwen2", {"rope_parameters": YARN}, [{"rope_parameters": {**PLAIN, "rope_theta": 1000.0}}]),
    "qwen3": ("Qwen3", {"rope_parameters": LONG}, [{"rope_parameters": PLAIN}]),
    "gemma2": (
        "Gemma2",
        {**GEMMA2, "rope_parameters": PLAIN, "final_logit_softcapping": 2.0, "num_hidden_layers": 4},
        [
            {"attn_logit_softcapping": 50.0},
            {"final_logit_softcapping": 30.0},
            {"sliding_window": 17},
            {"query_pre_attn_scalar": 16},
        ],
    ),
    "gemma3": (
        "Gemma3Text",
        {**GEMMA3, "rope_parameters": LOCAL_GLOBAL},
        [{"sliding_window": 17}, {"query_pre_attn_scalar": 16}, {"rope_parameters": LOCAL_GLOBAL_LINEAR}],
    ),
    "gemma3-linear": (
        "Gemma3Text",
        {**GEMMA3, "rope_parameters": LOCAL_GLOBAL_LINEAR},
        [{"rope_parameters": LOCAL_GLOBAL}],
    ),
}


def main() -> None:
    for number, (name, (family, settings, changes)) in enumerate(FAMILIES.items()):
        folder = OUT / name
        shutil.rmtree(folder, ignore_errors=True)
        rng = np.random.default_rng(1000 + number)
        model = build(family, settings)
        randomise(model, rng)
        ids = rng.integers(0, SIZES["vocab_size"], TOKENS)
        logits, sharpness = run(model, ids)
        model.save_pretrained(folder, safe_serialization=True)
        (folder / "generation_config.json").unlink(missing_ok=True)
        np.savez_compressed(folder / "golden.npz", ids=ids.astype(np.int32), logits=logits, **frequencies(model))
        moves = [movement(model, family, settings, change, ids, logits) for change in changes]
        print(f"{name:14} logits std {logits.std():.2f}, mean largest attention weight {sharpness:.2f}, moves {moves}")
        error = float(np.abs(run(model.double(), ids)[0] - logits).max())
        print(f"{'':14} largest float32 error {error:.1e}")
        if error > MAX_ERROR or min(moves) < MUST_MOVE or not 0.3 < logits.std() < 3 or sharpness < 0.2:
            raise SystemExit(f"{name}: this golden file would not catch what it is for")


def build(family: str, settings: dict[str, Any]) -> torch.nn.Module:
    """A model of the family with transformers' own initial weights."""
    config_class = getattr(transformers, f"{family}Config")
    config = config_class(**{"tie_word_embeddings": False, **SIZES, **copy.deepcopy(settings)})
    config._attn_implementation = "eager"
    model_class = getattr(transformers, "Gemma3ForCausalLM" if family == "Gemma3Text" else f"{family}ForCausalLM")
    return model_class(config).to(torch.float32).eval()


@torch.no_grad()
def randomise(model: torch.nn.Module, rng: np.random.Generator) -> None:
    """Replace every weight by seeded noise of a size that keeps scores, residuals and logits near one."""
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        noise = rng.standard_normal(shape).astype(np.float32)
        if "norm" in name:
            centre = 0.0 if "Gemma" in type(model).__name__ else 1.0
            centre += 0.6 if "q_norm" in name or "k_norm" in name else 0.0
            value = centre + 0.3 * noise
        elif name.endswith("bias"):
            value = 0.5 * noise
        elif "q_proj" in name or "k_proj" in name:
            value = 1.6 * noise / np.sqrt(shape[1])
        else:
            value = noise / np.sqrt(shape[1])
        parameter.copy_(torch.from_numpy(np.asarray(value, np.float32)))


@torch.no_grad()
def run(model: torch.nn.Module, ids: np.ndarray) -> tuple[np.ndarray, float]:
    """Logits [tokens, vocab] and the mean over queries and heads of the largest attention weight."""
    result = model(input_ids=torch.from_numpy(ids)[None], output_attentions=True)
    late = torch.stack([weights[0, :, TOKENS // 2 :].amax(-1).mean() for weights in result.attentions])
    return result.logits[0].float().numpy(), float(late.mean())


def frequencies(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """The RoPE tables, as rope (and local_rope for Gemma 3), float32 [head_dim / 2]."""
    rotary = model.model.rotary_emb
    if not hasattr(rotary, "full_attention_inv_freq"):
        return {"rope": rotary.inv_freq.numpy(), "attention_factor": np.float64(rotary.attention_scaling)}
    return {"rope": rotary.full_attention_inv_freq.numpy(), "local_rope": rotary.sliding_attention_inv_freq.numpy()}


def movement(model, family: str, settings: dict, change: dict, ids: np.ndarray, logits: np.ndarray) -> float:
    """The largest change of a logit when the same weights run under a changed configuration."""
    other = build(family, {**settings, **change})
    other.load_state_dict(model.state_dict())
    return round(float(np.abs(run(other, ids)[0] - logits).max()), 3)


if __name__ == "__main__":
    main()
