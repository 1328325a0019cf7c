"""Continuous batching over a cache of keys and values that outlives a turn.

Every row of the cache remembers which tokens it holds; a request whose context starts with them pays only for the rest.
New contexts are read in chunks, between which the other responses go on; a row whose response has ended takes the next
request at once. Few shapes are compiled (see docs/sampling.md): rows are a quarter of the slots or all, lengths are
rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from pivotopd_jax.models.qwen3 import Qwen3Config
from pivotopd_jax.sampling import decoding
from pivotopd_jax.sampling.policy import Request, Sample, check_distribution
from pivotopd_jax.sampling.slots import Job, Slots, bucket
from pivotopd_jax.sampling.slots import common_prefix as common_prefix  # packing and the warm start find it here

FILL_ROWS = 2
"""Rows of each device whose contexts are read in one call: few, so that contexts of like lengths are read together."""

COPY_ROWS = 4
"""Rows of each device that are copied in one call."""

WIDTHS = (1 / 8, 1 / 4, 1 / 2, 1)
"""Lengths that chunks are compiled for, as shares of the longest."""

BLOCK = 32
"""Tokens of a response that are decoded before the host looks at them, at most."""

ENOUGH = 4
"""A block ends early when one in so many responses has ended: its row is then worth more to the next request."""

KEYS = 128
"""Lengths of the cache are powers of two from here on, or all of the capacity."""


class SamplerStream:
    """Implements `sampling.policy.Stream`; made by `Sampler.stream`.

    Attributes:
        continued: whether what comes back may lead to new requests.
    """

    def __init__(self, sampler: Sampler, temperature: float, top_p: float, *, continued: bool):
        check_distribution(temperature, top_p)
        self.temperature, self.top_p, self.continued = temperature, top_p, continued
        self.ended: list[Job] = []
        self._sampler = sampler

    def submit(self, request: Request) -> None:
        self._sampler.enqueue(request, self)

    def poll(self) -> list[tuple[Request, Sample]]:
        self._sampler.advance()
        ended, self.ended = self.ended, []
        return [(job.request, job.result) for job in ended if job.result]

    def __enter__(self) -> SamplerStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sampler.give_up(self)


class Sampler:
    """An in-process JAX policy with `slots` cache rows of `capacity` tokens; implements `sampling.policy.Policy`.

    Attributes:
        params: weights it samples from; set them with `load`, which forgets everything cached under the old ones.
        mesh: of this process's own devices, on which `params` lie in any layout; None for a single one. Slots are
            spread over its axis "fsdp".
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
        mesh: Mesh | None = None,
        twins: bool = True,
    ):
        """See the attributes.

        Args:
            config, graphdef: of the model.
            params: its weights.
            slots: responses under way at once.
            capacity: longest context, tokens.
            max_new: longest response, tokens.
            end_ids: end a response.
            chunk: tokens of a context that are read in one go.
            dtype: of keys and values.
            mesh: where `params` lie.
            twins: equal contexts are read once; a baseline may do without.

        Raises:
            ValueError: the slots do not divide among the devices.
        """
        self.config, self.graphdef, self.params, self.dtype, self.mesh = config, graphdef, params, dtype, mesh
        self.slots, self.max_new, self.chunk = slots, max_new, chunk
        self._model = decoding.taken_apart(graphdef, params)
        self.capacity = -(-(capacity + max_new) // KEYS) * KEYS
        self.end_ids = tuple(sorted(int(i) for i in end_ids))
        parts = decoding.parts_of(mesh)
        if slots % parts:
            raise ValueError(
                f"{slots} slots do not divide among {parts} devices; set config.sampler.slots to a multiple"
            )
        self._few = -(-slots // (4 * parts)) * parts
        self._fill_rows, self._copy_rows = (min(rows, slots // parts) * parts for rows in (FILL_ROWS, COPY_ROWS))
        self._widths = [math.ceil(share * chunk) for share in WIDTHS]
        self._waiting: list[Job] = []
        self._seats = Slots(slots, parts, twins=twins)
        self._rows = decoding.empty_rows(slots)
        self._make_cache()

    def resized(self, *, slots: int, capacity: int, max_new: int, twins: bool = True) -> Sampler:
        """Another sampler of the same model, with a cache of its own."""
        slots += -slots % decoding.parts_of(self.mesh)
        return Sampler(
            self.config, self.graphdef, self.params, slots=slots, capacity=capacity, max_new=max_new,
            end_ids=self.end_ids, chunk=self.chunk, dtype=self.dtype, mesh=self.mesh, twins=twins,
        )  # fmt: skip

    def load(self, params: Any) -> None:
        """Samples from `params` from now on.

        Raises:
            RuntimeError: responses are under way.
        """
        if self._waiting or any(self._seats.jobs):
            raise RuntimeError("new weights were loaded while responses are under way; close their stream first")
        self.params, self._model = params, decoding.taken_apart(self.graphdef, params)
        self._seats.forget()
        self._rows.at[:] = 0
        self._make_cache()

    def _make_cache(self) -> None:
        self._length = min(KEYS, self.capacity)
        self._cache = decoding.make_cache(self.config, self.slots, self._length, self.dtype, self.mesh)

    def sample(self, requests: Sequence[Request], *, temperature: float, top_p: float = 1.0) -> list[Sample]:
        """See `sampling.policy.Policy.sample`."""
        with SamplerStream(self, temperature, top_p, continued=False) as stream:
            jobs = [self.enqueue(request, stream) for request in requests]
            while len(stream.ended) < len(jobs):
                self.advance()
        return [job.result for job in jobs if job.result]

    def stream(self, *, temperature: float, top_p: float = 1.0) -> SamplerStream:
        """See `sampling.policy.Policy.stream`; several may be open, and `sample` be called meanwhile."""
        return SamplerStream(self, temperature, top_p, continued=True)

    def enqueue(self, request: Request, owner: SamplerStream) -> Job:
        """Lets `request` wait for a slot."""
        room = self.capacity - self.max_new
        if not 0 < len(request.context_ids) <= room:
            raise ValueError(
                f"a context of {len(request.context_ids)} tokens; expected 1 to {room}: raise prompt_tokens"
            )
        job = Job(request, owner, np.asarray(request.context_ids, np.int32))
        self._waiting.append(job)
        return job

    def give_up(self, owner: SamplerStream) -> None:
        """Ends what `owner` still waits for."""
        self._waiting = [job for job in self._waiting if job.owner is not owner]
        for job in filter(None, self._seats.jobs):
            if job.owner is owner:
                self._leave(job)

    def advance(self) -> None:
        """Seats what waits, reads a chunk of every new context, and decodes a block."""
        seated, self._waiting = self._seats.seat(self._waiting)
        for job in seated:
            self._begin(job)
        jobs = [job for job in self._seats.jobs if job]
        self._read([job for job in jobs if not job.ready], alone=not any(job.ready for job in jobs))
        live = [job for job in jobs if job.ready]
        if live:
            self._decode(live, len(live) < len(jobs))

    def _begin(self, job: Job) -> None:
        rows, slot = self._rows, job.slot
        rows.at[slot], rows.token[slot], rows.made[slot] = job.read, job.context[-1], 0
        rows.live[slot], rows.seed[slot] = job.ready, job.request.seed & 0xFFFFFFFF
        rows.temperature[slot], rows.top_p[slot] = job.owner.temperature, job.owner.top_p

    def _leave(self, job: Job) -> None:
        self._seats.leave(job)
        self._rows.live[job.slot] = False
        self._rows.at[job.slot] = len(self._seats.held[job.slot])

    def _read(self, jobs: list[Job], *, alone: bool) -> None:
        """Reads a chunk of each context; all of them if no response is kept waiting by it."""
        while own := [job for job in jobs if not job.twin and not job.ready]:
            self._read_chunks(own)
            self._copy_twins(jobs)
            if not alone:
                return
        self._copy_twins(jobs)

    def _read_chunks(self, jobs: Sequence[Job]) -> None:
        chunks = {job.slot: job.context[job.read : -1][: self.chunk] for job in jobs}
        ends = {job.slot: job.read + len(chunks[job.slot]) for job in jobs}
        self._make_room(max(ends.values()))
        by_slot = {job.slot: job for job in jobs}
        # Alike beside alike: what reaches into the second half of the cache last, and short chunks before long ones.
        order = sorted(by_slot, key=lambda slot: (ends[slot] > self._half, len(chunks[slot])))
        for batch in self._seats.laid_out(order, self._fill_rows):
            longest = max(len(chunks[slot]) for _, slot in batch)
            width = next(width for width in self._widths if width >= longest)
            keys = self._half if all(ends[slot] <= self._half for _, slot in batch) else self._length
            places = np.full(self._fill_rows, self._seats.padding, np.int32)
            tokens, start = np.zeros((self._fill_rows, width), np.int32), np.zeros(self._fill_rows, np.int32)
            for i, slot in batch:
                places[i], start[i] = self._seats.local(slot), by_slot[slot].read
                tokens[i, : len(chunks[slot])] = chunks[slot]
            self._cache = decoding.fill(*self._model, self._cache, places, tokens, start, keys=keys, mesh=self.mesh)
            for _, slot in batch:
                self._advanced(by_slot[slot], ends[slot])

    def _copy_twins(self, jobs: Iterable[Job]) -> None:
        sources: dict[int, int] = {}
        for job in jobs:
            if job.twin and (holds := self._seats.twin_holds(job, job.twin)) is not False:
                if holds:
                    sources[job.slot] = job.twin.slot
                    self._advanced(job, len(job.context) - 1)
                job.twin = None
        for batch in self._seats.laid_out(sources, self._copy_rows) if sources else ():
            places = np.full((2, self._copy_rows), self._seats.padding, np.int32)
            for i, slot in batch:
                places[:, i] = self._seats.local(sources[slot]), self._seats.local(slot)
            self._cache = decoding.copy(self._cache, *places, mesh=self.mesh)

    def _advanced(self, job: Job, read: int) -> None:
        job.read = read
        self._seats.held[job.slot] = job.context[:read]
        self._rows.at[job.slot], self._rows.live[job.slot] = read, job.ready

    @property
    def _half(self) -> int:
        """Keys of the half of the cache that short contexts are read in; all of them where it is short itself."""
        return max(KEYS, -(-self._length // 2)) if self._length > KEYS else self._length

    def _make_room(self, length: int) -> None:
        """Makes the cache long enough for `length` keys; it is no longer than it has had to be, since all is read."""
        if length > self._length:
            self._length = min(self.capacity, bucket(length, KEYS))
            self._cache = decoding.grown(self._cache, self._length, self.mesh)

    def _decode(self, live: list[Job], reading: bool) -> None:
        block = min(BLOCK, self.max_new)
        # While other contexts are being read, a chunk of theirs and a quarter of a block take turns.
        steps = max(1, block // 4) if reading else block
        enough = -(-len(live) // ENOUGH) if self._waiting or any(job.owner.continued for job in live) else len(live)
        by_slot = {job.slot: job for job in live}
        batches = list(self._seats.laid_out(by_slot, self._few))
        everyone = len(batches) > 1 or self._few == self.slots
        batch = [(slot, slot) for slot in by_slot] if everyone else batches[0]
        self._make_room(max(int(self._rows.at[slot]) for slot in by_slot) + steps)
        self._cache, *made = decoding.decode(
            *self._model, self._cache, *self._chosen(None if everyone else batch), np.int32(steps),
            np.int32(enough), block=block, max_new=self.max_new, end_ids=self.end_ids,
            nucleus=any(job.owner.top_p < 1 for job in live), mesh=self.mesh,
        )  # fmt: skip
        ids, log_probs, counts = jax.device_get(made)
        for i, slot in batch:
            self._harvest(by_slot[slot], ids[i, : counts[i]].copy(), log_probs[i, : counts[i]].copy())

    def _chosen(self, batch: list[tuple[int, int]] | None) -> tuple[np.ndarray | None, decoding.Rows]:
        if batch is None:
            return None, self._rows
        places, rows = np.full(self._few, self._seats.padding, np.int32), decoding.empty_rows(self._few)
        index, slots = map(list, zip(*batch, strict=True))
        places[index] = [self._seats.local(slot) for slot in slots]
        for chosen, of_all in zip(rows, self._rows, strict=True):
            chosen[index] = of_all[slots]
        return places, rows

    def _harvest(self, job: Job, ids: np.ndarray, log_probs: np.ndarray) -> None:
        if not len(ids):
            return
        job.add(ids, log_probs)
        rows, slot, ended = self._rows, job.slot, int(ids[-1]) in self.end_ids
        if job.made < self.max_new and not ended:
            rows.token[slot], rows.made[slot] = ids[-1], job.made
            rows.at[slot] += len(ids)
            return
        # The last token has not been read into the cache.
        self._seats.held[slot] = np.concatenate([job.context, job.end(ended=ended).response_ids[:-1]])
        self._leave(job)
        job.owner.ended.append(job)
