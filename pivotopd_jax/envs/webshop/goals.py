"""What a customer wants: goals made from WebShop's attribute files, in its order, and frozen to a file.

A goal is an instruction with one combination of options and a price bound. WebShop draws the bounds anew at every
start, before it seeds, so that two starts show different texts; here they come from a seed, and a file can hold them.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from pivotopd_jax.envs.webshop.products import CatalogueError, Product, entry_of, texts_of
from pivotopd_jax.files import parse_json

ORDER_SEED = 233
"""WebShop shuffles its goals once with this seed; the place in that order is a goal's number."""

NO_BOUND = 1_000_000.0
"""Dollars; the bound of a goal that names none."""

TEST, VALIDATION = range(500), range(500, 1500)
"""Goal numbers of the standard splits; the rest is for training."""

SPLITS = ("train", "validation", "test")

_BOUNDS = [10.0 * i for i in range(1, 100)]
_NEAREST = 4  # bounds above the price that may be drawn


@dataclass(frozen=True)
class Goal:
    """One goal.

    Attributes:
        asin: of the product it was made from.
        instruction: what the customer says.
        attributes: what the product must have.
        options: (name, value) of what must be chosen; people's goals have values only, under the name "".
        price_upper: dollars, inclusive.
        query, product_category, title: of the product; what is of its type is judged by them.
        request: the instruction without options and price.
    """

    asin: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    price_upper: float
    query: str
    product_category: str
    title: str
    request: str


def synthetic_goals(products: Iterable[Product], made: Mapping[str, Any], *, seed: int = 0) -> list[Goal]:
    """WebShop's goals made by a template: every instruction with every combination of options, shuffled.

    Args:
        products: in catalogue order.
        made: of `items_ins_v2*.json`: asin -> {attributes, instruction, instruction_attributes}.
        seed: of the price bounds; the order does not depend on it.

    Raises:
        CatalogueError: an instruction without attributes, or an entry that is not as WebShop's are.
    """
    goals = []
    for product in products:
        entry = entry_of(made, product.asin)
        if entry.get("instruction") is not None:
            bound = _draw_bound(product, Random(f"webshop bound {seed} {product.asin}"))
            goals += _combinations(product, *_instruction(entry, f"the instruction of {product.asin!r}"), bound)
    return shuffled(goals)


def human_goals(products: Sequence[Product], told: Mapping[str, Any], *, seed: int = 0) -> list[Goal]:
    """The goals people wrote, shuffled; those without attributes are left out, as WebShop does.

    Args:
        products: in catalogue order.
        told: of `items_human_ins*.json`: asin -> [{instruction, instruction_attributes, instruction_options}].
        seed: of the price bounds; the order does not depend on it.

    Raises:
        CatalogueError: an entry that is not as WebShop's are.
    """
    if not isinstance(told, Mapping):
        raise CatalogueError(f"expected an object with a list for each product, got {told!r:.80}")
    goals = []
    for product in products:
        entries = told.get(product.asin, [])
        if not isinstance(entries, list):
            raise CatalogueError(f"the instructions of {product.asin!r} are {entries!r:.80}; expected a list")
        for number, entry in enumerate(entries):
            what = f"instruction {number} of {product.asin!r}"
            if not isinstance(entry, Mapping):
                raise CatalogueError(f"{what} is {entry!r:.80}; expected an object")
            words, attributes = _instruction(entry, what)
            request = words.strip(".")
            options = tuple(("", value) for value in texts_of(entry.get("instruction_options"), f"options of {what}"))
            if attributes:
                bound = _draw_bound(product, Random(f"webshop bound {seed} {product.asin} {number}"))
                goals.append(_goal(product, request, request, attributes, options, bound))
    return shuffled(goals)


def shuffled(goals: Sequence[Goal]) -> list[Goal]:
    """`goals` in WebShop's order."""
    order = list(goals)
    Random(ORDER_SEED).shuffle(order)
    return order


def with_bound(goal: Goal, bound: float) -> Goal:
    """`goal` with another price bound, in dollars, and the words for it."""
    words = goal.instruction.removesuffix(_bound_words(goal.price_upper))
    return replace(goal, price_upper=bound, instruction=words + _bound_words(bound))


