"""Pages and actions on the hand-made shop, and whatever a model may send."""

from __future__ import annotations

import pickle
import random
import re
from dataclasses import replace

import pytest

from pivotopd_jax.envs.webshop.engine import Errand, WebShopEnv, split_action, suggested_queries
from pivotopd_jax.envs.webshop.goals import with_bound
from pivotopd_jax.envs.webshop.nouns import Nouns
from pivotopd_jax.envs.webshop.shop import Shop
from pivotopd_jax.records import Task

ITEM = (
    "color [SEP] red [SEP] blue [SEP] size [SEP] s | m [SEP] l [SEP] Oak Table [SEP] Price: $15.5 [SEP] Rating: N.A. "
    "[SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
)
TABLES = (
    "Page 1 (Total results: 2) [SEP] PINE [SEP] Pine Table [SEP] $40.0 to $60.0 [SEP] OAK [SEP] Oak Table [SEP] $15.5"
)
NOT_THERE = [
    "", "   ", "search", "search[]", "click[]", "click[nothing]", "click[search]", "Search[oak]", "[oak]",
    "CLICK[Back to Search]", "click [buy now]", "click[buy now", "buy now", "<b>click</b>[x]", "click[木]",
    "click[" + "x" * 10_000 + "]", "[" * 10_000 + "]", "]" + "[" * 10_000, "search\n[oak]", "think[search[oak]]",
]  # fmt: skip
QUERIES = [
    "<r>",
    "<a> easy clean",
    "<c>",
    "<q> tables",
    "木の椅子 ❤",
    " ",
    "{{7*7}}",
    "<script>",
    "' OR 1=1",
    "x" * 10_000,
]


def head(env, *more):
    instruction = env.snapshot().goal.instruction
    return " [SEP] ".join(["Instruction:", instruction, "Back to Search", *more])


def test_every_page(env):
    goal = env.snapshot().goal
    shown = env.restore(env.snapshot())
    assert shown.text == f"WebShop [SEP] Instruction: [SEP] {goal.instruction} [SEP] Search"
    assert env.step("search[tables]").observation.text == head(env, TABLES)
    assert env.step("click[oak]").observation.text == head(env, "< Prev", ITEM)
    assert env.step("click[description]").observation.text == head(env, "< Prev", "A solid table.")
    assert env.step("click[< Prev]").observation.text == head(env, "< Prev", ITEM)
    assert env.step("click[Features]").observation.text == head(env, "< Prev", "easy clean", "made to last")
    env.step("click[< prev]")
    assert env.step("click[Reviews]").observation.text == head(env, "< Prev", "No reviews found")
    env.step("click[< Prev]")
    env.step("click[< Prev]")
    assert env.step("click[< Prev]").observation.text == head(env, TABLES)
    assert env.step("click[Back to Search]").observation.text == shown.text


def test_a_purchase(env):
    for action in ("search[oak]", "click[OAK]", "click[blue]", "click[L]"):
        result = env.step(action)
        assert (result.reward, result.done, result.won) == (0.0, False, False)
    result = env.step("click[Buy Now]")
    assert (result.reward, result.done, result.won) == (1.0, True, True)
    assert "score" in result.observation.text
    assert result.observation.admissible == ()
    assert not env.accepts("search[oak]")
    with pytest.raises(RuntimeError, match="after a purchase"):
        env.step("search[oak]")


def test_a_worse_purchase_is_no_victory(env):
    for action in ("search[oak]", "click[oak]"):
        env.step(action)
    result = env.step("click[buy now]")
    assert (result.reward, result.done, result.won) == (0.5, True, False)


def test_options_outlive_sub_pages_and_nothing_else(env):
    def chosen():
        return dict(env.snapshot().state.chosen)

    clicks = ("click[oak]", "click[red]", "click[l]", "click[blue]", "click[features]", "click[< prev]")
    for action in ("search[oak]", *clicks):
        env.step(action)
    assert chosen() == {"color": "blue", "size": "l"}
    for leave in ("click[< prev]", "search[oak]", "click[back to search]"):
        env.step("search[oak]")
        env.step("click[oak]")
        env.step("click[blue]")
        env.step(leave)
        assert chosen() == {}


def test_paging(real):
    shop, goals = real
    env = WebShopEnv()
    env.reset(Task("t", "", Errand(shop, goals[0])))
    seen = []
    env.step("search[black, white or blue with cotton]")
    for page in range(1, 6):
        actions = env.snapshot().observation.admissible or ()
        assert ("click[< Prev]" in actions, "click[Next >]" in actions) == (page > 1, page < 5)
        assert f"Page {page} (Total results: 50)" in env.snapshot().observation.text
        seen += [action for action in actions if re.fullmatch(r"click\[[0-9A-Z]{10}\]", action)]
        env.step("click[next >]")
    assert len(set(seen[:50])) == 50
    assert not env.accepts("click[next >]")
    assert "Page 4 " in env.step("click[< Prev]").observation.text


