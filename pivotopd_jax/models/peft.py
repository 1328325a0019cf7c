"""Writes adapters in the format of the library peft, which vLLM serves on top of their base, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors.numpy
from flax import nnx

from pivotopd_jax.models.huggingface import replacing, to_host
from pivotopd_jax.models.lora import Lora
from pivotopd_jax.models.qwen3 import parameter_name


def save_adapters(directory: Path, adapters: nnx.State, lora: Lora, *, base: str) -> None:
    """Writes adapter_config.json and adapter_model.safetensors; where `adapters` are sharded, all processes must call.

    Args:
        directory: where to; what was there before is replaced.
        adapters: as from `lora.adapt`.
        lora: as given to it.
        base: directory or hub id of the model that was adapted.
    """
    tensors = dict(_tensor(path, array) for path, array in jax.tree_util.tree_leaves_with_path(adapters))
    if jax.process_index() == 0:
        with replacing(directory) as unfinished:
            safetensors.numpy.save_file(tensors, unfinished / "adapter_model.safetensors", metadata={"format": "pt"})
            settings = json.dumps(_settings(lora, base), indent=2)
            (unfinished / "adapter_config.json").write_text(settings + "\n", encoding="utf-8")


def _tensor(path: tuple[Any, ...], array: jax.Array) -> tuple[str, np.ndarray]:
    """Name and transposed values, `[rank, in]` or `[out, rank]`."""
    matrix, part = parameter_name(path).rsplit(".", 1)
    name = f"base_model.model.model.{matrix}.lora_{part[-1].upper()}.weight"
    return name, np.ascontiguousarray(to_host(array).T)


def _settings(lora: Lora, base: str) -> dict[str, Any]:
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "lora_dropout": 0.0,
        "target_modules": list(lora.targets),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