def standard_split(goals: Sequence[Goal], split: str) -> range:
    """Numbers of the goals of one of `SPLITS` as in the papers. Most test products occur in training, too."""
    numbers = {"test": TEST, "validation": VALIDATION, "train": range(VALIDATION.stop, len(goals))}[split]
    return range(min(numbers.start, len(goals)), min(numbers.stop, len(goals)))


def product_split(goals: Sequence[Goal], split: str) -> list[int]:
    """Numbers of the goals of one of `SPLITS` when no product is in two of them: 10% test, 20% validation."""
    products = sorted({goal.asin for goal in goals})
    Random(ORDER_SEED).shuffle(products)
    tenth = max(1, len(products) // 10)
    of_split = {"test": products[:tenth], "validation": products[tenth : 3 * tenth], "train": products[3 * tenth :]}
    kept = set(of_split[split])
    return [number for number, goal in enumerate(goals) if goal.asin in kept]


def write_goals(path: str | Path, goals: Sequence[Goal]) -> None:
    """Freezes `goals`, in their order, to a JSON-lines file."""
    lines = "".join(json.dumps(asdict(goal), ensure_ascii=False) + "\n" for goal in goals)
    Path(path).write_text(lines, encoding="utf-8")


def read_goals(path: str | Path) -> list[Goal]:
    """The goals of a file that `write_goals` wrote.

    Raises:
        FileNotFoundError: no such file.
        CatalogueError: a line of it is not a goal.
    """
    goals = []
    for number, line in enumerate(Path(path).read_bytes().splitlines(), 1):
        try:
            goals.append(_read_goal(parse_json(line)))
        except (KeyError, TypeError, ValueError) as error:
            raise CatalogueError(f"{path}, line {number}: not a goal ({error}); write the file again") from error
    return goals


def _read_goal(row: Any) -> Goal:
    """Raises KeyError, TypeError or ValueError where `row` is none."""
    row["attributes"] = texts_of(row["attributes"], "attributes")
    row["options"] = tuple((name, value) for name, value in map(lambda o: texts_of(o, "an option"), row["options"]))
    texts_of([value for key, value in row.items() if key not in ("attributes", "options", "price_upper")], "the rest")
    if not isinstance(row["price_upper"], int | float) or not abs(row["price_upper"]) <= sys.float_info.max:
        raise ValueError(f"price_upper is {row['price_upper']!r:.80}; expected dollars")
    return Goal(**{**row, "price_upper": float(row["price_upper"])})


def _instruction(entry: Mapping[str, Any], what: str) -> tuple[str, tuple[str, ...]]:
    """The words of an instruction and the attributes it asks for.

    Raises:
        CatalogueError: they are none; begins with `what`.
    """
    words = entry.get("instruction")
    if not isinstance(words, str):
        raise CatalogueError(f"{what} is {words!r:.80}; expected a text")
    return words, texts_of(entry.get("instruction_attributes") or [], f"attributes of {what}")


def _draw_bound(product: Product, random: Random) -> float:
    """The larger of two of the next four multiples of ten above the price; `NO_BOUND` where fewer than two remain."""
    above = [bound for bound in _BOUNDS if bound > product.price][:_NEAREST]
    return max(random.sample(above, 2)) if len(above) >= 2 else NO_BOUND


def _bound_words(bound: float) -> str:
    return "" if bound == NO_BOUND else f", and price lower than {bound:.2f} dollars"


def _combinations(product: Product, request: str, attributes: Sequence[str], bound: float) -> list[Goal]:
    if not attributes:
        raise CatalogueError(f"the instruction of {product.asin!r} has no instruction_attributes")
    names = sorted(product.options)
    goals = []
    for values in itertools.product(*(product.options[name] for name in names)):
        options = tuple(zip(names, values, strict=True))
        chosen = ", and ".join(f"{name}: {value}" for name, value in options)
        text = f"{request} with {chosen}" if chosen else request
        goals.append(_goal(product, text, request, attributes, options, bound))
    return goals


def _goal(
    product: Product,
    text: str,
    request: str,
    attributes: Sequence[str],
    options: tuple[tuple[str, str], ...],
    bound: float,
) -> Goal:
    return Goal(
        asin=product.asin,
        instruction=text + _bound_words(bound),
        attributes=tuple(attributes),
        options=options,
        price_upper=bound,
        query=product.query,
        product_category=product.product_category,
        title=product.title,
        request=request,
    )
