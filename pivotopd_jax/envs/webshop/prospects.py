"""What can be had for a goal in a shop: the highest reward, the products that give it, and the ways to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from pivotopd_jax.envs.webshop.engine import clickables, suggested_queries
from pivotopd_jax.envs.webshop.goals import Goal
from pivotopd_jax.envs.webshop.pages import PAGE_SIZE, State, pieces
from pivotopd_jax.envs.webshop.products import Product
from pivotopd_jax.envs.webshop.reward import meets, total, type_factor
from pivotopd_jax.envs.webshop.shop import Shop

LONGEST_QUERY = 300
"""Characters of a query made from a product's text, so that the action fits into a response."""

_UNSEARCHABLE = re.compile(r"[\[\]\s]+")

Chosen = tuple[tuple[str, str], ...]


class Prospects:
    """The best purchases for `goal` in `shop`. Only queries that `queries_for` names are counted as ways to a product.

    Attributes:
        shop, goal: as given.
        best: highest reward that can be reached; a purchase worth it, or more, is a full success for a planner.
        targets: positions of the products that give it.
    """

    def __init__(self, shop: Shop, goal: Goal) -> None:
        self.shop, self.goal = shop, goal
        self.clicks = lru_cache(maxsize=4096)(self._clicks)
        self.query_for = lru_cache(maxsize=4096)(self._query_for)
        self._menu = lru_cache(maxsize=1024)(self._read_menu)
        self.best, self.targets = self._find_targets()

    def turns_to_buy(self, position: int, chosen: Chosen) -> int:
        """Turns from the product's page, with `chosen` on it, to its best purchase."""
        return len(self.clicks(position, chosen)) + 1

    def _clicks(self, position: int, chosen: Chosen) -> tuple[str, ...]:
        """The fewest values to click so that as many of the goal's options as possible are met, in page order."""
        now = dict(chosen)
        plans: dict[int, tuple[int, tuple[str, ...]]] = {0: (0, ())}
        for name, values in self._menu(position).items():
            kept = self._met(now[name]) if name in now else 0
            moves = [(kept, ()), *((met, (value,)) for met, value in values.items())]
            plans = _extend(plans, moves)
        most = max(mask.bit_count() for mask in plans)
        return min(plan for mask, plan in plans.items() if mask.bit_count() == most)[1]

    def _read_menu(self, position: int) -> dict[str, dict[int, str]]:
        """Option name -> {goal options met, as a mask: first value that meets them}, of values that can be clicked."""
        shown = pieces(self.shop, "", State("item", product=position), show_attributes=False)
        menu: dict[str, dict[int, str]] = {}
        live = clickables(shown)
        for piece in shown:
            if piece.kind == "option" and live[piece.text] == piece:
                menu.setdefault(piece.name, {}).setdefault(self._met(piece.text), piece.text)
        return menu

    def _met(self, value: str) -> int:
        return sum(1 << i for i, option in enumerate(self.goal.options) if meets(option, value))

    def _most_options(self, position: int) -> int:
        met = 0
        for value in self.clicks(position, ()):
            met |= self._met(value)
        return met.bit_count()

    def _find_targets(self) -> tuple[float, frozenset[int]]:
        """Works down from the products that might be worth most, until no other can be worth as much."""
        worth: dict[int, float] = {}
        best = -1.0
        for limit, position, factor, attributes, price in sorted(self._limits(), reverse=True):
            if limit < best:
                break
            if limit == best or self._findable(position):
                options = self._most_options(position)
                worth[position] = total(self.goal, factor, attributes, options, price)
                if worth[position] > best and self._findable(position):
                    best = worth[position]
        return best, frozenset(position for position, value in worth.items() if value == best)

    def _limits(self) -> Iterable[tuple[float, int, float, int, bool]]:
        """(reward if all options could be met, position, its parts) of each product."""
        goal, shop = self.goal, self.shop
        wanted = shop.wanted_nouns(goal)
        for position in self._considered():
            product = shop.products[position]
            factor = type_factor(goal, product, shop.nouns(position), wanted)
            attributes = sum(shop.has(position, attribute) for attribute in goal.attributes)
            price = product.price <= goal.price_upper
            yield total(goal, factor, attributes, len(goal.options), price), position, factor, attributes, price

    def _considered(self) -> Iterable[int]:
        """All products; in a large shop those that the goal's own product and the customer's words lead to."""
        if not self.shop.large:
            return range(len(self.shop.products))
        own = self.shop.position(self.goal.asin)
        queries = queries_for(self.goal, self.shop.products[own])
        return sorted({own, *(hit for query in queries for hit in self.shop.index.search(query))})

    def _findable(self, position: int) -> bool:
        return self.query_for(position) is not None

    def _query_for(self, position: int) -> tuple[int, str] | None:
        """(page, query) that shows a product earliest; of equal ones the first; None if none shows it."""
        best = None
        for query in queries_for(self.goal, self.shop.products[position]):
            page = page_of(self.shop, query, position)
            if page is not None and (best is None or page < best[0]):
                best = (page, query)
            if best is not None and best[0] == 1:
                break
        return best

    def cheapest_search(self, targets: Iterable[int]) -> tuple[int, str] | None:
        """(turns to a purchase, query) of the best new search for one of `targets`; None if none finds any."""
        best = None
        for position in sorted(targets, key=lambda p: (self.turns_to_buy(p, ()), p)):
            least = 2 + self.turns_to_buy(position, ())  # search and open, if it stands on the first page
            if best is not None and best[0] <= least:
                break
            found = self.query_for(position)
            if found is not None and (best is None or least + found[0] - 1 < best[0]):
                best = (least + found[0] - 1, found[1])
        return best


def page_of(shop: Shop, query: str, position: int) -> int | None:
    """The results page on which `query` shows a product, from 1."""
    hits = shop.index.search(query)
    return hits.index(position) // PAGE_SIZE + 1 if position in hits else None


def queries_for(goal: Goal, product: Product) -> Sequence[str]:
    """Queries that might show `product`, those a customer would think of first."""
    choices = " ".join(value for values in product.options.values() for value in values)
    texts = (product.title, f"{product.title} {choices}", f"{product.title} {product.description}", product.description)
    made = (searchable(text) for text in texts)
    return [*suggested_queries(goal), *(query for query in made if query)]


def searchable(text: str) -> str:
    """`text` as a query: no brackets, on one line, cut at a word."""
    words = _UNSEARCHABLE.sub(" ", text.lower()).strip()
    return words if len(words) <= LONGEST_QUERY else words[:LONGEST_QUERY].rpartition(" ")[0]


def _extend(
    plans: dict[int, tuple[int, tuple[str, ...]]], moves: Sequence[tuple[int, tuple[str, ...]]]
) -> dict[int, tuple[int, tuple[str, ...]]]:
    """The cheapest plan for each set of met options, after one more option name."""
    extended: dict[int, tuple[int, tuple[str, ...]]] = {}
    for mask, (cost, plan) in plans.items():
        for met, clicks in moves:
            candidate = (cost + len(clicks), plan + clicks)
            extended[mask | met] = min(extended.get(mask | met, candidate), candidate)
    return extended
