"""Checkpoints of a train state with orbax: the newest, and the best by evaluation."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax
import orbax.checkpoint as ocp
from absl import logging

from pivotopd_jax.files import parse_json
from pivotopd_jax.learner.learner import TrainState
from pivotopd_jax.processes import gather, is_first

UNREADABLE = "unreadable_checkpoints"
"""Directory beside that of the checkpoints, for those that could not be read."""

NOT_KNOWN = -1.0
"""Stands for the success of a checkpoint that was not evaluated."""


class ConfigurationChanged(ValueError):
    """A run is to be continued under another configuration than it was started with."""


class UnreadableCheckpoint(ValueError):
    """A checkpoint cannot be read; says which one and why."""


class Record(NamedTuple):
    """What a checkpoint says besides the state; both plain JSON.

    Attributes:
        configuration: that was in force.
        progress: what the next step starts from.
    """

    configuration: Mapping[str, Any]
    progress: Mapping[str, Any]


class Checkpoints:
    """Checkpoints under `directory`/checkpoints, numbered by steps done.

    A checkpoint is written beside its place while training goes on, and renamed when it is whole.

    Attributes:
        begun: steps done at the checkpoint that is being written, or was written last by this process.
    """

    def __init__(self, directory: Path, *, keep: int):
        self._directory, self._keep = directory.absolute() / "checkpoints", keep
        self._manager = self._open()
        self.begun: int | None = None

    def _open(self) -> ocp.CheckpointManager:
        self._mend_evaluations()
        policies = ocp.checkpoint_managers.preservation_policy
        options = ocp.CheckpointManagerOptions(
            best_fn=_success,
            preservation_policy=policies.AnyPreservationPolicy(
                [policies.LatestN(self._keep), policies.BestN(get_metric_fn=_success, n=1)]
            ),
        )
        return ocp.CheckpointManager(self._directory, options=options)

    def _mend_evaluations(self) -> None:
        """Forgets evaluations that cannot be read, because of which the manager would open no checkpoint at all."""
        if is_first():
            for checkpoint in self._directory.glob("*/"):
                path = checkpoint / "metrics" / "metrics"
                if checkpoint.name.isdigit() and not _is_evaluation(path):
                    logging.warning("%s cannot be read; how that checkpoint did in its evaluation is not known", path)
                    path.parent.mkdir(exist_ok=True)
                    path.write_text(json.dumps({"success": NOT_KNOWN}))
        gather(None)

    @property
    def steps(self) -> Sequence[int]:
        """Steps done at each checkpoint, the newest first."""
        return sorted(self._manager.all_steps(), reverse=True)

    @property
    def latest(self) -> int | None:
        """Steps done at the newest checkpoint, or None."""
        return self._manager.latest_step()

    @property
    def best(self) -> int | None:
        """Steps done at the checkpoint with the highest evaluation, or None."""
        return self._manager.best_step()

    def save(self, done: int, state: TrainState, record: Record, *, success: float) -> None:
        """Begins to save what there is after `done` steps; returns once `state` is copied and may be changed.

        `finish` says whether it could be written, and has to be called before the next `save`. All processes must call
        both.

        Args:
            done: steps taken.
            state: of the learner.
            record: the rest.
            success: share of evaluation games won, in [0, 1]; `NOT_KNOWN` if nobody looked.

        Raises:
            OSError: it could not be written; earlier checkpoints stand, and none is there after `done` steps.
        """
        arguments = ocp.args.Composite(
            state=ocp.args.PyTreeSave(state._asdict()),
            configuration=ocp.args.JsonSave(dict(record.configuration)),
            progress=ocp.args.JsonSave(dict(record.progress)),
        )
        self._remove_unfinished()
        self.begun = done
        self._check_room(state)
        with self._failing_together():
            self._manager.save(done, args=arguments, metrics={"success": success}, force=True)

    def finish(self) -> None:
        """Waits until what `save` has begun is safe on disk.

        Raises:
            OSError: as for `save`.
        """
        with self._failing_together():
            self._manager.wait_until_finished()

    @contextmanager
    def _failing_together(self) -> Iterator[None]:
        """A block in which a checkpoint is written: where it cannot be in one process, no process has it."""
        failure: str | None = None
        try:
            yield
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError) and "os_error_code" not in str(error):  # tensorstore's for an OSError
                raise
            failure = str(error).partition(" [")[0]
        failures = [failure for failure in gather(failure) if failure]
        if failures:
            self._reopen()
            raise OSError(failures[0])

    def _check_room(self, state: TrainState) -> None:
        """Refuses in all processes what one of them cannot write: orbax's would wait for it for ten minutes."""
        failure, wanted = None, sum(gather(_own_bytes(state)))
        try:
            with tempfile.TemporaryFile(dir=self._directory) as file:
                file.write(b"room")
            if (free := shutil.disk_usage(self._directory).free) < wanted:
                failure = f"{self._directory} has room for {free:,} bytes, and a checkpoint takes {wanted:,}"
        except OSError as error:
            failure = str(error)
        if failures := [failure for failure in gather(failure) if failure]:
            raise OSError(failures[0])

    def _remove_unfinished(self) -> None:
        """Frees the disk of what a save that failed, or a process that died, has left."""
        if is_first():
            for unfinished in self._directory.glob("*.orbax-checkpoint-tmp"):
                shutil.rmtree(unfinished, ignore_errors=True)

    def _reopen(self) -> None:
        """After a failure: the manager believes that the new checkpoint is there, and has the same error once more."""
        with suppress(OSError, ValueError):
            self._manager.close()
        self._manager = self._open()

    def set_aside(self, kept: int) -> None:
        """Moves the checkpoints after `kept` steps, which cannot be read, out of the way of new ones."""
        newer = [done for done in self.steps if done > kept]
        if not newer:
            return
        self._manager.close()
        if is_first():
            for done in newer:
                aside = self._directory.with_name(UNREADABLE) / str(done)
                shutil.rmtree(aside, ignore_errors=True)
                aside.parent.mkdir(exist_ok=True)
                (self._directory / str(done)).rename(aside)
        gather(None)
        self._manager = self._open()

    def restore(self, done: int, like: TrainState) -> TrainState:
        """The state after `done` steps, laid out on devices like `like`.

        Raises:
            UnreadableCheckpoint: says why.
        """
        target = jax.tree.map(ocp.utils.to_shape_dtype_struct, like._asdict())
        restore = ocp.args.PyTreeRestore(target, restore_args=ocp.checkpoint_utils.construct_restore_args(target))
        return TrainState(**self._read(done, "state", ocp.PyTreeCheckpointHandler(), restore))

    def record(self, done: int) -> Record:
        """What there was besides the state after `done` steps.

        Raises:
            UnreadableCheckpoint: says why.
        """
        how = ocp.JsonCheckpointHandler(), ocp.args.JsonRestore()
        return Record(self._read(done, "configuration", *how), self._read(done, "progress", *how))

    def _read(self, done: int, item: str, handler: Any, arguments: Any) -> Any:
        """An item of a checkpoint. Read past the manager, which waits for other processes: one that cannot read its
        part would be waited for."""
        try:
            return handler.restore(self._directory / str(done) / item, args=arguments)
        except Exception as error:  # a damaged file shows itself in many ways
            why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise UnreadableCheckpoint(
                f"the checkpoint after {done} steps in {self._directory} cannot be read ({why})"
            ) from error

    def close(self) -> None:
        """Waits for what is being written; whether it could be, `finish` would have said."""
        with suppress(OSError, ValueError):
            self._manager.close()


def _is_evaluation(path: Path) -> bool:
    try:
        success = parse_json(path.read_text("utf-8"))["success"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return type(success) in (int, float) and NOT_KNOWN <= success <= 1


def _own_bytes(state: TrainState) -> int:
    """Bytes of a state that this process writes."""
    arrays = [leaf for leaf in jax.tree.leaves(state) if isinstance(leaf, jax.Array)]
    return sum(s.data.nbytes for array in arrays for s in array.addressable_shards if s.replica_id == 0)


def _success(metrics: dict[str, float]) -> float:
    return metrics["success"]
