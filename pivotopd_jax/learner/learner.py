"""The train state and its two jitted, sharded functions: score tokens, and one optimizer step.

Rows of a batch are spread over the mesh axes "fsdp" and "expert"; parameters and optimizer state lie as models/qwen3.py
says. What is trained may be a part of the parameters, with the rest frozen (models/lora.py). Batches are cut into
micro-batches of a fixed number of tokens; since every token carries its own share of the loss, the cut changes neither
loss nor gradient. Of many processes each gives rows of its own, as many as it has; scores of them come back to it, and
loss and gradient are those of the rows of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from itertools import zip_longest
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jax.typing import DTypeLike

from pivotopd_jax.learner.objective import (
    PPO,
    UpdateOptions,
    divergence_loss,
    policy_objective,
    response_hidden,
    token_log_probs,
)
from pivotopd_jax.learner.placing import own_rows, processes_of, row_parts
from pivotopd_jax.models.head import LOGITS_AT_ONCE, Greatest
from pivotopd_jax.models.qwen3 import shardings
from pivotopd_jax.models.row_axes import ROW_AXES
from pivotopd_jax.processes import gather
from pivotopd_jax.records import DivergenceBatch, TokenBatch
from pivotopd_jax.rollout.packing import Packed


class NonFiniteUpdates(RuntimeError):
    """Too many updates in a row had a loss or a gradient that is not finite."""


class TrainState(NamedTuple):
    """What a step changes.

    Attributes:
        params: weights of the student that are trained.
        opt_state: of the optax optimizer.
        step: int32 scalar, optimizer steps taken.
    """

    params: Any
    opt_state: Any
    step: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class DivergenceTerm:
    """A full-vocabulary term of the loss.

    Attributes:
        batch: responses with the teacher's hidden states.
        graphdef, teacher: structure and all parameters of the teacher that made them.
        function: (teacher's logits, student's logits) `[..., vocabulary]` → nats `[...]`.
    """

    batch: DivergenceBatch
    graphdef: Any = field(metadata={"static": True})
    teacher: Any
    function: Callable[[Any, Any], Any] = field(metadata={"static": True})


def make_mesh(fsdp: int = 1, tensor: int = 1, expert: int = 1) -> Mesh:
    """A mesh with axes "fsdp", "tensor" and "expert"; more than one device of the last are for models with experts.

    Raises:
        ValueError: there are not `fsdp × tensor × expert` devices, or one of them is less than 1.
    """
    shape = (fsdp, tensor, expert)
    if min(shape) < 1 or math.prod(shape) > jax.device_count():
        asked = " × ".join(map(str, shape))
        raise ValueError(f"a mesh of {asked} devices was asked for; this machine has {jax.device_count()}")
    devices = jax.devices()[: math.prod(shape)]
    return jax.make_mesh(shape, ("fsdp", "tensor", "expert"), axis_types=(AxisType.Auto,) * 3, devices=devices)


def make_optimizer(
    learning_rate: float,
    *,
    warmup_steps: int,
    max_grad_norm: float,
    decay_until: int = 0,
    weight_decay: float = 0.0,
    epsilon: float = 1e-8,
) -> optax.GradientTransformation:
    """AdamW behind a global gradient-norm clip.

    The rate rises linearly for `warmup_steps` optimizer steps; then it is constant, or falls linearly to 0 at optimizer
    step `decay_until` if that is not 0.
    """
    schedule = optax.linear_schedule(learning_rate / max(warmup_steps, 1), learning_rate, max(warmup_steps - 1, 1))
    if decay_until:
        falling = optax.linear_schedule(learning_rate, 0.0, max(decay_until - warmup_steps, 1))
        schedule = optax.join_schedules([schedule, falling], [warmup_steps])
    return optax.chain(
        optax.clip_by_global_norm(max_grad_norm),
        optax.adamw(schedule, eps=epsilon, weight_decay=weight_decay),
    )


def cast(params: Any, dtype: DTypeLike) -> Any:
    """`params` in `dtype`; those that are in it already are not copied."""
    return jax.tree.map(lambda x: x.astype(dtype), params)


def _copied(params: Any, dtype: DTypeLike) -> Any:
    return jax.tree.map(lambda x: jnp.array(x, dtype, copy=True), params)


class Computation(NamedTuple):
    """How a forward or backward pass is computed.

    Attributes:
        dtype: of parameters and activations.
        remat: recompute each layer in the backward pass, as in `Qwen3.__call__`.
        at_once: logits held at a time, on all devices together.
    """

    dtype: Any
    remat: bool
    at_once: int


def _whole(params: Any, base: nnx.State, how: Computation) -> nnx.State:
    """All parameters, those that are trained in the dtype of computation."""
    return nnx.merge_state(cast(params, how.dtype), base)


@partial(jax.jit, static_argnames=("graphdef", "how"))
def _score(graphdef, params, base, batch, places, how: Computation) -> jax.Array:
    whole = _whole(params, base, how)
    return token_log_probs(graphdef, whole, batch, places, remat=how.remat, at_once=how.at_once)


@partial(jax.jit, static_argnames=("graphdef", "options", "how", "on_policy"), donate_argnames=("gradient",))
def _accumulate(
    graphdef, params, base, gradient, batch: TokenBatch, places, options: UpdateOptions, how: Computation, on_policy
):
    def loss(params):
        whole = _whole(params, base, how)
        return policy_objective(
            graphdef, whole, batch, places, options, on_policy=on_policy, remat=how.remat, at_once=how.at_once
        )

    (value, sums), new = jax.value_and_grad(loss, has_aux=True)(params)
    return jax.tree.map(jnp.add, gradient, new), {"loss": value, **sums}


@partial(jax.jit, static_argnames=("graphdef", "how"))
def _hidden(graphdef, params, base, batch, places, how: Computation) -> jax.Array:
    rows = jnp.arange(len(places))[:, None]
    found = response_hidden(graphdef, _whole(params, base, how), batch, places, remat=how.remat)
    return jnp.zeros((*batch.tokens.shape, found.shape[-1]), found.dtype).at[rows, places].set(found, mode="drop")


def _term(graphdef, params, base, term: DivergenceTerm, places, how: Computation) -> jax.Array:
    """The value of a full-vocabulary term whose batch is a micro-batch."""
    return divergence_loss(
        graphdef, _whole(params, base, how), term.graphdef, term.teacher, term.batch, places, term.function,
        remat=how.remat, at_once=how.at_once,
    )  # fmt: skip


@partial(jax.jit, static_argnames=("graphdef", "how"), donate_argnames=("gradient",))
def _accumulate_divergence(graphdef, params, base, gradient, term: DivergenceTerm, places, how: Computation):
    value, new = jax.value_and_grad(lambda p: _term(graphdef, p, base, term, places, how))(params)
    return jax.tree.map(jnp.add, gradient, new), value


@partial(jax.jit, static_argnames=("graphdef", "how"))
def _divergence(graphdef, params, base, term: DivergenceTerm, places, how: Computation) -> jax.Array:
    return _term(graphdef, params, base, term, places, how)


@partial(jax.jit, static_argnames=("optimizer", "where"), donate_argnames=("state",))
def _apply_gradient(optimizer, state: TrainState, gradient, loss, where):
    """The state after one step, or the same one if loss or gradient is not finite; the norm, and whether it is so."""
    norm = optax.tree.norm(gradient)
    finite = jnp.isfinite(norm) & jnp.isfinite(loss)
    updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
    moved = TrainState(optax.apply_updates(state.params, updates), opt_state, state.step + 1)
    state = jax.tree.map(lambda new, old: jnp.where(finite, new, old), moved, state)
    leaves, tree = jax.tree.flatten(state)
    return jax.tree.unflatten(tree, map(jax.lax.with_sharding_constraint, leaves, where)), norm, ~finite


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _on_mesh(
    method: Callable[Concatenate[Learner, Arguments], Result],
) -> Callable[Concatenate[Learner, Arguments], Result]:
    """`method` within `jax.set_mesh`, where experts look for the mesh to exchange tokens on."""

    @wraps(method)
    def called(self: Learner, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with jax.set_mesh(self.mesh):
            return method(self, *args, **kwargs)

    return called


class Learner:
    """Holds what never changes during a run: structure, optimizer, mesh, micro-batch size.

    Attributes:
        graphdef: structure of the student.
        optimizer: optax transformation.
        mesh: axes "fsdp", "tensor" and "expert".
        base: parameters that are not trained. All functions take only the others as `params`.
        micro_batch_tokens: tokens (padding included) of one forward and backward pass.
        how: dtype of computation, rematerialisation and logits held at a time. The parameters of a train state, their
            gradients and the optimizer's moments are float32 all the same: the small steps of RL would be lost in the
            rounding of bfloat16.
    """

    def __init__(
        self,
        graphdef: Any,
        optimizer: optax.GradientTransformation,
        mesh: Mesh,
        *,
        micro_batch_tokens: int,
        base: nnx.State | None = None,
        options: UpdateOptions = PPO,
        remat: bool = False,
        logits_at_once: int = LOGITS_AT_ONCE,
        dtype: DTypeLike = jnp.float32,
    ):
        """`logits_at_once` is of one device here; a mesh holds as many times more."""
        self.graphdef, self.optimizer, self.mesh = graphdef, optimizer, mesh
        self.base = nnx.State({}) if base is None else base
        self.micro_batch_tokens, self.options = micro_batch_tokens, options
        self.how = Computation(jnp.dtype(dtype), remat, logits_at_once * mesh.size)
        self._rows = NamedSharding(mesh, PartitionSpec(ROW_AXES))
        self._whole = NamedSharding(mesh, PartitionSpec())
        self._processes = processes_of(mesh)

    def init(self, params: Any) -> TrainState:
        """A train state on the mesh, float32; `params` are copied, so the caller may keep them as reference."""
        where = self._where(params, jax.eval_shape(self.optimizer.init, params))
        params = jax.jit(partial(_copied, dtype=jnp.float32), out_shardings=where.params)(params)
        # Left to itself, jit may put an optimizer's moments on one device.
        opt_state = jax.jit(self.optimizer.init, out_shardings=where.opt_state)(params)
        return TrainState(params, opt_state, jax.jit(lambda: jnp.int32(0), out_shardings=self._whole)())

    def _where(self, params: Any, opt_state: Any) -> TrainState:
        """Where the arrays of a train state lie; arguments may be shapes.

        That is not read off the arrays: what a computation returns may have another sharding that comes to the same, on
        one device say, and would be compiled for once more.
        """
        placed = shardings(params, self.mesh, replicate_indivisible=True)
        whole: Any = self._whole
        return TrainState(placed, _like_parameters(opt_state, placed, whole), whole)

    def whole(self, params: Any) -> nnx.State:
        """`params` and the base together: all parameters of the model, in the dtype of computation; the base is not
        copied.
        """
        return _whole(params, self.base, self.how)

    @_on_mesh
    def score(self, params: Any, packed: Packed) -> np.ndarray:
        """Log-probabilities `[rows, length]` float32 in nats of the responses of `packed`; 0 elsewhere."""
        return self._each(_score, params, packed, np.zeros(packed.tokens.shape, np.float32))

    @_on_mesh
    def hidden(self, params: Any, packed: Packed) -> np.ndarray:
        """Last hidden states `[rows, length, width]` float32 before the response tokens of `packed`; 0 elsewhere.

        Where no process has rows, `width` is 0.
        """
        nothing = np.zeros((*packed.tokens.shape, 0), np.float32)
        return self._each(_hidden, params, packed, nothing).astype(np.float32)

    def _each(self, function: Callable[..., jax.Array], params: Any, packed: Packed, nothing: np.ndarray) -> np.ndarray:
        """What `function` makes of every row of `packed`; `nothing` if no process has any."""
        parts = [
            own_rows(function(self.graphdef, params, self.base, *part, self.how), self._rows)
            for part in self._micro_batches(_trees(packed))
        ]
        return np.concatenate(parts)[: len(packed.tokens)] if parts else nothing

    @_on_mesh
    def divergence(self, params: Any, term: DivergenceTerm) -> float:
        """The value of a full-vocabulary term for the student with `params`, in nats."""
        parts = [
            _divergence(self.graphdef, params, self.base, replace(term, batch=part), places, self.how)
            for part, places in self._micro_batches(term.batch)
        ]
        return float(np.sum(jax.device_get(parts)))

    @_on_mesh
    def update(
        self, state: TrainState, batch: TokenBatch, *, on_policy: bool = False, divergence: DivergenceTerm | None = None
    ) -> tuple[TrainState, dict[str, float]]:
        """One optimizer step on `batch` (numpy arrays). `state` is consumed.

        Where the loss or the norm of the gradient is not finite, the step is skipped: the new state is the old one.

        Args:
            state: to be updated.
            batch: rows to train on.
            on_policy: `state` is the policy that sampled: `batch.old_log_probs` is not read, all ratios are 1.
            divergence: a full-vocabulary term to be added to the loss.

        Returns:
            The new state; metrics: loss, kl_reference, grad_norm (before clipping), skipped (0 or 1), those of
            `objective.drift`, ...
        """
        gradient = jax.tree.map(jnp.zeros_like, state.params)
        totals: list[Any] = []
        for part in self._micro_batches(batch):
            gradient, sums = _accumulate(
                self.graphdef, state.params, self.base, gradient, *part, self.options, self.how, on_policy
            )
            totals.append(sums)
        if divergence is not None:
            gradient, value = self._add_divergence(state.params, gradient, divergence)
            totals.append({**jax.tree.map(jnp.zeros_like, totals[0]), "loss": value})
        where = self._where(state.params, state.opt_state)
        loss = sum((total["loss"] for total in totals), start=jnp.zeros(()))
        state, norm, skipped = _apply_gradient(self.optimizer, state, gradient, loss, tuple(jax.tree.leaves(where)))
        return state, {**_combined(totals), "grad_norm": float(norm), "skipped": float(skipped)}

    @_on_mesh
    def lower(self, params: Any, length: int) -> dict[str, jax.stages.Lowered]:
        """The programs of a step by name, for shapes instead of arrays: nothing is computed.

        Args:
            params: shapes of the student's parameters, of any dtype, from `models.qwen3.abstract`.
            length: tokens of a packed row; a quarter of them are responses.

        Returns:
            "score", "accumulate" (of a micro-batch both) and "apply", each to be compiled.
        """
        whole = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, jnp.float32), params)
        step: Any = jax.ShapeDtypeStruct((), jnp.int32)
        state = TrainState(whole, jax.eval_shape(self.optimizer.init, whole), step)
        where = self._where(state.params, state.opt_state)
        state = jax.tree.map(lambda x, to: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=to), state, where)
        trained, rows = state.params, self._micro_batch_rows(length)
        frozen = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, self.how.dtype, sharding=x.sharding), trained)
        ids, floats, flags = (self._shape(rows, length, dtype) for dtype in (jnp.int32, jnp.float32, jnp.bool_))
        fields: list[Any] = [*[ids] * 4, flags, *[floats] * 6, flags, flags, flags, ids, ids, flags, floats]
        batch = TokenBatch(*fields)
        places = self._shape(rows, length // 4, jnp.int32)
        return {
            "score": _score.lower(self.graphdef, frozen, self.base, batch, places, self.how),
            "accumulate": _accumulate.lower(
                self.graphdef, trained, self.base, trained, batch, places, self.options, self.how, on_policy=False
            ),
            "apply": _apply_gradient.lower(
                self.optimizer, state, trained, jax.ShapeDtypeStruct((), jnp.float32), tuple(jax.tree.leaves(where))
            ),
        }

    def _shape(self, rows: int, length: int, dtype: DTypeLike) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((rows, length), dtype, sharding=self._rows)

    def _micro_batch_rows(self, length: int) -> int:
        """Rows of a micro-batch, of all processes together."""
        shards = row_parts(self.mesh)
        return max(1, self.micro_batch_tokens // (length * shards)) * shards

    def _add_divergence(self, params: Any, gradient: Any, term: DivergenceTerm) -> tuple[Any, jax.Array]:
        """`gradient` with that of the term added, and the term's value in nats."""
        value = jnp.zeros(())
        for part, places in self._micro_batches(term.batch):
            gradient, loss = _accumulate_divergence(
                self.graphdef, params, self.base, gradient, replace(term, batch=part), places, self.how
            )
            value = value + loss
        return gradient, value

    def _micro_batches(self, batch: Any) -> Iterator[Any]:
        """Micro-batches of equal shape on the mesh, each with the places of its masked tokens.

        The last ones are filled with rows of padding; all processes give as many as the one with most rows needs.
        """
        rows, length = batch.tokens.shape
        size = self._micro_batch_rows(length) // self._processes
        masked = batch.mask.sum(axis=1)
        densest = [int(masked[start : start + size].max()) for start in range(0, rows, size)]
        everywhere = gather(densest) if self._processes > 1 else [densest]
        for number, counts in enumerate(zip_longest(*everywhere, fillvalue=0)):
            part = jax.tree.map(lambda a: _slice_rows(a, number * size, size), batch)  # noqa: B023
            part = part._replace(subtree_end=_seen_by_itself(part.subtree_end))
            part = (part, _places(part.mask, max(counts)))
            yield jax.make_array_from_process_local_data(self._rows, part)


