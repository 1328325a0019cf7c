"""GGUF files that the package gguf writes here, as llama.cpp's converter would: the student in them is the same."""

from __future__ import annotations

import importlib.util
import json
import lzma
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from flax import nnx
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from pivotopd_jax.models import gguf_file, huggingface, qwen3
from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.models.qwen3 import Qwen3Config
from pivotopd_jax.prompts.chat import Chat

gguf: Any = pytest.importorskip("gguf")

PROJECT = Path(__file__).resolve().parents[2]
# 4 heads of 12: not what the width suggests.
QWEN3 = Qwen3Config(288, 32, 64, 2, 4, 2, 12, 5e6, 1e-6, tie_embeddings=False, max_positions=128)
LLAMA = replace(QWEN3, qk_norm=False, rope_theta=1e5, tie_embeddings=True)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TEXTS = [
    "take mug 12 from desk 3.\n\n1. go to  2",
    "It's 3½ o'clock — ça va?\t你好 ２",
    "  7<|im_end|>\n<|im_start|>user x",
]


def digit_tokenizer() -> Tokenizer:
    """As SmolLM2 publishes its own: digits alone, then bytes by GPT-2's rule; and a few merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=280, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["take the mug from the desk  \n\n\n\n  "] * 9, trainer)
    return tokenizer


def lively(config: Qwen3Config) -> nnx.State:
    noise = np.random.default_rng(0)
    shapes = qwen3.abstract(config)[1]
    return jax.tree.map(lambda leaf: jnp.asarray(noise.normal(0.0, 0.2, leaf.shape), leaf.dtype), shapes)


def assert_equal(got: nnx.State, expected: nnx.State) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, got, expected)


@dataclass
class Written:
    """What is put into a file; a test may change it first."""

    architecture: str
    metadata: dict[str, Any]
    tensors: dict[str, np.ndarray]
    stored: Mapping[str, Any] = field(default_factory=dict)  # name → quantisation

    def write(self, path: Path) -> Path:
        writer = gguf.GGUFWriter(path, self.architecture)
        for key, value in self.metadata.items():
            kind = gguf.GGUFValueType.get_type(value)
            of = gguf.GGUFValueType.get_type(value[0]) if isinstance(value, list) else None
            writer.add_key_value(key, value, kind, of)
        for name, values in self.tensors.items():
            kind = self.stored.get(name)
            writer.add_tensor(name, values if kind is None else gguf.quantize(values, kind), raw_dtype=kind)
        for stage in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
            stage()
        writer.close()
        return path


def vocabulary(tokenizer: Tokenizer, size: int, pre: str) -> dict[str, Any]:
    """The metadata of a byte-level tokenizer; what is missing to `size` is filled up with unused tokens."""
    model = json.loads(tokenizer.to_str())["model"]
    added = tokenizer.get_added_tokens_decoder()
    ids = {id: token for token, id in tokenizer.get_vocab().items()}
    tokens = [ids.get(id, f"[PAD{id}]") for id in range(size)]
    types = [(3 if added[i].special else 4) if i in added else 1 if i in ids else 5 for i in range(size)]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [" ".join(merge) for merge in model["merges"]],
        "tokenizer.ggml.bos_token_id": tokens.index("<|im_start|>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.padding_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def sizes(config: Qwen3Config) -> dict[str, Any]:
    own = {
        "context_length": config.max_positions,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "block_count": config.num_layers,
        "attention.head_count": config.num_heads,
        "attention.head_count_kv": config.num_kv_heads,
        "attention.key_length": config.head_dim,
        "rope.freq_base": config.rope_theta,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
    }
    return {f"{config.model_type}.{key}": value for key, value in own.items()}


def rotated_in_pairs(config: Qwen3Config, name: str, matrix: np.ndarray) -> np.ndarray:
    """The rows of a Llama's queries and keys as llama.cpp's converter orders them (`LlamaModel.permute`)."""
    heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}.get(name.split(".")[-2])
    if config.qk_norm or heads is None:
        return matrix
    return matrix.reshape(heads, 2, -1, matrix.shape[1]).swapaxes(1, 2).reshape(matrix.shape)


def written(config: Qwen3Config, place: Path) -> Written:
    huggingface.save(place / "hf", config, lively(config), build_tokenizer(["go"]))
    architecture = next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == config.model_type)
    names = gguf.get_tensor_name_map(architecture, config.num_layers)
    tensors = {
        names.get_name(name, try_suffixes=(".weight",)): rotated_in_pairs(config, name, values)
        for name, values in safetensors.numpy.load_file(place / "hf" / "model.safetensors").items()
    }
    metadata = {**sizes(config), **vocabulary(digit_tokenizer(), config.vocab_size, "smollm")}
    return Written(config.model_type, metadata, tensors)


@pytest.mark.parametrize("config", [QWEN3, LLAMA])
@pytest.mark.parametrize("tied", [True, False])
def test_the_same_model_comes_out(tmp_path, config, tied):
    config = replace(config, tie_embeddings=tied)
    got, graphdef, params, tokenizer = gguf_file.load(written(config, tmp_path).write(tmp_path / "model.gguf"))
    assert got == config
    assert_equal(params, lively(config))
    assert len(tokenizer) == digit_tokenizer().get_vocab_size() < config.vocab_size, "unused tokens are left out"
    huggingface.save(tmp_path / "student", got, params, tokenizer)
    assert huggingface.load(tmp_path / "student")[1] == graphdef


def test_quantised_matrices_are_dequantised(tmp_path):
    file = written(LLAMA, tmp_path)
    kinds = [gguf.GGMLQuantizationType[name] for name in ("Q8_0", "Q4_1", "BF16")]
    wide = [name for name, values in file.tensors.items() if values.ndim == 2 and values.shape[1] % 32 == 0]
    file.stored = {name: kinds[index % 3] for index, name in enumerate(wide)}
    got = gguf_file.load(file.write(tmp_path / "quantised.gguf"))[2]
    for name, kind in file.stored.items():
        file.tensors[name] = gguf.dequantize(gguf.quantize(file.tensors[name], kind), kind)
    file.stored = {}
    assert len(wide) > 10
    assert_equal(got, gguf_file.load(file.write(tmp_path / "plain.gguf"))[2])


def test_the_tokenizer_splits_as_the_vocabulary_was_learned(tmp_path):
    tokenizer = gguf_file.load(written(LLAMA, tmp_path).write(tmp_path / "model.gguf"))[3]
    published = digit_tokenizer()
    for text in TEXTS:
        assert tokenizer.encode(text) == published.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == ("<|im_start|>", "<|im_end|>", SPECIAL[0])
    chat = Chat(tokenizer)
    assert chat.end_ids == {published.token_to_id("<|im_end|>")}
    assert chat.decode(chat.opening("go to 1")) == "<|im_start|>user\ngo to 1\n<|im_start|>assistant\n"


def test_the_real_tokenizer_of_qwen3_comes_out(qwen3_tokenizer_data):
    published = Tokenizer.from_str(lzma.decompress((qwen3_tokenizer_data / "tokenizer.json.xz").read_bytes()).decode())
    tokenizer = gguf_file.read_tokenizer(vocabulary(published, 151_936, "qwen2"))
    assert tokenizer.get_vocab() == published.get_vocab()
    for text in [*TEXTS, "<think>\n\n</think>\n\n<action>go to desk 12</action><|im_end|>", "e\u0301  \r\n\n x"]:
        assert tokenizer.encode(text) == published.encode(text).ids
    assert tokenizer.all_special_tokens == ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]


CHANGES: list[tuple[Callable[[Written], Any], str]] = [
    (lambda f: setattr(f, "architecture", "gemma"), r"the architecture is 'gemma'; only \['llama', 'qwen3'\]"),
    (lambda f: f.metadata.update({"llama.rope.scaling.factor": 8.0}), "llama.rope.scaling.factor is 8.0; a model of"),
    (
        lambda f: f.metadata.update({"llama.rope.dimension_count": 4}),
        "key_length=12, rope.dimension_count=4; only",
    ),
    (lambda f: f.metadata.pop("llama.rope.freq_base"), "there is no llama.rope.freq_base in the metadata"),
    (lambda f: f.metadata.update({"tokenizer.ggml.pre": "dbrx"}), "'gpt2' with text split as for 'dbrx'; only 'gpt2'"),
    (lambda f: f.metadata.update({"tokenizer.ggml.model": "llama"}), "the tokenizer is 'llama' with text split"),
    (lambda f: f.metadata.update({"llama.attention.head_count": 0}), "attention.head_count=0 in the model config"),
    (lambda f: f.metadata.update({"llama.block_count": "two"}), "num_layers='two' in the model config"),
    (lambda f: f.metadata.update({"llama.rope.freq_base": 3}), "3 stands where a number with a point was expected"),
    (lambda f: f.metadata.update({"tokenizer.ggml.merges": ["a b c"]}), "a merge is 'a b c'; expected two tokens"),
    (lambda f: f.metadata.update({"tokenizer.ggml.merges": ["nope nope"]}), "merges do not fit its tokens"),
    (lambda f: f.metadata.update({"tokenizer.ggml.eos_token_id": 999}), "eos_token_id is 999; expected one of 288"),
    (lambda f: f.metadata.pop("tokenizer.ggml.tokens"), "tokenizer.ggml.tokens is None; expected a list of str"),
    (lambda f: f.tensors.pop("token_embd.weight"), "there is no tensor token_embd.weight"),
    (lambda f: f.tensors.pop("blk.1.ffn_up.weight"), r"missing: model\.layers\.1\.mlp\.up_proj\.weight"),
    (lambda f: f.tensors.update({"rope_freqs.weight": np.ones(6, np.float32)}), r"unexpected: rope_freqs\.weight"),
    (
        lambda f: f.tensors.update({"blk.0.attn_q.bias": np.ones(48, np.float32)}),
        r"unexpected: model\.layers\.0\.self_attn\.q_proj\.bias",
    ),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_what_is_not_understood_is_refused(tmp_path, change, message):
    file = written(LLAMA, tmp_path)
    change(file)
    with pytest.raises(ValueError, match=message) as error:
        gguf_file.load(file.write(tmp_path / "model.gguf"))
    assert "model.gguf" in str(error.value)


def test_a_file_that_is_none_is_named(tmp_path, monkeypatch):
    whole = written(LLAMA, tmp_path).write(tmp_path / "model.gguf").read_bytes()
    for contents in (b"", b"PK" + whole, whole[: len(whole) // 2], whole.replace(b"gpt2", b"gpt\x80", 1)):
        (tmp_path / "broken.gguf").write_bytes(contents)
        with pytest.raises(ValueError, match=r"broken\.gguf is not a whole GGUF file"):
            gguf_file.load(tmp_path / "broken.gguf")
    with pytest.raises(FileNotFoundError, match=r"no GGUF file at .*nowhere\.gguf"):
        gguf_file.load(tmp_path / "nowhere.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ImportError, match=r"read by the package gguf; pip install 'gguf>="):
        gguf_file.load(tmp_path / "model.gguf")


def test_the_launcher_makes_a_directory_once(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("import_gguf", PROJECT / "launch" / "import_gguf.py")
    assert spec
    assert spec.loader
    launcher = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launcher)
    arguments = [str(written(LLAMA, tmp_path).write(tmp_path / "model.gguf")), str(tmp_path / "student")]
    launcher.main(arguments)
    assert capsys.readouterr().out == f"llama, 0.0M parameters; --config.student={tmp_path / 'student'}\n"
    assert_equal(huggingface.load(tmp_path / "student")[2], lively(LLAMA))
    with pytest.raises(ValueError, match=r"student is there already; name a directory that is to be made"):
        launcher.main(arguments)
    with pytest.raises(ValueError, match=r"was told 'nothing'; expected FILE DIRECTORY"):
        launcher.main([])


def test_a_list_that_goes_on_behind_the_end_of_the_file_is_not_counted_out(tmp_path):
    path = tmp_path / "long.gguf"
    content = written(LLAMA, tmp_path).write(path).read_bytes()
    at = content.index(b"tokenizer.ggml.token_type") + len(b"tokenizer.ggml.token_type") + 8
    assert int.from_bytes(content[at : at + 8], "little") == LLAMA.vocab_size
    path.write_bytes(content[:at] + (2**40).to_bytes(8, "little") + content[at + 8 :])
    with pytest.raises(ValueError, match=r"long\.gguf is not a whole GGUF file"):
        gguf_file.load(path)