def test_what_is_listed_is_accepted_and_changes_something(env):
    chance = random.Random(0)
    for _ in range(300):
        now = env.snapshot()
        assert list(now.observation.admissible) == sorted(set(now.observation.admissible))
        assert all(map(env.accepts, now.observation.admissible))
        if env.step(chance.choice(now.observation.admissible)).done:
            env.restore(now)


@pytest.mark.parametrize("action", NOT_THERE)
def test_what_is_not_there_changes_nothing(env, action):
    for prepare in ("search[tables]", "click[pine]"):
        before = env.snapshot()
        assert not env.accepts(action)
        result = env.step(action)
        assert (result.observation, result.reward, result.done) == (before.observation, 0.0, False)
        assert env.snapshot() == before
        env.step(prepare)


@pytest.mark.parametrize("query", QUERIES)
def test_any_query_is_only_words(env, query):
    result = env.step(f"search[{query}]")
    assert "Page 1 (Total results:" in result.observation.text
    assert "Next >" not in result.observation.text
    assert hash(env.snapshot()) == hash(env.snapshot())


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("search[Oak Table]", ("search", "oak table")),
        ("click[a] and then", ("click", "a")),
        ("search[a[b]c]", ("search[a", "b]c")),
        ("click[a]]", ("click", "a]")),
        ("x[]]", ("x", "]")),
        ("x[]", None),
        ("[x]", None),
        ("x[y\n]", None),
    ],
)
def test_splitting_actions_as_the_expression_would(action, expected):
    found = re.match(r"(.+)\[(.+)\]", action)
    assert split_action(action) == expected == (found and (found.group(1), found.group(2).lower()))


def test_of_equal_values_the_last_name_is_chosen(shop, goals):
    options = {"top": ("red", "buy now"), "bottom": ("red",)}
    products = [replace(shop.products[0], options=options)]
    env = WebShopEnv()
    env.reset(Task("t", "", Errand(Shop("s", products, Nouns({"OAK": ["table"]})), goals[0])))
    for action in ("search[oak]", "click[oak]", "click[red]"):
        env.step(action)
    assert env.snapshot().state.chosen == (("bottom", "red"),)
    assert env.step("click[buy now]").done


def test_snapshots(env):
    first = env.snapshot()
    env.step("search[oak]")
    env.step("click[oak]")
    later, shown = env.snapshot(), env.snapshot().observation
    assert env.restore(first) == first.observation
    other = WebShopEnv()
    assert other.restore(later) == shown
    assert other.step("click[blue]").observation.text == env.restore(later).text
    assert len({first, later, env.snapshot()}) == 2
    with pytest.raises(TypeError, match="expected a WebShopSnapshot, got str"):
        env.restore("x")
    assert pickle.loads(pickle.dumps(later.state)) == later.state


def test_before_reset():
    env = WebShopEnv()
    for use in (env.snapshot, lambda: env.step("search[x]"), lambda: env.accepts("search[x]")):
        with pytest.raises(RuntimeError, match="call reset"):
            use()
    with pytest.raises(TypeError, match="expected an Errand as its source, got NoneType"):
        env.reset(Task("t", "", None))
    with pytest.raises(ValueError, match="style 'html' is not known; choose one of text, text_rich"):
        WebShopEnv(style="html")  # pyright: ignore[reportArgumentType]


def test_rich_text(shop, goals):
    env = WebShopEnv(style="text_rich", show_attributes=True)
    goal = with_bound(goals[0], 50.0)
    words = goal.instruction
    assert env.reset(Task("t", "", Errand(shop, goal))).text == (
        f"WebShop\nInstruction: \n{words}\n[button] Search [button_]\n"
    )
    env.step("search[oak]")
    env.step("click[oak]")
    text = env.step("click[blue]").observation.text
    assert text.startswith("You have clicked blue.\nInstruction:\n")
    assert "  [button] red [button_]\n  [clicked button] blue [clicked button_]\nsize\n" in text
    assert text.endswith("[button] Attributes [button_]\n[button] Buy Now [button_]\n")
    assert (
        "solid wood\neasy clean\ngarden\ntables\nHome › Furniture\n" in env.step("click[attributes]").observation.text
    )
    back = env.step("search[tables]").observation.text
    assert "$60.0\n\n[clicked button] OAK [clicked button_]\nOak Table\n$15.5\n" in back
    assert "\n[button] PINE [button_]\n" in back
    env.step("click[back to search]")
    assert "\n[button] OAK [button_]\n" in env.step("search[oak]").observation.text


def test_suggested_queries(goals):
    assert suggested_queries(goals[0]) == ("easy clean tables blue l", "easy clean tables")
