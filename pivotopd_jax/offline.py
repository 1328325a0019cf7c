"""What a method needs before its first step, made once and kept in the run's directory: skills, pivots, a replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pivotopd_jax.files import write_json
from pivotopd_jax.learner.checkpoints import ConfigurationChanged
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


def prepare(run: Run, directory: Path, report: Callable[[str], None] = print) -> Run:
    """`run` with all that its method asks for.

    Args:
        run: as assembled.
        directory: of the run; what was made for an interrupted attempt is found there.
        report: told in one line what is being done.

    Raises:
        ValueError: nothing could be made, or a file is not what it should be; says which.
    """
    method = run.method
    if method.needs_skills or method.behaviour.pivots:
        check_offline(run, directory / OFFLINE_FILE)
    if method.needs_skills:
        run = replace(run, skills=skill_bank(run, directory / SKILLS_FILE, report))
    if method.behaviour.pivots:
        run = replace(run, pivots=tuple(pivots(run, directory / PIVOTS_FILE, report)))
    if method.replay:
        run = replace(run, replay=Replay(directory / "replay"))
    return run


def check_offline(run: Run, path: Path) -> None:
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
    if differences := configuration_differences(json.loads(path.read_text()), now):
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
    """The bank of `config.offline.skill_bank`, or one distilled from the untrained student's own rollouts."""
    config = run.config
    given = Path(config.offline.skill_bank) if config.offline.skill_bank else path
    if config.offline.skill_bank or path.exists():
        return SkillBank.load(given)
    tasks = offline_tasks(run)
    report(f"skill bank: lessons from {len(tasks)} games of the untrained student")
    run.policy.load(run.reference)
    starts = fresh_starts(run.world, run.prompter, tasks, rollouts=1, max_turns=config.max_turns)
    played = play(run.policy, starts, temperature=config.temperature, seed=config.seed, concurrency=run.policy.slots)
    bank = distil_skills(run.teacher, played, run.prompter.wording.task, size=config.offline.skills)
    bank.save(path)
    return bank


def pivots(run: Run, path: Path, report: Callable[[str], None]) -> list[Pivot]:
    """The turns of the teacher's episodes that are worth practising."""
    config, tasks = run.config, offline_tasks(run)
    if not path.exists():
        report(f"pivots: the untrained student at every turn of the teacher in {len(tasks)} games")
        run.policy.load(run.reference)
        assert run.method.behaviour.pivots
        found = find_pivots(
            run.policy, run.teacher, run.world, run.prompter, tasks, run.method.behaviour.pivots,
            max_turns=config.max_turns, temperature=config.temperature, seed=config.seed, concurrency=run.policy.slots,
        )  # fmt: skip
        save_pivots(path, found)
    return load_pivots(path, run.world, run.prompter, {task.id: task for task in tasks})
