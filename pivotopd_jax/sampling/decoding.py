"""The device's part of sampling: reads tokens into a cache of keys and values, and decodes from it.

On a mesh the rows of the cache are spread over the axis "fsdp" in equal parts, and its heads over "tensor". A function
that works on some rows takes equally many of each part, named by their place within it: no row ever leaves its device.
A row number past the end is padding: what is read for it is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pivotopd_jax.models.qwen3 import Cache, KeyValue, Qwen3Config, apply, capacity_of, compute_logits, init_cache

BY_ROWS = PartitionSpec("fsdp")


@dataclass(frozen=True, eq=False)
class Structure:
    """What a compiled function has to know of a model besides its arrays.

    Compared by identity: to compare graphdefs, and to sort the keys of parameters, takes a good part of a short call.
    """

    graphdef: Any
    tree: Any

    def params(self, leaves: Sequence[jax.Array]) -> Any:
        """The parameters of these arrays."""
        return jax.tree.unflatten(self.tree, leaves)


_structure = cache(Structure)


def taken_apart(graphdef: Any, params: Any) -> tuple[Structure, list[jax.Array]]:
    """The structure of a model, one and the same for equal ones, and its arrays."""
    leaves, tree = jax.tree.flatten(params)
    return _structure(graphdef, tree), leaves


class Rows(NamedTuple):
    """What decoding has to know of every row, each `[rows]`.

    Attributes:
        token: int32, the last token, not yet in the cache.
        at: int32, its position; what lies there and beyond is free to be overwritten.
        made: int32, tokens that the response has so far.
        live: bool, whether a response is wanted.
        seed: uint32, fixes it.
        temperature, top_p: float32.
    """

    token: Any
    at: Any
    made: Any
    live: Any
    seed: Any
    temperature: Any
    top_p: Any


def empty_rows(rows: int) -> Rows:
    """Rows of which none is live, on the host."""
    kinds = (np.int32, np.int32, np.int32, np.bool_, np.uint32, np.float32, np.float32)
    return Rows(*(np.zeros(rows, kind) for kind in kinds))


def parts_of(mesh: Mesh | None) -> int:
    """Into how many parts the rows are cut."""
    return 1 if mesh is None else mesh.shape["fsdp"]


def make_cache(config: Qwen3Config, rows: int, length: int, dtype: Any, mesh: Mesh | None) -> Cache:
    """An empty cache of `length` tokens a row, where it belongs; heads that do not divide are whole on every device."""
    if mesh is None:
        return init_cache(config, rows, length, dtype)
    return jax.jit(partial(init_cache, config, rows, length, dtype), out_shardings=_place(config.num_kv_heads, mesh))()


def _place(heads: int, mesh: Mesh) -> NamedSharding:
    tensor = "tensor" if heads % mesh.shape["tensor"] == 0 else None
    return NamedSharding(mesh, PartitionSpec("fsdp", tensor))


def _placed(cache: Any, mesh: Mesh | None) -> Cache:
    if mesh is None:
        return cache
    return jax.lax.with_sharding_constraint(cache, _place(cache[0][0].shape[1], mesh))


def _spread(tree: Any, mesh: Mesh | None) -> Any:
    return tree if mesh is None else jax.lax.with_sharding_constraint(tree, NamedSharding(mesh, BY_ROWS))


def _by_parts(function: Any, mesh: Mesh | None) -> Any:
    """`function` of arrays whose rows are named by their place within a part, applied to each part."""
    if mesh is None:
        return function
    return jax.shard_map(function, mesh=mesh, in_specs=BY_ROWS, out_specs=BY_ROWS, axis_names={"fsdp"})


def _read(cache: Cache, rows: jax.Array, mesh: Mesh | None, keys: int | None = None) -> Cache:
    """The first `keys` tokens of these rows."""

    def take(pair: KeyValue, rows: jax.Array) -> KeyValue:
        return pair[0][..., :keys].at[rows].get(mode="clip"), pair[1][:, :, :keys].at[rows].get(mode="clip")

    return tuple(_by_parts(take, mesh)(pair, rows) for pair in cache)


def _write(cache: Cache, rows: jax.Array, part: Cache, mesh: Mesh | None) -> Cache:
    """Lets these rows begin with `part`."""
    keys = capacity_of(part)

    def put(pair: KeyValue, rows: jax.Array, new: KeyValue) -> KeyValue:
        key, value = pair[0].at[rows, :, :, :keys], pair[1].at[rows, :, :keys]
        return key.set(new[0], mode="drop"), value.set(new[1], mode="drop")

    put_each = _by_parts(put, mesh)
    return _placed(tuple(put_each(pair, rows, new) for pair, new in zip(cache, part, strict=True)), mesh)


def _forward(model: Structure, leaves, part: Cache, tokens, start) -> tuple[jax.Array, Cache]:
    """Hidden states of `tokens [rows, length]` at positions `start [rows]` and following, and what is cached then."""
    positions = start[:, None] + jnp.arange(tokens.shape[1])
    mask = jnp.arange(capacity_of(part))[None, None, :] <= positions[:, :, None]
    hidden, written = apply(model.graphdef, model.params(leaves), tokens, positions, mask, part, start)
    assert written is not None
    return hidden, written


@partial(jax.jit, static_argnames=("model", "keys", "mesh"), donate_argnames=("cache",))
def fill(model: Structure, leaves, cache: Cache, rows, tokens, start, *, keys: int, mesh: Mesh | None = None) -> Cache:
    """Reads `tokens [rows, length]` into the first `keys` tokens of the rows `rows`, from positions `start [rows]` on.

    What lies past `keys` is thrown away.
    """
    tokens, start = _spread((tokens, start), mesh)
    part = _read(cache, rows, mesh, keys)
    return _write(cache, rows, _forward(model, leaves, part, tokens, start)[1], mesh)


@partial(jax.jit, static_argnames=("mesh",), donate_argnames=("cache",))
def copy(cache: Cache, sources, rows, *, mesh: Mesh | None = None) -> Cache:
    """Lets the rows `rows` hold what the rows `sources`, each of the same part, hold."""
    return _write(cache, rows, _read(cache, sources, mesh), mesh)


@partial(jax.jit, static_argnames=("axis", "length", "mesh"))
def _longer(array: jax.Array, *, axis: int, length: int, mesh: Mesh | None) -> jax.Array:
    widths = [(0, length - array.shape[axis] if at == axis else 0) for at in range(array.ndim)]
    longer = jnp.pad(array, widths)
    return longer if mesh is None else jax.lax.with_sharding_constraint(longer, _place(array.shape[1], mesh))


def grown(cache: Cache, length: int, mesh: Mesh | None) -> Cache:
    """`cache` with room for `length` tokens a row. Uses it up: never more than one array is there twice."""
    layers = []
    for pair in cache:
        longer = []
        for array, axis in zip(pair, (3, 2), strict=True):
            longer.append(_longer(array, axis=axis, length=length, mesh=mesh))
            array.delete()
        layers.append(tuple(longer))
    return tuple(layers)


def draw(logits: jax.Array, rows: Rows, *, nucleus: bool) -> tuple[jax.Array, jax.Array]:
    """A token of each row and its log-probability under the raw logits; both `[rows]`.

    Args:
        logits: `[rows, vocabulary]` float32.
        rows: seeds and lengths so far fix the draw.
        nucleus: whether `rows.top_p` is looked at; it takes sorting the vocabulary.
    """
    keys = jax.vmap(lambda seed, made: jax.random.fold_in(jax.random.key(seed), made))(rows.seed, rows.made)
    noise = jax.vmap(lambda key: jax.random.gumbel(key, logits.shape[-1:]))(keys)
    # The greatest of logits / temperature + noise is a sample (Gumbel's trick); so it is times the temperature.
    score = logits + rows.temperature[:, None] * noise
    if nucleus:
        score = jnp.where(in_nucleus(logits, rows.temperature, rows.top_p), score, -jnp.inf)
    token = _greatest(score)
    log_probs = jax.nn.log_softmax(logits)
    return token, jnp.take_along_axis(log_probs, token[:, None], axis=-1)[:, 0]


def _greatest(score: jax.Array) -> jax.Array:
    """The first of the greatest of each row, `[rows]` int32: argmax, which takes XLA several times as long on a CPU."""
    size = score.shape[-1]
    is_greatest = score == jnp.max(score, axis=-1, keepdims=True)
    return jnp.min(jnp.where(is_greatest, jnp.arange(size, dtype=jnp.int32), size - 1), axis=-1)


def in_nucleus(logits: jax.Array, temperature: jax.Array, top_p: jax.Array) -> jax.Array:
    """Whether each token is of the nucleus, `[rows, vocabulary]` bool; of equally likely ones the lower ids come first.

    That is whether the tokens before it, the likeliest first, are less than `top_p` of the distribution.
    """
    order = jnp.argsort(-logits, axis=-1, stable=True)
    above = logits - jnp.max(logits, axis=-1, keepdims=True)
    # At temperature 0 all but the likeliest are sent to where their probability is 0.
    probs = jax.nn.softmax(above / jnp.maximum(temperature, 1e-6)[:, None], axis=-1)
    ranked = jnp.take_along_axis(probs, order, axis=-1)
    before = jnp.cumsum(ranked, axis=-1) - ranked
    kept = jnp.take_along_axis(before < top_p[:, None], jnp.argsort(order, axis=-1), axis=-1)
    # The sum of all may be 1 before the last token, by rounding; without a nucleus that token counts, too.
    return kept | (top_p[:, None] >= 1)


@partial(
    jax.jit,
    static_argnames=("model", "block", "max_new", "end_ids", "nucleus", "mesh"),
    donate_argnames=("cache",),
)
def decode(
    model: Structure, leaves, cache: Cache, places, rows: Rows, steps, enough, *, block: int, max_new: int,
    end_ids: tuple[int, ...], nucleus: bool, mesh: Mesh | None = None,
):  # fmt: skip
    """Decodes the live ones of `rows` until `steps` tokens are done, or `enough` responses (or all) have ended.

    Args:
        model, leaves: from `taken_apart`.
        cache: used up.
        places: `[rows]` int32, the cache rows that these are; None if they are all, which saves taking them out.
        rows: of the responses.
        steps: at most `block`.
        enough: ended responses that are worth a pause.
        block: greatest number of tokens a row.
        max_new: length at which a response is cut.
        end_ids: tokens that end one.
        nucleus: as in `draw`.
        mesh: on which the cache lies.

    Returns:
        (cache, ids `[rows, block]`, log-probs `[rows, block]`, how many of them each row has made `[rows]`).
    """
    rows = _spread(rows, mesh)
    ends = jnp.asarray(end_ids, jnp.int32)
    part = cache if places is None else _read(cache, places, mesh)
    wanted = jnp.sum(rows.live)

    def unfinished(state):
        step, rows, *_ = state
        live = jnp.sum(rows.live)
        return (step < steps) & (live > 0) & (wanted - live < enough)

    def advance(state):
        step, rows, ids, log_probs, part = state
        hidden, part = _forward(model, leaves, part, rows.token[:, None], rows.at)
        drawn, log_prob = draw(
            compute_logits(model.graphdef, model.params(leaves), hidden[:, 0]), rows, nucleus=nucleus
        )
        ids = ids.at[:, step].set(jnp.where(rows.live, drawn, 0))
        log_probs = log_probs.at[:, step].set(jnp.where(rows.live, log_prob, 0.0))
        made = rows.made + rows.live
        going = rows.live & ~jnp.isin(drawn, ends) & (made < max_new)
        # Any other row reads its token again in place, which changes nothing that is ever attended to.
        token = jnp.where(going, drawn, rows.token)
        rows = rows._replace(token=token, at=rows.at + going, made=made, live=going)
        return step + 1, rows, ids, log_probs, part

    shape = (rows.token.shape[0], block)
    blank = _spread((jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32)), mesh)
    _, after, ids, log_probs, part = jax.lax.while_loop(unfinished, advance, (jnp.int32(0), rows, *blank, part))
    cache = _placed(part, mesh) if places is None else _write(cache, places, part, mesh)
    return cache, ids, log_probs, after.made - rows.made
