"""Generated shops: in WebShop's schema, the same everywhere, solvable, and held out by what is asked for."""

from __future__ import annotations

import itertools

import pytest

from pivotopd_jax.envs.webshop.generator import ATTRIBUTES, KINDS, OPTIONS, generate_shop
from pivotopd_jax.envs.webshop.goals import SPLITS, synthetic_goals
from pivotopd_jax.envs.webshop.products import read_products
from pivotopd_jax.envs.webshop.reward import COLOURS, meets


def wanted(drawn):
    ((asin, entry),) = ((a, e) for a, e in drawn.attributes.items() if "instruction" in e)
    return next(row for row in drawn.items if row["asin"] == asin), entry


@pytest.mark.parametrize("sizes", [(8, 2, 3, 3), (1, 0, 1, 0), (30, 3, 3, 29), (700, 1, 2, 5)])
def test_sizes(sizes):
    products, options, values, distractors = sizes
    drawn = generate_shop(5, products=products, options=options, values=values, distractors=distractors)
    stock = read_products(drawn.items, drawn.attributes)
    assert len(stock) == products
    assert {len(product.options) for product in stock} == {options}
    assert {len(v) for product in stock for v in product.options.values()} <= {values}
    assert len(synthetic_goals(stock, drawn.attributes)) == values**options
    row, _ = wanted(drawn)
    if products < 100:
        assert sum(other["query"] == row["query"] for other in drawn.items) >= 1 + distractors


def test_only_one_letter_names_a_product_of_a_small_shop():
    assert {len(row["asin"]) for row in generate_shop(0, products=26).items} == {1}
    assert {len(row["asin"]) for row in generate_shop(0, products=27).items} == {2}


def test_the_seed_decides():
    assert generate_shop(3) == generate_shop(3)
    assert generate_shop(3) != generate_shop(4)
    assert generate_shop(3, split="test") != generate_shop(3)


def test_a_drawn_shop_by_its_text():
    row, entry = wanted(generate_shop(0))
    assert entry["instruction"] == f"Find me {', '.join(entry['attributes'])} {row['query']}"
    assert row["name"] == f"{' '.join(entry['attributes'])} {row['query']}"


def test_what_is_asked_for_is_held_out():
    asked = {}
    for split in SPLITS:
        rows = [wanted(generate_shop(seed, split=split))[0] for seed in range(200)]
        asked[split] = {row["name"] for row in rows}
    assert all(not asked[a] & asked[b] for a, b in itertools.combinations(SPLITS, 2))


def test_near_misses_are_no_twins():
    """At least one of attribute, values and price differs, so that the reward can tell."""
    for seed in range(50):
        drawn = generate_shop(seed, products=6, distractors=5, options=1)
        row, _ = wanted(drawn)
        for other in drawn.items:
            if other is not row:
                assert any(other[key] != row[key] for key in ("name", "pricing", "customization_options"))


def test_words_do_not_get_into_each_others_way():
    kinds = [kind for kinds in KINDS.values() for kind in kinds]
    for one, other in itertools.permutations([*ATTRIBUTES, *kinds], 2):
        assert one not in other
    for name, values in OPTIONS.items():
        for one, other in itertools.product(values, values):
            assert meets((name, one), other) is (one == other)
    assert set(OPTIONS["color"]) <= set(COLOURS)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"products": 0}, "products=0: expected 1"),
        ({"options": 4}, "options=4: expected 0 to 3"),
        ({"values": 0}, "values=0: expected 1 to 3"),
        ({"products": 3, "distractors": 3}, "distractors=3: expected 0 to 2"),
        ({"split": "dev"}, "no split 'dev'; expected one of train, validation, test"),
    ],
)
def test_impossible_shops_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        generate_shop(0, **sizes)