def _like_parameters(state: Any, placed: Any, otherwise: NamedSharding) -> Any:
    """A sharding for every leaf of an optimizer state: that of the parameter whose path its own path ends with."""
    known = dict(jax.tree_util.tree_leaves_with_path(placed))

    def where(path: tuple[Any, ...], _: Any) -> NamedSharding:
        return next((known[path[i:]] for i in range(len(path)) if path[i:] in known), otherwise)

    return jax.tree_util.tree_map_with_path(where, state)


def _combined(totals: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Sums, and maxima, of micro-batches as those of the batch."""
    parts = jax.device_get(list(totals))
    return {
        name: float(
            max(part[name].value for part in parts) if isinstance(first, Greatest) else np.sum([p[name] for p in parts])
        )
        for name, first in parts[0].items()
    }


class _Trees(NamedTuple):
    tokens: Any
    positions: Any
    subtree_end: Any
    parent: Any
    mask: Any


def _trees(packed: Packed) -> _Trees:
    mask = packed.scatter([True] * len(packed.row), bool)
    return _Trees(packed.tokens, packed.positions, packed.subtree_end, packed.parent, mask)


def _places(mask: np.ndarray, count: int) -> np.ndarray:
    """Indices of the masked tokens of each row, at most `count`, `[rows, most]` int32; the rest is the length of a row.

    `most` is a quarter, half or all of a row, so that few shapes are compiled.
    """
    rows, length = mask.shape
    most = next(size for size in (-(-length // 4), -(-length // 2), length) if size >= count)
    places = np.full((rows, most), length, np.int32)
    for row in range(rows):
        found = np.flatnonzero(mask[row])
        places[row, : len(found)] = found
    return places


def _slice_rows(array: np.ndarray, start: int, size: int) -> np.ndarray:
    part = array[start : start + size]
    return np.pad(part, ((0, size - len(part)), *((0, 0),) * (array.ndim - 1)))


def _seen_by_itself(subtree_end: np.ndarray) -> np.ndarray:
    """Rows of zeros (padding) become tokens that see only themselves."""
    own = np.arange(1, subtree_end.shape[1] + 1, dtype=np.int32)
    return np.maximum(subtree_end, own)
