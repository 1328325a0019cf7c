"""Contexts: where hints stand, what truncation may take, and what may never be trained under."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.prompts.alfworld import AlfWorldWording
from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.prompts.hints import REFLECTION, action_hint, is_privileged, leaks_hint, lesson_hint
from pivotopd_jax.prompts.prompter import PrivilegedPrompt, Prompter
from pivotopd_jax.records import Observation, Turn

FIRST = Observation("-= Welcome to TextWorld, ALFRED! =-\n\nA room.\n\nYour task is to: wash a mug.", ("look", "wait"))
SECOND = Observation("You wait.", ("look",))


def make(style: str = "transcript", tokens: int = 10_000, admissible: bool = True, keep_task: bool = False) -> Prompter:
    chat = Chat(build_tokenizer([FIRST.text, SECOND.text]))
    return Prompter(chat, AlfWorldWording(), style, 2, admissible, tokens, keep_task)  # type: ignore[arg-type]


def turn(prompter: Prompter, observation: Observation, action: str) -> Turn:
    said = prompter.chat.encode(f"<action>{action}</action>{prompter.chat.template.end}")
    context = prompter.context([], observation)
    return Turn(observation, context, said, np.zeros(len(said), np.float32), "", action, 0.0, True, None)


def text(prompter: Prompter, ids: np.ndarray) -> str:
    return prompter.chat.tokenizer.decode([int(i) for i in ids])


def test_a_transcript_lists_actions_for_the_present_turn_only():
    p = make()
    played = turn(p, FIRST, "wait")
    assert text(p, p.context([played], SECOND)) == (
        "<|user|>A room.\n\nYour task is to: wash a mug.<|assistant|><action>wait</action><|end|>"
        "<|user|>You wait.\nAdmissible actions:\nlook<|assistant|>"
    )
    assert text(p, played.context_ids).endswith("wash a mug.\nAdmissible actions:\nlook\nwait<|assistant|>")
    bare = make(admissible=False)
    assert "Admissible" not in text(bare, bare.context([], FIRST))


def test_a_window_shows_the_task_and_the_last_turns():
    p = make("windowed")
    history = [turn(p, FIRST, "wait"), turn(p, SECOND, "look"), turn(p, SECOND, "wait")]
    shown = text(p, p.context(history, SECOND))
    assert "Task: wash a mug." in shown
    assert "[2] saw: You wait.\ndid: look\n[3] saw: You wait.\ndid: wait\nNow you see: You wait." in shown
    assert "[1]" not in shown


@pytest.mark.parametrize("style", ["transcript", "windowed"])
def test_a_hint_ends_the_user_turn(style):
    p = make(style)
    hint = action_hint("wait")
    plain, hinted = text(p, p.context([], FIRST)), text(p, p.context([], FIRST, hint))
    assert hinted == plain.removesuffix("<|assistant|>") + hint + "<|assistant|>"
    p.assert_unprivileged(p.context([], FIRST))
    with pytest.raises(PrivilegedPrompt):
        p.assert_unprivileged(p.context([], FIRST, hint))


def test_truncation_takes_the_oldest_tokens_and_never_the_hint():
    hint = action_hint("wait")
    size = len(make().chat.encode(hint)) + 1
    p = make(tokens=size)
    assert text(p, p.context([], FIRST, hint)) == hint + "<|assistant|>"
    with pytest.raises(PrivilegedPrompt, match=f"does not survive truncation to {size - 2} prompt tokens"):
        make(tokens=size - 2).context([], FIRST, hint)


def long_history(prompter: Prompter, turns: int) -> list[Turn]:
    return [turn(prompter, Observation(f"Room {n}.") if n else FIRST, "wait") for n in range(turns)]


def test_a_long_transcript_keeps_its_task_and_says_what_is_left_out():
    """Worked out by hand: the first turn of the latest ones, and all that follow it."""
    whole = make(admissible=False)
    history, last = long_history(whole, 9), Observation("Room 9.")
    length = len(whole.context(history, last))
    assert text(whole, whole.context(history, last)) == text(
        whole, make(tokens=length, admissible=False, keep_task=True).context(history, last)
    )
    short = make(tokens=length - 1, admissible=False, keep_task=True)
    shown = text(short, short.context(history, last, "Think."))
    task, _, rest = shown.partition("\n\n[The first ")
    assert task == "<|user|>A room.\n\nYour task is to: wash a mug."
    count, _, rest = rest.partition(" turns are left out for length; the last of them showed this.]\n")
    kept = range(int(count), 10)
    said = "<|assistant|><action>wait</action><|end|><|user|>"
    assert rest == said.join(f"Room {n}." for n in kept) + "Think.<|assistant|>"
    assert 1 <= int(count) < 9


def test_the_beginning_of_a_long_transcript_stays_for_some_turns():
    """So that what was read of it can be read on from, and no context is too long."""
    prompter = make(tokens=400, admissible=False, keep_task=True)
    history = long_history(prompter, 60)
    contexts = [prompter.context(history[:n], Observation(f"Room {n}.")) for n in range(1, 60)]
    assert all(len(ids) <= 400 for ids in contexts)
    assert all(text(prompter, ids).startswith("<|user|>A room.\n\nYour task is to: wash a mug.") for ids in contexts)
    goes_on = [len(b) > len(a) and (b[: len(a)] == a).all() for a, b in pairwise(contexts)]
    assert 0.7 < sum(goes_on) / len(goes_on) < 1


def test_one_turn_that_is_too_long_loses_its_beginning():
    prompter = make(tokens=40, keep_task=True)
    for history in ([], long_history(prompter, 1)):
        ids = prompter.context(history, Observation("Room. " * 30 + "The end."))
        assert len(ids) == 40
        assert text(prompter, ids).endswith("The end.<|assistant|>")


@pytest.mark.parametrize("hint", [action_hint("wait"), lesson_hint("wash first"), REFLECTION])
def test_every_kind_of_hint_is_privileged(hint):
    assert is_privileged("before" + hint)
    assert not is_privileged("Think again. A reasonable person waits.")


@pytest.mark.parametrize(
    ("response", "leaks"),
    [
        ("As the hint says, <action>wait</action>", True),
        ("I was SUGGESTED this", True),
        ("following the provided approach", True),
        ("<think>The mug is dirty.</think><action>wait</action>", False),
        ("the hinterland", False),
    ],
)
def test_leaks(response, leaks):
    assert leaks_hint(response) == leaks
