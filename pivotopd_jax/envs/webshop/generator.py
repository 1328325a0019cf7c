"""Draws small shops in WebShop's own schema from a seed, so that everything runs without data.

A shop is made around one product and an instruction that asks for it. Some of the other products are near misses: the
same kind of thing with another attribute, without the wanted values, or too dear. The rest are other kinds. All words
come from short lists, so that a small student can learn them in minutes.
"""

from __future__ import annotations

import hashlib
import itertools
import string
from dataclasses import dataclass
from random import Random
from typing import Any

from pivotopd_jax.envs.webshop.goals import SPLITS

KINDS = {
    "Home › Furniture": ("table", "chair", "mirror", "lamp"),
    "Home › Bedding": ("pillow", "blanket", "curtain", "rug"),
    "Kitchen › Dining": ("kettle", "bowl", "basket", "tray"),
    "Clothing › Outerwear": ("jacket", "scarf", "backpack", "boots"),
}
"""Category path -> the kinds of product filed under it, each one noun."""

ATTRIBUTES = (
    "bamboo", "cotton", "foldable", "handmade", "leather", "organic", "padded", "quilted", "vintage", "washable",
    "waterproof", "wireless",
)  # fmt: skip
"""None is contained in another one, or in a kind of product: WebShop looks attributes up as parts of text."""

OPTIONS = {
    "color": ("black", "blue", "green", "purple", "silver", "white", "yellow"),
    "size": ("small", "medium", "large", "huge"),
    "style": ("plain", "modern", "classic", "retro"),
}
"""No value contains the name of another colour: WebShop would take "rustic" for "rust"."""

DEARER = 50
"""Dollars above the wanted product, which is more than a price bound ever is."""

_PRICES = range(10, 60, 5)
_NEAR_MISSES = ("attribute", "options", "price")


@dataclass(frozen=True)
class GeneratedShop:
    """A shop as files of WebShop's would hold it.

    Attributes:
        items: as in `items_shuffle*.json`.
        attributes: as in `items_ins_v2*.json`; one product has an instruction.
        nouns: as in `title_nouns*.json`.
    """

    items: list[dict[str, Any]]
    attributes: dict[str, dict[str, Any]]
    nouns: dict[str, list[str]]


def check_sizes(products: int, options: int, values: int, distractors: int) -> None:
    """Makes sure that such a shop can be drawn.

    Raises:
        ValueError: a size out of range.
    """
    widest = min(map(len, OPTIONS.values())) - 1
    limits = {
        "products": (products, 1, 1_000_000_000),
        "options": (options, 0, len(OPTIONS)),
        "values": (values, 1, widest),
        "distractors": (distractors, 0, products - 1),
    }
    for name, (size, least, most) in limits.items():
        if not least <= size <= most:
            raise ValueError(f"{name}={size}: expected {least} to {most}")


def generate_shop(
    seed: int, *, products: int = 8, options: int = 2, values: int = 3, distractors: int = 3, split: str = "train"
) -> GeneratedShop:
    """Draws one shop. The same arguments give the same shop in every process.

    Args:
        seed: any integer; other seeds give other shops.
        products: how many there are.
        options: option names of each product, 0 to 3.
        values: values of each option, 1 to 3.
        distractors: near misses among the products.
        split: one of `goals.SPLITS`. A kind of product with its attributes is asked for in one split only.

    Raises:
        ValueError: an argument out of range.
    """
    check_sizes(products, options, values, distractors)
    if split not in SPLITS:
        raise ValueError(f"generated shops have no split {split!r}; expected one of {', '.join(SPLITS)}")
    random = Random(f"webshop {split} {seed} {products} {options} {values} {distractors}")
    draw = _Drawer(random, options, values)
    wanted = next(draft for draft in iter(draw.any_product, None) if _split_of(draft) == split)
    drafts = [wanted, *(draw.near_miss(wanted) for _ in range(distractors))]
    while len(drafts) < products:
        other = draw.any_product()
        if other["kind"] != wanted["kind"] or products > sum(map(len, KINDS.values())):
            drafts.append(other)
    asins = draw.asins(products)
    rows = [_row(draft, asin) for draft, asin in zip(drafts, asins, strict=True)]
    entries = {asin: _entry(draft) for draft, asin in zip(drafts, asins, strict=True)}
    request = f"Find me {', '.join(wanted['attributes'])} {wanted['kind']}"
    entries[asins[0]] |= {"instruction": request, "instruction_attributes": list(wanted["attributes"])}
    random.shuffle(rows)
    return GeneratedShop(rows, entries, {a: [d["kind"]] for a, d in zip(asins, drafts, strict=True)})


