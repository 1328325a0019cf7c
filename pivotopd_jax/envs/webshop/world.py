"""WebShop as a world: its goals by split, in the real shop or in generated ones; its episodes; its planner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import get_args

from pivotopd_jax.envs.drawn import DrawnTasks
from pivotopd_jax.envs.webshop import data_files, goals, shop
from pivotopd_jax.envs.webshop.engine import Errand, WebShopEnv
from pivotopd_jax.envs.webshop.generator import check_sizes, generate_shop
from pivotopd_jax.envs.webshop.nouns import Nouns
from pivotopd_jax.envs.webshop.pages import Style
from pivotopd_jax.envs.webshop.planner import WebShopPlanner
from pivotopd_jax.envs.webshop.products import read_products
from pivotopd_jax.envs.webshop.retrieval import RANKINGS
from pivotopd_jax.records import Task

KIND = "WebShop"
"""The one column of the result table: the papers report the mean over all goals."""

GENERATED = {"train": 1_000_000, "validation": 1_200, "test": 1_200}
"""Splits of generated shops and their sizes."""

_SPLITTERS = {"goal": goals.standard_split, "product": goals.product_split}


class WebShop:
    """WebShop's goals, their episodes and their planner.

    Attributes:
        name: says which shop and goals these are, for tables and logs.
        kinds: WebShop.
        splits: train, validation and test.
    """

    kinds: Sequence[str] = (KIND,)
    splits: Sequence[str] = goals.SPLITS

    def __init__(
        self,
        source: str | Path = "generated",
        *,
        ranking: str = "lucene",
        goal_kind: str = "synthetic",
        split_by: str = "goal",
        goals_file: str | Path | None = None,
        style: Style = "text",
        show_attributes: bool = False,
        products: int = 8,
        options: int = 2,
        values: int = 3,
        distractors: int = 3,
        seed: int = 0,
    ) -> None:
        """Checks the arguments; a real shop is loaded when its tasks are asked for, once a process.

        Args:
            source: "generated" (no data needed; every task is in a shop of its own), "real" (the directory that the
                environment variable WEBSHOP_DATA names) or the path of such a directory.
            ranking: of searches: "lucene", as WebShop's own engine, or "five_fields", the paper's k1 and b.
            goal_kind: real goals "synthetic" (made by a template, what the papers use) or "human".
            split_by: real goals by number ("goal": test 0-499, validation 500-1499) or so that no "product" is in two
                splits.
            goals_file: real goals are read from this file; where it does not exist yet, they are written to it.
            style: of observations, "text" or "text_rich".
            show_attributes: item pages have WebShop's optional fourth sub-page.
            products, options, values, distractors: sizes of generated shops, as for `generate_shop`.
            seed: of real prices and price bounds.

        Raises:
            ValueError: an argument that is not one of the above.
            FileNotFoundError: no WebShop files where `source` says.
        """
        _one_of("ranking", ranking, RANKINGS)
        _one_of("goal_kind", goal_kind, ("synthetic", "human"))
        _one_of("split_by", split_by, _SPLITTERS)
        _one_of("style", style, get_args(Style))
        check_sizes(products, options, values, distractors)
        self._generated = source == "generated"
        self._directory = data_files.data_directory() if source == "real" else Path(source)
        if not self._generated:
            data_files.find(self._directory)
        self._ranking, self._goal_kind, self._split_by, self._seed = ranking, goal_kind, split_by, seed
        self._goals_file = None if goals_file is None else Path(goals_file)
        self._style: Style = style
        self._show_attributes = show_attributes
        self._sizes = (products, options, values, distractors)
        self._planner = WebShopPlanner()
        self._tasks: dict[str, Sequence[Task]] = {}
        sizes = f"generated, {products} products, {options} options, {distractors} distractors"
        self.name = f"webshop ({sizes if self._generated else f'real, {goal_kind} goals by {split_by}'}, {ranking})"

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a split, in a fixed order.

        Raises:
            ValueError: no such split, with the ones that exist; or a broken file.
            NounsMissing: nouns of real titles are neither in a file nor to be found by spaCy.
        """
        _one_of(f"{self.name}: split", split, self.splits)
        if split not in self._tasks:
            self._tasks[split] = self._drawn(split) if self._generated else self._real(split)
        return self._tasks[split]

    def make(self) -> WebShopEnv:
        """A fresh episode holder."""
        return WebShopEnv(style=self._style, show_attributes=self._show_attributes)

    @property
    def planner(self) -> WebShopPlanner:
        """The planner of these goals."""
        return self._planner

    def _drawn(self, split: str) -> Sequence[Task]:
        """Each in a shop of its own."""
        return DrawnTasks(GENERATED[split], lambda seed: generated_task(seed, split, self._ranking, *self._sizes))

    def _real(self, split: str) -> Sequence[Task]:
        place = shop.load_shop(self._directory, self._ranking, self._seed)
        wanted = self._frozen(shop.load_goals(self._directory, self._goal_kind, self._seed, self._ranking))
        numbers = _SPLITTERS[self._split_by](wanted, split)
        return tuple(Task(f"webshop-{number}", KIND, Errand(place, wanted[number])) for number in numbers)

    def _frozen(self, drawn: Sequence[goals.Goal]) -> Sequence[goals.Goal]:
        if self._goals_file is None:
            return drawn
        if not self._goals_file.exists():
            goals.write_goals(self._goals_file, drawn)
        return goals.read_goals(self._goals_file)


@lru_cache(maxsize=512)
def generated_task(
    seed: int, split: str, ranking: str, products: int, options: int, values: int, distractors: int
) -> Task:
    """One goal of one generated shop; the arguments are those of `generate_shop`."""
    drawn = generate_shop(seed, products=products, options=options, values=values, distractors=distractors, split=split)
    stock = read_products(drawn.items, drawn.attributes)
    id = f"webshop-{split}-{seed}"
    wanted = goals.synthetic_goals(stock, drawn.attributes, seed=seed)
    place = shop.Shop(f"shop of {id}", stock, Nouns(drawn.nouns), ranking)
    return Task(id, KIND, Errand(place, Random(f"goal of {id}").choice(wanted)))


def _one_of(what: str, given: str, known: Iterable[str]) -> None:
    names = tuple(known)
    if given not in names:
        raise ValueError(f"{what} {given!r} is not known; choose one of {', '.join(names)}")
