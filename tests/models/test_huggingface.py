"""Students in and out of HuggingFace directories, checked with transformers' own model where torch is installed."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import huggingface_hub
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from flax import nnx

from pivotopd_jax.models import huggingface, qwen3
from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.models.qwen3 import Qwen3Config
from pivotopd_jax.models.qwen3_config import MoeConfig

PROJECT = Path(__file__).resolve().parents[2]
TOKENIZER = build_tokenizer(["go to shelf 1", "take apple 2 from shelf 1"])
CONFIG = Qwen3Config(
    vocab_size=288,
    hidden_size=32,
    intermediate_size=48,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    rope_theta=5e6,
    rms_norm_eps=1e-6,
    tie_embeddings=False,
    max_positions=128,
)
TIED = dataclasses.replace(CONFIG, tie_embeddings=True)
LLAMA = dataclasses.replace(TIED, qk_norm=False, rope_theta=1e5)
SPARSE = dataclasses.replace(CONFIG, num_layers=3, moe=MoeConfig(8, 2, 24, norm_topk_prob=True, dense_layers=(1,)))
SUMMED = dataclasses.replace(CONFIG, moe=MoeConfig(6, 4, 20, norm_topk_prob=False, sparse_step=2))
KINDS = pytest.mark.parametrize(
    "config", [CONFIG, TIED, LLAMA, SPARSE, SUMMED], ids=["untied", "tied", "llama", "sparse", "summed"]
)


def lively(config: Qwen3Config = CONFIG, dtype: Any = jnp.float32) -> nnx.State:
    noise = np.random.default_rng(0)

    def draw(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        mean, deviation = (0.0, 0.2) if len(leaf.shape) > 1 else (1.0, 0.3)
        return jnp.asarray(noise.normal(mean, deviation, leaf.shape), leaf.dtype)

    return jax.tree.map(draw, qwen3.abstract(config, dtype)[1])


def assert_equal(got: nnx.State, expected: nnx.State) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def student(tmp_path: Path) -> Path:
    directory = tmp_path / "student"
    huggingface.save(directory, CONFIG, lively(), TOKENIZER)
    return directory


def edit_tensors(directory: Path, change: Mapping[str, np.ndarray | None]) -> None:
    """Replaces tensors of a saved model, or removes those that change to None."""
    path = directory / "model.safetensors"
    tensors: dict[str, np.ndarray | None] = {**safetensors.numpy.load_file(path), **change}
    safetensors.numpy.save_file({k: v for k, v in tensors.items() if v is not None}, path)


@KINDS
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_what_was_saved_comes_back_bit_by_bit(tmp_path: Path, config: Qwen3Config, dtype: Any) -> None:
    params = lively(config, dtype)
    huggingface.save(tmp_path / "runs" / "student", config, params, TOKENIZER)
    got_config, graphdef, got, tokenizer = huggingface.load(tmp_path / "runs" / "student", dtype=dtype)
    assert got_config == config
    assert graphdef == qwen3.abstract(config, dtype)[0]
    assert_equal(got, params)
    chat: list[dict[str, str]] = [{"role": "user", "content": "take apple 2 from shelf 1"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == TOKENIZER.apply_chat_template(chat, tokenize=False)
    assert tokenizer.encode(chat[0]["content"]) == TOKENIZER.encode(chat[0]["content"])


def test_dtype_is_that_asked_for_whatever_the_file_holds(student: Path) -> None:
    params = huggingface.load(student, dtype=jnp.bfloat16)[2]
    assert_equal(params, jax.tree.map(lambda x: x.astype(jnp.bfloat16), lively()))


def test_configs_name_the_model_its_dtype_and_its_special_tokens(student: Path) -> None:
    config = json.loads((student / "config.json").read_text())
    generation = json.loads((student / "generation_config.json").read_text())
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    assert config["model_type"] == "qwen3"
    assert config["dtype"] == config["torch_dtype"] == "float32"
    for contents in (config, generation):
        assert contents["eos_token_id"] == TOKENIZER.convert_tokens_to_ids("<|end|>")
        assert contents["pad_token_id"] == TOKENIZER.convert_tokens_to_ids("<|pad|>")


def greedy(config: Qwen3Config, graphdef: nnx.GraphDef, params: nnx.State, prompt: list[int], steps: int) -> list[int]:
    """The most likely continuation, through a cache."""
    cache, keys, out = qwen3.init_cache(config, 1, 64, jnp.float32), 64, list[int]()

    @jax.jit
    def step(tokens: jax.Array, start: jax.Array, cache: Any) -> tuple[jax.Array, Any]:
        positions = start[:, None] + jnp.arange(tokens.shape[1])
        mask = jnp.arange(keys) <= positions[:, :, None]
        hidden, cache = qwen3.apply(graphdef, params, tokens, positions, mask, cache, start)
        return jnp.argmax(qwen3.compute_logits(graphdef, params, hidden[:, -1]), axis=-1), cache

    tokens, start = np.array([prompt], np.int32), 0
    for _ in range(steps):
        best, cache = step(tokens, np.array([start], np.int32), cache)
        start += tokens.shape[1]
        tokens = np.asarray(best, np.int32)[:, None]
        out.append(int(best[0]))
    return out


def our_loss(graphdef: nnx.GraphDef, params: nnx.State, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean negative log-likelihood in nats of every next token, and the logits."""
    batch, length = tokens.shape
    positions, mask = jnp.tile(jnp.arange(length), (batch, 1)), jnp.tril(jnp.ones((batch, length, length), bool))
    logits = qwen3.compute_logits(graphdef, params, qwen3.apply(graphdef, params, tokens, positions, mask)[0])
    log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), tokens[:, 1:, None], axis=-1)
    return -jnp.mean(log_probs), logits


