"""PivotOPD on ALFWorld (arXiv 2609.40285, table of settings).

    python launch/train.py --config=configs/alfworld.py:paper --workdir=DIR   Qwen3-1.7B on a pod, real games
    python launch/train.py --config=configs/alfworld.py:mini  --workdir=DIR   a student of 0.7M parameters on a laptop
    python launch/train.py --config=configs/alfworld.py:mini_real --workdir=DIR   the same on real games, thinned
    python launch/train.py --config=configs/alfworld.py:small --config.student=DIR --workdir=DIR   a pretrained student
        of about 135M parameters on a laptop: shows that it goes through the same door; docs/pretrained.md

All are the same run; only sizes differ. The paper ran on 4 × H100, where a GRPO step took 367 s and recovery with K =
2 added 89.5%, and ended at 73.7% of its 274 test games. The mini run makes its own student and games; docs/mini.md
says what it has measured so far. What is not said here is in pivotopd_jax/defaults.py, every value with a comment.
"""

from typing import Any

from pivotopd_jax import defaults


def get_config(preset: str = "paper") -> Any:
    """`preset` is "paper", "mini", "mini_real" or "small"."""
    presets = {
        "paper": lambda config: config,
        "mini": _mini,
        "mini_real": lambda config: _mini_real(_mini(config)),
        "small": lambda config: _small(_mini(config)),
    }
    if preset not in presets:
        raise ValueError(f"configs/alfworld.py has no preset {preset!r}; choose one of {', '.join(presets)}")
    return presets[preset](_paper())


def _paper() -> Any:
    c = defaults.paper()
    c.world.name = "alfworld"  # without a source: the games of $ALFWORLD_DATA
    c.world.receptacles = 0  # > 0: rooms thinned (or generated) to so many receptacles
    c.world.distractors = -1  # ≥ 0: at most so many objects beyond those the goal needs
    c.world.search = "likeliest"  # how experts explore: "likeliest" place first, or as "listed" by the first text
    c.world.eval_splits = ("valid_seen", "valid_unseen")
    return c


def _mini(c: Any) -> Any:
    defaults.mini(c)
    c.world.receptacles = 4
    c.world.distractors = 1
    c.world.search = "listed"  # can be learned in minutes: it only takes copying
    c.world.eval_splits = ("test",)
    c.max_turns = 14
    c.prompt.prompt_tokens = 352
    c.prompt.response_tokens = 10
    c.learner.row_tokens = 384
    return c


def _mini_real(c: Any) -> Any:
    """The games are real ones, read from $ALFWORLD_DATA and thinned to the mini's size; the student is the same."""
    c.world.source = ""
    c.world.eval_splits = ("valid_seen", "valid_unseen")
    c.evaluate.final_tasks = 0
    return c


def _small(c: Any) -> Any:
    """A pretrained student, with the paper's prompts; so few and short episodes that a step takes minutes."""
    c.student = "HuggingFaceTB/SmolLM2-135M-Instruct"  # or a directory, as launch/import_gguf.py makes one
    c.steps = 8
    c.tasks_per_step, c.rollouts, c.max_turns = 2, 2, 4
    c.teacher.model = ""
    c.prompt.style = "windowed"
    c.prompt.show_admissible = True
    c.prompt.prompt_tokens = 448
    c.prompt.response_tokens = 48
    c.ppo.learning_rate = 1e-5
    c.ppo.mini_batch = 4
    c.ppo.decay_until = 0
    c.learner.row_tokens = 512
    c.learner.micro_batch_tokens = 1024
    c.sampler.slots = 4
    c.sampler.chunk = 128
    c.evaluate.tasks = c.evaluate.final_tasks = 4
    c.evaluate.mistakes, c.evaluate.continuations = 4, 2
    return c
