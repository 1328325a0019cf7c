"""The train state and its two jitted, sharded functions: score tokens, and one optimizer step.

Rows of a batch are spread over the mesh axes "fsdp" and "expert"; parameters and optimizer state lie as models/qwen3.py
says. What is trained may be a part of the parameters, with the rest frozen (models/lora.py). Batches are cut into
micro-batches of a fixed number of tokens; since every token carries its own share of the loss, the cut changes neither
loss nor gradient. Of many processes each gives rows of its own, as many as it has; scores of them come back to it, and
loss and gradient are those of the rows of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial, wraps
from itertools import zip_longest
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from pivotopd_jax.learner.objective import (
    PPO,
    UpdateOptions,
    divergence_loss,
    policy_objective,
    response_hidden,
    token_log_probs,
)
from pivotopd_jax.learner.placing import ROW_AXES, own_rows, processes_of, row_parts
from pivotopd_jax.models.head import LOGITS_AT_ONCE
from pivotopd_jax.models.qwen3 import shardings
from pivotopd_jax.processes import gather
from pivotopd_jax.records import DivergenceBatch, TokenBatch
from pivotopd_jax.rollout.packing import Packed


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


class DivergenceTerm(NamedTuple):
    """A full-vocabulary term of the loss.

    Attributes:
        batch: responses with the teacher's hidden states.
        graphdef, teacher: structure and all parameters of the teacher that made them.
        function: (teacher's logits, student's logits) `[..., vocabulary]` → nats `[...]`.
    """

    batch: DivergenceBatch
    graphdef: Any
    teacher: Any
    function: Callable[[Any, Any], Any]


def make_mesh(fsdp: int = 1, tensor: int = 1, expert: int = 1) -> Mesh:
    """A mesh with axes "fsdp", "tensor" and "expert"; more than one device of the last are for models with experts.

    Raises:
        ValueError: there are not `fsdp × tensor × expert` devices.
    """
    shape = (fsdp, tensor, expert)
    if math.prod(shape) > jax.device_count():
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


@partial(jax.jit, static_argnames=("graphdef", "at_once"))
def _score(graphdef, params, batch, places, at_once) -> jax.Array:
    return token_log_probs(graphdef, params, batch, places, at_once=at_once)


@partial(
    jax.jit, static_argnames=("graphdef", "options", "remat", "at_once", "on_policy"), donate_argnames=("gradient",)
)
def _accumulate(
    graphdef, params, base, gradient, batch: TokenBatch, places, options: UpdateOptions, remat, at_once, on_policy
):
    def loss(params):
        whole = nnx.merge_state(params, base)
        return policy_objective(
            graphdef, whole, batch, places, options, on_policy=on_policy, remat=remat, at_once=at_once
        )

    (value, sums), new = jax.value_and_grad(loss, has_aux=True)(params)
    return jax.tree.map(jnp.add, gradient, new), {"loss": value, **sums}


@partial(jax.jit, static_argnames=("graphdef",))
def _hidden(graphdef, params, batch, places) -> jax.Array:
    rows = jnp.arange(len(places))[:, None]
    found = response_hidden(graphdef, params, batch, places)
    return jnp.zeros((*batch.tokens.shape, found.shape[-1]), found.dtype).at[rows, places].set(found, mode="drop")


@partial(
    jax.jit,
    static_argnames=("graphdef", "teacher_graphdef", "divergence", "remat", "at_once"),
    donate_argnames=("gradient",),
)
def _accumulate_divergence(
    graphdef,
    params,
    base,
    teacher_graphdef,
    teacher,
    gradient,
    batch: DivergenceBatch,
    places,
    divergence,
    remat,
    at_once,
):
    def loss(params):
        whole = nnx.merge_state(params, base)
        return divergence_loss(
            graphdef, whole, teacher_graphdef, teacher, batch, places, divergence, remat=remat, at_once=at_once
        )

    value, new = jax.value_and_grad(loss)(params)
    return jax.tree.map(jnp.add, gradient, new), value


@partial(jax.jit, static_argnames=("graphdef", "teacher_graphdef", "divergence", "at_once"))
def _divergence(
    graphdef, params, teacher_graphdef, teacher, batch: DivergenceBatch, places, divergence, at_once
) -> jax.Array:
    return divergence_loss(graphdef, params, teacher_graphdef, teacher, batch, places, divergence, at_once=at_once)


@partial(jax.jit, static_argnames=("optimizer",), donate_argnames=("state",))
def _apply_gradient(optimizer, state: TrainState, gradient):
    norm = optax.tree.norm(gradient)
    updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    return TrainState(params, opt_state, state.step + 1), norm


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
        logits_at_once: logits held at a time, on all devices together.
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
    ):
        """`logits_at_once` is of one device here; a mesh holds as many times more."""
        self.graphdef, self.optimizer, self.mesh = graphdef, optimizer, mesh
        self.base = nnx.State({}) if base is None else base
        self.micro_batch_tokens, self.options, self.remat = micro_batch_tokens, options, remat
        self.logits_at_once = logits_at_once * mesh.size
        self._rows = NamedSharding(mesh, PartitionSpec(ROW_AXES))
        self._whole = NamedSharding(mesh, PartitionSpec())
        self._processes = processes_of(mesh)

    def init(self, params: Any) -> TrainState:
        """A train state on the mesh; `params` are copied, so the caller may keep them as reference."""
        placed = shardings(params, self.mesh, replicate_indivisible=True)
        params = jax.jit(lambda p: jax.tree.map(jnp.copy, p), out_shardings=placed)(params)
        # Left to itself, jit may put an optimizer's moments on one device.
        where = _like_parameters(jax.eval_shape(self.optimizer.init, params), placed, self._whole)
        opt_state = jax.jit(self.optimizer.init, out_shardings=where)(params)
        return TrainState(params, opt_state, jax.jit(lambda: jnp.int32(0), out_shardings=self._whole)())

    def whole(self, params: Any) -> nnx.State:
        """`params` and the base together: all parameters of the model, of which nothing is copied."""
        return nnx.merge_state(params, self.base)

    @_on_mesh
    def score(self, params: Any, packed: Packed) -> np.ndarray:
        """Log-probabilities `[rows, length]` float32 in nats of the responses of `packed`; 0 elsewhere."""
        scored = partial(_score, at_once=self.logits_at_once)
        return self._each(scored, params, packed, np.zeros(packed.tokens.shape, np.float32))

    @_on_mesh
    def hidden(self, params: Any, packed: Packed) -> np.ndarray:
        """Last hidden states `[rows, length, width]` float32 before the response tokens of `packed`; 0 elsewhere.

        Where no process has rows, `width` is 0.
        """
        nothing = np.zeros((*packed.tokens.shape, 0), np.float32)
        return self._each(_hidden, params, packed, nothing).astype(np.float32)

    def _each(self, function: Callable[..., jax.Array], params: Any, packed: Packed, nothing: np.ndarray) -> np.ndarray:
        """What `function` makes of every row of `packed`; `nothing` if no process has any."""
        whole = self.whole(params)
        parts = [
            own_rows(function(self.graphdef, whole, *part), self._rows) for part in self._micro_batches(_trees(packed))
        ]
        return np.concatenate(parts)[: len(packed.tokens)] if parts else nothing

    @_on_mesh
    def divergence(self, params: Any, term: DivergenceTerm) -> float:
        """The value of a full-vocabulary term for the student with `params`, in nats."""
        whole = self.whole(params)
        parts = [
            _divergence(self.graphdef, whole, term.graphdef, term.teacher, *part, term.function, self.logits_at_once)
            for part in self._micro_batches(term.batch)
        ]
        return float(np.sum(jax.device_get(parts)))

    @_on_mesh
    def update(
        self, state: TrainState, batch: TokenBatch, *, on_policy: bool = False, divergence: DivergenceTerm | None = None
    ) -> tuple[TrainState, dict[str, float]]:
        """One optimizer step on `batch` (numpy arrays). `state` is consumed.

        Args:
            state: to be updated.
            batch: rows to train on.
            on_policy: `state` is the policy that sampled: `batch.old_log_probs` is not read, all ratios are 1.
            divergence: a full-vocabulary term to be added to the loss.

        Returns:
            The new state; metrics: loss, kl_reference, grad_norm (before clipping), ...
        """
        gradient = jax.tree.map(jnp.zeros_like, state.params)
        totals: list[Any] = []
        for part in self._micro_batches(batch):
            gradient, sums = _accumulate(
                self.graphdef, state.params, self.base, gradient, *part, self.options, self.remat, self.logits_at_once,
                on_policy,
            )  # fmt: skip
            totals.append(sums)
        if divergence is not None:
            gradient, value = self._add_divergence(state.params, gradient, divergence)
            totals.append({**dict.fromkeys(totals[0], 0.0), "loss": value})
        state, norm = _apply_gradient(self.optimizer, state, gradient)
        summed = jax.tree.map(lambda *values: float(np.sum(jax.device_get(values))), *totals)
        return state, {**summed, "grad_norm": float(norm)}

    def _add_divergence(self, params: Any, gradient: Any, term: DivergenceTerm) -> tuple[Any, jax.Array]:
        """`gradient` with that of the term added, and the term's value in nats."""
        value = jnp.zeros(())
        for part in self._micro_batches(term.batch):
            gradient, loss = _accumulate_divergence(
                self.graphdef, params, self.base, term.graphdef, term.teacher, gradient, *part, term.function,
                self.remat, self.logits_at_once,
            )  # fmt: skip
            value = value + loss
        return gradient, value

    def _micro_batches(self, batch: Any) -> Iterator[Any]:
        """Micro-batches of equal shape on the mesh, each with the places of its masked tokens.

        The last ones are filled with rows of padding; all processes give as many as the one with most rows needs.
        """
        rows, length = batch.tokens.shape
        shards = row_parts(self.mesh)
        size = max(1, self.micro_batch_tokens // (length * shards)) * shards // self._processes
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