def their_gradient(model: Any, name: str) -> np.ndarray:
    """Of our parameter `name`, from transformers' model, which holds two stacks of matrices in place of three."""
    given = {k.removeprefix("model.").removesuffix(".weight"): p.grad for k, p in model.named_parameters()}
    layer, kind = name.rpartition(".")[::2]
    if "experts" in name and kind in ("gate_proj", "up_proj"):
        return given[f"{layer}.gate_up_proj"].chunk(2, dim=1)[kind == "up_proj"].mT.numpy()
    matrix = name.endswith(("_proj", ".gate", "lm_head"))
    return (given[name].mT if matrix else given[name]).numpy()


@pytest.mark.parametrize("config", [LLAMA, SPARSE, SUMMED], ids=["llama", "sparse", "summed"])
def test_logits_and_gradients_equal_those_of_transformers(tmp_path: Path, config: Qwen3Config) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    huggingface.save(tmp_path, config, lively(config), TOKENIZER)
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, output_loading_info=True, attn_implementation="eager", experts_implementation="eager"
    )
    assert not any(report.values()), report
    tokens = np.random.default_rng(0).integers(0, config.vocab_size, (3, 24)).astype(np.int32)
    theirs = model(torch.tensor(tokens).long(), labels=torch.tensor(tokens).long())
    theirs.loss.backward()
    graphdef, params = huggingface.load(tmp_path)[1:3]
    step = jax.jit(jax.value_and_grad(our_loss, argnums=1, has_aux=True), static_argnums=0)
    (loss, logits), gradient = step(graphdef, params, jnp.asarray(tokens))
    assert np.abs(logits).max() > 1
    np.testing.assert_allclose(logits, theirs.logits.detach().numpy(), atol=2e-5)
    assert float(loss) == pytest.approx(theirs.loss.item(), rel=1e-5)
    for path, got in jax.tree_util.tree_leaves_with_path(gradient):
        name = qwen3.parameter_name(path)
        expected = their_gradient(model, name)
        np.testing.assert_allclose(got, expected, atol=min(2e-5, 1e-3 * np.abs(expected).max()), err_msg=name)


