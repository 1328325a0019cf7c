"""PivotOPD on search-based question answering (arXiv 2609.40285, table of settings).

    python launch/train.py --config=configs/search_qa.py --workdir=DIR       Qwen3-1.7B on a pod, real questions
    python launch/train.py --config=configs/search_qa.py:mini --workdir=DIR  a student of 0.7M parameters on a laptop

Both are the same run; only sizes differ. The paper's setting reads the questions (and, without a retrieval server, the
passages) of $SEARCH_QA_DATA and asks a served teacher (launch/teacher.sh). The mini run makes its own student,
encyclopedias and questions. What is not said here is in pivotopd_jax/defaults.py, every value with a comment.
"""

from typing import Any

from pivotopd_jax import defaults


def get_config(preset: str = "paper") -> Any:
    """`preset` is "paper" or "mini"."""
    presets = {"paper": lambda config: config, "mini": _mini}
    if preset not in presets:
        raise ValueError(f"configs/search_qa.py has no preset {preset!r}; choose one of {', '.join(presets)}")
    return presets[preset](_paper())


def _paper() -> Any:
    c = defaults.paper()
    c.world.name = "search_qa"  # without a source: the files of $SEARCH_QA_DATA
    c.world.retriever = ""  # address of a retrieval server (launch/retriever.py); "" searches in this process
    c.world.top_k = 3  # passages that a search shows
    c.world.hops = 2  # sizes of generated encyclopedias, each with one question: most passages that it takes,
    c.world.distractors = 2  # passages like each of these,
    c.world.passages = 12  # all passages
    c.world.test_questions = 100  # of each set of real questions, but all 125 of Bamboogle; 0: all of all
    c.world.eval_splits = ("test",)
    c.tasks_per_step = 64
    c.max_turns = 4
    c.prompt.history_turns = 4
    c.prompt.prompt_tokens = 4096
    c.knobs.max_actions = 2
    c.knobs.recovery_depth = 1
    c.knobs.recovery_weight = 0.125  # for a student of 8B 0.0625
    c.ppo.mini_batch = 256
    c.evaluate.tasks = 256
    return c


def _mini(c: Any) -> Any:
    defaults.mini(c)
    c.world.top_k = 2
    c.world.distractors = 1
    c.world.passages = 6
    c.max_turns = 5
    c.prompt.prompt_tokens = 352
    c.prompt.response_tokens = 16
    c.learner.row_tokens = 368
    c.evaluate.tasks = 128
    c.mini.games = 3500
    c.mini.lessons = 0.1
    c.mini.copying = 60  # names are copied from where they were said; this brings it about sooner
    return c
