"""Responses are untrusted: exactly one action, outside the thinking part; and no world minds what it is told."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fuzz.documents import fuzz, words
from hypothesis import example, given
from hypothesis import strategies as st

from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.envs.search_qa.world import SearchQA
from pivotopd_jax.envs.webshop.world import WebShop
from pivotopd_jax.prompts.alfworld import AlfWorldWording
from pivotopd_jax.prompts.search_qa import SearchQAWording
from pivotopd_jax.prompts.swe import SweWording
from pivotopd_jax.prompts.webshop import WebShopWording

TAGS = (
    "<action>", "</action>", "<think>", "</think>", "<search>", "</search>", "<answer>", "</answer>", "```bash\n",
    "\n```", "```", "<act", "ion>", "</", "look", "search[a]", "answer[b]", "click[c]", "go to desk 1", "\n", "\r",
    "\x00", "\u2028", " ", "[", "]",
)  # fmt: skip
WORDINGS = pytest.mark.parametrize(
    "wording", [AlfWorldWording(), WebShopWording(), SearchQAWording(), SweWording()], ids=lambda w: type(w).__name__
)
SAID = st.from_regex(r"[a-z\[\] 0-9]{1,30}", fullmatch=True)


def carried(wording: Any, action: str) -> list[str]:
    """The forms, as patterns, in which `action` may stand in a response."""
    verb, _, argument = action.partition("[")
    if isinstance(wording, SweWording):
        return [rf"```bash[ \t]*\n\s*{re.escape(action)}\s*\n[ \t]*```"]
    inner = rf"\s*{re.escape(action)}\s*"
    if isinstance(wording, SearchQAWording):
        argument = rf"\s*{re.escape(argument.removesuffix(']'))}\s*"
        return [rf"<{verb}>{argument}</{verb}>", rf"<action>\s*{verb}\[{argument}\]\s*</action>"]
    return [f"<action>{inner}</action>"]


@WORDINGS
@fuzz(400)
@given(words(TAGS))
@example("<act<think></think>ion>look</action>")
@example("<action>lo<think></think>ok</action>")
@example("<action><think>a</think>look</action>")
@example("<search><think>a</think>look</search>")
@example("```ba<think></think>sh\nls\n```")
@example("```bash\nls\n<think>a</think>\n```")
@example("```bash\nls\n```\n```bash\nrm a")
@example("```bash\nls \x00\n```")
@example("<action>look\rgo</action>")
@example("<action>look\u2028go</action>")
@example("<action>look\x00</action>")
@example("<search>look\x00</search>")
def test_an_action_stands_in_the_response_as_a_whole_and_alone(wording, response):
    action = wording.parse(response)
    if action is None:
        return
    assert action == action.strip() != ""
    assert "\x00" not in action
    spoken = re.sub("<think>.*?</think>", "\n", response, flags=re.DOTALL)
    found = [match for form in carried(wording, action) for match in re.findall(form, spoken)]
    assert len(found) == 1
    assert any(re.search(form, response) for form in carried(wording, action))
    if isinstance(wording, SweWording):
        assert spoken.count("```bash\n") == 1
    else:
        assert len(action.splitlines()) == 1


@WORDINGS
@fuzz(100)
@given(SAID.filter(str.strip), SAID.filter(str.strip), words(TAGS, 4))
def test_two_actions_are_none_and_thoughts_are_free(wording, one, other, thought):
    if isinstance(wording, SearchQAWording):
        one, other = f"search[{one.strip(' []') or 'a'}]", f"answer[{other.strip(' []') or 'b'}]"
    said = wording.format(one.strip())
    assert wording.parse(said) == one.strip()
    assert wording.parse(f"{said}\n{wording.format(other.strip())}") is None
    quiet = thought.replace("</think>", "").replace("think>", "")
    assert wording.parse(f"<think>{quiet}</think>{said}") == one.strip()
    assert wording.parse(f"<think>{quiet}{said}") is None


WORLDS = pytest.mark.parametrize("make", [AlfWorld, WebShop, SearchQA], ids=lambda make: make.__name__)
MOVES = st.lists(
    st.one_of(st.integers(0, 50), words((*TAGS, "take ", "from ", "click[buy now]", "click[", "search["), 5)),
    max_size=8,
)
HIDDEN = {"help"}
"""Carried out, and not listed: the student is not shown it."""


def carried_out(make, action: str) -> str:
    """What a world reads of an action: its first line; of that WebShop reads nothing after the last bracket."""
    line = action.strip().lower().partition("\n")[0]
    return line[: line.rfind("]") + 1] if make is WebShop else line


@WORLDS
@fuzz(40)
@given(MOVES)
def test_a_world_does_what_is_admissible_and_nothing_else(make, moves):
    """Numbers choose an admissible action; texts are tried as they are."""
    world = make("generated")
    env, task = world.make(), world.tasks("train")[0]
    observation = env.reset(task)
    for move in moves:
        before = env.snapshot()
        if isinstance(move, int):
            listed = observation.admissible or (f"search[{move}]",)
            action = listed[move % len(listed)]
            assert env.accepts(action)
        else:
            action = move
        accepted = env.accepts(action)
        assert env.snapshot() == before
        if accepted and observation.admissible is not None and not isinstance(move, int):
            free = any(action.startswith(f"{verb}[") for verb in observation.free_verbs)
            low = {one.lower() for one in observation.admissible}
            assert free or action.strip() in HIDDEN or carried_out(make, action) in low
        result = env.step(action)
        if not accepted:
            assert (result.done, result.won, result.reward) == (False, False, 0.0)
            after = env.snapshot()
            left = {"observation": None} if "observation" in before._fields else {}
            assert after._replace(**left) == before._replace(**left)
        if result.done:
            return
        observation = result.observation
