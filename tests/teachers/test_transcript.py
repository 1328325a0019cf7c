"""Trajectories in words: what is cut is said, and the bound on tokens holds."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pivotopd_jax.records import Observation, Task, Trajectory, Turn
from pivotopd_jax.teachers.teacher_prompts import action_messages, report_messages
from pivotopd_jax.teachers.transcript import token_bound, write_trajectory

NO_IDS = np.zeros(0, np.int32)
TURN = Turn(
    Observation("On the shelf 1, you see a mug 2.", ("look", "take mug 2 from shelf 1")), NO_IDS, NO_IDS, NO_IDS,
    "<think>hm</think><action>look</action>", "look", 0.0, True, None,
)  # fmt: skip
LONG = replace(TURN, observation=replace(TURN.observation, text="You see " + "many things, " * 100))


def episode(turns: int, turn: Turn = TURN) -> Trajectory:
    return Trajectory(Task("t", "k", None), 0, (turn,) * turns, 0.0, False, Observation("The end."), None)


def test_what_fits_is_written_whole():
    written = write_trajectory(episode(3), 1000)
    assert written.steps == (0, 1, 2)
    assert "left out" not in written.text
    assert written.text.count("take mug 2 from shelf 1") == 3
    assert "<think>hm</think>" in written.text
    assert written.text.endswith("After the last step the agent saw: The end.")


def test_thoughts_and_lists_go_first_then_the_middle_of_long_texts():
    plain = write_trajectory(episode(10), 500)
    assert plain.steps == tuple(range(10))
    assert plain.text.startswith("For length, the possible actions and the agent's thoughts are left out.")
    assert "take mug" not in plain.text
    short = write_trajectory(episode(4, LONG), 900)
    assert short.steps == (0, 1, 2, 3)
    assert "and the middle of long texts are left out" in short.text
    assert "characters left out" in short.text


@pytest.mark.parametrize(("most", "gap"), [(600, True), (300, True), (10, True)])
def test_then_steps_go_from_the_middle_and_the_text_says_which(most, gap):
    written = write_trajectory(episode(100), most)
    assert token_bound(written.text) <= max(most, 150)
    first, last = map(int, re.findall(r"Steps (\d+) to (\d+) are left out", written.text)[0])
    assert written.steps == (*range(first), *range(last + 1, 100))
    assert {0, 99} <= set(written.steps)
    assert abs(first - (99 - last)) <= 1


def test_a_long_trajectory_is_reported_on_within_the_context():
    messages, written = report_messages(
        episode(400, LONG), max_actions=5, every_turn=False, lessons=True, structured=False, most_tokens=4000
    )
    assert token_bound("".join(m["content"] for m in messages)) <= 4000
    assert 2 < len(written.steps) < 400


def test_the_oldest_words_before_a_recovery_go_first():
    messages = action_messages("old " * 5000 + "You are in cell 3.", structured=False, most_tokens=1000)
    prompt = messages[1]["content"]
    assert token_bound(prompt) <= 1000
    assert re.search(r"RECORD BEGINS\n\[The first \d+ characters are left out for length\.\]\n", prompt)
    assert "You are in cell 3.\nRECORD ENDS" in prompt


TEXTS = [
    write_trajectory(episode(30), 100_000).text,
    "You arrive at countertop 12. On the countertop 12, you see a saltshaker 3, a butterknife 1, and a soapbottle 2.",
    "1234567890 3.14159 \t\t x\n\n\nReceptacle -- ## $$ {}[]",
    "你好，世界 Привет 🙂 naïve façade Straße",
    "search[men's waterproof hiking boots, size 10.5, price < 120.00 dollars]",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_bound_holds_for_the_tokenizer_of_the_papers(text, qwen3_tokenizer):
    count = len(qwen3_tokenizer.encode(text, add_special_tokens=False).ids)
    assert count <= token_bound(text) <= 4 * count


@pytest.fixture(scope="module")
def qwen3_tokenizer():
    import lzma

    from tokenizers import Tokenizer

    path = Path(__file__).resolve().parents[3] / "shared" / "data" / "qwen3_tokenizer" / "tokenizer.json.xz"
    if not path.is_file():
        pytest.skip(f"no Qwen3 tokenizer: {path} is not a file")
    return Tokenizer.from_str(lzma.decompress(path.read_bytes()).decode())
