"""The words of SWE tasks, in both prompt styles; an action is what stands in the one block of bash of a response."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pivotopd_jax.prompts.actions import CUT, without_thinking
from pivotopd_jax.records import Observation, Turn

OPENS, CLOSES = "```bash\n", "\n```"
DONE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
FORMAT = (
    "Think about the next step, then give exactly one bash command, in one block:\n```bash\nyour command\n```\n"
    "Each command runs in a shell of its own, in the top directory of the repository; only files stay from one to the "
    f"next. When the work is done: echo {DONE}"
)
ONLY = (
    "Only these commands are carried out, for a change N: cat .changes/N shows it, git apply -R .changes/N takes it "
    f"back, git apply .changes/N brings it back; sh .changes/test runs tests; echo {DONE} hands in."
)
"""What tasks say in which only a few commands are carried out."""

_OPENED = re.compile(r"```bash[ \t]*\n")
_BLOCK = re.compile(r"```bash[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)


class SweWording:
    """Implements `prompts.prompter.Wording`."""

    phrases: Sequence[str] = (
        OPENS, CLOSES, "<returncode>0</returncode>\n<output>\n", "<returncode>1</returncode>\n<output>\n", "</output>",
        f"echo {DONE}", "git apply .changes/", "git apply -R .changes/", "cat .changes/", "sh .changes/test",
        " fail: one of its last changes broke it. Changes:\n", "The tests of ", f"\n{ONLY}", f"\n\n{FORMAT}",
    )  # fmt: skip

    def opening(self, observation: Observation) -> str:
        return f"{observation.text}\n\n{FORMAT}"

    def following(self, observation: Observation) -> str:
        return observation.text

    def admissible(self, actions: Sequence[str]) -> str:
        return "\nAdmissible commands:" + "".join(f"\n{action}" for action in actions)

    def task(self, first: Observation) -> str:
        return first.text

    def gist(self, action: str) -> str | None:
        """Commands that are told apart by a number say what is done with any; handing in has none."""
        if DONE in action or action.startswith(("cat ", "sed ", "ls", "git diff", "git status")):
            return None
        if action.startswith("git apply"):
            verb = "take back" if " -R " in action else "bring back"
            return f"{verb} a change" if ".changes/" in action else None
        return "run the tests" if "test" in action else None

    def windowed(self, first: Observation, history: Sequence[tuple[int, Turn]], observation: Observation) -> str:
        lines = ["You mend a program through bash commands.", self.task(first)]
        if history:
            lines.append("The latest steps:")
        for index, turn in history:
            if index > 0:  # the task stands above already
                lines.append(f"[{index + 1}] saw: {turn.observation.text}")
            lines.append(f"[{index + 1}] did: {turn.action}")
        lines += [f"Now you see: {observation.text}"] if history else []
        return "\n".join([*lines, FORMAT])

    def parse(self, response: str) -> str | None:
        """The command of the one block ```bash .. ``` outside the thinking part; None if there is none, or several."""
        spoken = without_thinking(response)
        if spoken is None or len(_OPENED.findall(spoken)) != 1:
            return None
        found = _BLOCK.search(spoken)
        command = found[1].strip() if found else ""
        return command if command and CUT not in command else None

    def format(self, action: str) -> str:
        return f"{OPENS}{action}{CLOSES}"
