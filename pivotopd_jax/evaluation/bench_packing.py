"""What packing turns as token trees saves over a padded row for each turn, on games of ALFWorld."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx

from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.evaluation.bench_memory import median_seconds
from pivotopd_jax.learner.learner import Learner, make_mesh
from pivotopd_jax.learner.objective import UpdateOptions
from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.models.qwen3 import Qwen3, split
from pivotopd_jax.prompts.alfworld import AlfWorldWording
from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Row, Task, TokenBatch
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.rollout.rows import batch_rows
from pivotopd_jax.warmstart import WarmStart, student_config, world_texts

TURNS = 30
"""The papers' limit for ALFWorld."""
UNCUT = 1 << 20
"""Prompt tokens that no context exceeds."""


def bench_packing(data: str | None, *, games: int = 32, repeats: int = 5) -> dict[str, Any]:
    """Rows of the expert's games, packed and padded.

    Args:
        data: directory of real games; None for generated ones.
        games: tokens are counted over so many.
        repeats: updates of each kind; their median counts.

    Returns:
        By style of the prompts, numbers of tokens: "packed" as trees, "padded" one row for each turn, padding included,
        and "needed" without it; for transcripts the seconds of an update of a student of the mini's size, too, and its
        loss.
    """
    world = AlfWorld(data or "generated")
    tasks = world.tasks("valid_unseen" if "valid_unseen" in world.splits else "test")[:games]
    tokenizer = build_tokenizer(world_texts(world, AlfWorldWording(), tasks, TURNS), phrases=AlfWorldWording.phrases)
    found: dict[str, Any] = {"games": world.name, "count": len(tasks)}
    for style in ("transcript", "windowed"):
        prompter = Prompter(Chat(tokenizer), AlfWorldWording(), style, 5, style == "windowed", UNCUT)
        rows = expert_rows(world, prompter, tasks)
        found[style] = {"turns": len(rows), **held(rows)}
        if style == "transcript":
            found[style] |= {"updates": _updates(rows, len(tokenizer), repeats)}
    return found


def expert_rows(world: AlfWorld, prompter: Prompter, tasks: Sequence[Task]) -> list[Row]:
    """A row for each turn of the expert's games."""
    rows = []
    for index, task in enumerate(tasks):
        episode = Episode.start(world.make(), prompter, task, index, TURNS)
        while not episode.finished:
            known = world.planner.observed(episode.snapshot)
            action = world.planner.next_action(episode.snapshot, known)
            if action is None:
                break
            episode.force(action)
        rows += [
            Row("label", index, index, turn, played.context_ids, played.response_ids)
            for turn, played in enumerate(episode.turns)
        ]
    return rows


def held(rows: Sequence[Row]) -> dict[str, int | float]:
    """Tokens that rows take as trees, as padded rows and without padding."""
    sizes = [len(row.context_ids) + len(row.response_ids) for row in rows]
    packed, padded = batch_rows(rows, length=longest(rows))[0], padded_batch(rows)
    return {
        "packed": packed.tokens.size,
        "padded": padded.tokens.size,
        "needed": sum(sizes),
        "ratio": packed.tokens.size / padded.tokens.size,
    }


def longest(rows: Sequence[Row]) -> int:
    """Tokens of the longest context with its response, as a multiple of 64."""
    return -(-max(len(row.context_ids) + len(row.response_ids) for row in rows) // 64) * 64


def padded_batch(rows: Sequence[Row]) -> TokenBatch:
    """A batch with a row of tokens for each of `rows`, all of the length of the longest."""
    parts = [batch_rows([row], length=longest(rows))[0] for row in rows]
    whole = jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)
    return whole._replace(weights=(whole.mask / whole.mask.sum()).astype(np.float32))


def _updates(rows: Sequence[Row], vocabulary: int, repeats: int) -> dict[str, Any]:
    """Median seconds of an update on `rows`, packed and padded, and the loss of the first, in nats."""
    config = student_config(WarmStart(), vocabulary, longest(rows))
    graphdef, params = split(Qwen3(config, rngs=nnx.Rngs(0)))
    options = UpdateOptions(objective="likelihood", kl_coefficient=0.0)
    learner = Learner(graphdef, optax.sgd(1e-3), make_mesh(), micro_batch_tokens=4096, options=options)
    batches = {"packed": batch_rows(rows, length=longest(rows))[0], "padded": padded_batch(rows)}
    batches = {name: batch._replace(advantages=batch.mask.astype(np.float32)) for name, batch in batches.items()}

    def update(batch: TokenBatch) -> float:
        return learner.update(learner.init(params), batch)[1]["loss"]

    losses = {name: update(batch) for name, batch in batches.items()}
    seconds = median_seconds({name: lambda b=batch: update(b) for name, batch in batches.items()}, repeats)
    ratio = seconds["packed"] / seconds["padded"]
    return {"seconds": seconds, "seconds_ratio": ratio, "nats_a_token": losses}
