"""The words of SWE tasks, and commands read out of responses."""

from __future__ import annotations

import numpy as np
import pytest

from pivotopd_jax.envs.swe import changes, finishing
from pivotopd_jax.prompts import swe
from pivotopd_jax.prompts.swe import FORMAT, SweWording
from pivotopd_jax.records import Observation, Turn

WORDING = SweWording()


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("```bash\nls\n```", "ls"),
        ("I look.\n```bash\ncat <<'EOF' > a\nx\nEOF\n```\nThat is all.", "cat <<'EOF' > a\nx\nEOF"),
        ("<think>```bash\nrm a\n```</think>```bash\nls\n```", "ls"),
        ("```bash\nls\n```\n```bash\npwd\n```", None),
        ("```bash\nls\n```\n```bash\nrm a", None),
        ("```bash\nls\n<think>rm a</think>\n```", None),
        ("```ba<think>a</think>sh\nls\n```", None),
        ("```bash\nls \0\n```", None),
        ("```bash\n\n```", None),
        ("```bash\n  \n```", None),
        ("```\nls\n```", None),
        ("```bash ls```", None),
        ("ls", None),
        ("<think>```bash\nls\n```", None),
    ],
)
def test_one_block_is_the_command(response, action):
    assert WORDING.parse(response) == action


@pytest.mark.parametrize("action", ["ls", "git apply - <<'EOF'\n--- a/x\n+++ b/x\n\nEOF"])
def test_what_is_said_is_read_again(action):
    assert WORDING.parse(WORDING.format(action)) == action


def test_one_turn_shows_the_task_once():
    seen = [Observation("It fails."), Observation("one"), Observation("two")]
    none = np.zeros(0, np.int32)
    turns = [Turn(o, none, none, none, "", a, 0.0, True, None) for o, a in zip(seen, ["ls", "pwd"], strict=False)]
    text = WORDING.windowed(seen[0], list(enumerate(turns)), seen[2])
    assert text.split("\n") == [
        "You mend a program through bash commands.", "It fails.", "The latest steps:", "[1] did: ls", "[2] saw: one",
        "[2] did: pwd", "Now you see: two", *FORMAT.split("\n"),
    ]  # fmt: skip
    assert WORDING.windowed(seen[0], [], seen[0]) == f"You mend a program through bash commands.\nIt fails.\n{FORMAT}"


def test_what_of_a_command_holds_elsewhere():
    gists = {
        "git apply -R .changes/2": "take back a change", "git apply .changes/1": "bring back a change",
        "sh .changes/test": "run the tests", "python -m pytest -q tests": "run the tests", "cat .changes/2": None,
        "git apply - <<'EOF'\n": None, finishing.SUBMIT: None, "ls": None,
    }  # fmt: skip
    assert {action: WORDING.gist(action) for action in gists} == gists


def test_the_words_are_the_environments():
    assert swe.DONE == finishing.DONE
    assert swe.ONLY == changes.ONLY


def test_a_transcript_opens_with_the_task_and_how_to_answer():
    assert WORDING.opening(Observation("It fails.")) == f"It fails.\n\n{FORMAT}"
