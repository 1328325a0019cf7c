"""Products as WebShop shows them, read from its own item and attribute files."""

from __future__ import annotations

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
        CatalogueError: a row lacks a field, or its price cannot be read.
    """
    return list(iterate_products(rows, attributes, seed=seed))


def iterate_products(
    rows: Iterable[Mapping[str, Any]], attributes: Mapping[str, Any], *, seed: int = 0
) -> Iterator[Product]:
    """As `read_products`, one after the other."""
    found: set[str] = set()
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or not isinstance(row.get("asin"), str):
            raise CatalogueError(f"item {number}: expected an object with a text 'asin', got {str(row)[:80]!r}")
        asin = row["asin"]
        if asin != "nan" and len(asin) <= LONGEST_ASIN and asin not in found:
            found.add(asin)
            yield _product(row, attributes.get(asin) or {}, seed)


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
            attributes=tuple(known.get("attributes", NO_ATTRIBUTES)),
            options=_options(row.get("customization_options")),
            prices=prices,
            price=prices[0] if len(prices) == 1 else Random(f"webshop price {seed} {asin}").uniform(*prices),
        )
    except KeyError as error:
        raise CatalogueError(f"item {asin!r} has no field {error}; expected WebShop's item schema") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise CatalogueError(f"item {asin!r}: {error}") from error


def read_prices(pricing: str | None) -> tuple[float, ...]:
    """The one price of "$a", or the ends of "$a - $b", in dollars; `UNPRICED` where there is none.

    Raises:
        ValueError: there is no dollar amount in it.
    """
    if not pricing:
        return (UNPRICED,)
    try:
        amounts = tuple(float(Decimal(_NOT_A_NUMBER.sub("", amount))) for amount in pricing.split("$")[1:3])
    except InvalidOperation as error:
        raise ValueError(f"price {pricing!r}: expected '$1.00' or '$1.00 - $2.00'") from error
    if not amounts:
        raise ValueError(f"price {pricing!r}: expected '$1.00' or '$1.00 - $2.00'")
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
