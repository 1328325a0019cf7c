"""Batched decoding with a cache of keys and values that outlives a turn.

Every slot of the cache remembers which tokens it holds; a request whose context starts with them pays only for the
rest. One jitted call appends the new tokens of all slots and decodes until every response has ended. The number of
compiled shapes is bounded: rows are a quarter of the slots or all, new and attended tokens are rounded up to powers of
two.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pivotopd_jax.models.qwen3 import Cache, Qwen3Config, apply, compute_logits, init_cache
from pivotopd_jax.sampling.policy import Request, Sample

PREFILL_ROWS = 8
"""Slots whose long prompts are read in one call; a few new episodes must not make all slots wait."""


def bucket(length: int, smallest: int) -> int:
    """The smallest power of two that is ≥ `length` and ≥ `smallest`."""
    return max(smallest, 1 << max(0, length - 1).bit_length())


def common_prefix(left: np.ndarray, right: np.ndarray) -> int:
    """Number of leading ids that two id arrays share."""
    shortest = min(len(left), len(right))
    differ = np.flatnonzero(left[:shortest] != right[:shortest])
    return int(differ[0]) if len(differ) else shortest


def _causal(positions: jax.Array, attend: int) -> jax.Array:
    return jnp.arange(attend)[None, None, :] <= positions[:, :, None]


@partial(jax.jit, static_argnames=("graphdef", "attend"), donate_argnames=("cache",))
def _prefill(graphdef, params, cache: Cache, rows, tokens, start, *, attend: int) -> Cache:
    """Reads `tokens [rows, length]` into the cache rows `rows`; a row index past the end is padding."""
    part = jax.tree.map(lambda c: c.at[rows, :attend].get(mode="clip"), cache)
    positions = start[:, None] + jnp.arange(tokens.shape[1])
    _, part = apply(graphdef, params, tokens, positions, _causal(positions, attend), part, start)
    return jax.tree.map(lambda c, p: c.at[rows, :attend].set(p, mode="drop"), cache, part)


def _draw(logits: jax.Array, seeds: jax.Array, index: jax.Array, temperature: jax.Array):
    """Samples a token a slot; returns it with its log-probability under the raw logits."""
    keys = jax.vmap(lambda s: jax.random.fold_in(jax.random.key(s), index))(seeds)
    noise = jax.vmap(lambda k: jax.random.gumbel(k, (logits.shape[-1],)))(keys)
    token = jnp.argmax(logits + temperature * noise, axis=-1).astype(jnp.int32)
    log_probs = jax.nn.log_softmax(logits)
    return token, jnp.take_along_axis(log_probs, token[:, None], axis=-1)[:, 0]


@partial(jax.jit, static_argnames=("graphdef", "attend", "max_new", "end_ids"), donate_argnames=("cache",))
def _turn(
    graphdef,
    params,
    cache: Cache,
    rows,
    tokens,
    lengths,
    start,
    seeds,
    temperature,
    *,
    attend: int,
    max_new: int,
    end_ids,
):
    """Appends `tokens [rows, length]` to the cache rows `rows` and decodes; `lengths == 0` marks a row of padding.

    Returns:
        (cache, response ids `[rows, max_new]`, log-probs `[rows, max_new]`, response lengths `[rows]`).
    """
    ends = jnp.asarray(end_ids, jnp.int32)
    part = jax.tree.map(lambda c: c.at[rows, :attend].get(mode="clip"), cache)
    positions = start[:, None] + jnp.arange(tokens.shape[1])
    hidden, part = apply(graphdef, params, tokens, positions, _causal(positions, attend), part, start)
    last = jnp.take_along_axis(hidden, jnp.maximum(lengths - 1, 0)[:, None, None], axis=1)[:, 0]
    token, log_prob = _draw(compute_logits(graphdef, params, last), seeds, jnp.int32(0), temperature)
    done = (lengths == 0) | jnp.isin(token, ends)
    ids = jnp.zeros((len(rows), max_new), jnp.int32).at[:, 0].set(token)
    log_probs = jnp.zeros((len(rows), max_new), jnp.float32).at[:, 0].set(log_prob)

    def unfinished(state):
        index, _, done, *_ = state
        return (index < max_new) & ~jnp.all(done)

    def decode(state):
        index, token, done, ids, log_probs, count, part = state
        # A finished row rewrites its last token in place, which changes nothing that is ever attended to.
        at = start + lengths + count - 1
        mask = _causal(at[:, None], attend)
        hidden, part = apply(graphdef, params, token[:, None], at[:, None], mask, part, at)
        drawn, log_prob = _draw(compute_logits(graphdef, params, hidden[:, 0]), seeds, index, temperature)
        token = jnp.where(done, token, drawn)
        ids = ids.at[:, index].set(jnp.where(done, 0, token))
        log_probs = log_probs.at[:, index].set(jnp.where(done, 0.0, log_prob))
        return index + 1, token, done | jnp.isin(token, ends), ids, log_probs, count + ~done, part

    first = (jnp.int32(1), token, done, ids, log_probs, jnp.ones_like(lengths), part)
    _, _, _, ids, log_probs, count, part = jax.lax.while_loop(unfinished, decode, first)
    cache = jax.tree.map(lambda c, p: c.at[rows, :attend].set(p, mode="drop"), cache, part)
    return cache, ids, log_probs, count


class Sampler:
    """An in-process JAX policy with `slots` cache rows of `capacity` tokens.

    Attributes:
        params: weights it samples from; set them with `load`, which forgets everything cached under the old ones.
    """

    def __init__(
        self,
        config: Qwen3Config,
        graphdef: Any,
        params: Any,
        *,
        slots: int,
        capacity: int,
        max_new: int,
        end_ids: Sequence[int],
        chunk: int = 64,
        dtype: Any = jnp.float32,
    ):
        self.config, self.graphdef, self.params, self.dtype = config, graphdef, params, dtype
        self.slots, self.max_new, self.chunk = slots, max_new, chunk
        self.capacity = bucket(capacity + max_new + chunk, 128)
        self.end_ids = tuple(sorted(int(i) for i in end_ids))
        self._cache = init_cache(config, slots, self.capacity, dtype)
        self._held: list[np.ndarray] = []
        self._slot_of: dict[Hashable, int] = {}
        self._forget()

    def resized(self, *, slots: int, capacity: int, max_new: int) -> Sampler:
        """Another sampler of the same model, with a cache of its own."""
        return Sampler(
            self.config, self.graphdef, self.params, slots=slots, capacity=capacity, max_new=max_new,
            end_ids=self.end_ids, chunk=self.chunk, dtype=self.dtype,
        )  # fmt: skip

    def load(self, params: Any) -> None:
        """Samples from `params` from now on."""
        self.params = params
        self._forget()

    def _forget(self) -> None:
        self._held = [np.zeros(0, np.int32)] * self.slots
        self._slot_of = {}

    def sample(self, requests: Sequence[Request], *, temperature: float) -> list[Sample]:
        """See `sampling.policy.Policy.sample`."""
        room = self.capacity - self.max_new - self.chunk
        for request in requests:
            if not 0 < len(request.context_ids) <= room:
                raise ValueError(
                    f"a context of {len(request.context_ids)} tokens; expected 1 to {room}: raise prompt_tokens"
                )
        waves = [requests[i : i + self.slots] for i in range(0, len(requests), self.slots)]
        return [sample for wave in waves for sample in self._wave(wave, temperature)]

    def _wave(self, requests: Sequence[Request], temperature: float) -> list[Sample]:
        slots = self._assign([request.session for request in requests])
        contexts = {slot: np.asarray(r.context_ids, np.int32) for slot, r in zip(slots, requests, strict=True)}
        # The last token is always read anew: its hidden state gives the first logits.
        start = {s: min(common_prefix(self._held[s], ids), len(ids) - 1) for s, ids in contexts.items()}
        self._read_long_prompts(contexts, start)
        seeds = {slot: request.seed for slot, request in zip(slots, requests, strict=True)}
        return self._decode(contexts, start, seeds, temperature)

    def _assign(self, sessions: Sequence[Hashable]) -> list[int]:
        known = {s: self._slot_of.pop(s) for s in sessions if s in self._slot_of}
        # dict order is age: the sessions not asked for now give up their slots, oldest first.
        used = set(known.values())
        stale = set(self._slot_of.values())
        free = [s for s in range(self.slots) if s not in used and s not in stale]
        free += [s for s in self._slot_of.values() if s not in used]
        fresh = iter(free)
        assigned = [known[s] if s in known else next(fresh) for s in sessions]
        taken = set(assigned)
        self._slot_of = {s: slot for s, slot in self._slot_of.items() if slot not in taken}
        self._slot_of.update(zip(sessions, assigned, strict=True))
        return assigned

    def _read_long_prompts(self, contexts: dict[int, np.ndarray], start: dict[int, int]) -> None:
        """Reads all but the last `chunk` tokens of contexts with more new tokens than that; advances `start`."""
        while long := [s for s in contexts if len(contexts[s]) - start[s] > self.chunk][:PREFILL_ROWS]:
            upto = {s: min(len(contexts[s]) - 1, start[s] + 4 * self.chunk) for s in long}
            width = bucket(max(upto[s] - start[s] for s in long), self.chunk)
            rows = np.full(PREFILL_ROWS, self.slots, np.int32)
            tokens = np.zeros((PREFILL_ROWS, width), np.int32)
            starts = np.zeros(PREFILL_ROWS, np.int32)
            for i, s in enumerate(long):
                new = contexts[s][start[s] : upto[s]]
                rows[i], starts[i], tokens[i, : len(new)] = s, start[s], new
            attend = min(self.capacity, bucket(int(starts.max()) + width, 128))
            self._cache = _prefill(self.graphdef, self.params, self._cache, rows, tokens, starts, attend=attend)
            start.update(upto)

    def _decode(self, contexts, start, seeds, temperature: float) -> list[Sample]:
        slots = list(contexts)
        # The last episodes of a rollout do not pay for finished ones.
        few = -(-self.slots // 4)
        count = few if len(slots) <= few else self.slots
        new = max(len(contexts[s]) - start[s] for s in slots)
        width = min(self.chunk, bucket(new, min(32, self.chunk)))
        rows = np.full(count, self.slots, np.int32)
        tokens = np.zeros((count, width), np.int32)
        lengths, starts, seed = np.zeros(count, np.int32), np.zeros(count, np.int32), np.zeros(count, np.uint32)
        for i, s in enumerate(slots):
            new = contexts[s][start[s] :]
            tokens[i, : len(new)] = new
            rows[i], lengths[i], starts[i], seed[i] = s, len(new), start[s], seeds[s] & 0xFFFFFFFF
        attend = min(self.capacity, bucket(int(starts.max()) + width + self.max_new, 128))
        self._cache, ids, log_probs, counts = _turn(
            self.graphdef, self.params, self._cache, rows, tokens, lengths, starts, seed, np.float32(temperature),
            attend=attend, max_new=self.max_new, end_ids=self.end_ids,
        )  # fmt: skip
        ids, log_probs, counts = jax.device_get((ids, log_probs, counts))
        said = [(ids[i, : counts[i]].copy(), log_probs[i, : counts[i]].copy()) for i in range(len(slots))]
        for s, (response, _) in zip(slots, said, strict=True):
            # The last sampled token has not been read into the cache yet.
            self._held[s] = np.concatenate([contexts[s], response[:-1]])
        return [Sample(response, logs, int(response[-1]) in self.end_ids) for response, logs in said]
