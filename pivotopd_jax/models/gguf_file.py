"""Reads students out of GGUF files, the format of llama.cpp: Llamas and dense Qwen3s, dequantised to float32.

transformers (5.24) reads such files, too, but passes over what it does not know: white space before digits comes out in
other tokens than SmolLM was trained on, scaled rotary angles are not scaled. Here what is not understood is refused.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from pivotopd_jax.models import huggingface
from pivotopd_jax.models.qwen3_config import Qwen3Config, check_size

QK_NORM = {"llama": False, "qwen3": True}
"""The architectures that are read: whether queries and keys are normalised."""

REQUIRED = (
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "block_count",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.layer_norm_rms_epsilon",
    "rope.freq_base",
)
WIDTHS = ("attention.key_length", "attention.value_length", "rope.dimension_count")
"""Sizes of one head, which must agree where they are given."""

OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Names of tensors, to HuggingFace's: of the model, and below "blk.N" to those below "model.layers.N"."""

QWEN2_PIECE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
SPLITS = {
    "qwen2": (normalizers.NFC(), [pre_tokenizers.Split(Regex(QWEN2_PIECE), "isolated"), BYTES]),
    "smollm": (None, [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
}
"""How a vocabulary's merges were learned, by the file's name for it: normalizer, and steps of splitting."""

CONTROL, USER_DEFINED, UNUSED = 3, 4, 5  # types of tokens


def load(
    path: str | Path, *, dtype: DTypeLike = jnp.float32
) -> tuple[Qwen3Config, nnx.GraphDef, nnx.State, PreTrainedTokenizerBase]:
    """Loads a model and its tokenizer, with the chat template; returns what `huggingface.load` does.

    Args:
        path: of the file, whatever its quantisation.
        dtype: of the parameters.

    Raises:
        ImportError: the package gguf is not installed.
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, or holds something this model does not do; says what.
    """
    metadata, tensors = _open(Path(path))
    try:
        config = _config(metadata, tensors)
        tokenizer = read_tokenizer(metadata)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    try:
        graphdef, params = huggingface.assemble(path, config, _named(config, tensors), dtype=dtype)
    except NotImplementedError as error:
        raise ValueError(f"{path} has tensors of a kind that the package gguf cannot dequantise ({error})") from error
    return config, graphdef, params, tokenizer


def _gguf() -> Any:
    try:
        return importlib.import_module("gguf")
    except ImportError as error:
        raise ImportError("GGUF files are read by the package gguf; pip install 'gguf>=0.19,<0.20'") from error


def _open(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file says of its model, and its tensors, which stay on disk."""
    if not path.is_file():
        raise FileNotFoundError(f"no GGUF file at {path}")

    class WholeReader(_gguf().GGUFReader):
        """A reader that does not take what lies behind the end of a file for nothing: it would count it to the end."""

        def _get(self, offset: int, dtype: Any, count: int = 1, *args: Any, **kwargs: Any) -> Any:
            found = super()._get(offset, dtype, count, *args, **kwargs)
            if len(found) < count:
                raise ValueError(f"{count} numbers are missing behind its end")
            return found

    try:
        reader = WholeReader(path)
        metadata = {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, LookupError, OverflowError, TypeError) as error:
        words = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is not a whole GGUF file ({type(error).__name__}: {words})") from error
    return metadata, {tensor.name: tensor for tensor in reader.tensors}


def _config(metadata: Mapping[str, Any], tensors: Mapping[str, Any]) -> Qwen3Config:
    sizes = _sizes(metadata)
    heads, width = (check_size(key, sizes[key]) for key in ("attention.head_count", "embedding_length"))
    for key in WIDTHS:
        check_size(key, sizes.get(key, 1))
    head_dims = {sizes[key] for key in WIDTHS if key in sizes} or {width // heads}
    if len(head_dims) > 1:
        given = ", ".join(f"{key}={sizes[key]}" for key in WIDTHS if key in sizes)
        raise ValueError(f"{given}; only heads of one width that are rotated as a whole are supported")
    if "token_embd.weight" not in tensors:
        raise ValueError("there is no tensor token_embd.weight; expected a whole language model")
    return Qwen3Config(
        vocab_size=int(tensors["token_embd.weight"].shape[-1]),
        hidden_size=width,
        intermediate_size=sizes["feed_forward_length"],
        num_layers=sizes["block_count"],
        num_heads=heads,
        num_kv_heads=sizes["attention.head_count_kv"],
        head_dim=head_dims.pop(),
        rope_theta=_decimal(sizes["rope.freq_base"]),
        rms_norm_eps=_decimal(sizes["attention.layer_norm_rms_epsilon"]),
        tie_embeddings="output.weight" not in tensors,
        max_positions=sizes["context_length"],
        qk_norm=QK_NORM[metadata["general.architecture"]],
    )


def _decimal(value: float) -> float:
    """The shortest decimal that is this float32: 1e-05 where four bytes are read as 9.999999747378752e-06."""
    if not isinstance(value, float):
        raise ValueError(f"{value!r:.80} stands where a number with a point was expected")
    return float(str(np.float32(value)))


def _sizes(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What the file says of its architecture, without that name before each key; all of it understood."""
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in QK_NORM:
        raise ValueError(f"the architecture is {architecture!r:.80}; only {list(QK_NORM)} are supported")
    prefix = f"{architecture}."
    sizes = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    unknown = sorted(sizes.keys() - {*REQUIRED, *WIDTHS, "vocab_size"})
    if unknown:
        raise ValueError(f"{prefix}{unknown[0]} is {sizes[unknown[0]]!r:.80}; a model of this kind is not supported")
    missing = [key for key in REQUIRED if key not in sizes]
    if missing:
        raise ValueError(f"there is no {prefix}{missing[0]} in the metadata")
    return sizes


@dataclass(frozen=True, eq=False)
class _Tensor:
    """A tensor of the file, dequantised when it is indexed; stands in for a slice of a safetensors file.

    Attributes:
        stored: as the reader gives it.
        interleaved_heads: number of heads whose rows lie as llama.cpp rotates them; 0 for none.
    """

    stored: Any
    interleaved_heads: int = 0

    def get_shape(self) -> list[int]:
        return [int(size) for size in self.stored.shape[::-1]]

    def __getitem__(self, index: Any) -> np.ndarray:
        values = _gguf().dequantize(self.stored.data, self.stored.tensor_type)
        if self.interleaved_heads:
            # llama.cpp rotates pairs of neighbouring rows of a Llama, HuggingFace rows that are half a head apart.
            pairs = values.reshape(self.interleaved_heads, -1, 2, values.shape[1])
            values = pairs.swapaxes(1, 2).reshape(values.shape)
        return values[index]


def _named(config: Qwen3Config, tensors: Mapping[str, Any]) -> dict[str, _Tensor]:
    """The tensors under HuggingFace's names; those that have none keep theirs."""
    # Only Llamas: other architectures' rows lie in HuggingFace's order.
    heads = {} if config.qk_norm else {"attn_q": config.num_heads, "attn_k": config.num_kv_heads}
    return {
        _hf_name(name): _Tensor(tensor, heads.get(name.split(".")[-2], 0) if "." in name else 0)
        for name, tensor in tensors.items()
    }


def _hf_name(name: str) -> str:
    stem, _, kind = name.rpartition(".")
    part = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    if part and part[2] in LAYER:
        return f"model.layers.{part[1]}.{LAYER[part[2]]}.{kind}"
    return f"{OUTER[stem]}.{kind}" if stem in OUTER else name


def read_tokenizer(metadata: Mapping[str, Any]) -> PreTrainedTokenizerBase:
    """The tokenizer that a file's metadata describe, with its special tokens and its chat template.

    Raises:
        ValueError: it is of a kind that is not supported; says which.
    """
    of = {key.removeprefix("tokenizer."): value for key, value in metadata.items() if key.startswith("tokenizer.")}
    tokens, template = _listed(of, "ggml.tokens", str), of.get("chat_template")
    if not isinstance(template, str | None):
        raise ValueError(f"tokenizer.chat_template is {template!r:.80}; expected a text")
    named = {}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")):
        id = of.get(f"ggml.{key}_token_id")
        if id is not None and (type(id) is not int or not 0 <= id < len(tokens)):
            raise ValueError(f"tokenizer.ggml.{key}_token_id is {id!r:.80}; expected one of {len(tokens)} tokens")
        if id is not None:
            named[f"{name}_token"] = tokens[id]
    return PreTrainedTokenizerFast(
        tokenizer_object=_byte_level(of), chat_template=template, clean_up_tokenization_spaces=False, **named
    )


def _listed(of: Mapping[str, Any], key: str, kind: type) -> list[Any]:
    values = of.get(key)
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise ValueError(f"tokenizer.{key} is {values!r:.80}; expected a list of {kind.__name__}")
    return values


def _byte_level(of: Mapping[str, Any]) -> Tokenizer:
    model, split = of.get("ggml.model"), of.get("ggml.pre")
    if model != "gpt2" or not isinstance(split, str) or split not in SPLITS:
        raise ValueError(
            f"the tokenizer is {model!r:.80} with text split as for {split!r:.80}; only 'gpt2' (byte-level BPE) is "
            f"supported, split as for one of {list(SPLITS)}"
        )
    tokens, types = _listed(of, "ggml.tokens", str), _listed(of, "ggml.token_type", int)
    if len(tokens) != len(types):
        raise ValueError(f"there are {len(tokens)} tokens and {len(types)} types of them")
    typed = list(zip(tokens, types, strict=True))
    vocabulary = {token: id for id, (token, kind) in enumerate(typed) if kind != UNUSED}
    split_merges = [merge.split(" ") for merge in _listed(of, "ggml.merges", str)]
    if wrong := [pair for pair in split_merges if len(pair) != 2]:
        raise ValueError(f"a merge is {' '.join(wrong[0])!r:.80}; expected two tokens")
    try:
        backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[(left, right) for left, right in split_merges]))
    except Exception as error:  # tokenizers raises nothing more special
        raise ValueError(f"the tokenizer's merges do not fit its tokens ({error})") from error
    normalizer, steps = SPLITS[split]
    if normalizer:
        backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    added = [(token, kind) for token, kind in typed if kind in (CONTROL, USER_DEFINED)]
    backend.add_tokens([AddedToken(token, normalized=False, special=kind == CONTROL) for token, kind in added])
    return backend
