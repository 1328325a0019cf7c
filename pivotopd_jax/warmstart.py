"""Makes the mini student: a tokenizer, random Qwen3 weights, and a few minutes of supervised warm start.

Left out, on purpose: how to come back from a mistake. Demonstrations follow the expert (who knows only what has been
observed) and go on after commands that do nothing, but they never show what to do after a real mistake: that is for the
methods to teach. Hints, however, are practised everywhere, after mistakes too, each naming a random admissible action,
so that the hinted self-teacher follows a hint wherever it is given one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from pivotopd_jax.envs.protocol import World
from pivotopd_jax.learner.learner import Learner, UpdateOptions, make_mesh
from pivotopd_jax.models import huggingface
from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.models.qwen3 import Qwen3, Qwen3Config, split
from pivotopd_jax.prompts.actions import format_action
from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.prompts.hints import HINT_CLOSING, HINT_OPENING, action_hint
from pivotopd_jax.prompts.prompter import Prompter, Wording
from pivotopd_jax.records import Row, Task, TokenBatch
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.rollout.rows import batch_rows


Progress = Callable[[int, dict[str, float]], None]
"""Told of every optimizer step: its number and metrics."""


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """How the mini student is made.

    Attributes:
        hidden_size, intermediate_size, num_layers, num_heads, num_kv_heads, head_dim: its shape.
        games: generated games demonstrated.
        epochs: passes over them, each with new noise.
        noise: probability that a turn of a demonstration is a command that does nothing.
        wandering: share of episodes that wander at random, for practising hints only.
        hints: probability that a turn is also practised with a hint.
        batch_tokens: tokens (padding included) of an optimizer step.
        learning_rate: peak; warm-up then cosine to a tenth.
        seed: of everything.
    """

    hidden_size: int = 128
    intermediate_size: int = 384
    num_layers: int = 3
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 32
    games: int = 4000
    epochs: int = 1
    noise: float = 0.1
    wandering: float = 0.2
    hints: float = 0.3
    batch_tokens: int = 16384
    learning_rate: float = 2e-3
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Demonstrator:
    """Plays demonstrations and turns them into training rows."""

    world: World
    prompter: Prompter
    options: WarmStart
    max_turns: int

    def rows(self, task: Task, index: int, draw: random.Random) -> list[Row]:
        """Rows of one demonstrated (or wandering) episode; `index` tells episodes of a batch apart."""
        episode = Episode.start(self.world.make(), self.prompter, task, index, self.max_turns)
        wandering = draw.random() < self.options.wandering
        rows: list[Row] = []
        while not episode.finished:
            if draw.random() < self.options.hints or wandering:
                rows.append(self._hint_row(episode, index, draw))
            action = self._wander(episode, draw) if wandering else self._demonstrate(episode, draw)
            if action is None:
                break
            episode.force(action)
            played = episode.turns[-1]
            if not wandering and played.accepted:
                rows.append(self._row(episode, index, len(episode.turns) - 1, played.context_ids, played.response_ids))
        return rows

    def _demonstrate(self, episode: Episode, draw: random.Random) -> str | None:
        """The expert's action, or now and then a command that does nothing."""
        planner = self.world.planner
        action = planner.next_action(episode.snapshot, planner.observed(episode.snapshot))
        if action is not None and draw.random() < self.options.noise:
            return self._useless(episode, draw)
        return action

    def _useless(self, episode: Episode, draw: random.Random) -> str:
        """A command of this episode's past or of its room that is not admissible now."""
        commands = {a for turn in episode.turns for a in turn.observation.admissible or ()}
        useless = sorted(commands - set(episode.observation.admissible or ()))
        return draw.choice(useless) if useless else "go to nowhere 1"

    def _wander(self, episode: Episode, draw: random.Random) -> str:
        planner = self.world.planner
        expert = planner.next_action(episode.snapshot, planner.observed(episode.snapshot))
        choices = list(episode.observation.admissible or ())
        return expert if expert is not None and draw.random() < 0.5 else draw.choice(choices)

    def _hint_row(self, episode: Episode, index: int, draw: random.Random) -> Row:
        action = draw.choice(list(episode.observation.admissible or ()))
        chat = self.prompter.chat
        context = episode.context(action_hint(action))
        said = chat.encode(format_action(action) + chat.template.end)
        return self._row(episode, index, len(episode.turns), context, said)

    def _row(self, episode: Episode, index: int, turn: int, context: np.ndarray, said: np.ndarray) -> Row:
        return Row("label", index, episode.group, turn, context, said, reward_advantage=1.0)


def world_texts(world: World, wording: Wording, tasks: Sequence[Task], max_turns: int) -> list[str]:
    """What whole episodes of the expert look like, admissible actions included."""
    found = []
    env, planner = world.make(), world.planner
    for task in tasks:
        observation, text = env.reset(task), []
        for _ in range(max_turns):
            text.append((wording.following if text else wording.opening)(observation))
            text.append(wording.admissible(observation.admissible or ()))
            action = planner.next_action(env.snapshot(), planner.observed(env.snapshot()))
            if action is None:
                break
            text.append(format_action(action))
            result = env.step(action)
            observation = result.observation
            if result.done:
                break
        found.append("".join([*text, wording.following(observation)]))
    return found


def _learning_rate(options: WarmStart, steps: int) -> optax.Schedule:
    peak = options.learning_rate
    return optax.warmup_cosine_decay_schedule(peak / 20, peak, max(1, steps // 20), steps, peak / 10)


def demonstrations(demonstrator: Demonstrator, tasks: Sequence[Task], options: WarmStart) -> Iterator[list[Row]]:
    """Rows of one game after another, `epochs` times, each time with new noise."""
    index = 0
    for epoch in range(options.epochs):
        for task in tasks:
            rows = demonstrator.rows(task, index, random.Random(f"{options.seed}|{epoch}|{task.id}"))
            index += 1
            if rows:
                yield rows


def train(
    learner: Learner, params: Any, stream: Iterator[list[Row]], *, length: int, batch_tokens: int, progress: Progress
) -> Any:
    """Supervised training on a stream of rows; returns the trained parameters."""
    state = learner.init(params)
    pending: list[Row] = []
    size = 0
    for rows in stream:
        pending += rows
        size += len(rows[-1].context_ids) + sum(len(row.response_ids) for row in rows)
        if size >= batch_tokens:
            state, metrics = learner.update(state, supervised_batch(pending, length))
            progress(int(state.step), metrics)
            pending, size = [], 0
    return state.params


def supervised_batch(rows: Sequence[Row], length: int) -> TokenBatch:
    """A batch whose advantages are 1: cross-entropy under the "likelihood" objective."""
    batch, packed = batch_rows(rows, length=length)
    return batch._replace(advantages=packed.scatter([1.0] * len(rows)))
