"""PivotOPD on WebShop (arXiv 2609.40285, table of settings).

    python launch/train.py --config=configs/webshop.py --workdir=DIR       Qwen3-1.7B on a pod, WebShop's own files
    python launch/train.py --config=configs/webshop.py:mini --workdir=DIR  a student of 0.7M parameters on a laptop

Both are the same run; only sizes differ. The paper's setting reads the files of $WEBSHOP_DATA (small or full catalogue)
and asks a served teacher (launch/teacher.sh). The mini run makes its own student, shops and instructions; docs/mini.md
says what it has measured so far. What is not said here is in pivotopd_jax/defaults.py, every value with a comment.
"""

from typing import Any

from pivotopd_jax import defaults


def get_config(preset: str = "paper") -> Any:
    """`preset` is "paper" or "mini"."""
    presets = {"paper": lambda config: config, "mini": _mini}
    if preset not in presets:
        raise ValueError(f"configs/webshop.py has no preset {preset!r}; choose one of {', '.join(presets)}")
    return presets[preset](_paper())


def _paper() -> Any:
    c = defaults.paper()
    c.world.name = "webshop"  # without a source: the files of $WEBSHOP_DATA
    c.world.ranking = "five_fields"  # BM25 as the paper's; or "lucene", as WebShop's own engine
    c.world.goal_kind = "synthetic"  # instructions made by a template, as in the papers; or "human"
    c.world.split_by = "goal"  # first 500 instructions for test; "product": no product in two splits
    c.world.products = 1000  # sizes of generated shops, each with one instruction: products in it,
    c.world.option_names = 3  # names of options a product has,
    c.world.option_values = 3  # values an option has,
    c.world.distractors = 20  # products that miss the instruction by one thing
    c.world.eval_splits = ("test",)
    c.max_turns = 15
    c.prompt.history_turns = 2
    c.prompt.prompt_tokens = 4096
    c.knobs.recovery_depth = 1
    c.knobs.recovery_weight = 0.25
    c.ppo.mini_batch = 64
    return c


def _mini(c: Any) -> Any:
    defaults.mini(c)
    c.world.products = 6
    c.world.option_names = 1
    c.world.distractors = 2
    c.max_turns = 8
    c.prompt.prompt_tokens = 352
    c.prompt.response_tokens = 16
    c.learner.row_tokens = 368
    c.knobs.recovery_weight = 0.025  # to ALFWorld's as the paper's is
    c.mini.games = 4500
    c.mini.careless = 0.5
    c.mini.slip = 0.5
    c.mini.lessons = 0.1
    # A product's identifier stands on the page once only; without these two it is not copied within so few games.
    c.mini.copying = 60
    c.mini.context_weight = 0.1
    return c
