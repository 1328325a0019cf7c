"""Loads a saved student as Tunix's Qwen3."""

# Runs where Tunix is installed and this project is not.
# pyright: reportMissingImports=false

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from tunix.models.qwen3.model import ModelConfig
from tunix.models.qwen3.params import create_model_from_safe_tensors

PACKAGES = ("google-tunix", "jax", "flax", "optax")


def load(directory: Path) -> tuple[Any, Any]:
    """Tunix's Qwen3 with the weights of a HuggingFace directory, in float32, and its configuration."""
    saved = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    config = ModelConfig(
        num_layers=saved["num_hidden_layers"],
        vocab_size=saved["vocab_size"],
        embed_dim=saved["hidden_size"],
        hidden_dim=saved["intermediate_size"],
        num_heads=saved["num_attention_heads"],
        head_dim=saved["head_dim"],
        num_kv_heads=saved["num_key_value_heads"],
        rope_theta=int(saved["rope_theta"]),
        norm_eps=saved["rms_norm_eps"],
        use_tied_embedding=saved["tie_word_embeddings"],
    )
    mesh = jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    return create_model_from_safe_tensors(str(directory), config, mesh, dtype=jnp.float32), config
