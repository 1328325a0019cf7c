"""Replaying WebShop recordings: agreement is counted, and every kind of disagreement is found and named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_shop import ATTRIBUTES, MUG, NOUNS, OAK, PINE

from pivotopd_jax.evaluation.verify_webshop import verify_webshop

SCRIPT = Path(__file__).parents[2] / "launch" / "verify_env.py"


@pytest.fixture
def data(tmp_path):
    (tmp_path / "items_shuffle_1000.json").write_text(json.dumps([OAK, PINE, MUG]))
    (tmp_path / "items_ins_v2_1000.json").write_text(json.dumps(ATTRIBUTES))
    (tmp_path / "title_nouns.json").write_text(json.dumps(NOUNS))
    return tmp_path


def recording():
    """The red oak table in S/M, which is first in WebShop's order, under a bound of another start."""
    wanted = "Find me easy clean tables with color: red, and size: s | m, and price lower than 990.00 dollars"
    head = f"Instruction: [SEP] {wanted} [SEP] Back to Search [SEP] "
    item = (
        head
        + "< Prev [SEP] color [SEP] red [SEP] blue [SEP] size [SEP] s | m [SEP] l [SEP] Oak Table [SEP] Price: $15.5 "
        "[SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    rows = [
        ("search[oak]", head + "Page 1 (Total results: 1) [SEP] OAK [SEP] Oak Table [SEP] $15.5"),
        ("click[OAK]", item),
        ("click[red]", item),
        ("click[s | m]", item),
        ("click[Buy Now]", None),
    ]
    steps = [{"action": action, "next_obs": text} for action, text in rows]
    number = SESSION
    return {"session": number, "first_obs": f"WebShop [SEP] Instruction: [SEP] {wanted} [SEP] Search", "steps": steps}


def _session():
    import random

    order = [("red", "s | m"), ("red", "l"), ("blue", "s | m"), ("blue", "l")]
    random.Random(233).shuffle(order)
    return order.index(("red", "s | m"))


SESSION = _session()


def write(folder, *episodes):
    path = folder / "episodes.jsonl"
    path.write_text("".join(json.dumps(episode) + "\n" for episode in episodes))
    return path


def test_everything_agrees(data):
    agreement = verify_webshop(write(data, recording()), data)
    assert json.loads(agreement.to_json()) == {
        "episodes": 1,
        "steps": 5,
        "intro_equal": 1,
        "observation_equal": 5,
        "result_pages": 1,
        "result_pages_equal": 1,
        "reward_equal": 1,
        "first_differences": [],
    }
    assert agreement.complete


def spoil_intro(episode):
    episode["first_obs"] = episode["first_obs"].replace("WebShop", "Webshop")


def spoil_results(episode):
    episode["steps"][0]["next_obs"] += " "


def spoil_item(episode):
    episode["steps"][1]["next_obs"] += " "


def spoil_purchase(episode):
    episode["steps"][4]["action"] = "click[buy]"


def spoil_reward(episode):
    episode["reward"] = 0.75


@pytest.mark.parametrize(
    ("spoil", "lower", "what", "step", "complete"),
    [
        (spoil_intro, ["intro_equal"], "intro", 0, False),
        (spoil_results, ["observation_equal", "result_pages_equal"], "observation", 1, False),
        (spoil_item, ["observation_equal"], "observation", 2, False),
        (spoil_purchase, ["observation_equal", "reward_equal"], "purchase", 5, False),
        (spoil_reward, ["reward_equal"], "reward", 5, True),
    ],
)
def test_one_difference_is_counted_and_named(data, spoil, lower, what, step, complete):
    good = json.loads(verify_webshop(write(data, recording()), data).to_json())
    episode = recording()
    spoil(episode)
    agreement = verify_webshop(write(data, episode), data)
    got = json.loads(agreement.to_json())
    difference = got.pop("first_differences")[0]
    assert (difference["what"], difference["step"], difference["session"]) == (what, step, SESSION)
    del good["first_differences"]
    assert got == {**good, **{name: good[name] - 1 for name in lower}}
    assert agreement.complete is complete


def test_an_episode_that_is_none_is_named(data):
    with pytest.raises(ValueError, match=r"expected session \(below 4\), first_obs and steps"):
        verify_webshop(write(data, {"session": 0}), data)
    with pytest.raises(ValueError, match="IndexError"):
        verify_webshop(write(data, {**recording(), "session": 99}), data)


def test_the_script(data):
    command = [sys.executable, str(SCRIPT), "webshop", "--episodes", write(data, recording()), "--data", data]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["reward_equal"] == 1


def test_recorded_episodes(webshop_data):
    """Third-party recordings: all pages but two result pages in 301, whose order hangs on the edge of a byte."""
    path = webshop_data / "episodes_300.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{path} does not exist")
    agreement = verify_webshop(path, webshop_data)
    assert agreement.complete
    assert (agreement.episodes, agreement.steps, agreement.intro_equal) == (300, 1513, 300)
    assert (agreement.result_pages, agreement.result_pages_equal) == (301, 299)
    assert agreement.observation_equal == 1511
    assert agreement.reward_equal >= 299
