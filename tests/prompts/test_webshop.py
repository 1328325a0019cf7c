"""The words of WebShop in both styles."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tiny_shop import tiny_goals, tiny_shop

from pivotopd_jax.envs.webshop.engine import Errand, WebShopEnv
from pivotopd_jax.envs.webshop.world import WebShop
from pivotopd_jax.prompts.webshop import FORMAT, WebShopWording
from pivotopd_jax.records import Task
from pivotopd_jax.teachers.lessons import PlanLessons

WORDING = WebShopWording()


def started():
    shop = tiny_shop()
    goal = tiny_goals(shop)[0]
    env = WebShopEnv()
    return env, goal, env.reset(Task("t", "", Errand(shop, goal)))


def test_a_transcript_says_the_instruction_once():
    env, goal, first = started()
    assert WORDING.opening(first) == f"{goal.instruction}\nWebShop\nSearch"
    results = env.step("search[oak]").observation
    expected = "Back to Search\nPage 1 (Total results: 1)\nOAK\nOak Table\n$15.5"
    assert WORDING.following(results) == expected
    env.step("click[oak]")
    last = env.step("click[buy now]").observation
    assert WORDING.following(last) == "Thank you for shopping with us!\nYour score (min 0.0, max 1.0)\n0.5"
    assert WORDING.opening(last) == WORDING.following(last)


def test_a_plan_in_general_terms_names_no_product():
    world = WebShop("generated")
    advise = PlanLessons(world, WORDING.gist)
    for task in world.tasks("test")[:10]:
        env = world.make()
        first = env.reset(task)
        assert WORDING.task(first) == task.source.goal.instruction
        lesson = advise(env.snapshot()) or ""
        assert lesson.startswith("search for what is asked for, open the product that fits, ")
        assert lesson.endswith("buy it")
        assert lesson.count("choose each option") <= 1


@pytest.mark.parametrize(
    ("action", "gist"),
    [
        ("click[Next >]", None),
        ("click[Back to Search]", None),
        ("click[Features]", None),
        ("click[multicolor]", "choose each option that is asked for"),
        ("click[B0978Q1KK9]", "open the product that fits"),
        ("nonsense", None),
    ],
)
def test_gist(action, gist):
    assert WORDING.gist(action) == gist


def test_queries_are_free():
    env, _, _ = started()
    shown = env.step("search[oak]").observation
    assert WORDING.admissible(shown.admissible or ()) == (
        "\nAdmissible actions:\nsearch[<your query>]\nclick[Back to Search]\nclick[OAK]"
    )
    assert WORDING.admissible(["click[a]"]) == "\nAdmissible actions:\nclick[a]"


def test_windowed():
    env, goal, first = started()
    results = env.step("search[oak]").observation
    turn = SimpleNamespace(observation=first, action="search[oak]")
    assert WORDING.windowed(first, [(0, turn)], results).splitlines() == [  # pyright: ignore[reportArgumentType]
        "You shop on a web site through text commands.",
        f"Task: {goal.instruction}",
        "The latest steps:",
        f"[1] saw: {first.text}",
        "did: search[oak]",
        f"Now you see: {results.text}",
        FORMAT,
    ]
