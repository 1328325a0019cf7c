"""Checkpoints of a train state with orbax: the newest, and the best by evaluation."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from pivotopd_jax.learner.learner import TrainState
from pivotopd_jax.processes import is_first


class ConfigurationChanged(ValueError):
    """A run is to be continued under another configuration than it was started with."""


class Checkpoints:
    """Checkpoints under `directory`/checkpoints, numbered by steps done."""

    def __init__(self, directory: Path, *, keep: int):
        self._directory, self._keep = directory.absolute() / "checkpoints", keep
        self._manager = self._open()

    def _open(self) -> ocp.CheckpointManager:
        policies = ocp.checkpoint_managers.preservation_policy
        options = ocp.CheckpointManagerOptions(
            best_fn=_success,
            preservation_policy=policies.AnyPreservationPolicy(
                [policies.LatestN(self._keep), policies.BestN(get_metric_fn=_success, n=1)]
            ),
        )
        return ocp.CheckpointManager(self._directory, options=options)

    @property
    def latest(self) -> int | None:
        """Steps done at the newest checkpoint, or None."""
        return self._manager.latest_step()

    @property
    def best(self) -> int | None:
        """Steps done at the checkpoint with the highest evaluation, or None."""
        return self._manager.best_step()

    def save(
        self,
        done: int,
        state: TrainState,
        *,
        success: float,
        configuration: dict[str, Any],
        depth: float | None = None,
    ) -> None:
        """Saves `state` and the learned rollout depth after `done` steps; returns once both are safe on disk.

        Raises:
            OSError: they could not be written; earlier checkpoints stand, and none is there after `done` steps.
        """
        arguments = ocp.args.Composite(
            state=ocp.args.PyTreeSave(state._asdict()),
            configuration=ocp.args.JsonSave(configuration),
            progress=ocp.args.JsonSave({"depth": depth}),
        )
        self._remove_unfinished()
        try:
            self._manager.save(done, args=arguments, metrics={"success": success}, force=True)
            self._manager.wait_until_finished()
        except (OSError, ValueError) as error:
            self._reopen()
            if "os_error_code" in str(error):  # tensorstore's words for an OSError
                raise OSError(str(error).partition(" [")[0]) from error
            raise

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

    def restore(self, done: int, like: TrainState) -> TrainState:
        """The state after `done` steps, laid out on devices like `like`."""
        target = jax.tree.map(ocp.utils.to_shape_dtype_struct, like._asdict())
        restore = ocp.args.PyTreeRestore(target, restore_args=ocp.checkpoint_utils.construct_restore_args(target))
        restored = self._manager.restore(done, args=ocp.args.Composite(state=restore))
        return TrainState(**restored["state"])

    def configuration(self, done: int) -> dict[str, Any]:
        """The configuration that was in force when `done` steps had been taken."""
        return self._json(done, "configuration")

    def depth(self, done: int) -> float | None:
        """The learned rollout depth after `done` steps, in turns; None if there is none."""
        return self._json(done, "progress")["depth"]

    def _json(self, done: int, item: str) -> Any:
        return self._manager.restore(done, args=ocp.args.Composite(**{item: ocp.args.JsonRestore()}))[item]

    def close(self) -> None:
        self._manager.close()


def _success(metrics: dict[str, float]) -> float:
    return metrics["success"]
