"""What we and our peers are measured on: weights as HuggingFace directories, prompts and rows as padded arrays.

All lies in one directory, so that programs which know nothing of this project can read it: `student/`, `teacher/`,
`prompts.npz`, `rows.npz` and `settings.json`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx

from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.models import huggingface
from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.models.qwen3 import Qwen3, Qwen3Config, split
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


@dataclass(frozen=True)
class Size:
    """How large a case is.

    Attributes:
        vocabulary, hidden, intermediate, layers, heads, kv_heads, head_dim: of student and teacher.
        prompts: prompts sampled from at once.
        shortest, longest: lengths of the prompts, tokens.
        new_tokens: of an answer to a prompt.
        turns, turn_tokens: of the multi-turn case: answers to a prompt, and tokens of each.
        shown: fewest and most tokens that are shown between two turns.
        tasks, rollouts: of the transcripts that are trained on.
        max_turns: of a transcript.
        micro_rows: transcripts of a micro-batch that peers may choose from.
        micro_batch_tokens: of ours.
    """

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    prompts: int = 32
    shortest: int = 40
    longest: int = 300
    new_tokens: int = 32
    turns: int = 8
    turn_tokens: int = 10
    shown: tuple[int, int] = (8, 40)
    tasks: int = 4
    rollouts: int = 8
    max_turns: int = 30
    micro_rows: tuple[int, ...] = (4, 16)
    micro_batch_tokens: int = 3072


SIZES = {
    "mini": Size(448, 128, 384, 3, 4, 2, 32),
    "larger": Size(8192, 512, 1536, 8, 8, 4, 64, prompts=8, tasks=1, micro_rows=(2, 8)),
}
"""The mini student's shape, and one of 30 million parameters."""


@dataclass(frozen=True, eq=False)
class Case:
    """A case in memory.

    Attributes:
        config, graphdef: of student and teacher.
        student, teacher: parameters.
        prompts: as in prompts.npz: "tokens" `[prompts, longest]` and "lengths", "observations" `[turns - 1, prompts,
            most]` and "observation_lengths".
        rows: one for each turn of the transcripts; `reward_advantage` is that of the transcript.
        settings: as in settings.json.
    """

    config: Qwen3Config
    graphdef: Any
    student: Any
    teacher: Any
    prompts: dict[str, np.ndarray]
    rows: Sequence[Row]
    settings: dict[str, Any]


def make_case(size: Size, directory: Path, *, data: str | None, rounds: int, threads: int, seed: int = 0) -> Case:
    """Makes a case and writes it to `directory`.

    Args:
        size: of everything.
        directory: where to.
        data: directory of real ALFWorld games whose transcripts are trained on; None for generated ones.
        rounds: measured repetitions.
        threads: that every program may use.
        seed: of weights, prompts and mistakes.
    """
    world = AlfWorld(data or "generated")
    tasks = world.tasks("valid_unseen" if "valid_unseen" in world.splits else "test")[: size.tasks]
    wording = AlfWorldWording()
    texts = world_texts(world, wording, tasks, size.max_turns, show_admissible=False)
    tokenizer = build_tokenizer(texts, phrases=wording.phrases)
    prompter = Prompter(Chat(tokenizer), wording, "transcript", 0, False, UNCUT)
    starts = fresh_starts(world, prompter, tasks, rollouts=size.rollouts, max_turns=size.max_turns)
    trajectories = play(None, starts, temperature=1.0, seed=seed, concurrency=len(starts), actor=fallible(world, seed))
    rows = turn_rows(trajectories, size.vocabulary, seed)
    positions = max(len(row.context_ids) + len(row.response_ids) for row in rows)
    config = model_config(size, positions)
    graphdef, student = split(Qwen3(config, rngs=nnx.Rngs(seed)))
    _, teacher = split(Qwen3(config, rngs=nnx.Rngs(seed + 1)))
    few = build_tokenizer(["go to shelf 1"])  # peers want one; nothing is ever tokenised
    settings = {
        "pad": PAD,
        "rounds": rounds,
        "threads": threads,
        "sampling": {
            "new_tokens": size.new_tokens,
            "turn_tokens": size.turn_tokens,
            "capacity": size.longest + size.turns * (size.turn_tokens + size.shown[1]),
        },
        "learning": {
            "learning_rate": 1e-4, "max_grad_norm": 1.0, "clip": 0.2, "rollouts": size.rollouts,
            "micro_rows": list(size.micro_rows),
        },
        "size": asdict(size),
    }  # fmt: skip
    case = Case(config, graphdef, student, teacher, random_prompts(size, seed), rows, settings)
    for name, params in (("student", student), ("teacher", teacher)):
        huggingface.save(directory / name, config, params, few)
    np.savez(directory / "prompts.npz", **case.prompts)  # type: ignore[arg-type]
    np.savez(directory / "rows.npz", **transcript_arrays(rows, settings["pad"]))  # type: ignore[arg-type]
    (directory / "settings.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return case


def model_config(size: Size, positions: int) -> Qwen3Config:
    """Tied embeddings, and the rotary base of the published models, which Tunix takes for granted."""
    return Qwen3Config(
        size.vocabulary, size.hidden, size.intermediate, size.layers, size.heads, size.kv_heads, size.head_dim,
        rope_theta=1e6, rms_norm_eps=1e-6, tie_embeddings=True, max_positions=max(2048, positions),
    )  # fmt: skip


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


def transcript_arrays(rows: Sequence[Row], pad: int) -> dict[str, np.ndarray]:
    """Whole transcripts, as peers train on them: a prompt, and a completion of which the responses are trained.

    Args:
        rows: one for each turn; those of a trajectory follow one another, and each context continues the one before.
        pad: id of padding.

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
        "prompts": _padded(prompts, pad, left=True),
        "prompt_mask": _padded([np.ones(len(ids), bool) for ids in prompts], 0, left=True),
        "completions": _padded(completions, pad),
        "completion_mask": _padded([np.ones(len(ids), bool) for ids in completions], 0),
        "trained": _padded(trained, 0),
        "advantages": np.asarray([found[0].reward_advantage for found in each], np.float32),
    }


def random_prompts(size: Size, seed: int) -> dict[str, np.ndarray]:
    """Prompts of random ids and lengths, and what is shown between turns; see `Case`."""
    draw = np.random.default_rng(seed)

    def some(fewest: int, most: int) -> list[np.ndarray]:
        lengths = draw.integers(fewest, most, size.prompts, endpoint=True)
        return [draw.integers(RESERVED, size.vocabulary, length, dtype=np.int32) for length in lengths]

    first, later = some(size.shortest, size.longest), [some(*size.shown) for _ in range(size.turns - 1)]
    return {
        "tokens": _padded(first, 0),
        "lengths": np.asarray([len(ids) for ids in first]),
        "observations": np.stack([_padded(ids, 0, width=size.shown[1]) for ids in later]),
        "observation_lengths": np.asarray([[len(ids) for ids in shown] for shown in later]),
    }


def _padded(rows: Sequence[np.ndarray], value: int, *, left: bool = False, width: int = 0) -> np.ndarray:
    width = width or max(map(len, rows))
    sides = [(width - len(row), 0) if left else (0, width - len(row)) for row in rows]
    return np.stack([np.pad(row, side, constant_values=value) for row, side in zip(rows, sides, strict=True)])


def parameter_count(case: Case) -> int:
    """Parameters of the student."""
    return sum(x.size for x in jax.tree.leaves(case.student))
