"""Sizes of a Qwen3, dense or with experts, or a Llama, read from and written as a HuggingFace `config.json`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

INITIAL_STDDEV = 0.02

ARCHITECTURES = {"qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM", "llama": "LlamaForCausalLM"}
"""The model types that are read and written, each with transformers' class."""


@dataclass(frozen=True)
class MoeConfig:
    """What a mixture of experts adds to a Qwen3.

    Attributes:
        num_experts: of one layer.
        experts_per_token: experts that each token is sent to; at most `num_experts`.
        intermediate_size: width of one expert.
        norm_topk_prob: whether the weights of a token's experts are made to add up to 1.
        sparse_step: every so many layers have experts, the last of each stretch; 1 for all.
        dense_layers: indices, from 0, of layers that have none all the same.
    """

    num_experts: int
    experts_per_token: int
    intermediate_size: int
    norm_topk_prob: bool
    sparse_step: int = 1
    dense_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("num_experts", "experts_per_token", "intermediate_size", "sparse_step"):
            check_size(name, getattr(self, name))
        _check_flag("norm_topk_prob", self.norm_topk_prob)
        if not all(type(index) is int for index in self.dense_layers):
            raise ValueError(f"layers without experts are {self.dense_layers!r:.80}; expected their indices")
        if not 0 < self.experts_per_token <= self.num_experts:
            raise ValueError(
                f"{self.experts_per_token} experts per token of {self.num_experts} experts; expected 1 to all of them"
            )

    @classmethod
    def from_dict(cls, hf_config: Mapping[str, Any]) -> MoeConfig:
        """Reads the contents of a `config.json` of model type qwen3_moe; raises ValueError if a key is missing."""
        return cls(
            # The first name is that of transformers 5.
            num_experts=hf_config.get("num_local_experts") or _required(hf_config, "num_experts"),
            experts_per_token=_required(hf_config, "num_experts_per_tok"),
            intermediate_size=_required(hf_config, "moe_intermediate_size"),
            norm_topk_prob=hf_config.get("norm_topk_prob", False),
            sparse_step=hf_config.get("decoder_sparse_step", 1),
            dense_layers=_listed(hf_config, "mlp_only_layers"),
        )

    def to_dict(self) -> dict[str, Any]:
        """These keys of a `config.json`, readable by transformers 4 and 5."""
        return {
            "num_experts": self.num_experts,
            "num_local_experts": self.num_experts,
            "num_experts_per_tok": self.experts_per_token,
            "moe_intermediate_size": self.intermediate_size,
            "norm_topk_prob": self.norm_topk_prob,
            "decoder_sparse_step": self.sparse_step,
            "mlp_only_layers": list(self.dense_layers),
        }

    def in_layer(self, index: int) -> bool:
        """Whether layer `index`, from 0, has experts."""
        return index not in self.dense_layers and (index + 1) % self.sparse_step == 0


@dataclass(frozen=True)
class Qwen3Config:
    """Sizes of a Qwen3, or of a Llama, which is a Qwen3 that does not normalise queries and keys.

    Attributes:
        vocab_size: rows of the embedding; may exceed the tokenizer's vocabulary.
        hidden_size: width of the residual stream.
        intermediate_size: width of the gated feed-forward layer, where a layer has no experts.
        num_layers: decoder layers.
        num_heads: query heads.
        num_kv_heads: key/value heads; divides `num_heads`.
        head_dim: width of one head, even.
        rope_theta: base of the rotary angles.
        rms_norm_eps: added to the mean square in every norm.
        tie_embeddings: logits use the embedding matrix instead of a head of their own.
        max_positions: longest sequence the model was made for, in tokens.
        qk_norm: whether queries and keys are normalised: true for Qwen3, false for Llama.
        moe: the experts of Qwen3-MoE; None for a dense model.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    rms_norm_eps: float
    tie_embeddings: bool
    max_positions: int
    qk_norm: bool = True
    moe: MoeConfig | None = None

    def __post_init__(self) -> None:
        for name in _SIZES:
            check_size(name, getattr(self, name))
        for name in ("rope_theta", "rms_norm_eps"):
            _check_number(name, getattr(self, name))
        for name in ("tie_embeddings", "qk_norm"):
            _check_flag(name, getattr(self, name))
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_heads={self.num_heads} is not a multiple of num_kv_heads={self.num_kv_heads}")
        if self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} is odd; rotary embedding needs an even number")
        if self.moe and not self.qk_norm:
            raise ValueError("experts without query and key norms; neither Qwen3-MoE nor Llama is such a model")

    @property
    def model_type(self) -> str:
        """HuggingFace's name of the architecture."""
        return "qwen3_moe" if self.moe else "qwen3" if self.qk_norm else "llama"

    @classmethod
    def from_dict(cls, hf_config: Mapping[str, Any]) -> Qwen3Config:
        """Reads the contents of a HuggingFace `config.json`, of transformers 4 or 5.

        Raises:
            ValueError: a key is missing, or asks for something this model does not do; names the key.
        """
        _check_supported(hf_config)
        model_type = hf_config["model_type"]
        hidden_size, num_heads = (
            check_size(key, _required(hf_config, key)) for key in ("hidden_size", "num_attention_heads")
        )
        return cls(
            vocab_size=_required(hf_config, "vocab_size"),
            hidden_size=hidden_size,
            intermediate_size=_required(hf_config, "intermediate_size"),
            num_layers=_required(hf_config, "num_hidden_layers"),
            num_heads=num_heads,
            num_kv_heads=hf_config.get("num_key_value_heads") or num_heads,
            head_dim=hf_config.get("head_dim") or (128 if model_type == "qwen3" else hidden_size // num_heads),
            rope_theta=_rope_theta(hf_config),
            rms_norm_eps=hf_config.get("rms_norm_eps", 1e-6),
            tie_embeddings=hf_config.get("tie_word_embeddings", False),
            max_positions=hf_config.get("max_position_embeddings", 2048 if model_type == "llama" else 32768),
            qk_norm=model_type != "llama",
            moe=MoeConfig.from_dict(hf_config) if model_type == "qwen3_moe" else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """The architecture part of a HuggingFace `config.json`, readable by transformers 4 and 5."""
        return {
            "architectures": [ARCHITECTURES[self.model_type]],
            "model_type": self.model_type,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "attention_bias": False,
            "attention_dropout": 0.0,
            **({"use_sliding_window": False, "sliding_window": None} if self.qk_norm else {"mlp_bias": False}),
            "rope_theta": self.rope_theta,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "rms_norm_eps": self.rms_norm_eps,
            "tie_word_embeddings": self.tie_embeddings,
            "max_position_embeddings": self.max_positions,
            "initializer_range": INITIAL_STDDEV,
            **(self.moe.to_dict() if self.moe else {}),
        }


_SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_layers", "num_heads", "num_kv_heads", "head_dim",
    "max_positions",
)  # fmt: skip


def check_size(name: str, value: Any) -> int:
    """`value`, if it is a whole number from 1 on that fits into 31 bits.

    Raises:
        ValueError: it is not; says so of `name`.
    """
    if type(value) is not int or not 0 < value < 2**31:
        raise ValueError(f"{name}={value!r:.80} in the model config; expected a whole number from 1 on")
    return value


def _check_number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise ValueError(f"{name}={value!r:.80} in the model config; expected a number above 0")


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r:.80} in the model config; expected true or false")


