"""Prompts and transcripts that we and our peers are measured on, as rows of ours and as padded arrays."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.prompts.alfworld import AlfWorldWording
from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Row, Trajectory
from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.warmstart import world_texts

UNCUT = 1 << 20
"""Prompt tokens that no context exceeds."""

PAD, RESERVED = 0, 8
"""Id of padding, and how many ids no token has: some peers take every token of that id for padding."""


def transcripts(world: AlfWorld, tasks: int, rollouts: int, max_turns: int, seed: int) -> list[Trajectory]:
    """`rollouts` games of each of `tasks` held-out tasks, as growing chats that are never cut."""
    chosen = world.tasks("valid_unseen" if "valid_unseen" in world.splits else "test")[:tasks]
    wording = AlfWorldWording()
    texts = world_texts(world, wording, chosen, max_turns, show_admissible=False)
    chat = Chat(build_tokenizer(texts, phrases=wording.phrases))
    prompter = Prompter(chat, wording, "transcript", 0, False, UNCUT)
    starts = fresh_starts(world, prompter, chosen, rollouts=rollouts, max_turns=max_turns)
    return play(None, starts, temperature=1.0, seed=seed, concurrency=len(starts), actor=fallible(world, seed))


def fallible(world: AlfWorld, seed: int, mistakes: float = 0.5) -> Any:
    """An actor that plays at random in some turns and as the expert does in the others.

    At one in two of the papers' 30 turns about half of the games are lost, as they are in training.
    """

    def act(index: int, episode: Episode) -> str:
        draw = random.Random(f"{seed}|{index}|{len(episode.turns)}")
        planner = world.planner
        best = planner.next_action(episode.snapshot, planner.observed(episode.snapshot))
        if best is None or draw.random() < mistakes:
            return draw.choice(episode.observation.admissible or ("look",))
        return best

    return act


def turn_rows(trajectories: Sequence[Trajectory], vocabulary: int, seed: int) -> list[Row]:
    """Rows of all turns, their ids folded into the vocabulary; advantages are drawn at random, they cost the same."""
    advantages = np.random.default_rng(seed).standard_normal(len(trajectories)).astype(np.float32)

    def folded(ids: np.ndarray) -> np.ndarray:
        return (RESERVED + ids % (vocabulary - RESERVED)).astype(np.int32)

    return [
        Row(
            "rollout", index, trajectory.group, turn, folded(played.context_ids), folded(played.response_ids),
            reward_advantage=float(advantages[index]),
        )
        for index, trajectory in enumerate(trajectories)
        for turn, played in enumerate(trajectory.turns)
    ]  # fmt: skip


def transcript_arrays(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """Whole transcripts, as peers train on them: a prompt, and a completion of which the responses are trained.

    Args:
        rows: one for each turn; those of a trajectory follow one another, and each context continues the one before.

    Returns:
        "prompts" `[transcripts, longest]` int32, padded on the left, and "prompt_mask"; "completions", padded on the
        right, "completion_mask" and "trained" (bool); "advantages" `[transcripts]` float32.
    """
    turns: dict[int, list[Row]] = {}
    for row in rows:
        turns.setdefault(row.trajectory, []).append(row)
    each = list(turns.values())
    prompts = [found[0].context_ids for found in each]
    completions = [
        np.concatenate([found[-1].context_ids, found[-1].response_ids])[len(found[0].context_ids) :] for found in each
    ]
    trained = [np.zeros(len(completion), bool) for completion in completions]
    for found, mask in zip(each, trained, strict=True):
        for row in found:
            start = len(row.context_ids) - len(found[0].context_ids)
            mask[start : start + len(row.response_ids)] = True
    return {
        "prompts": _padded(prompts, PAD, left=True),
        "prompt_mask": _padded([np.ones(len(ids), bool) for ids in prompts], 0, left=True),
        "completions": _padded(completions, PAD),
        "completion_mask": _padded([np.ones(len(ids), bool) for ids in completions], 0),
        "trained": _padded(trained, 0),
        "advantages": np.asarray([found[0].reward_advantage for found in each], np.float32),
    }


def random_prompts(
    count: int, vocabulary: int, lengths: tuple[int, int], turns: int, shown: tuple[int, int], seed: int
) -> dict[str, np.ndarray]:
    """Prompts of random ids and lengths, and what is shown between turns.

    Args:
        count: of prompts.
        vocabulary: of the model.
        lengths: fewest and most tokens of a prompt.
        turns: answers to a prompt.
        shown: fewest and most tokens that are shown between two of them.
        seed: of everything.

    Returns:
        "tokens" `[count, longest]` int32 and "lengths" `[count]`; "observations" `[turns - 1, count, most]` int32 and
        "observation_lengths" `[turns - 1, count]`.
    """
    draw = np.random.default_rng(seed)

    def some(fewest: int, most: int) -> list[np.ndarray]:
        sizes = draw.integers(fewest, most, count, endpoint=True)
        return [draw.integers(RESERVED, vocabulary, size, dtype=np.int32) for size in sizes]

    first, later = some(*lengths), [some(*shown) for _ in range(turns - 1)]
    return {
        "tokens": _padded(first, PAD),
        "lengths": np.asarray([len(ids) for ids in first]),
        "observations": np.stack([_padded(ids, PAD, width=shown[1]) for ids in later]),
        "observation_lengths": np.asarray([[len(ids) for ids in between] for between in later]),
    }


def _padded(rows: Sequence[np.ndarray], value: int, *, left: bool = False, width: int = 0) -> np.ndarray:
    width = width or max(map(len, rows))
    sides = [(width - len(row), 0) if left else (0, width - len(row)) for row in rows]
    return np.stack([np.pad(row, side, constant_values=value) for row, side in zip(rows, sides, strict=True)])
