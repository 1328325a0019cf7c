"""Sizes of the published Qwen3 models, by hub id, for planning without a download (their config.json files)."""

from __future__ import annotations

from pathlib import Path

from pivotopd_jax.files import parse_json
from pivotopd_jax.models.qwen3_config import MoeConfig, Qwen3Config


def _qwen3(hidden: int, intermediate: int, layers: int, heads: int, kv_heads: int, *, tied: bool = False, moe=None):
    return Qwen3Config(
        151936, hidden, intermediate, layers, heads, kv_heads, 128, 1e6, 1e-6, tied, max_positions=40960, moe=moe
    )


PUBLISHED = {
    "Qwen/Qwen3-0.6B": _qwen3(1024, 3072, 28, 16, 8, tied=True),
    "Qwen/Qwen3-1.7B": _qwen3(2048, 6144, 28, 16, 8, tied=True),
    "Qwen/Qwen3-4B": _qwen3(2560, 9728, 36, 32, 8, tied=True),
    "Qwen/Qwen3-8B": _qwen3(4096, 12288, 36, 32, 8),
    "Qwen/Qwen3-14B": _qwen3(5120, 17408, 40, 40, 8),
    "Qwen/Qwen3-32B": _qwen3(5120, 25600, 64, 64, 8),
    "Qwen/Qwen3-30B-A3B": _qwen3(2048, 6144, 48, 32, 4, moe=MoeConfig(128, 8, 768, norm_topk_prob=True)),
}


def known_config(student: str) -> Qwen3Config:
    """The sizes of a student: a published one's, or those of a HuggingFace directory.

    Raises:
        ValueError: it is neither; says what is known.
    """
    if student in PUBLISHED:
        return PUBLISHED[student]
    path = Path(student) / "config.json"
    if not path.is_file():
        raise ValueError(
            f"no sizes are known of student {student!r}; expected a directory with a config.json, or one of "
            f"{', '.join(PUBLISHED)}"
        )
    try:
        return Qwen3Config.from_dict(parse_json(path.read_bytes()))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
