"""The training loop: one step is collect → annotate → extend → score → shape → update."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pivotopd_jax.evaluation.evaluate import Evaluation, evaluate, panel
from pivotopd_jax.learner.checkpoints import Checkpoints, ConfigurationChanged
from pivotopd_jax.learner.learner import DivergenceTerm, TrainState
from pivotopd_jax.methods.method import Method
from pivotopd_jax.recording import Recorder
from pivotopd_jax.records import PLAIN, TEACHER, Note, Row, Task, TokenBatch, Trajectory
from pivotopd_jax.rollout.annotate import annotate
from pivotopd_jax.rollout.behaviours import depth_of, make_actor
from pivotopd_jax.rollout.collect import fresh_starts, play, request_seed
from pivotopd_jax.rollout.extend import extend
from pivotopd_jax.rollout.label import label
from pivotopd_jax.rollout.rows import batch_rows, divergence_batch, rollout_rows, score_views
from pivotopd_jax.run import Run, configuration_differences, make_run, run_record

Metrics = dict[str, float]


def train(config: Any, directory: Path, *, method: Method | None = None) -> tuple[Run, TrainState]:
    """Trains as `config` says, going on where an interrupted run in `directory` stopped.

    Args:
        config: as made by configs/.
        directory: of the run.
        method: in place of the one that `config.method` names; for trying out a new one.

    Raises:
        ConfigurationChanged: `directory` holds a run with another configuration.
        TeacherFailure: the teacher cannot be used, or fails too often.
    """
    run = make_run(config, directory, method=method)
    run.teacher.check()
    checkpoints = Checkpoints(directory, keep=config.checkpoint.keep)
    state, first = restore_or_init(run, checkpoints)
    recorder = Recorder(directory, resume_from=first)
    validation = panel(run.world, config.world.eval_splits, config.evaluate.tasks)
    for step in range(first, config.steps):
        state, metrics = train_step(run, state, step, recorder)
        done = step + 1
        if done % config.evaluate.every == 0 or done == config.steps:
            with recorder.stage("evaluate"):
                metrics |= evaluation_metrics(evaluate_run(run, state.params, validation, config.eval_temperature))
        if done % config.checkpoint.every == 0 or done == config.steps:
            with recorder.stage("checkpoint"):
                success = metrics.get("eval/success", -1.0)
                checkpoints.save(done, state, success=success, configuration=run_record(run))
        recorder.step(step, metrics)
    checkpoints.close()
    recorder.close()
    return run, state


def train_step(run: Run, state: TrainState, step: int, recorder: Recorder) -> tuple[TrainState, Metrics]:
    """One step on fresh rollouts; deterministic in (configuration, state, step)."""
    config, seed = run.config, request_seed(run.config.seed, step)
    run.policy.load(state.params)
    with recorder.stage("collect"):
        tasks = step_tasks(run, step)
        depth = depth_of(run.method.behaviour, step, config.max_turns)
        starts = fresh_starts(run.world, run.prompter, tasks, rollouts=config.rollouts, max_turns=depth)
        actor = make_actor(
            run.method.behaviour, run.teacher, starts, step=step, steps=config.steps, max_turns=depth, seed=seed
        )
        trajectories = play(
            run.policy, starts, temperature=config.temperature, seed=seed, concurrency=run.policy.slots, actor=actor
        )
    with recorder.stage("annotate"):
        notes = annotate(run.teacher, trajectories, run.method.annotation, seed=seed)
    with recorder.stage("extend"):
        extra, outcomes = extend(
            run.policy, run.teacher, run.world, run.prompter, trajectories, notes, run.method.extension,
            temperature=config.temperature, seed=seed,
        )  # fmt: skip
        labelled = label(run.teacher, run.prompter, trajectories, run.method.labels)
    rows = rollout_rows(trajectories, notes, run.method, run.prompter) + extra + labelled
    assert_unprivileged(run, rows, trajectories)
    with recorder.stage("score"):
        chunks = mini_batches(run, rows, len(trajectories), seed)
        batches = [shaped_batch(run, state, chunk, only_update=len(chunks) == 1) for chunk in chunks]
        terms = divergence_terms(run, state, chunks)
    with recorder.stage("update"):
        updates = []
        for batch, term in zip(batches, terms, strict=True):
            state, update = run.learner.update(state, batch, on_policy=len(batches) == 1, divergence=term)
            updates.append(update)
    if step % config.log_trajectories_every == 0:
        recorder.trajectories(step, trajectories, notes)
    return state, {
        **rollout_metrics(trajectories, notes, rows),
        **{f"recovery/{name}": float(count) for name, count in outcomes.items()},
        **{f"update/{name}": float(np.mean([u[name] for u in updates])) for name in (updates[0] if updates else ())},
    }


def step_tasks(run: Run, step: int) -> list[Task]:
    """The tasks of one step: the training split in a seeded order, each task once before any comes again."""
    tasks, count = run.world.tasks(run.config.world.train_split), run.config.tasks_per_step
    epoch, offset = divmod(step * count, len(tasks))
    places = range(offset, offset + count)
    return [
        tasks[_shuffled(len(tasks), run.config.seed + epoch + place // len(tasks), place % len(tasks))]
        for place in places
    ]


def _shuffled(size: int, seed: int, place: int) -> int:
    """Entry `place` of a seeded permutation of `size` entries, without making the permutation: an affine one."""
    draw = np.random.default_rng(seed)
    shift = int(draw.integers(size))
    factor = int(draw.integers(size)) | 1
    while np.gcd(factor, size) != 1:
        factor += 2
    return (place * factor + shift) % size


def mini_batches(run: Run, rows: Sequence[Row], trajectories: int, seed: int) -> list[list[Row]]:
    """Rows split by trajectory into PPO mini-batches of `config.ppo.mini_batch` trajectories, in a seeded order."""
    order = np.random.default_rng(seed).permutation(trajectories)
    count = max(1, -(-trajectories // run.config.ppo.mini_batch))
    part_of = {int(t): part for part, chunk in enumerate(np.array_split(order, count)) for t in chunk}
    parts: list[list[Row]] = [[] for _ in range(count)]
    for row in sorted(rows, key=lambda row: (row.trajectory, row.turn)):
        parts[part_of[row.trajectory]].append(row)
    return [part for part in parts if part]


def shaped_batch(run: Run, state: TrainState, rows: Sequence[Row], *, only_update: bool) -> TokenBatch:
    """Packs rows, scores them under every view of θ₀ and the reference, and lets the method shape advantages.

    In the only update of a step θ is still θ₀: old log-probs are those of the update's own forward pass, and just the
    rows with a privileged view are scored. An external teacher scores all of them beside the student.
    """
    length, teacher = run.config.learner.row_tokens, run.teacher_model
    by_teacher = TEACHER in run.method.views
    batch, packed = batch_rows(rows, length=length, **loss_shares(run))
    views = score_views(
        lambda p: run.learner.score(state.params, p), rows, packed,
        [view for view in run.method.views if view != TEACHER], length=length, every_row=by_teacher or not only_update,
    )  # fmt: skip
    if by_teacher and teacher is not None:
        views[TEACHER] = teacher.learner.score(teacher.params, packed) * batch.mask
    batch = batch._replace(old_log_probs=views[PLAIN])
    if run.learner.options.kl_coefficient:
        batch = batch._replace(reference_log_probs=run.learner.score(run.reference, packed) * batch.mask)
    return batch._replace(advantages=np.asarray(run.method.shape(batch, views), np.float32))


def loss_shares(run: Run) -> dict[str, Any]:
    """What a token counts for: as the method says, else as the configuration does."""
    return {
        "aggregation": run.method.aggregation or run.config.ppo.aggregation,
        "constant": float(run.config.prompt.response_tokens),
    }


def divergence_terms(run: Run, state: TrainState, chunks: Sequence[Sequence[Row]]) -> list[DivergenceTerm | None]:
    """For each mini-batch the full-vocabulary term that the method asks for, taught by θ₀ or the external teacher."""
    wanted = run.method.divergence
    if wanted is None:
        return [None] * len(chunks)
    if wanted.view == TEACHER and run.teacher_model is not None:
        learner, teacher = run.teacher_model.learner, run.teacher_model.params
    else:
        # An update consumes the state's own parameters.
        learner, teacher = run.learner, state.params if len(chunks) == 1 else jax.tree.map(jnp.copy, state.params)
    batches = [
        divergence_batch(
            lambda packed: learner.hidden(teacher, packed), chunk, wanted,
            length=run.config.learner.row_tokens, **loss_shares(run),
        )
        for chunk in chunks
    ]  # fmt: skip
    return [batch and DivergenceTerm(batch, learner.graphdef, teacher, wanted.function) for batch in batches]


def assert_unprivileged(run: Run, rows: Sequence[Row], trajectories: Sequence[Trajectory]) -> None:
    """No hint may stand in a context that is trained under; checked where hints are about, on every recovery row.

    What the student itself said earlier in the episode is its own affair, even if it sounds like a hint.
    """
    for row in rows:
        if row.kind == "recovery":
            said = [turn.response for turn in trajectories[row.trajectory].turns[: row.turn]]
            run.prompter.assert_unprivileged(row.context_ids, said)


def rollout_metrics(trajectories: Sequence[Trajectory], notes: Sequence[Note], rows: Sequence[Row]) -> Metrics:
    """What the rollouts of a step looked like."""
    turns = [turn for t in trajectories for turn in t.turns]
    scores: dict[int, list[float]] = {}
    for t in trajectories:
        scores.setdefault(t.group, []).append(t.score)
    return {
        "train/success": float(np.mean([t.won for t in trajectories])),
        "train/turns": float(np.mean([len(t.turns) for t in trajectories])),
        "train/rejected": float(np.mean([not turn.accepted for turn in turns])),
        "train/mixed_groups": float(np.mean([max(s) > min(s) for s in scores.values()])),
        "train/pivotal_turns": float(sum(n.pivotal for n in notes)),
        "train/tokens": float(sum(len(row.response_ids) for row in rows)),
    }


def evaluate_run(run: Run, params: Any, tasks: Sequence[Task], temperature: float, seed: int = 0) -> Evaluation:
    """Plays a panel with given parameters."""
    run.policy.load(params)
    return evaluate(
        run.policy, run.world, run.prompter, tasks, temperature=temperature, seed=seed,
        max_turns=run.config.max_turns, concurrency=run.policy.slots,
    )  # fmt: skip


def evaluation_metrics(result: Evaluation) -> Metrics:
    """An evaluation as flat numbers."""
    return {
        "eval/success": result.success,
        "eval/mean_over_kinds": result.mean_over_kinds,
        "eval/rejected": result.rejected,
        **{f"eval/success_{kind}": value for kind, value in result.by_kind.items()},
    }


def restore_or_init(run: Run, checkpoints: Checkpoints) -> tuple[TrainState, int]:
    """The newest checkpoint and the step it leads to, or a fresh state and 0."""
    state = run.learner.init(run.reference)
    done = checkpoints.latest
    if done is None:
        return state, 0
    then, now = checkpoints.configuration(done), run_record(run)
    if differences := configuration_differences({**then, "steps": 0}, {**now, "steps": 0}):
        raise ConfigurationChanged(
            f"the run in this workdir was started with another configuration ({differences}); "
            "choose another --workdir or the old configuration"
        )
    return checkpoints.restore(done, state), done
