"""A tiny student that speaks the corridor's language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from flax import nnx
from toy_world import CorridorWording, CorridorWorld

from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.models.qwen3 import Qwen3, Qwen3Config, split
from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.prompts.hints import HINT_CLOSING, HINT_OPENING
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.sampling.engine import Sampler
from pivotopd_jax.sampling.policy import Request, Sample, SampledStream

TEXTS = [
    f"Grab the prize. You are in cell {cell}. The prize is here.\nChoose: grab, left, right<action>{action}</action>"
    "Nothing happens. You have the prize."
    for cell in range(4)
    for action in ("grab", "left", "right")
]


@dataclass
class Toy:
    world: CorridorWorld
    prompter: Prompter
    config: Qwen3Config
    graphdef: Any
    params: Any

    def sampler(self, slots: int = 8) -> Sampler:
        ends = sorted(self.prompter.chat.end_ids)
        return Sampler(
            self.config, self.graphdef, self.params, slots=slots, capacity=240, max_new=8, end_ids=ends, chunk=32
        )


class Scripted:
    """A policy that says what it is told, in order, and remembers what it was asked."""

    def __init__(self, chat: Chat, responses: list[str]):
        self.chat, self.responses, self.asked = chat, responses, []

    def stream(self, *, temperature: float, top_p: float = 1.0) -> SampledStream:
        return SampledStream(self, temperature, top_p)

    def sample(self, requests: Sequence[Request], *, temperature: float, top_p: float = 1.0) -> list[Sample]:
        samples = []
        for request in requests:
            self.asked.append(request)
            ids = self.chat.encode(self.responses.pop(0) + self.chat.template.end)
            samples.append(Sample(ids, 0.0 * ids.astype("float32"), True))
        return samples


def make_toy(style: str = "transcript") -> Toy:
    tokenizer = build_tokenizer(TEXTS, phrases=(HINT_OPENING, HINT_CLOSING))
    prompter = Prompter(Chat(tokenizer), CorridorWording(), style, 3, True, 240)  # type: ignore[arg-type]
    config = Qwen3Config(len(tokenizer), 16, 32, 2, 2, 1, 8, 1e4, 1e-6, True, 512)
    graphdef, params = split(Qwen3(config, rngs=nnx.Rngs(0)))
    return Toy(CorridorWorld(), prompter, config, graphdef, jax.tree.map(lambda x: 4 * x if x.ndim == 2 else x, params))
