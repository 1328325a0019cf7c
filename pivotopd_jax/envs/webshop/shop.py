"""A catalogue with everything computed from it once: read only, and shared by all episodes of a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

from pivotopd_jax.envs.webshop import data_files
from pivotopd_jax.envs.webshop.goals import Goal, human_goals, synthetic_goals
from pivotopd_jax.envs.webshop.nouns import Nouns
from pivotopd_jax.envs.webshop.products import Product, read_products
from pivotopd_jax.envs.webshop.retrieval import RANKINGS, Index
from pivotopd_jax.envs.webshop.reward import Reward, has_attribute, judge


class Shop:
    """One catalogue and its search engine; compared by identity.

    Attributes:
        name: for messages.
        products: in catalogue order; everything else names a product by its position here.
        ranking: name of the ranking of searches.
    """

    def __init__(self, name: str, products: Sequence[Product], nouns: Nouns, ranking: str = "lucene") -> None:
        """Takes over `products`; the index is built at the first search.

        Raises:
            ValueError: `ranking` is not one of `RANKINGS`.
            NounsMissing: titles whose nouns are not known, and no spaCy to find them.
        """
        if ranking not in RANKINGS:
            raise ValueError(f"ranking {ranking!r} is not known; choose one of {', '.join(RANKINGS)}")
        nouns.check(products)
        self.name, self.products, self.ranking, self._nouns = name, tuple(products), ranking, nouns
        self._positions = {product.asin: i for i, product in enumerate(self.products)}
        self._having: dict[str, frozenset[int]] = {}

    @cached_property
    def index(self) -> Index:
        """The search engine."""
        return Index(self.products, self.ranking)

    def position(self, asin: str) -> int:
        """Where the product with this identifier stands.

        Raises:
            KeyError: there is none.
        """
        if asin not in self._positions:
            raise KeyError(f"{self.name} has no product {asin!r}")
        return self._positions[asin]

    def nouns(self, position: int) -> Sequence[str]:
        """The nouns of a product's title, lower case, repetitions included."""
        return self._nouns.of(self.products[position])

    def wanted_nouns(self, goal: Goal) -> Sequence[str]:
        """The nouns of the title of the product that `goal` was made from."""
        return self.nouns(self.position(goal.asin))

    def having(self, attribute: str) -> frozenset[int]:
        """The products that meet an attribute; remembered."""
        if attribute not in self._having:
            met = (i for i, product in enumerate(self.products) if has_attribute(product, attribute))
            self._having[attribute] = frozenset(met)
        return self._having[attribute]

    def reward(self, goal: Goal, position: int, chosen: Mapping[str, str]) -> Reward:
        """What buying a product with the options `chosen` (name -> value) is worth."""
        product = self.products[position]
        return judge(goal, product, chosen.items(), self.nouns(position), self.wanted_nouns(goal))


def load_shop(directory: Path, ranking: str = "lucene", seed: int = 0) -> Shop:
    """The real catalogue under `directory`: loaded once a process, its products shared by all rankings.

    Args:
        directory: WebShop's own files, unchanged, plain or gzipped.
        ranking: one of `RANKINGS`.
        seed: of prices within ranges, which WebShop draws anew at every start.

    Raises:
        FileNotFoundError: a file is missing; says which.
        CatalogueError: a file is broken.
        NounsMissing: as for `Shop`.
    """
    return _shop(directory.resolve(), ranking, seed)


def load_goals(directory: Path, kind: str = "synthetic", seed: int = 0) -> tuple[Goal, ...]:
    """The goals of the real catalogue under `directory`, in WebShop's order.

    Args:
        directory: WebShop's own files.
        kind: "synthetic" (made by a template) or "human" (written by people).
        seed: of prices and price bounds, which WebShop draws anew at every start.

    Raises:
        FileNotFoundError: a file is missing; says which.
        CatalogueError: a file is broken.
    """
    files, products = data_files.find(directory), _products(directory.resolve(), seed)
    if kind == "human":
        return tuple(human_goals(products, data_files.read(data_files.need_human(files)), seed=seed))
    return tuple(synthetic_goals(products, data_files.read(files.attributes), seed=seed))


@cache
def _products(directory: Path, seed: int) -> tuple[Product, ...]:
    files = data_files.find(directory)
    return tuple(read_products(data_files.read(files.items), data_files.read(files.attributes), seed=seed))


@cache
def _shop(directory: Path, ranking: str, seed: int) -> Shop:
    nouns = data_files.find(directory).nouns
    known = data_files.read(nouns) if nouns else {}
    return Shop(f"shop of {directory}", _products(directory, seed), Nouns(known), ranking)
