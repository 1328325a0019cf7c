"""Reading items: what is kept and how, and what is said of broken ones."""

from __future__ import annotations

import pytest
from tiny_shop import ATTRIBUTES, MUG, OAK, PINE, item

from pivotopd_jax.envs.webshop import data_files
from pivotopd_jax.envs.webshop.products import CatalogueError, read_prices, read_products


def test_fields():
    oak, pine, mug = read_products([OAK, PINE, MUG], ATTRIBUTES)
    assert oak.options == {"color": ("red", "blue"), "size": ("s | m", "l")}
    assert (oak.price, oak.price_tag, oak.attributes) == (15.5, "$15.5", ("solid wood", "easy clean"))
    assert (pine.price_tag, pine.query) == ("$40.0 to $60.0", "desks")
    assert 40 <= pine.price <= 60
    assert (mug.price_tag, mug.attributes) == ("$100.0", ("DUMMY_ATTR",))


def test_the_price_within_a_range_depends_on_the_seed_only():
    def draw(seed):
        return read_products([PINE], {}, seed=seed)[0].price

    assert draw(0) == draw(0) != draw(1)


def test_repeated_and_misnamed_products_are_left_out():
    rows = [
        item("A", "one"),
        item("A", "two"),
        item("nan", "three"),
        item("LONGER-THAN-TEN", "four"),
        item("B", "five"),
    ]
    assert [product.title for product in read_products(rows, {})] == ["one", "five"]


@pytest.mark.parametrize(
    ("pricing", "expected"),
    [("$1,234.5", (1234.5,)), ("$1 - $2.5", (1.0, 2.5)), ("", (100.0,)), (None, (100.0,)), ("$1 $2 $3", (1.0, 2.0))],
)
def test_prices(pricing, expected):
    assert read_prices(pricing) == expected


@pytest.mark.parametrize("pricing", ["twelve", "$", "$1.2.3", "$" + "9" * 400, 12.5, ["$1"]])
def test_prices_that_are_none(pricing):
    with pytest.raises(ValueError, match=r"expected '\$1\.00'"):
        read_prices(pricing)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("text", "item 0: expected an object"),
        ({"name": "x"}, "item 0: expected an object with a text 'asin'"),
        ({"asin": "A"}, "item 'A' has no field 'small_description'"),
        (item("A", "x", pricing="dear"), "item 'A': price 'dear'"),
        (item("A", "x", customization_options=[1]), "item 'A': customization_options: expected an object"),
        (item("A", "x", customization_options={"Color": [{}]}), "item 'A' has no field 'value'"),
    ],
)
def test_broken_rows_are_named(row, message):
    with pytest.raises(CatalogueError, match=message):
        read_products([row], {})


@pytest.mark.parametrize(
    ("rows", "attributes", "message"),
    [
        ({"A": 1}, {}, "expected a list of items, got"),
        (3, {}, "expected a list of items, got 3"),
        ([OAK], [1], "expected an object with an entry for each product"),
        ([OAK], {"OAK": "solid"}, "the entry of 'OAK' is 'solid'; expected an object"),
        ([OAK], {"OAK": {"attributes": "solid"}}, "attributes of 'OAK': expected a list of texts, got 'solid'"),
        ([OAK], {"OAK": {"attributes": [1]}}, "attributes of 'OAK': expected a list of texts"),
    ],
)
def test_files_of_another_form_are_named(rows, attributes, message):
    with pytest.raises(CatalogueError, match=message):
        read_products(rows, attributes)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b""])
def test_what_is_no_json_is_named(tmp_path, content):
    (tmp_path / "items.json").write_bytes(content)
    with pytest.raises(CatalogueError, match=r"items\.json cannot be read as JSON"):
        data_files.read(tmp_path / "items.json")
