"""A catalogue with everything computed from it once: read only, and shared by all episodes of a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path

from pivotopd_jax.envs.webshop import data_files
from pivotopd_jax.envs.webshop.goals import Goal, human_goals, read_goals, synthetic_goals
from pivotopd_jax.envs.webshop.nouns import Nouns
from pivotopd_jax.envs.webshop.products import Product, read_products
from pivotopd_jax.envs.webshop.retrieval import Index, ranking_named
from pivotopd_jax.envs.webshop.reward import Reward, has_attribute, judge
from pivotopd_jax.envs.webshop.stored import GOALS, LAYOUT, StoredProducts, store, stream_rows
from pivotopd_jax.files import user_cache

LARGE = 20_000
"""Products; catalogues with more are looked at through searches alone."""
LARGE_FILE = 64 << 20
"""Bytes; a catalogue whose item file is larger is kept in files of its own and mapped into memory."""


class Shop:
    """One catalogue and its search engine; compared by identity.

    Attributes:
        name: for messages.
        products: in catalogue order; everything else names a product by its position here.
        ranking: name of the ranking of searches.
        large: too large to look at every product for every goal.
    """

    def __init__(
        self, name: str, products: Sequence[Product], nouns: Nouns, ranking: str = "lucene", index: Index | None = None
    ) -> None:
        """Takes over `products`; without an `index` of them, one is made at the first search.

        Raises:
            ValueError: `ranking` is not one of `RANKINGS`.
            NounsMissing: titles whose nouns are not known, and no spaCy to find them.
        """
        ranking_named(ranking)
        nouns.check(products)
        stored = isinstance(products, StoredProducts)
        self.name, self.ranking, self._nouns, self._index = name, ranking, nouns, index
        self.products: Sequence[Product] = products if stored else tuple(products)
        self._find = products.find if stored else {product.asin: i for i, product in enumerate(products)}.get
        self._having: dict[str, frozenset[int]] = {}
        self.large = len(self.products) > LARGE

    @cached_property
    def index(self) -> Index:
        """The search engine."""
        return self._index or Index(self.products, self.ranking)

    def position(self, asin: str) -> int:
        """Where the product with this identifier stands.

        Raises:
            KeyError: there is none.
        """
        position = self._find(asin)
        if position is None:
            raise KeyError(f"{self.name} has no product {asin!r}")
        return position

    def nouns(self, position: int) -> Sequence[str]:
        """The nouns of a product's title, lower case, repetitions included."""
        return self._nouns.of(self.products[position])

    def wanted_nouns(self, goal: Goal) -> Sequence[str]:
        """The nouns of the title of the product that `goal` was made from."""
        return self.nouns(self.position(goal.asin))

    def has(self, position: int, attribute: str) -> bool:
        """Whether a product meets an attribute; remembered for whole catalogues that are not large."""
        if self.large:
            return has_attribute(self.products[position], attribute)
        if attribute not in self._having:
            met = (i for i, product in enumerate(self.products) if has_attribute(product, attribute))
            self._having[attribute] = frozenset(met)
        return position in self._having[attribute]

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


def load_goals(directory: Path, kind: str = "synthetic", seed: int = 0, ranking: str = "lucene") -> tuple[Goal, ...]:
    """The goals of the real catalogue under `directory`, in WebShop's order.

    Args:
        directory: WebShop's own files.
        kind: "synthetic" (made by a template) or "human" (written by people).
        seed: of prices and price bounds, which WebShop draws anew at every start.
        ranking: of the shop; a large catalogue is kept in one place with its index.

    Raises:
        FileNotFoundError: a file is missing; says which.
        CatalogueError: a file is broken.
    """
    files = data_files.find(directory)
    large = stored_catalogue(directory.resolve(), ranking, seed) if _is_large(files) else None
    if large and kind == "synthetic":
        return tuple(read_goals(large / GOALS))
    products = StoredProducts(large) if large else _products(directory.resolve(), seed)
    if kind == "human":
        return tuple(human_goals(products, data_files.read(data_files.need_human(files)), seed=seed))
    return tuple(synthetic_goals(products, data_files.read(files.attributes), seed=seed))


@cache
def _products(directory: Path, seed: int) -> Sequence[Product]:
    files = data_files.find(directory)
    return tuple(read_products(data_files.read(files.items), data_files.read(files.attributes), seed=seed))


@cache
def _shop(directory: Path, ranking: str, seed: int) -> Shop:
    files, name = data_files.find(directory), f"shop of {directory}"
    nouns = Nouns(data_files.read(files.nouns) if files.nouns else {})
    if not _is_large(files):
        return Shop(name, _products(directory, seed), nouns, ranking)
    kept = stored_catalogue(directory, ranking, seed)
    return Shop(name, StoredProducts(kept), nouns, ranking, Index.load(kept, ranking))


def _is_large(files: data_files.ShopFiles) -> bool:
    return files.items.stat().st_size > LARGE_FILE


def stored_catalogue(directory: Path, ranking: str, seed: int) -> Path:
    """Where the large catalogue of `directory` is kept in mapped files; they are made first if they are not there.

    That takes minutes and gigabytes of memory, once for each ranking and seed, as long as WebShop's files stay as they
    are. Its place is below $XDG_CACHE_HOME, by default ~/.cache.
    """
    files = data_files.find(directory)
    stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in (files.items, files.attributes)]
    name = sha256(repr([LAYOUT, stamps, ranking, seed]).encode()).hexdigest()[:16]
    place = user_cache() / f"webshop-{name}"
    if not place.is_dir():
        rows = stream_rows(data_files.pieces(files.items))
        store(place, rows, data_files.read(files.attributes), ranking, seed=seed)
    return place
