"""The training loop: one step is collect → annotate → extend → score → shape → update.

Many processes may run it together (processes.py): each collects, annotates and extends what its own share of the tasks
gives, and all score and update in step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from pivotopd_jax import preemption
from pivotopd_jax.envs.guard import EnvironmentFailure
from pivotopd_jax.evaluation.evaluate import Evaluation, evaluate, panel
from pivotopd_jax.files import held_alone
from pivotopd_jax.learner.checkpoints import NOT_KNOWN, Checkpoints, ConfigurationChanged, Record, UnreadableCheckpoint
from pivotopd_jax.learner.learner import NonFiniteUpdates, TrainState
from pivotopd_jax.methods.method import Method
from pivotopd_jax.offline import prepare
from pivotopd_jax.processes import ProcessFailure, gather, is_first, own, say, summed, together
from pivotopd_jax.recording import Moment, QuietRecorder, going_on_without, make_recorder, skipped_file
from pivotopd_jax.records import Note, Row, Task, Trajectory
from pivotopd_jax.rollout.annotate import annotate
from pivotopd_jax.rollout.behaviours import make_actor
from pivotopd_jax.rollout.collect import fresh_starts, play, student
from pivotopd_jax.rollout.curriculum import curriculum
from pivotopd_jax.rollout.depth import depth_of, next_depth, probing
from pivotopd_jax.rollout.extend import extend, followed_up
from pivotopd_jax.rollout.label import label
from pivotopd_jax.rollout.pivots import pivot_starts, rewarded
from pivotopd_jax.rollout.read_ahead import ReadAhead
from pivotopd_jax.rollout.rows import check_lengths, rollout_rows
from pivotopd_jax.run import (
    Run,
    configuration_differences,
    configuration_record,
    make_run,
    run_record,
    teacher_replies,
)
from pivotopd_jax.sampling.policy import request_seed
from pivotopd_jax.scoring import (
    Shaped,
    assert_unprivileged,
    divergence_terms,
    mini_batches,
    own_trajectories,
    shaped_batch,
    teacher_divergence,
    token_advantages,
    turn_mass,
)
from pivotopd_jax.teachers.reply_cache import content_address
from pivotopd_jax.trajectory_records import trajectory_records

Metrics = dict[str, float]


class Progress(NamedTuple):
    """What a step hands to the next.

    Attributes:
        state: parameters and optimizer.
        depth: turns that probes have found rollouts should have; None before the first one.
        skipped: the latest updates, as many as were skipped in a row.
        unplayed: the latest steps, as many as had no group left in a row.
    """

    state: TrainState
    depth: float | None = None
    skipped: int = 0
    unplayed: int = 0


def train(
    config: Any, directory: Path, *, method: Method | None = None, accept_changes: bool = False
) -> tuple[Run, TrainState]:
    """Trains as `config` says, going on where an interrupted run in `directory` stopped.

    Args:
        config: as made by configs/.
        directory: of the run.
        method: in place of the one that `config.method` names; for trying out a new one.
        accept_changes: go on although the run was started with another configuration; says what differs.

    Raises:
        DirectoryInUse: another process trains in `directory`.
        NonFiniteUpdates: `config.learner.max_skipped` in a row.
        EnvironmentFailure: as many steps in a row, or an evaluation, without a game that could be played.
        Preempted: SIGTERM came; what was done is saved.
        ConfigurationChanged: `directory` holds a run with another configuration.
        UnreadableCheckpoint: it holds checkpoints, and none can be read.
        TeacherFailure: the teacher cannot be used, or fails too often.
        ProcessFailure: in the other processes, whatever was raised in one.
    """
    begun = Moment.now()
    with held_by_first(directory):
        return _train(config, directory, method, begun, accept_changes)


@contextmanager
def held_by_first(directory: Path) -> Iterator[None]:
    """`files.held_alone` in the first process of a run, whose failure is that of all."""
    with ExitStack() as held:
        with together():
            if is_first():
                held.enter_context(held_alone(directory))
        yield


def _train(
    config: Any, directory: Path, method: Method | None, begun: Moment, accept_changes: bool
) -> tuple[Run, TrainState]:
    run = make_run(config, directory, method=method)
    with together():
        run.teacher.check()
    with closing(Checkpoints(directory, keep=config.checkpoint.keep)) as checkpoints:
        progress, first = restore_or_init(run, directory, checkpoints, accept_changes=accept_changes)
        run = prepare(run, directory, accept_changes=accept_changes)
        with preemption.noticed():
            return run, _steps(run, directory, checkpoints, progress, first, begun)


def _steps(
    run: Run, directory: Path, checkpoints: Checkpoints, progress: Progress, first: int, begun: Moment
) -> TrainState:
    """Takes the steps from `first` on; what they lead to is recorded and saved."""
    config, done = run.config, first
    recorder = make_recorder(directory, resume_from=first, configuration=configuration_record(config), begun=begun)
    validation = panel(run.world, config.world.eval_splits, config.evaluate.tasks)
    try:
        while done < config.steps:
            step, broken = done, run.world.failures
            progress, metrics = train_step(run, progress, step, recorder)
            done += 1
            if done % config.evaluate.every == 0 or done == config.steps:
                with recorder.stage("evaluate"):
                    evaluation = evaluate_run(
                        run, progress.state.params, validation, config.eval_temperature, whole=False
                    )
                    metrics |= evaluation_metrics(run, progress.state.params, evaluation)
                with recorder.stage("record"):
                    recorder.trajectories("validation", done, trajectory_records(run, evaluation.trajectories))
            # Before the checkpoint: a run that goes on from it keeps this line, and writes only later ones.
            recorder.step(step, metrics | environment_metrics(run, broken))
            if done % config.checkpoint.every == 0 or done == config.steps:
                with recorder.stage("checkpoint"):
                    finish(checkpoints)
                    with going_on_without(f"the checkpoint after {done} steps"):
                        save(run, directory, checkpoints, progress, done, metrics.get("eval/success", NOT_KNOWN))
            check_skipped(config, progress)
        preemption.check()
    except preemption.Preempted:
        finish(checkpoints)
        if done != (checkpoints.latest or 0):
            save(run, directory, checkpoints, progress, done)
            checkpoints.finish()
        say(f"told to end (SIGTERM): {done} steps are saved; started again, the run goes on from there")
        recorder.close()
        raise
    finish(checkpoints)
    recorder.close()
    return progress.state


def save(
    run: Run, directory: Path, checkpoints: Checkpoints, progress: Progress, done: int, success: float = NOT_KNOWN
) -> None:
    """Begins to save what the run needs to go on after `done` steps; for `success` see `Checkpoints.save`."""
    configuration, replies = run_record(run), teacher_replies(run.config, directory)
    handed_on = {
        "depth": progress.depth,
        "configuration_hash": content_address(configuration),
        "next": next_step(run, done),
        "teacher_replies": replies and str(replies.absolute()),
    }
    checkpoints.save(done, progress.state, Record(configuration, handed_on), success=success)


def finish(checkpoints: Checkpoints) -> None:
    """Waits for the checkpoint that is being written, if there is one; without it the run goes on."""
    with going_on_without(f"the checkpoint after {checkpoints.begun} steps"):
        checkpoints.finish()


def next_step(run: Run, done: int) -> dict[str, Any]:
    """What the step after `done` steps draws from: its random key, and its place in the curriculum, by task ids."""
    return {"key": request_seed(run.config.seed, done), "tasks": [task.id for task in step_tasks(run, done)]}


@contextmanager
def _stage(recorder: QuietRecorder, name: str) -> Iterator[None]:
    """A stage of a step. Before it the step may be given up: until the update nothing that was made is needed."""
    preemption.check()
    with recorder.stage(name):
        yield


def check_skipped(config: Any, progress: Progress) -> None:
    """Ends a run whose latest updates, or steps, were all skipped."""
    if progress.unplayed >= config.learner.max_skipped:
        raise EnvironmentFailure(
            f"the environments of the latest {progress.unplayed} steps failed in every group, and the steps were "
            f"skipped; config.learner.max_skipped allows fewer than {config.learner.max_skipped}. The warnings above "
            "say why; checkpoints are sound"
        )
    if progress.skipped >= config.learner.max_skipped:
        raise NonFiniteUpdates(
            f"the loss or the gradient of the latest {progress.skipped} updates was not finite, and they were skipped; "
            f"config.learner.max_skipped allows fewer than {config.learner.max_skipped}. The newest batch is in "
            f"{skipped_file()} of the run's directory; parameters and checkpoints are sound"
        )


def train_step(run: Run, progress: Progress, step: int, recorder: QuietRecorder) -> tuple[Progress, Metrics]:
    """One step on fresh rollouts; deterministic in (configuration, progress, step)."""
    config, method, seed = run.config, run.method, request_seed(run.config.seed, step)
    state, skipped = progress.state, progress.skipped
    asked, place = dict(run.teacher.outcomes), own_trajectories(run).start
    run.load(state.params)
    with ReadAhead(run.teacher, method.annotation) as reader:
        with _stage(recorder, "collect"), together():
            limit = depth_of(method.behaviour, step, config.max_turns, progress.depth)
            trajectories, dropped = collect(run, step, limit, seed, reader.begin)
        counts = summed({"episodes": len(trajectories), "dropped": dropped})
        if not counts["episodes"]:
            logging.warning("step %d is skipped: the environments failed in every group", step)
            if run.replay is not None:
                run.replay.keep(step, [])
            return progress._replace(unplayed=progress.unplayed + 1), {"train/dropped_groups": float(counts["dropped"])}
        with _stage(recorder, "annotate"), together():
            notes = annotate(reader, trajectories, method.annotation, seed=seed, skills=run.skill_text, first=place)
    points = followed_up(trajectories, notes, method.extension, seed)
    with _stage(recorder, "extend"), together():
        extra, outcomes = extend(
            run.policy, run.teacher, run.world, run.prompter, trajectories, points, method.extension,
            temperature=config.temperature, top_p=config.sampler.top_p, seed=seed, first=place,
        )  # fmt: skip
        labelled = label(run.teacher, run.prompter, trajectories, method.labels)
        labelled += replayed(run, step, labelled, len(trajectories), seed)
        rows = rollout_rows(trajectories, notes, method, run.prompter) + extra + labelled
        assert_unprivileged(run, rows, trajectories)
        check_lengths(rows, config.learner.row_tokens)
    with _stage(recorder, "score"):
        chunks = mini_batches(run, rows, seed, played=len(trajectories))
        shaped = [shaped_batch(run, state, chunk, step, only_update=len(chunks) == 1) for chunk in chunks]
        terms = divergence_terms(run, state, chunks)
    with _stage(recorder, "update"):
        updates = []
        for (batch, *_), term in zip(shaped, terms, strict=True):
            state, update = run.learner.update(state, batch, on_policy=len(shaped) == 1, divergence=term)
            updates.append(update)
            skipped = skipped + 1 if update["skipped"] else 0
            if skipped:
                recorder.skipped(step, batch, term and term.batch)
    if step % config.log.trajectories_every == 0:
        with recorder.stage("record"):
            advantages = token_advantages(chunks, shaped)
            recorder.trajectories("step", step, trajectory_records(run, trajectories, notes, advantages))
    depth = learned_depth(run, progress.depth, step, trajectories, shaped)
    answers = {name: count - asked.get(name, 0) for name, count in run.teacher.outcomes.items()}
    return Progress(state, depth, skipped), {
        **rollout_metrics(trajectories, notes, rows),
        "train/depth": float(limit),
        "train/dropped_groups": float(counts["dropped"]),
        **{f"recovery/{name}": float(count) for name, count in summed(outcomes).items()},
        **{f"teacher/{name}": float(count) for name, count in summed(answers).items()},
        **update_metrics(updates),
    }


def collect(
    run: Run, step: int, depth: int, seed: int, on_finish: Callable[[Trajectory], None] = lambda _: None
) -> tuple[list[Trajectory], int]:
    """Plays the episodes of `step`, of at most `depth` turns; or single turns, where the method has offline pivots.

    Of many processes each plays its share. `on_finish` is told of every finished episode. Where an environment fails,
    the whole group is dropped: the others would be compared with too few, and nobody knows what the lost one was worth.

    Returns:
        The trajectories of whole groups, and how many groups were dropped.
    """
    config, behaviour, first = run.config, run.method.behaviour, own_trajectories(run).start
    broken: set[int] = set()

    def on_failure(index: int, failure: EnvironmentFailure) -> None:
        broken.add((index - first) // config.rollouts)
        logging.warning("step %d: the group of rollout %d is dropped: %s", step, index, failure)

    def rollouts(starts, actor) -> list[Trajectory]:
        return play(
            run.policy, starts, temperature=config.temperature, top_p=config.sampler.top_p, seed=seed,
            concurrency=run.policy.slots, threads=config.sampler.env_threads, actor=actor, first=first,
            on_finish=on_finish, on_failure=on_failure,
        )  # fmt: skip

    def whole_groups(played: Sequence[Trajectory]) -> tuple[list[Trajectory], int]:
        return [trajectory for trajectory in played if trajectory.group not in broken], len(broken)

    if behaviour.pivots:
        pivots = own(curriculum(run.pivots, step, config.tasks_per_step, config.seed))
        starts = pivot_starts(run.world, run.prompter, pivots, rollouts=config.rollouts)
        return whole_groups(rewarded(run.world.planner, rollouts(starts, student), pivots))
    starts = fresh_starts(
        run.world, run.prompter, own(step_tasks(run, step)), rollouts=config.rollouts, max_turns=depth,
        advise=run.advice(behaviour.skills),
    )  # fmt: skip
    actor = make_actor(
        behaviour, run.teacher, starts, step=step, steps=config.steps, max_turns=depth, seed=seed, first=first
    )
    return whole_groups(rollouts(starts, actor))


def environment_metrics(run: Run, before: Mapping[str, int]) -> Metrics:
    """Calls to environments that crashed or hung since `before`, in all processes."""
    now = run.world.failures
    since = summed({name: now.get(name, 0) - before.get(name, 0) for name in ("crashed", "hung")})
    return {f"envs/{name}": float(count) for name, count in since.items()}


def step_tasks(run: Run, step: int) -> list[Task]:
    """The tasks of one step for all processes: the training split in a seeded order, each once before any again."""
    tasks = run.world.tasks(run.config.world.train_split)
    return curriculum(tasks, step, run.config.tasks_per_step, run.config.seed)


def replayed(run: Run, step: int, labelled: Sequence[Row], trajectories: int, seed: int) -> list[Row]:
    """As many label rows of earlier steps as there are new ones, which are kept for later; none without a replay."""
    if run.replay is None:
        return []
    run.replay.keep(step, labelled)
    return run.replay.draw(step, len(labelled), seed=seed, first=trajectories)


def learned_depth(
    run: Run, depth: float | None, step: int, trajectories: Sequence[Trajectory], shaped: Sequence[Shaped]
) -> float | None:
    """What rollouts should be cut to, after what this step has shown; see `rollout.depth.next_depth`."""
    probe, most = run.method.behaviour.probe, run.config.max_turns
    if probe is None or not shaped or not probing(probe, step):
        return depth
    mass = turn_mass(shaped, run.method.views[0], most)
    found = gather([mass.tolist(), [len(t.turns) for t in trajectories if t.won]])
    masses, lengths = zip(*found, strict=True)
    return next_depth(probe, depth, np.sum(masses, axis=0), [length for part in lengths for length in part], most)


def rollout_metrics(trajectories: Sequence[Trajectory], notes: Sequence[Note], rows: Sequence[Row]) -> Metrics:
    """What the rollouts of a step looked like, in all processes."""
    outcomes: dict[int, set[bool]] = {}
    for t in trajectories:
        outcomes.setdefault(t.group, set()).add(t.won)
    counted = {
        "episodes": len(trajectories),
        "won": sum(t.won for t in trajectories),
        "score": sum(t.score for t in trajectories),
        "turns": sum(len(t.turns) for t in trajectories),
        "rejected": sum(not turn.accepted for t in trajectories for turn in t.turns),
        "groups": len(outcomes),
        "mixed": sum(len(found) > 1 for found in outcomes.values()),
        "pivotal": sum(n.pivotal for n in notes),
        "tokens": sum(len(row.response_ids) for row in rows),
    }
    total = summed({name: float(value) for name, value in counted.items()})
    return {
        "train/success": total["won"] / total["episodes"],
        "train/score": total["score"] / total["episodes"],
        "train/turns": total["turns"] / total["episodes"],
        "train/rejected": total["rejected"] / total["turns"],
        "train/mixed_groups": total["mixed"] / total["groups"],
        "train/pivotal_turns": total["pivotal"],
        "train/tokens": total["tokens"],
    }


def update_metrics(updates: Sequence[Metrics]) -> Metrics:
    """Means over the updates of a step; and how far the log-probs of sampler and learner are apart, in nats a token."""
    names = [name for name in (updates[0] if updates else ()) if not name.startswith("drift")]
    metrics = {f"update/{name}": float(np.mean([u[name] for u in updates])) for name in names}
    tokens = sum(u["drift_tokens"] for u in updates)
    if tokens:
        metrics["drift/mean"] = sum(u["drift"] for u in updates) / tokens
        metrics["drift/most"] = max(u["drift_most"] for u in updates)
    return metrics


def evaluate_run(
    run: Run, params: Any, tasks: Sequence[Task], temperature: float, seed: int = 0, *, whole: bool = True
) -> Evaluation:
    """Plays a panel with given parameters, each process its share; all processes must call this.

    A `whole` panel is one in which no game may be lost; see `evaluation.evaluate.evaluate`.
    """
    run.load(params)
    return evaluate(
        run.policy, run.world, run.prompter, tasks, temperature=temperature, top_p=run.config.evaluate.top_p,
        seed=seed, max_turns=run.config.max_turns, concurrency=run.policy.slots,
        threads=run.config.sampler.env_threads, whole=whole,
    )  # fmt: skip


def evaluation_metrics(run: Run, params: Any, result: Evaluation) -> Metrics:
    """An evaluation as flat numbers; with `config.evaluate.teacher_divergence` also how far the teacher is."""
    metrics = {
        "eval/success": result.success,
        "eval/score": result.score,
        "eval/mean_over_kinds": result.mean_over_kinds,
        "eval/rejected": result.rejected,
        "eval/games": float(len(result.won)),
        **{f"eval/success_{kind}": value for kind, value in result.by_kind.items()},
    }
    if run.config.evaluate.teacher_divergence:
        metrics["eval/teacher_divergence"] = teacher_divergence(run, params, result.trajectories)
    return metrics


def restore_or_init(
    run: Run, directory: Path, checkpoints: Checkpoints, *, accept_changes: bool
) -> tuple[Progress, int]:
    """What the newest checkpoint that can be read holds and the step it leads to, or a fresh state and 0.

    Raises:
        ConfigurationChanged: it was written under another configuration, and that is not to be accepted.
        UnreadableCheckpoint: there are checkpoints, and none can be read.
    """
    state = run.learner.init(run.reference)
    for done in checkpoints.steps:
        try:
            with together():
                record = read_record(checkpoints, done)
            check_same(run, done, record, accept_changes)
            with together():
                restored = checkpoints.restore(done, state)
        except (UnreadableCheckpoint, ProcessFailure) as error:
            logging.warning("%s; the one before it is tried", error)
            continue
        checkpoints.set_aside(done)
        replies = record.progress.get("teacher_replies")
        if replies and not Path(replies).is_dir():
            logging.warning(
                "the teacher's replies in %s are gone: it is asked again, and may say other things", replies
            )
        return Progress(restored, record.progress["depth"]), done
    if checkpoints.steps:
        raise UnreadableCheckpoint(
            f"none of the checkpoints in {directory} can be read, as the warnings above say; mend them, or remove the "
            "directory to begin anew"
        )
    return Progress(state), 0


def read_record(checkpoints: Checkpoints, done: int) -> Record:
    """What a checkpoint says besides the state, if it is what was saved."""
    record = checkpoints.record(done)
    expected, found = record.progress.get("configuration_hash"), content_address(record.configuration)
    if expected != found:
        raise UnreadableCheckpoint(
            f"the configuration in the checkpoint after {done} steps is damaged: its hash is {found}, not {expected}"
        )
    return record


def check_same(run: Run, done: int, record: Record, accept_changes: bool) -> None:
    """Refuses to go on under another configuration, or where the next step would draw other tasks; or says it."""
    then = {**record.configuration, "steps": 0, "next step": record.progress["next"]}
    now = {**run_record(run), "steps": 0, "next step": next_step(run, done)}
    differences = configuration_differences(then, now)
    if differences and not accept_changes:
        raise ConfigurationChanged(
            f"the run in this workdir was started with another configuration ({differences}); choose another --workdir "
            "or the old configuration, or go on nevertheless with --accept_changes"
        )
    if differences:
        say(f"the run goes on with another configuration than it was started with: {differences}")
