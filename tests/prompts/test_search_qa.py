"""The words and tags of search-based question answering."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pivotopd_jax.envs.search_qa.engine import split_action
from pivotopd_jax.envs.search_qa.world import SearchQA
from pivotopd_jax.prompts.actions import MAX_ACTION_CHARACTERS, is_one_line
from pivotopd_jax.prompts.search_qa import FORMAT, SearchQAWording
from pivotopd_jax.records import Observation
from pivotopd_jax.teachers.lessons import PlanLessons

WORDING = SearchQAWording()
FIRST = Observation("Question: who?", None, ("search", "answer"))
PIECES = [
    "<search>", "</search>", "<answer>", "</answer>", "<action>", "</action>", "<think>", "</think>", "search[",
    "answer[", "]", "x", " ", "\n", "\r", "\u2028", "é木", "<", ">", "/", "</information>", "y" * 400,
]  # fmt: skip


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("<search>who is it?</search>", "search[who is it?]"),
        ("<think>I <answer>no</answer></think> so: <answer> Eva Lee </answer>.", "answer[Eva Lee]"),
        ("<action>search[who [is] it]</action>", "search[who [is] it]"),
        ("<action> answer[ Eva ] </action>", "answer[Eva]"),
        ("<search>answer[x]</search>", "search[answer[x]]"),
        ("<answer>1 < 2</answer>", "answer[1 < 2]"),
        (f"<search>{'x' * 400}</search>", f"search[{'x' * 400}]"),
        (f"<search>{'x' * 401}</search>", None),
        (f"<search>{'x' * 10_000}</search>", None),
        (f"<action>answer[{'x' * 401}]</action>", None),
        ("", None),
        ("search[x]", None),
        ("<search></search>", None),
        ("<search> </search>", None),
        ("<action>search[]</action>", None),
        ("<action>search[ ]</action>", None),
        ("<action>x</action>", None),
        ("<action>look[x]</action>", None),
        ("<search>a\nb</search>", None),
        ("<search>a\u2028b</search>", None),
        ("<search>\na\n</search>", "search[a]"),
        ("<search>a</search><search>a</search>", None),
        ("<search>a</search> <answer>b</answer>", None),
        ("<search>a</search> <action>search[a]</action>", None),
        ("<search>a <answer>b</answer></search>", None),
        ("<search>a</answer>", None),
        ("</search>a<search>", None),
        ("<search>a", None),
        ("<search>a</search></search>", None),
        ("<Search>a</Search>", None),
        ("<think><search>a</search>", None),
        ("<think><search>a</search></think>", None),
        ("<search>a</think></search>", None),
        ("<search>a<think>b</think>c</search>", None),
        ("<sea<think></think>rch>a</search>", None),
        ("<search><think>b</think>a</search>", None),
        ("<search>a\0</search>", None),
    ],
)
def test_parsing(response, action):
    assert WORDING.parse(response) == action


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=12).map("".join)))
def test_whatever_is_said_the_result_is_canonical(response):
    action = WORDING.parse(response)
    if action is None:
        return
    found = re.fullmatch(r"(search|answer)\[(.+)\]", action)
    assert found
    assert found[2] == found[2].strip()
    assert len(found[2]) <= MAX_ACTION_CHARACTERS
    assert split_action(action) == (found[1], found[2])
    assert WORDING.parse(WORDING.format(action)) == action


@given(st.sampled_from(["search", "answer"]), st.from_regex(r"[^\s<>](?:[^\n\r<>]{0,90}[^\s<>])?", fullmatch=True))
def test_each_action_has_a_response(verb, argument):
    if is_one_line(argument):
        assert WORDING.format(f"{verb}[{argument}]") == f"<{verb}>{argument}</{verb}>"
        assert WORDING.parse(WORDING.format(f"{verb}[{argument}]")) == f"{verb}[{argument}]"
    else:
        assert WORDING.parse(f"<{verb}>{argument}</{verb}>") is None


def test_no_action_has_no_response():
    assert WORDING.format("look[x]") == "<action>look[x]</action>"
    assert WORDING.parse(WORDING.format("look[x]")) is None


def test_the_question():
    assert WORDING.task(FIRST) == "who?"
    assert WORDING.task(Observation("Nothing was done.")) == ""
    assert WORDING.opening(FIRST) == "Question: who?"
    assert WORDING.following(Observation("x")) == "x"


@pytest.mark.parametrize(
    ("action", "gist"),
    [
        ("search[Ann Lee]", "search for what the question still needs"),
        ("answer[Eva]", "answer it"),
        ("look[x]", None),
        ("nonsense", None),
    ],
)
def test_gist(action, gist):
    assert WORDING.gist(action) == gist


def test_a_plan_in_general_terms_names_nothing():
    world = SearchQA()
    task = world.tasks("test")[0]
    env = world.make()
    env.reset(task)
    advise = PlanLessons(world, WORDING.gist)
    assert advise(env.snapshot()) == "search for what the question still needs, answer it"


def test_admissible_actions():
    assert WORDING.admissible(["search[a]", "answer[b]"]) == (
        "\nAdmissible actions:\n<search>your query</search>\n<answer>your answer</answer>"
    )


def test_windowed():
    assert WORDING.windowed(FIRST, [], FIRST).splitlines() == [
        "You answer a question by searching for passages.", "Question: who?", FORMAT,
    ]  # fmt: skip
    turns = [
        SimpleNamespace(observation=FIRST, action="search[a b]"),
        SimpleNamespace(observation=Observation("<information>\nx\n</information>"), action=None),
    ]
    shown = WORDING.windowed(FIRST, list(enumerate(turns)), Observation("told"))  # pyright: ignore[reportArgumentType]
    assert shown.splitlines() == [
        "You answer a question by searching for passages.",
        "Question: who?",
        "The latest steps:",
        "[1] did: <search>a b</search>",
        "[2] saw: <information>",
        "x",
        "</information>",
        "[2] did: nothing that can be done",
        "Now you see: told",
        FORMAT,
    ]
