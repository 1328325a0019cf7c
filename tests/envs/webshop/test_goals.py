"""Goals: their texts, order, splits and file."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest
from tiny_shop import ATTRIBUTES, OAK, PINE, tiny_goals, tiny_shop

from pivotopd_jax.envs.webshop import goals as g
from pivotopd_jax.envs.webshop.products import CatalogueError, read_products


def test_every_combination_of_options(goals):
    assert [goal.options for goal in goals] == [
        (("color", "blue"), ("size", "l")),
        (("color", "blue"), ("size", "s | m")),
        (("color", "red"), ("size", "l")),
        (("color", "red"), ("size", "s | m")),
    ]
    bound = goals[0].price_upper
    assert bound in (30, 40, 50)  # the larger of two of 20, 30, 40, 50
    text = f"Find me easy clean tables with color: blue, and size: l, and price lower than {bound:.2f} dollars"
    assert goals[0].instruction == text


def test_the_order_is_one_shuffle_with_233():
    import random

    products = read_products([OAK], ATTRIBUTES)
    made = [(("color", c), ("size", s)) for c in ("red", "blue") for s in ("s | m", "l")]
    random.Random(233).shuffle(made)
    assert [goal.options for goal in g.synthetic_goals(products, ATTRIBUTES)] == made


def test_human_goals():
    told = {
        "PINE": [
            {"instruction": "i want a desk.", "instruction_attributes": ["pine wood"], "instruction_options": ["red"]},
            {"instruction": "anything", "instruction_attributes": [], "instruction_options": []},
        ]
    }
    (goal,) = g.human_goals(read_products([OAK, PINE], ATTRIBUTES), told)
    assert goal.instruction.startswith("i want a desk, and price lower than ")
    assert goal.options == (("", "red"),)
    with pytest.raises(CatalogueError, match="instruction 0 of 'OAK'"):
        g.human_goals(read_products([OAK], ATTRIBUTES), {"OAK": [{"instruction": "x"}]})


def test_an_instruction_without_attributes_is_refused():
    with pytest.raises(CatalogueError, match="'OAK' has no instruction_attributes"):
        g.synthetic_goals(read_products([OAK], {}), {"OAK": {"instruction": "x"}})


def test_another_bound(goals):
    assert g.with_bound(goals[0], 990.0).instruction.endswith("size: l, and price lower than 990.00 dollars")
    free = g.with_bound(goals[0], g.NO_BOUND)
    assert free.instruction == "Find me easy clean tables with color: blue, and size: l"
    assert g.with_bound(free, goals[0].price_upper) == goals[0]


def test_frozen_goals_come_back_as_they_were(goals, tmp_path):
    g.write_goals(tmp_path / "goals.jsonl", goals)
    assert g.read_goals(tmp_path / "goals.jsonl") == goals
    (tmp_path / "goals.jsonl").write_text('{"asin": "A"}\n')
    with pytest.raises(CatalogueError, match=r"line 1: not a goal.*write the file again"):
        g.read_goals(tmp_path / "goals.jsonl")


def test_real_goals(real):
    _, goals = real
    assert len(goals) == 6910
    assert {split: len(g.standard_split(goals, split)) for split in g.SPLITS} == {
        "train": 5410,
        "validation": 1000,
        "test": 500,
    }
    asins = {split: {goals[i].asin for i in g.standard_split(goals, split)} for split in g.SPLITS}
    assert (len(asins["test"]), len(asins["test"] & asins["train"])) == (146, 125)
    assert len({goal.asin for goal in goals}) == 415


def test_no_product_is_in_two_splits(real):
    _, goals = real
    numbers = {split: g.product_split(goals, split) for split in g.SPLITS}
    asins = [{goals[i].asin for i in kept} for kept in numbers.values()]
    assert sum(map(len, asins)) == len(set.union(*asins)) == 415
    assert sorted(i for kept in numbers.values() for i in kept) == list(range(6910))


PRINT = """
import sys
from pathlib import Path
from pivotopd_jax.envs.webshop.shop import load_goals
print("\\n".join(goal.instruction for goal in load_goals(Path(sys.argv[1]))))
"""


def test_the_order_is_the_same_in_every_process(real, webshop_data):
    here = "\n".join(goal.instruction for goal in real[1]) + "\n"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    command = [sys.executable, "-c", PRINT, str(webshop_data)]
    there = subprocess.run(command, capture_output=True, check=True, env=environment, timeout=120).stdout
    assert hashlib.sha256(there).hexdigest() == hashlib.sha256(here.encode()).hexdigest()


def test_small_splits_are_empty_rather_than_wrong():
    few = tiny_goals(tiny_shop())
    assert [len(g.standard_split(few, split)) for split in g.SPLITS] == [0, 0, 4]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (3, "expected an object with a list for each product, got 3"),
        ({"OAK": "x"}, "the instructions of 'OAK' are 'x'; expected a list"),
        ({"OAK": ["x"]}, "instruction 0 of 'OAK' is 'x'; expected an object"),
        ({"OAK": [{"instruction": 1}]}, "instruction 0 of 'OAK' is 1; expected a text"),
        ({"OAK": [{"instruction": "x", "instruction_attributes": [1]}]}, "attributes of instruction 0 of 'OAK'"),
        ({"OAK": [{"instruction": "x", "instruction_options": "red"}]}, "options of instruction 0 of 'OAK'"),
    ],
)
def test_what_people_did_not_write_is_named(told, message):
    with pytest.raises(CatalogueError, match=message):
        g.human_goals(tiny_shop().products, told)


def test_frozen_goals_of_another_form_are_named(tmp_path):
    path = tmp_path / "goals.jsonl"
    g.write_goals(path, tiny_goals(tiny_shop())[:1])
    whole = path.read_bytes()
    for broken in (
        b"\xff",
        b"3",
        whole.replace(b"40.0", b"NaN"),
        whole.replace(b"40.0", b"1" * 400),
        whole.replace(b'"OAK"', b"1"),
        b"[" * 100_000,
    ):
        path.write_bytes(broken)
        with pytest.raises(CatalogueError, match="line 1: not a goal"):
            g.read_goals(path)