def _listed(hf_config: Mapping[str, Any], key: str) -> tuple[Any, ...]:
    """The list under `key`; empty where there is none."""
    value = hf_config.get(key) or ()
    if not isinstance(value, list | tuple):
        raise ValueError(f"{key}={value!r:.80} in the model config; expected a list")
    return tuple(value)


def _object(hf_config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object under `key`; empty where there is none."""
    value = hf_config.get(key) or {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{key}={value!r:.80} in the model config; expected an object")
    return value


def _required(hf_config: Mapping[str, Any], key: str) -> Any:
    if hf_config.get(key) is None:
        raise ValueError(f"the model config has no {key!r}")
    return hf_config[key]


def _check_supported(hf_config: Mapping[str, Any]) -> None:
    """Raises for every switch of HuggingFace's Qwen3 and Llama that would change the computation."""
    if not isinstance(hf_config, Mapping):
        raise ValueError(f"the model config is {hf_config!r:.80}; expected an object")
    model_type = hf_config.get("model_type")
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        raise ValueError(f"model_type={model_type!r:.80} in the model config; only {list(ARCHITECTURES)} are supported")
    for key, default, supported in (
        ("hidden_act", "silu", "silu"),
        ("attention_bias", False, False),
        ("mlp_bias", False, False),
    ):
        if hf_config.get(key, default) != supported:
            raise ValueError(f"{key}={hf_config.get(key)!r:.80} in the model config; only {supported!r} is supported")
    _check_full_attention(hf_config)
    for key in ("rope_scaling", "rope_parameters"):
        rope = _object(hf_config, key)
        rope_type = rope.get("rope_type", rope.get("type", "default"))
        if rope_type != "default":
            raise ValueError(
                f"{key} asks for rope type {rope_type!r:.80} in the model config; only 'default' is supported"
            )


def _check_full_attention(hf_config: Mapping[str, Any]) -> None:
    layer_types = _listed(hf_config, "layer_types")
    if any(layer_type != "full_attention" for layer_type in layer_types):
        raise ValueError(
            f"layer_types={list(layer_types)!r:.200} in the model config; only 'full_attention' is supported"
        )
    in_use = hf_config.get("use_sliding_window", False) and hf_config.get("sliding_window") is not None
    first_sliding = hf_config.get("max_window_layers", 28)
    layers = check_size("num_hidden_layers", _required(hf_config, "num_hidden_layers"))
    if in_use and not layer_types and not (type(first_sliding) is int and first_sliding >= layers):
        raise ValueError("use_sliding_window=True in the model config; sliding-window attention is not supported")


def _rope_theta(hf_config: Mapping[str, Any]) -> float:
    theta = _object(hf_config, "rope_parameters").get("rope_theta", hf_config.get("rope_theta"))
    if theta is None:
        raise ValueError("the model config has no 'rope_theta', neither at top level nor in 'rope_parameters'")
    _check_number("rope_theta", theta)
    return float(theta)
