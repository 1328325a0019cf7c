"""With the real tokenizer of Qwen3: what is trained is what was sampled, and a hint stays where it belongs."""

from __future__ import annotations

import itertools
import lzma
import random
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.envs.protocol import World
from pivotopd_jax.envs.webshop.world import WebShop
from pivotopd_jax.prompts.actions import format_action
from pivotopd_jax.prompts.alfworld import AlfWorldWording
from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.prompts.hints import action_hint, lesson_hint
from pivotopd_jax.prompts.prompter import PrivilegedPrompt, Prompter
from pivotopd_jax.prompts.webshop import WebShopWording
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.sampling.policy import Sample

TRAJECTORIES, TURNS = 200, 6  # in each environment
NO_THOUGHT = "<think>\n\n</think>\n\n"


@pytest.fixture(scope="module")
def chat(qwen3_tokenizer_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Chat:
    place = tmp_path_factory.mktemp("tokenizer")
    (place / "tokenizer.json").write_bytes(lzma.decompress((qwen3_tokenizer_data / "tokenizer.json.xz").read_bytes()))
    (place / "tokenizer_config.json").write_bytes((qwen3_tokenizer_data / "tokenizer_config.json").read_bytes())
    return Chat(PreTrainedTokenizerFast.from_pretrained(place))


def response(chat: Chat, admissible: tuple[str, ...], draw: random.Random) -> Sample:
    """What a model might say: any tokens at all, broken characters included, and most often an action."""
    babble = [draw.randrange(151_643) for _ in range(draw.randrange(4))]
    action = chat.encode(format_action(draw.choice(admissible))).tolist() if draw.random() < 0.9 else []
    end = [chat.tokenizer.eos_token_id] if draw.random() < 0.9 else []
    ids = np.asarray([*babble, *action, *end] or [0], np.int32)
    return Sample(ids, np.zeros(len(ids), np.float32), bool(end))


def play(prompter: Prompter, world: World, number: int) -> Episode:
    draw = random.Random(number)
    episode = Episode.start(world.make(), prompter, world.tasks("train")[number], 0, TURNS)
    while not episode.finished:
        sample = response(prompter.chat, episode.observation.admissible or (), draw)
        episode.respond(episode.context(), sample)
    return episode


@pytest.fixture(scope="module", params=["alfworld", "webshop"])
def world(request: pytest.FixtureRequest) -> World:
    return AlfWorld("generated", receptacles=5, distractors=2) if request.param == "alfworld" else WebShop("generated")


def prompter(chat: Chat, world: World, style, *, admissible: bool, tokens: int = 8192) -> Prompter:
    wording = AlfWorldWording() if isinstance(world, AlfWorld) else WebShopWording()
    return Prompter(chat, wording, style, 3, admissible, tokens)


def test_a_transcript_holds_exactly_the_ids_that_were_sampled(chat, world):
    p = prompter(chat, world, "transcript", admissible=False)
    for number in range(TRAJECTORIES):
        turns = play(p, world, number).turns
        for before, after in itertools.pairwise(turns):
            said = np.concatenate([before.context_ids, before.response_ids])
            np.testing.assert_array_equal(after.context_ids[: len(said)], said)


@pytest.mark.parametrize("style", ["transcript", "windowed"])
def test_prompts_render_with_thinking_off_and_hold_no_hint(chat, world, style):
    p = prompter(chat, world, style, admissible=True)
    for number in range(TRAJECTORIES):
        episode = play(p, world, number)
        for turn in episode.turns:
            text = chat.tokenizer.decode(turn.context_ids.tolist())
            assert text.startswith("<|im_start|>user\n")
            assert text.endswith(f"<|im_end|>\n<|im_start|>assistant\n{NO_THOUGHT}")
            p.assert_unprivileged(turn.context_ids)
        with pytest.raises(PrivilegedPrompt):
            p.assert_unprivileged(episode.context(action_hint("look")))


@pytest.mark.parametrize("style", ["transcript", "windowed"])
def test_a_hint_survives_what_truncation_takes_from_the_left(chat, world, style):
    short = prompter(chat, world, style, admissible=True, tokens=160)
    for number in range(TRAJECTORIES):
        episode = play(short, world, number)
        for hint in (action_hint("heat mug 1 with microwave 1"), lesson_hint("take mug, heat mug with microwave")):
            ids = episode.context(hint)
            assert len(ids) <= 160
            tail = f"{hint}<|im_end|>\n<|im_start|>assistant\n{NO_THOUGHT}"
            assert chat.tokenizer.decode(ids.tolist()).endswith(tail)
    assert len(episode.context()) == 160, "nothing was cut"
    with pytest.raises(PrivilegedPrompt, match="does not survive truncation"):
        prompter(chat, world, style, admissible=True, tokens=20).context(
            episode.turns, episode.observation, action_hint("look")
        )
