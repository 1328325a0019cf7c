"""A catalogue in mapped files is the same catalogue."""

from __future__ import annotations

import gzip
import json
import multiprocessing
from pathlib import Path

import pytest
from tiny_shop import ATTRIBUTES, MUG, OAK, PINE

from pivotopd_jax.envs.webshop import shop
from pivotopd_jax.envs.webshop.goals import read_goals, synthetic_goals
from pivotopd_jax.envs.webshop.planner import WebShopPlanner
from pivotopd_jax.envs.webshop.products import CatalogueError, read_products
from pivotopd_jax.envs.webshop.retrieval import Index
from pivotopd_jax.envs.webshop.stored import GOALS, StoredProducts, store, stream_rows
from pivotopd_jax.envs.webshop.world import WebShop

ROWS = [OAK, PINE, MUG, OAK, {**MUG, "asin": "nan"}]


@pytest.fixture
def kept(tmp_path):
    store(tmp_path / "kept", ROWS, ATTRIBUTES, "lucene", seed=3)
    return tmp_path / "kept"


def test_products_goals_and_searches_are_those_of_the_files(kept):
    read, stored = read_products(ROWS, ATTRIBUTES, seed=3), StoredProducts(kept)
    assert list(stored) == read
    assert stored[1:] == read[1:]
    assert stored[-1] == read[-1]
    assert [stored.find(product.asin) for product in read] == [0, 1, 2]
    assert [stored.find(asin) for asin in ("OA", "OAKS", "", "é")] == [None] * 4
    with pytest.raises(IndexError, match="record 3 of 3"):
        stored[3]
    assert read_goals(kept / GOALS) == synthetic_goals(read, ATTRIBUTES, seed=3)
    index, mapped = Index(read, "lucene"), Index.load(kept, "lucene")
    for query in ("table", "oak table red", "mug", "blue", "nothing of the kind", ""):
        assert mapped.search(query) == index.search(query)


def test_a_catalogue_is_whole_or_not_there(tmp_path):
    with pytest.raises(CatalogueError, match="no field 'small_description'"):
        store(tmp_path / "kept", [OAK, {"asin": "B"}], ATTRIBUTES, "lucene", seed=0)
    with pytest.raises(CatalogueError, match="holds no product"):
        store(tmp_path / "kept", [], ATTRIBUTES, "lucene", seed=0)
    assert list(tmp_path.iterdir()) == []


def _store(directory: Path) -> None:
    store(directory, ROWS, ATTRIBUTES, "lucene", seed=3)


def test_two_processes_may_make_it_at_once(tmp_path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(_store, [tmp_path / "kept"] * 2)
    assert len(StoredProducts(tmp_path / "kept")) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 10**6])
def test_rows_are_read_piece_by_piece(size):
    text = "\ufeff " + json.dumps(ROWS, indent=1) + "\n"
    assert list(stream_rows(text[i : i + size] for i in range(0, len(text), size))) == ROWS


@pytest.mark.parametrize("text", ["", "{}", '[{"a": 1}', '[{"a": 1}, {"b"', "nonsense", '[{"a": 1} what]'])
def test_a_broken_list_is_said_to_be(text):
    with pytest.raises(CatalogueError, match="JSON list of items"):
        list(stream_rows([text]))


def test_a_large_file_is_kept_and_played_like_a_small_one(tmp_path, monkeypatch):
    """The same shop through both doors: the same goals, and plans of the same length."""
    for name, content in (
        ("items_shuffle.json", ROWS), ("items_ins_v2.json", ATTRIBUTES),
        ("title_nouns.json", {p.asin: ["table"] for p in read_products(ROWS, {})}),
    ):  # fmt: skip
        with gzip.open(tmp_path / f"{name}.gz", "wt") as file:
            json.dump(content, file)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    small = WebShop(tmp_path).tasks("test")
    monkeypatch.setattr(shop, "LARGE_FILE", 10)
    monkeypatch.setattr(shop, "LARGE", 2)
    monkeypatch.setattr(shop, "_shop", shop._shop.__wrapped__)  # other tests keep what they have loaded
    large = WebShop(tmp_path).tasks("test")
    assert [path.name[:8] for path in (tmp_path / "cache" / "pivotopd_jax").iterdir()] == ["webshop-"]
    assert large[0].source.shop.large
    assert not small[0].source.shop.large
    assert [task.source.goal for task in large] == [task.source.goal for task in small]
    env, planner = WebShop(tmp_path).make(), WebShopPlanner()
    for ours, theirs in zip(large, small, strict=True):
        assert env.reset(ours) == env.reset(theirs)
        starts = []
        for task in (ours, theirs):
            env.reset(task)
            starts.append(planner.distance(env.snapshot()))
        assert starts[0] == starts[1]
