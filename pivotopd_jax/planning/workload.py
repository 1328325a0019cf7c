"""How many tokens each stage of a step goes through, and the operations that this takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pivotopd_jax.methods import make_method
from pivotopd_jax.models.qwen3_config import Qwen3Config


@dataclass(frozen=True)
class Lengths:
    """Means that a plan assumes.

    Attributes:
        turns: of an episode.
        prompt: tokens of a turn's context.
        response: tokens.
        pivotal: pivotal turns of a failed or won episode, before `knobs.recovery_limit`.
    """

    turns: float
    prompt: float
    response: float
    pivotal: float = 1.0


@dataclass(frozen=True)
class Stage:
    """What a stage goes through in one step.

    Attributes:
        read: tokens of contexts that are read into the cache, or scored.
        written: tokens that are sampled one after another.
        trained: tokens of forward and backward passes.
        context: mean tokens that one of them attends to.
    """

    read: float = 0.0
    written: float = 0.0
    trained: float = 0.0
    context: float = 0.0


def stages(config: Any, lengths: Lengths) -> dict[str, Stage]:
    """The stages that run on the accelerator; a served teacher annotates elsewhere.

    A transcript is read once and grows by its turns; a windowed prompt is read anew in every turn.
    """
    method = make_method(config.method, config.knobs)
    episodes = config.tasks_per_step * config.rollouts
    turns = episodes * lengths.turns
    once = config.prompt.style == "transcript"
    contexts = (episodes if once else turns) * lengths.prompt
    spoken = turns * lengths.response
    context = lengths.prompt + lengths.response / 2
    found = {"collect": Stage(read=contexts, written=spoken, context=context)}
    pivots = min(config.knobs.recovery_limit, episodes * lengths.pivotal) if method.annotation else 0.0
    followed = pivots * method.extension.depth if method.extension else 0.0
    if followed:
        found["extend"] = Stage(followed * lengths.prompt, followed * lengths.response, context=context)
    tokens = contexts + spoken + followed * (lengths.prompt + lengths.response)
    hinted = (pivots + followed) * (lengths.prompt + lengths.response) if method.views else 0.0
    passes = 1 + bool(config.ppo.kl_coefficient)
    found["score"] = Stage(read=passes * tokens + hinted, context=context)
    found["update"] = Stage(trained=tokens, context=context)
    return found


def active_parameters(config: Qwen3Config) -> float:
    """Parameters of the matrices that a token passes through: all, or those of its experts; the head, no embedding."""
    heads = config.num_heads + 2 * config.num_kv_heads
    attention = config.hidden_size * config.head_dim * (heads + config.num_heads)
    dense = 3 * config.hidden_size * config.intermediate_size
    total = config.hidden_size * config.vocab_size
    for layer in range(config.num_layers):
        moe = config.moe if config.moe and config.moe.in_layer(layer) else None
        experts = 3 * config.hidden_size * moe.intermediate_size * moe.experts_per_token if moe else dense
        total += attention + experts + (config.hidden_size * moe.num_experts if moe else 0)
    return float(total)


def operations(config: Qwen3Config, stage: Stage, *, remat: bool) -> float:
    """Floating-point operations of a stage: two a parameter and token, and attention; thrice that for a training pass,
    four times if activations are made anew. The head counts for every token, though it is applied to responses only.
    """
    a_token = 2 * active_parameters(config)
    a_token += 4 * config.num_layers * config.num_heads * config.head_dim * stage.context
    return a_token * (stage.read + stage.written + (4 if remat else 3) * stage.trained)