@pytest.mark.parametrize("config", [CONFIG, TIED, LLAMA, SPARSE], ids=["untied", "tied", "llama", "sparse"])
def test_transformers_loads_a_saved_student_and_says_the_same(tmp_path: Path, config: Qwen3Config) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    huggingface.save(tmp_path, config, lively(config), TOKENIZER)
    model, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    assert model.dtype == torch.float32
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    chat = [{"role": "user", "content": "go to shelf 1"}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    got = greedy(config, *huggingface.load(tmp_path)[1:3], prompt, steps=30)
    expected = model.generate(torch.tensor([prompt]), max_new_tokens=30, do_sample=False)[0, len(prompt) :].tolist()
    assert len(set(expected)) > 3
    assert got[: len(expected)] == expected
    assert len(expected) == 30 or expected[-1] == TOKENIZER.eos_token_id


@KINDS
def test_a_directory_written_by_transformers_in_many_files_is_loaded(tmp_path: Path, config: Qwen3Config) -> None:
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    huggingface.save(tmp_path / "ours", config, lively(config), TOKENIZER)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    model.save_pretrained(tmp_path / "theirs", max_shard_size="20KB")
    TOKENIZER.save_pretrained(tmp_path / "theirs")
    assert len(list((tmp_path / "theirs").glob("*.safetensors"))) > 1
    got_config, _, params, _ = huggingface.load(tmp_path / "theirs")
    assert got_config == config
    assert_equal(params, lively(config))


def test_a_copy_of_tied_embeddings_is_ignored(tmp_path: Path) -> None:
    huggingface.save(tmp_path, TIED, lively(TIED), TOKENIZER)
    edit_tensors(tmp_path, {"lm_head.weight": np.zeros((288, 32), np.float32)})
    assert_equal(huggingface.load(tmp_path)[2], lively(TIED))


def test_tensors_that_do_not_fit_are_named_in_one_message(student: Path) -> None:
    change = {
        "model.norm.weight": None,
        "model.layers.1.mlp.up_proj.weight": np.zeros((32, 48), np.float32),
        "model.layers.0.self_attn.q_proj.bias": np.zeros(32, np.float32),
    }
    edit_tensors(student, change)
    with pytest.raises(ValueError, match="do not fit its config") as error:
        huggingface.load(student)
    assert "missing: model.norm.weight;" in str(error.value)
    assert "unexpected: model.layers.0.self_attn.q_proj.bias;" in str(error.value)
    wrong = "of another shape: model.layers.1.mlp.up_proj.weight (32, 48), expected (48, 32)"
    assert str(error.value).endswith(wrong)


def test_a_long_list_of_tensors_is_cut_short(student: Path) -> None:
    edit_tensors(student, {name: None for name in safetensors.numpy.load_file(student / "model.safetensors")})
    with pytest.raises(ValueError, match=r"model\.layers\.0\.mlp\.down_proj\.weight.* and 20 more$"):
        huggingface.load(student)


def test_pickled_weights_are_not_opened(student: Path) -> None:
    (student / "model.safetensors").rename(student / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match=r"no model\.safetensors; only safetensors files are opened"):
        huggingface.load(student)


def test_a_missing_part_of_a_sharded_model_is_named(student: Path) -> None:
    index = {"weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors"}}
    (student / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(FileNotFoundError, match=r"has no model-00002-of-00002\.safetensors"):
        huggingface.load(student)


def test_a_truncated_file_is_named(student: Path) -> None:
    path = student / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"model\.safetensors is not a whole safetensors file"):
        huggingface.load(student)


