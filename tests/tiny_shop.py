"""Three products one can reckon with: an oak table with options, a pine table with a price range, an unpriced mug."""

from __future__ import annotations

from pivotopd_jax.envs.webshop.goals import Goal, synthetic_goals
from pivotopd_jax.envs.webshop.nouns import Nouns
from pivotopd_jax.envs.webshop.products import read_products
from pivotopd_jax.envs.webshop.shop import Shop


def item(asin, name, **fields):
    """A row of an item file."""
    return {
        "asin": asin,
        "name": name,
        "full_description": "",
        "small_description": [""],
        "category": "garden",
        "product_category": "Home › Furniture",
        "query": "tables",
        "pricing": "$20.0",
        "customization_options": "",
        **fields,
    }


OAK = item(
    "OAK",
    "Oak Table",
    full_description="A solid table.",
    small_description=["easy clean", "made to last"],
    customization_options={"Color": [{"value": "Red"}, {"value": "Blue"}], "Size": [{"value": "S/M"}, {"value": "L"}]},
    pricing="$15.5",
)
PINE = item("PINE", "Pine Table", query="Desks ", pricing="$40.0 - $60.0")
MUG = item("MUG", "Blue Mug", query="mugs", product_category="Kitchen › Cups", pricing="")
ATTRIBUTES = {
    "OAK": {
        "attributes": ["solid wood", "easy clean"],
        "instruction": "Find me easy clean tables",
        "instruction_attributes": ["easy clean"],
    },
    "PINE": {"attributes": ["pine wood"]},
}
NOUNS = {"OAK": ["oak", "table"], "PINE": ["pine", "table"], "MUG": ["mug"]}


def tiny_shop() -> Shop:
    """The three of them."""
    return Shop("hand-made", read_products([OAK, PINE, MUG], ATTRIBUTES), Nouns(NOUNS))


def tiny_goals(shop: Shop) -> list[Goal]:
    """The oak table in its four variants: blue L, blue S/M, red L, red S/M."""
    return sorted(synthetic_goals(shop.products, ATTRIBUTES), key=lambda goal: goal.options)
