"""A real vLLM server on a tiny Qwen3 that is made here; `bash launch/test.sh --vllm` makes the environment it needs."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from toy_world import CorridorWording

from pivotopd_jax.models import huggingface
from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.models.qwen3 import Qwen3, Qwen3Config, apply, compute_logits, split
from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Observation
from pivotopd_jax.teachers.abilities import Abilities
from pivotopd_jax.teachers.protocol import Situation
from pivotopd_jax.teachers.reply_cache import ReplyCache
from pivotopd_jax.teachers.served import ServedTeacher
from pivotopd_jax.teachers.server import Call, Server

pytestmark = pytest.mark.vllm
PROJECT = Path(__file__).resolve().parents[2]
LOADING_SECONDS = 1800
# Shows in the number of prompt tokens whether the switch reaches the template.
THINKING = "{% if enable_thinking is defined and not enable_thinking %}{{ 'no thinking' }}{% endif %}"


@dataclass(frozen=True)
class Vllm:
    teacher: ServedTeacher
    graphdef: Any
    params: Any

    def post(self, path: str, **body: Any) -> Any:
        (reply,) = self.teacher.server.send([Call(path, {"model": "teacher", **body})])
        assert isinstance(reply, dict), reply
        return reply


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    python = os.environ.get("VLLM_PYTHON", "")
    if not python:
        pytest.fail("VLLM_PYTHON names no interpreter with vLLM; run `bash launch/test.sh --vllm`")
    place = tmp_path_factory.mktemp("vllm")
    tokenizer = build_tokenizer(["Grab the prize. You are in cell 0."])
    tokenizer.chat_template = str(tokenizer.chat_template) + THINKING
    # Heads of 64: the smallest that vLLM's attention on CPUs has.
    config = Qwen3Config(len(tokenizer), 64, 128, 2, 2, 1, 64, 1e4, 1e-6, True, 2048)
    graphdef, params = split(Qwen3(config, rngs=nnx.Rngs(0)))
    params = jax.tree.map(lambda x: 4 * x if x.ndim == 2 else x, params)  # far from uniform
    huggingface.save(place / "model", config, params, tokenizer)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = place / "server.log"
    process = _launch(python, place / "model", port, log)
    try:
        _wait(process, f"http://127.0.0.1:{port}/health", log)
        prompter = Prompter(Chat(tokenizer), CorridorWording(), "windowed", 2, True, 1000)
        server = Server(f"http://127.0.0.1:{port}/v1", "teacher", deadline_seconds=300)
        cache = ReplyCache(place / "replies")
        teacher = ServedTeacher(server, prompter, cache, context_tokens=2048, failure_share=1.0)
        yield Vllm(teacher, graphdef, params)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def _launch(python: str, model: Path, port: int, log: Path) -> subprocess.Popen:
    command = [
        python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--served-model-name", "teacher",
        "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--max-model-len", "2048", "--enforce-eager",
    ]  # fmt: skip
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    environment.pop("PYTHONPATH", None)  # what the other environment imports is its own affair
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=model.parent)


def _wait(process: subprocess.Popen, url: str, log: Path) -> None:
    end = time.monotonic() + LOADING_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, f"vLLM ended while loading:\n{log.read_text()[-4000:]}"
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(2)
    pytest.fail(f"vLLM did not answer within {LOADING_SECONDS} s:\n{log.read_text()[-4000:]}")


def test_the_teacher_finds_out_what_the_server_can_do(vllm):
    vllm.teacher.check()
    assert vllm.teacher.abilities == Abilities(extras=True, structured=True)


def test_scores_are_our_own_log_probs(vllm):
    """Sequences of many lengths; ours in float32 too."""
    draw = np.random.default_rng(0)
    vocabulary = len(vllm.teacher.prompter.chat.tokenizer)
    pairs = [
        (draw.integers(0, vocabulary, context), draw.integers(0, vocabulary, response))
        for context, response in ((1, 1), (3, 8), (50, 30), (200, 100))
    ]
    for (context, response), scores in zip(pairs, vllm.teacher.score(pairs), strict=True):
        assert scores is not None
        own = own_log_probs(vllm, np.concatenate([context, response]))[-len(response) :]
        np.testing.assert_allclose(scores, own, atol=1e-4, rtol=0)


def own_log_probs(vllm: Vllm, tokens: np.ndarray) -> np.ndarray:
    """`[length - 1]` float32: of each token but the first, by our own model."""
    ids = jnp.asarray(tokens[None], jnp.int32)
    mask = jnp.tril(jnp.ones((1, len(tokens), len(tokens)), bool))
    hidden, _ = apply(vllm.graphdef, vllm.params, ids, jnp.arange(len(tokens))[None], mask)
    log_probs = jax.nn.log_softmax(compute_logits(vllm.graphdef, vllm.params, hidden)[0], -1)
    return np.asarray(log_probs[jnp.arange(len(tokens) - 1), ids[0, 1:]])


def test_token_ids_as_prompt_and_several_samples(vllm):
    prompt = [int(i) for i in vllm.teacher.prompter.chat.opening("Grab the prize.")]
    reply = vllm.post("/completions", prompt=prompt, n=3, max_tokens=6, temperature=1.0, seed=5, return_token_ids=True)
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    assert reply["usage"]["prompt_tokens"] == len(prompt)
    assert reply["choices"][0]["prompt_token_ids"] == prompt
    assert len({tuple(choice["token_ids"]) for choice in reply["choices"]}) > 1


def test_structured_outputs_hold_a_reply_to_the_actions_shown(vllm):
    admissible = ["grab", "left", "right"]
    reply = vllm.post(
        "/chat/completions", messages=[{"role": "user", "content": "What now?"}], max_tokens=16, temperature=1.0,
        seed=1, n=4, structured_outputs={"choice": admissible},
    )  # fmt: skip
    assert {choice["message"]["content"] for choice in reply["choices"]} <= set(admissible)


def test_chat_template_arguments_reach_the_template(vllm):
    def prompt_tokens(**extra: Any) -> int:
        messages = [{"role": "user", "content": "What now?"}]
        return vllm.post("/chat/completions", messages=messages, max_tokens=1, **extra)["usage"]["prompt_tokens"]

    off = prompt_tokens(chat_template_kwargs={"enable_thinking": False})
    added = len(vllm.teacher.prompter.chat.encode("no thinking"))
    assert off - prompt_tokens() == added > 0


def test_a_schema_holds_and_what_rambles_is_counted(vllm):
    """A model of random weights fills a schema with noise: no item may get more than nothing from it."""
    reply = vllm.post(
        "/chat/completions", messages=[{"role": "user", "content": "What now?"}], max_tokens=40, temperature=1.0,
        structured_outputs={"json": {"enum": ["left"]}},
    )  # fmt: skip
    assert reply["choices"][0]["message"]["content"].strip() == '"left"'
    observation = Observation("You are in cell 0.", ("grab", "left", "right"))
    named = vllm.teacher.recovery_actions([Situation(observation, (), None)])
    assert named in ([None], ["grab"], ["left"], ["right"])
    assert vllm.teacher.outcomes.get("recovery/ok", 0) + vllm.teacher.outcomes.get("recovery/unreadable", 0) == 1