def test_a_directory_that_is_no_model_is_refused(tmp_path: Path, student: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no model directory at .*nowhere"):
        huggingface.load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"has no config\.json"):
        huggingface.load(tmp_path)
    (student / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no tokenizer\.json"):
        huggingface.load(student)


def test_a_tokenizer_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    small = dataclasses.replace(CONFIG, vocab_size=8)
    with pytest.raises(ValueError, match=rf"the tokenizer has {len(TOKENIZER)} tokens, the model only 8"):
        huggingface.save(tmp_path / "small", small, lively(small), TOKENIZER)
    assert not list(tmp_path.iterdir())


def test_a_save_that_fails_leaves_the_former_model(student: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    doubled = jax.tree.map(lambda x: 2 * x, lively())
    with monkeypatch.context() as broken:
        broken.setattr(type(TOKENIZER), "save_pretrained", fail)
        with pytest.raises(OSError, match="disk full"):
            huggingface.save(student, CONFIG, doubled, TOKENIZER)
    assert_equal(huggingface.load(student)[2], lively())
    huggingface.save(student, CONFIG, doubled, TOKENIZER)
    assert_equal(huggingface.load(student)[2], doubled)
    assert [path.name for path in student.parent.iterdir()] == ["student"]


def test_a_hub_id_is_downloaded_without_pickles(student: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def download(name: str, allow_patterns: list[str]) -> str:
        if name != "Qwen/Qwen3-Tiny":
            raise huggingface_hub.errors.LocalEntryNotFoundError("not there")
        asked.update(name=name, patterns=allow_patterns)
        return str(student)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert_equal(huggingface.load("Qwen/Qwen3-Tiny")[2], lively())
    assert asked["patterns"] == ["*.safetensors", "*.json", "*.jinja", "*.txt"]
    with pytest.raises(FileNotFoundError, match=r"Qwen/Other is not a directory here, and no model .*: not there"):
        huggingface.load("Qwen/Other")


ELSEWHERE = """
import sys
sys.modules["torch"] = None
from functools import partial
from pathlib import Path
import jax
from test_huggingface import CONFIG, TOKENIZER, assert_equal, huggingface, lively, qwen3
mesh = jax.make_mesh((4, 2), ("fsdp", "tensor"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
place = partial(qwen3.shardings, mesh=mesh)
student = Path(sys.argv[1])
_, _, params, _ = huggingface.load(student, shardings=place)
assert_equal(params, lively())
jax.tree.map(lambda x, s: None if x.sharding == s else sys.exit(f"{x.sharding} instead of {s}"), params, place(params))
head = params["lm_head"].get_value()
assert {part.data.shape for part in head.addressable_shards} == {(8, 144)}
huggingface.save(student, CONFIG, params, TOKENIZER)
"""


def test_parameters_are_loaded_onto_a_mesh_and_saved_from_it_without_torch(student: Path) -> None:
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_COMPILATION_CACHE_DIR": jax.config.values["jax_compilation_cache_dir"] or "",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(Path(__file__).parent)]),
    }
    command = [sys.executable, "-c", ELSEWHERE, str(student)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert_equal(huggingface.load(student)[2], lively())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_attention_heads": 0}, "num_attention_heads=0 in the model config; expected a whole number from 1 on"),
        ({"hidden_size": "32"}, "hidden_size='32' in the model config"),
        ({"vocab_size": -1}, "vocab_size=-1 in the model config"),
        ({"rope_parameters": [1]}, r"rope_parameters=\[1\] in the model config; expected an object"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps=nan in the model config; expected a number above 0"),
        ({"tie_word_embeddings": "no"}, "tie_embeddings='no' in the model config; expected true or false"),
        ({"layer_types": 3}, "layer_types=3 in the model config; expected a list"),
        ({"model_type": ["qwen3"]}, "model_type="),
        ({"num_hidden_layers": 101}, "has 101 layers or experts, its files 25 tensors"),
        ({"num_hidden_layers": 10**9}, "has 1000000000 layers or experts, its files 25 tensors"),
    ],
)
def test_sizes_that_are_none_are_named(student: Path, change: dict[str, Any], message: str) -> None:
    record = json.loads((student / "config.json").read_text())
    (student / "config.json").write_text(json.dumps(record | change))
    with pytest.raises(ValueError, match=message):
        huggingface.load(student)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [b"[1]", b"[" * 100_000, b"\xff\xfe", b"{"])
def test_what_is_no_json_is_named(student: Path, name: str, content: bytes) -> None:
    (student / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json (is not JSON|holds)|has a tokenizer that cannot be read"):
        huggingface.load(student)
