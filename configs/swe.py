"""PivotOPD on software engineering (arXiv 2609.40285, section on SWE).

    python launch/train.py --config=configs/swe.py --workdir=DIR       a student that writes patches, on a pod
    python launch/train.py --config=configs/swe.py:mini --workdir=DIR  a student of 0.7M parameters on a laptop

The paper's setting reads the tasks of $SWE_DATA (rows of SWE-bench's schema, in container images or made by
launch/build_swe_tasks.py) and asks a served teacher, who names the last action of one failed trajectory a group and
scores the student's tokens. The mini run's student cannot write patches: it looks at changes, takes them back, runs the
tests and hands in, through the same sandbox and interface. What is not said here is in pivotopd_jax/defaults.py.
"""

from typing import Any

from pivotopd_jax import defaults


def get_config(preset: str = "paper") -> Any:
    """`preset` is "paper" or "mini"."""
    presets = {"paper": lambda config: config, "mini": _mini}
    if preset not in presets:
        raise ValueError(f"configs/swe.py has no preset {preset!r}; choose one of {', '.join(presets)}")
    return presets[preset](_paper())


def _paper() -> Any:
    c = defaults.paper()
    c.world.name = "swe"  # without a source: the tasks of $SWE_DATA
    c.world.actions = "bash"  # any command; "changes": the few of tasks of taking a change back
    c.world.changes = 3  # changes of such a task
    c.world.orders = 2  # tasks of this kind that are made of each mistake
    c.world.built = 50  # tasks made on this machine, where the source is "generated"
    c.world.image = ""  # of containers, with {id}; "": SWE-bench's own
    c.world.server = ""  # or the address of a server of swe-rex for each task, with {id}
    c.world.command_seconds = 60.0  # limits of a command,
    c.world.memory_mib = 2048
    c.world.processes = 128
    c.world.disk_mib = 64
    c.world.episode_seconds = 3600.0  # and of an episode's commands together
    c.sampler.env_deadline_seconds = 3600.0  # a command with which the work is handed in has the tests run, too
    c.world.episode_characters = 1_000_000  # shown in it
    c.world.eval_splits = ("test",)
    c.method = "hinted_opd"  # the teacher hinted at the final action, on top of plain distillation
    c.tasks_per_step = 32
    c.rollouts = 16
    c.max_turns = 100
    c.temperature = 0.6
    c.prompt.style = "transcript"
    c.prompt.show_admissible = False
    c.prompt.prompt_tokens = 196_608
    c.prompt.keep_task = True
    c.prompt.response_tokens = 4096
    c.knobs.max_actions = 1
    c.knobs.recovery_depth = 0
    c.knobs.preventive_weight = 0.1
    c.knobs.lesson_weight = 0.0
    c.ppo.learning_rate = 3e-6
    c.learner.row_tokens = 200_704
    return c


def _mini(c: Any) -> Any:
    defaults.mini(c)
    c.method = "pivotopd"
    c.world.actions = "changes"
    c.world.eval_splits = ("validation", "test")
    c.steps = 20
    c.temperature = 1.0
    c.max_turns = 12
    c.rollouts = 8
    c.prompt.prompt_tokens = 480
    c.prompt.response_tokens = 16
    c.learner.row_tokens = 496
    c.knobs.max_actions = 2
    c.knobs.recovery_depth = 2
    c.knobs.preventive_weight = 0.001
    c.ppo.decay_until = 20
    c.evaluate.tasks = 0  # all
    c.evaluate.final_tasks = 0
    c.evaluate.mistakes = 24
    c.evaluate.continuations = 4
    c.mini.games = 400
    c.mini.epochs = 30
    return c
