"""WebShop as a world: splits, options, and what is said when data are missing."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace

import pytest
from tiny_shop import ATTRIBUTES, MUG, NOUNS, OAK, PINE

from pivotopd_jax.envs.webshop import nouns
from pivotopd_jax.envs.webshop.products import CatalogueError
from pivotopd_jax.envs.webshop.world import GENERATED, WebShop
from pivotopd_jax.worlds import make_world


@pytest.fixture
def directory(tmp_path):
    """The hand-made shop in files named as WebShop's."""
    with gzip.open(tmp_path / "items_shuffle_1000.json.gz", "wt") as file:
        json.dump([OAK, PINE, MUG], file)
    (tmp_path / "items_ins_v2_1000.json").write_text(json.dumps(ATTRIBUTES))
    (tmp_path / "title_nouns.json").write_text(json.dumps(NOUNS))
    return tmp_path


def test_generated_tasks():
    world = WebShop()
    assert {split: len(world.tasks(split)) for split in world.splits} == GENERATED
    tasks = world.tasks("train")
    assert tasks[3].source is world.tasks("train")[3].source
    assert [task.id for task in tasks[1:3]] == ["webshop-train-1", "webshop-train-2"]
    assert {task.kind for task in tasks[:5]} == set(world.kinds)
    env = world.make()
    assert env.reset(tasks[0]).text.startswith("WebShop [SEP] Instruction: [SEP] Find me ")
    with pytest.raises(ValueError, match="split 'dev' is not known; choose one of train, validation, test"):
        world.tasks("dev")


def test_real_tasks(directory):
    world = WebShop(directory)
    tasks = world.tasks("train") or world.tasks("test")
    assert [task.id for task in tasks] == ["webshop-0", "webshop-1", "webshop-2", "webshop-3"]
    assert len({id(task.source.shop) for task in tasks}) == 1
    assert WebShop(directory).tasks("test")[0].source.shop is tasks[0].source.shop


def test_goals_are_frozen_to_a_file(directory, tmp_path):
    path = tmp_path / "frozen" / "goals.jsonl"
    path.parent.mkdir()
    first = WebShop(directory, goals_file=path).tasks("test")
    again = WebShop(directory, goals_file=path, seed=1).tasks("test")
    assert [task.source.goal for task in first] == [task.source.goal for task in again]
    assert len(path.read_text().splitlines()) == 4


def test_real_files(real, webshop_data):
    world = WebShop(webshop_data)
    assert [len(world.tasks(split)) for split in world.splits] == [5410, 1000, 500]
    assert world.tasks("test")[0].id == "webshop-0"
    human = WebShop(webshop_data, goal_kind="human", ranking="five_fields")
    assert len(human.tasks("test")) == 13
    assert world.tasks("test")[0].source.shop is real[0]
    assert human.tasks("test")[0].source.shop.products is real[0].products


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ranking": "x"}, "ranking 'x' is not known; choose one of lucene, five_fields"),
        ({"goal_kind": "x"}, "goal_kind 'x' is not known; choose one of synthetic, human"),
        ({"split_by": "x"}, "split_by 'x' is not known; choose one of goal, product"),
        ({"style": "html"}, "style 'html' is not known; choose one of text, text_rich"),
        ({"products": 2}, "distractors=3: expected 0 to 1"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        WebShop(**arguments)


def test_missing_data(tmp_path, directory, monkeypatch):
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="WEBSHOP_DATA='' is not a directory; set it to the folder with"):
        WebShop("real")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"expected items_shuffle_1000.json with items_ins_v2_1000.json or"):
        WebShop(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match=r"has no items_human_ins\.json; use goal_kind='synthetic'"):
        WebShop(directory, goal_kind="human").tasks("test")


def test_broken_files(directory):
    (directory / "items_ins_v2_1000.json").write_text("{")
    with pytest.raises(CatalogueError, match=r"items_ins_v2_1000.json cannot be read as JSON.*download it again"):
        WebShop(directory, seed=1).tasks("test")


def test_unknown_nouns_need_a_tagger(directory, monkeypatch):
    def missing():
        raise ImportError("No module named 'spacy'")

    monkeypatch.setattr(nouns, "_tagger", missing)
    (directory / "title_nouns.json").write_text(json.dumps({"OAK": ["table"]}))
    with pytest.raises(nouns.NounsMissing, match=r"nouns of 2 of 3 titles \(such as PINE\).*pip install spacy"):
        WebShop(directory, seed=2).tasks("test")


def test_a_tagger_finds_nouns_of_new_titles(shop, monkeypatch):
    def tag(title):
        return [SimpleNamespace(text=word, pos_="NOUN" if word[0].isupper() else "ADJ") for word in title.split()]

    monkeypatch.setattr(nouns, "_tagger", lambda: tag)
    found = nouns.Nouns({})
    found.check(shop.products)
    assert found.of(shop.products[2]) == ("blue", "mug")


def test_by_name():
    options = SimpleNamespace(
        name="webshop", source="generated", ranking="lucene", goal_kind="synthetic", split_by="goal", products=5,
        option_names=1, option_values=2, distractors=1,
    )  # fmt: skip
    world, wording = make_world(options)
    assert world.name == "webshop (generated, 5 products, 1 options, 1 distractors, lucene)"
    assert wording.following(world.make().reset(world.tasks("test")[0])).splitlines() == ["WebShop", "Search"]
