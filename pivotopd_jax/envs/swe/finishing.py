"""How the work is handed in: as in mini-swe-agent, by what a command writes."""

from __future__ import annotations

from pivotopd_jax.envs.swe.sandbox import Ran

DONE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
SUBMIT = f"echo {DONE}"


def is_submission(ran: Ran) -> bool:
    """Whether a command says that the work is done: the first line of its output is `DONE`, and its exit status 0."""
    first = ran.output.head.lstrip().partition("\n")[0].strip()
    return ran.ending == "ended" and ran.status == 0 and first == DONE
