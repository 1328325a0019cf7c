"""What a purchase is worth: WebShop's reward, with its one-sided comparison of colours.

    reward = type factor · (attributes met + options met + price met) / (attributes + options + 1)

Buying exactly the product and the options that a goal was made from does not always give 1: a chosen "covered" counts
as the colour "red", while the goal's own text is compared whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz import fuzz, utils

from pivotopd_jax.envs.webshop.goals import Goal
from pivotopd_jax.envs.webshop.products import Product

ALIKE = 85
"""Per cent; two texts with a token-set ratio above it are the same option or attribute."""

_COLOURS = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom
mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire
seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white
wine yellow
"""
COLOURS = tuple(_COLOURS.split())
"""A chosen option is read as the first of these that it contains."""


@dataclass(frozen=True)
class Reward:
    """One purchase judged.

    Attributes:
        total: 0 to 1.
        type_factor: 1, 0.5, 0.1 or 0; how much it is the kind of thing that was asked for.
        attributes, options: how many of the goal's are met.
        price: whether it is within the bound.
    """

    total: float
    type_factor: float
    attributes: int
    options: int
    price: bool


def judge(
    goal: Goal,
    product: Product,
    chosen: Iterable[tuple[str, str]],
    nouns: Sequence[str],
    wanted_nouns: Sequence[str],
) -> Reward:
    """The reward of buying `product` with the options `chosen`.

    Args:
        goal: asked for.
        product: bought.
        chosen: (name, value) of options.
        nouns, wanted_nouns: in the titles of the product and of the goal's own product.
    """
    factor = type_factor(goal, product, nouns, wanted_nouns)
    attributes = sum(has_attribute(product, attribute) for attribute in goal.attributes)
    values = [value for _, value in chosen]
    options = sum(any(meets(option, value) for value in values) for option in goal.options)
    price = product.price <= goal.price_upper
    return Reward(total(goal, factor, attributes, options, price), factor, attributes, options, price)


def total(goal: Goal, factor: float, attributes: int, options: int, price: bool) -> float:
    """The reward of its parts, in the order in which WebShop computes it."""
    return (attributes + options + price) / (len(goal.attributes) + len(goal.options) + 1) * factor


def type_factor(goal: Goal, product: Product, nouns: Sequence[str], wanted_nouns: Sequence[str]) -> float:
    """How much `product` is of the goal's type: by the nouns of the titles, the query and the category."""
    share = len(set(nouns) & set(wanted_nouns)) / len(wanted_nouns) if wanted_nouns else 0.2
    if share == 0:
        return 0.0
    if share < 0.1:
        return 0.1
    if share > 0.2 or product.query == goal.query:
        return 1.0
    return 1.0 if len(levels(product.product_category) & levels(goal.product_category)) >= 2 else 0.5


@lru_cache(maxsize=20_000)
def levels(product_category: str) -> frozenset[str]:
    """The levels of a category path."""
    return frozenset(level.strip() for level in product_category.split("›"))


def has_attribute(product: Product, attribute: str) -> bool:
    """Whether `product` is filed under something like `attribute`, or says so anywhere."""
    return (
        any(alike(own, attribute) for own in product.attributes)
        or attribute in product.title.lower()
        or attribute in " ".join(product.bullets).lower()
        or attribute in product.description.lower()
    )


@lru_cache(maxsize=200_000)
def meets(option: tuple[str, str], value: str) -> bool:
    """Whether choosing `value` meets the goal's `option`."""
    return alike(_as_colour(value), _goal_text(option))


def _goal_text(option: tuple[str, str]) -> str:
    """What the goal's side is compared as: WebShop takes the printed pair of name and value, unless one is a colour."""
    name, value = option
    if not name:
        return _as_colour(value)
    return next((colour for colour in COLOURS if colour in option), str(option))


def _as_colour(text: str) -> str:
    return next((colour for colour in COLOURS if colour in text), text)


@lru_cache(maxsize=200_000)
def alike(first: str, second: str) -> bool:
    """Whether two texts hold nearly the same words, case, order and signs aside."""
    return round(fuzz.token_set_ratio(_plain(first), _plain(second))) > ALIKE


@lru_cache(maxsize=100_000)
def _plain(text: str) -> str:
    return utils.default_process(text.encode("ascii", "ignore").decode())
