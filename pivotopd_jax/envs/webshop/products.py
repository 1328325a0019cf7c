"""Products as WebShop shows them, read from its own item and attribute files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from random import Random
from typing import Any

UNPRICED = 100.0
"""Dollars; what WebShop asks for a product without a price."""

NO_ATTRIBUTES = ("DUMMY_ATTR",)
LONGEST_ASIN = 10

_NOT_A_NUMBER = re.compile(r"[^\d.]")


class CatalogueError(ValueError):
    """An item, attribute or goal file that is not as WebShop's are."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product.

    Attributes:
        asin: its identifier, at most 10 characters.
        title, description, bullets: as shown.
        category, query, product_category: where the shop files it: a department, the search it was found by, and a
            path with " › " between levels.
        attributes: hidden; what goals ask for.
        options: name -> values, lower case, in the order shown.
        prices: dollars; one, or the ends of a range.
        price: dollars; what a purchase costs, drawn once from the range.
    """

    asin: str
    title: str
    description: str = field(repr=False)
    bullets: tuple[str, ...] = field(repr=False)
    category: str
    query: str
    product_category: str
    attributes: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]] = field(repr=False)
    prices: tuple[float, ...]
    price: float

    @property
    def price_tag(self) -> str:
        """The price as shown: "$a", or "$a to $b"."""
        return " to ".join(f"${price}" for price in self.prices)


def read_products(rows: Sequence[Mapping[str, Any]], attributes: Mapping[str, Any], *, seed: int = 0) -> list[Product]:
    """The products of WebShop's item rows, in their order; repeated and misnamed ones are left out, as WebShop does.

    Args:
        rows: of `items_shuffle*.json`.
        attributes: of `items_ins_v2*.json`: asin -> {attributes: [text]}.
        seed: decides what products with a price range cost. WebShop draws this anew each time it starts.

    Raises:
        CatalogueError: a row, or an entry of `attributes`, is not as WebShop's are.
    """
    return list(iterate_products(rows, attributes, seed=seed))


def iterate_products(
    rows: Iterable[Mapping[str, Any]], attributes: Mapping[str, Any], *, seed: int = 0
) -> Iterator[Product]:
    """As `read_products`, one after the other."""
    if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
        raise CatalogueError(f"expected a list of items, got {rows!r:.80}")
    found: set[str] = set()
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or not isinstance(row.get("asin"), str):
            raise CatalogueError(f"item {number}: expected an object with a text 'asin', got {str(row)[:80]!r}")
        asin = row["asin"]
        if asin != "nan" and len(asin) <= LONGEST_ASIN and asin not in found:
            found.add(asin)
            yield _product(row, entry_of(attributes, asin), seed)


def entry_of(entries: Mapping[str, Any], asin: str) -> Mapping[str, Any]:
    """What a file of entries by asin says of a product; empty where it says nothing.

    Raises:
        CatalogueError: the file, or the entry, is no object.
    """
    if not isinstance(entries, Mapping):
        raise CatalogueError(f"expected an object with an entry for each product, got {entries!r:.80}")
    entry = entries.get(asin) or {}
    if not isinstance(entry, Mapping):
        raise CatalogueError(f"the entry of {asin!r} is {entry!r:.80}; expected an object")
    return entry


def texts_of(values: Any, what: str) -> tuple[str, ...]:
    """`values` as a tuple, if they are a list of texts.

    Raises:
        CatalogueError: they are not; begins with `what`.
    """
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise CatalogueError(f"{what}: expected a list of texts, got {values!r:.80}")
    return tuple(values)


def _product(row: Mapping[str, Any], known: Mapping[str, Any], seed: int) -> Product:
    asin = row["asin"]
    try:
        bullets = row["small_description"]
        prices = read_prices(row.get("pricing"))
        return Product(
            asin=asin,
            title=str(row["name"]),
            description=str(row["full_description"]),
            bullets=tuple(map(str, bullets)) if isinstance(bullets, list) else (str(bullets),),
            category=str(row["category"]),
            query=str(row["query"]).lower().strip(),
            product_category=str(row["product_category"]),
            attributes=texts_of(known.get("attributes", NO_ATTRIBUTES), f"attributes of {asin!r}"),
            options=_options(row.get("customization_options")),
            prices=prices,
            price=prices[0] if len(prices) == 1 else Random(f"webshop price {seed} {asin}").uniform(*prices),
        )
    except KeyError as error:
        raise CatalogueError(f"item {asin!r} has no field {error}; expected WebShop's item schema") from error
    except CatalogueError:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        raise CatalogueError(f"item {asin!r}: {error}") from error


def read_prices(pricing: str | None) -> tuple[float, ...]:
    """The one price of "$a", or the ends of "$a - $b", in dollars; `UNPRICED` where there is none.

    Raises:
        ValueError: there is no dollar amount in it.
    """
    if not pricing:
        return (UNPRICED,)
    if not isinstance(pricing, str):
        raise ValueError(f"price {pricing!r:.80}: expected '$1.00' or '$1.00 - $2.00'")
    try:
        amounts = tuple(float(Decimal(_NOT_A_NUMBER.sub("", amount))) for amount in pricing.split("$")[1:3])
    except InvalidOperation as error:
        raise ValueError(f"price {pricing!r:.80}: expected '$1.00' or '$1.00 - $2.00'") from error
    if not amounts or not all(map(math.isfinite, amounts)):
        raise ValueError(f"price {pricing!r:.80}: expected '$1.00' or '$1.00 - $2.00'")
    return amounts


def _options(customization: Mapping[str, Any] | str | None) -> dict[str, tuple[str, ...]]:
    if not customization:
        return {}
    if not isinstance(customization, Mapping):
        raise ValueError(f"customization_options: expected an object, got {str(customization)[:80]!r}")
    return {
        name.lower(): tuple(content["value"].strip().replace("/", " | ").lower() for content in contents)
        for name, contents in customization.items()
        if contents is not None
    }
