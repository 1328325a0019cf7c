"""What a method needs before its first step, made once and kept in the run's directory: skills, pivots, a replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jax

from pivotopd_jax.files import write_json
from pivotopd_jax.learner.checkpoints import ConfigurationChanged
from pivotopd_jax.processes import in_turn, say
from pivotopd_jax.records import Task
from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.rollout.curriculum import curriculum
from pivotopd_jax.rollout.pivots import Pivot, find_pivots, load_pivots, save_pivots
from pivotopd_jax.rollout.replay import Replay
from pivotopd_jax.run import Run, configuration_differences, run_record
from pivotopd_jax.sampling.policy import request_seed
from pivotopd_jax.teachers.skills import SkillBank, distil_skills

SKILLS_FILE = "skills.json"
PIVOTS_FILE = "pivots.json"
OFFLINE_FILE = "offline.json"


def prepare(run: Run, directory: Path, report: Callable[[str], None] = say, *, accept_changes: bool = False) -> Run:
    """`run` with all that its method asks for, made by the first of all processes and read by the others.

    Args:
        run: as assembled.
        directory: of the run; what was made for an interrupted attempt is found there.
        report: told in one line what is being done.
        accept_changes: take what was made under another configuration, too.

    Raises:
        ValueError: nothing could be made, or a file is not what it should be; says which.
    """
    if run.method.needs_skills or run.method.behaviour.pivots:
        run.load(run.reference)
    return in_turn(lambda: _prepared(run, directory, report, accept_changes))


def _prepared(run: Run, directory: Path, report: Callable[[str], None], accept_changes: bool) -> Run:
    method = run.method
    if method.needs_skills or method.behaviour.pivots:
        check_offline(run, directory / OFFLINE_FILE, accept_changes=accept_changes)
    if method.needs_skills:
        run = replace(run, skills=skill_bank(run, directory / SKILLS_FILE, report))
    if method.behaviour.pivots:
        run = replace(run, pivots=tuple(pivots(run, directory / PIVOTS_FILE, report)))
    if method.replay:
        run = replace(run, replay=Replay(replay_directory(directory)))
    return run


def replay_directory(directory: Path) -> Path:
    """Where this process keeps label rows: it has its own share of the tasks, and of their labels."""
    index, count = jax.process_index(), jax.process_count()
    return directory / "replay" if count == 1 else directory / "replay" / f"process_{index}_of_{count}"


def check_offline(run: Run, path: Path, *, accept_changes: bool) -> None:
    """Refuses sizes out of range, and what was made here under another configuration.

    Raises:
        ValueError, ConfigurationChanged: says what is wrong.
    """
    options, now = run.config.offline, {**run_record(run), "steps": 0}
    if options.tasks < 1 or options.skills < 1:
        raise ValueError(
            f"config.offline.tasks is {options.tasks} and config.offline.skills {options.skills}; expected at least 1"
        )
    if not path.exists():
        write_json(path, now)
    differences = configuration_differences(json.loads(path.read_text()), now)
    if differences and not accept_changes:
        raise ConfigurationChanged(
            f"skills or pivots were made in this workdir with another configuration ({differences}); choose another "
            "--workdir or the old configuration"
        )


def offline_tasks(run: Run) -> list[Task]:
    """The training tasks on which is played before the first step."""
    config = run.config
    tasks = run.world.tasks(config.world.train_split)
    return curriculum(tasks, 0, min(config.offline.tasks, len(tasks)), request_seed(config.seed, 1))


def skill_bank(run: Run, path: Path, report: Callable[[str], None]) -> SkillBank:
    """The bank of `config.offline.skill_bank`, or one distilled from rollouts of the student that is loaded."""
    config = run.config
    given = Path(config.offline.skill_bank) if config.offline.skill_bank else path
    if config.offline.skill_bank or path.exists():
        return SkillBank.load(given)
    tasks = offline_tasks(run)
    report(f"skill bank: lessons from {len(tasks)} games of the untrained student")
    starts = fresh_starts(run.world, run.prompter, tasks, rollouts=1, max_turns=config.max_turns)
    played = play(
        run.policy, starts, temperature=config.temperature, top_p=config.sampler.top_p, seed=config.seed,
        concurrency=run.policy.slots, threads=config.sampler.env_threads,
    )  # fmt: skip
    bank = distil_skills(run.teacher, played, run.prompter.wording.task, size=config.offline.skills)
    bank.save(path)
    return bank


def pivots(run: Run, path: Path, report: Callable[[str], None]) -> list[Pivot]:
    """The turns of the teacher's episodes that are worth practising for the student that is loaded."""
    config, tasks = run.config, offline_tasks(run)
    if not path.exists():
        report(f"pivots: the untrained student at every turn of the teacher in {len(tasks)} games")
        assert run.method.behaviour.pivots
        found = find_pivots(
            run.policy, run.teacher, run.world, run.prompter, tasks, run.method.behaviour.pivots,
            max_turns=config.max_turns, temperature=config.temperature, top_p=config.sampler.top_p, seed=config.seed,
            concurrency=run.policy.slots, threads=config.sampler.env_threads,
        )  # fmt: skip
        save_pivots(path, found)
    return load_pivots(path, run.world, run.prompter, {task.id: task for task in tasks})