class _Drawer:
    """Draws the parts of one shop."""

    def __init__(self, random: Random, options: int, values: int) -> None:
        self._random, self._values = random, values
        self._names = tuple(OPTIONS)[:options]

    def any_product(self) -> dict[str, Any]:
        """A product of any kind."""
        category = self._random.choice(list(KINDS))
        return {
            "category": category,
            "kind": self._random.choice(KINDS[category]),
            "attributes": tuple(sorted(self._random.sample(ATTRIBUTES, 2))),
            "options": {name: self._some(OPTIONS[name]) for name in self._names},
            "price": self._random.choice(_PRICES),
        }

    def near_miss(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """A product that is like `wanted` but for one thing: the query that finds the one finds the other."""
        other = {**wanted, "options": {name: self._shuffled(values) for name, values in wanted["options"].items()}}
        miss = self._random.choice(_NEAR_MISSES)
        if miss == "options" and self._names:
            name = self._names[0]
            other["options"][name] = self._some([v for v in OPTIONS[name] if v not in wanted["options"][name]])
        elif miss == "price":
            other["price"] = wanted["price"] + DEARER
        else:
            kept = self._random.choice(wanted["attributes"])
            instead = self._random.choice([a for a in ATTRIBUTES if a not in wanted["attributes"]])
            other["attributes"] = tuple(sorted([kept, instead]))
        return other

    def _shuffled(self, values: Any) -> tuple[str, ...]:
        return tuple(self._random.sample(values, len(values)))

    def _some(self, values: Any) -> tuple[str, ...]:
        return tuple(self._random.sample(values, min(self._values, len(values))))

    def asins(self, count: int) -> list[str]:
        """Identifiers in random order, as short as possible: one letter each for up to 26 products."""
        length = next(n for n in itertools.count(1) if 26**n >= count)
        numbers = self._random.sample(range(26**length), count)
        return ["".join(string.ascii_uppercase[n // 26**i % 26] for i in range(length)) for n in numbers]


def _split_of(draft: dict[str, Any]) -> str:
    """A tenth of all kinds with their attributes is held out for each of test and validation."""
    digest = hashlib.sha256(f"{draft['kind']} {' '.join(draft['attributes'])}".encode()).digest()
    return {0: "test", 1: "validation"}.get(digest[0] % 10, "train")


def _title(draft: dict[str, Any]) -> str:
    return f"{' '.join(draft['attributes'])} {draft['kind']}"


def _entry(draft: dict[str, Any]) -> dict[str, Any]:
    return {"attributes": list(draft["attributes"])}


def _row(draft: dict[str, Any], asin: str) -> dict[str, Any]:
    first, second = draft["attributes"]
    return {
        "asin": asin,
        "name": _title(draft),
        "full_description": f"A {draft['kind']}, {first} and {second}.",
        "small_description": [f"{first} {draft['kind']}", f"{second} {draft['kind']}"],
        "category": draft["category"].partition(" ")[0].lower(),
        "product_category": f"{draft['category']} › {draft['kind']}",
        "query": draft["kind"],
        "pricing": f"${draft['price']:.1f}",
        "images": [""],
        "average_rating": "",
        "page": 1,
        "customization_options": {n: [{"value": v} for v in vs] for n, vs in draft["options"].items()} or "",
    }
