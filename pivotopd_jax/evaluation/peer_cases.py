"""What we and our peers are measured on: weights as HuggingFace directories, prompts and rows as padded arrays.

All lies in one directory, so that programs which know nothing of this project can read it: `student/`, `teacher/`,
`prompts.npz`, `rows.npz` and `settings.json`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx

from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.evaluation.peer_data import PAD, random_prompts, transcript_arrays, transcripts, turn_rows
from pivotopd_jax.models import huggingface
from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.models.qwen3 import Qwen3, Qwen3Config, split
from pivotopd_jax.records import Row


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
        prompts: from `random_prompts`, as in prompts.npz.
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
    trajectories = transcripts(world, size.tasks, size.rollouts, size.max_turns, seed)
    rows = turn_rows(trajectories, size.vocabulary, seed)
    config = model_config(size, max(len(row.context_ids) + len(row.response_ids) for row in rows))
    graphdef, student = split(Qwen3(config, rngs=nnx.Rngs(seed)))
    _, teacher = split(Qwen3(config, rngs=nnx.Rngs(seed + 1)))
    lengths = (size.shortest, size.longest)
    prompts = random_prompts(size.prompts, size.vocabulary, lengths, size.turns, size.shown, seed)
    case = Case(config, graphdef, student, teacher, prompts, rows, make_settings(size, rounds, threads))
    write_case(case, directory)
    return case


def make_settings(size: Size, rounds: int, threads: int) -> dict[str, Any]:
    """What peers are told: capacity is the tokens that a multi-turn context can come to."""
    return {
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


def write_case(case: Case, directory: Path) -> None:
    """Writes what peers read."""
    tokenizer = build_tokenizer(["go to shelf 1"])  # peers want one; nothing is ever tokenised
    for name, params in (("student", case.student), ("teacher", case.teacher)):
        huggingface.save(directory / name, case.config, params, tokenizer)
    np.savez(directory / "prompts.npz", **case.prompts)  # type: ignore[arg-type]
    np.savez(directory / "rows.npz", **transcript_arrays(case.rows))  # type: ignore[arg-type]
    (directory / "settings.json").write_text(json.dumps(case.settings, indent=2) + "\n", encoding="utf-8")


def model_config(size: Size, positions: int) -> Qwen3Config:
    """Tied embeddings, and the rotary base of the published models, which Tunix takes for granted."""
    return Qwen3Config(
        size.vocabulary, size.hidden, size.intermediate, size.layers, size.heads, size.kv_heads, size.head_dim,
        rope_theta=1e6, rms_norm_eps=1e-6, tie_embeddings=True, max_positions=max(2048, positions),
    )  # fmt: skip


def parameter_count(case: Case) -> int:
    """Parameters of the student."""
    return sum(x.size for x in jax.tree.leaves(case.student))
