"""Plans for WebShop: how many turns a page is from the best purchase, and what to do next.

What is known of a shop is which products were listed and which were opened. An opened product is known whole: its
options are on its page and the rest is one click away. A listed one is known by title and price only, which is not
enough to tell what it is worth, so plans rest on opened products and lists tell only what to open first. With full
knowledge this is the oracle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from pivotopd_jax.envs.webshop.browsing import browse
from pivotopd_jax.envs.webshop.engine import WebShopSnapshot
from pivotopd_jax.envs.webshop.goals import Goal
from pivotopd_jax.envs.webshop.pages import BUY, NEXT, PAGE_SIZE, PREVIOUS, State
from pivotopd_jax.envs.webshop.prospects import Prospects
from pivotopd_jax.envs.webshop.shop import Shop


class Known(NamedTuple):
    """What a customer has seen: positions of products in result lists, and of those opened."""

    listed: frozenset[int]
    read: frozenset[int]


class Route(NamedTuple):
    """A way to the best purchase: how many turns it takes, and its first action."""

    turns: int
    action: str


class WebShopPlanner:
    """A `Planner` of WebShop goals. Success is a purchase worth as much as any in the shop that can be found.

    For most goals that is a reward of 1; where WebShop's own comparison of colours makes 1 impossible, it is less.

    Args:
        remembered: goals whose best purchases are kept.
    """

    def __init__(self, remembered: int = 4096) -> None:
        self.prospects: Callable[[Shop, Goal], Prospects] = lru_cache(maxsize=remembered)(Prospects)

    def observed(self, snapshot: WebShopSnapshot) -> Known:
        """The products that lists had shown, and those that had been opened, by then."""
        return Known(snapshot.state.listed, snapshot.state.read)

    def distance(self, snapshot: WebShopSnapshot, known: Known | None = None) -> float:
        """L(s): least number of turns to a purchase of the highest reward, of a product in `known.read` (None: any).

        The highest reward is that of the whole shop, whatever is known.

        Returns:
            0 after such a purchase; inf after another one, or if no product that is known gives that reward.
        """
        prospects = self.prospects(snapshot.shop, snapshot.goal)
        if snapshot.done:
            return 0.0 if snapshot.reward >= prospects.best else math.inf
        return min((float(route.turns) for route in _routes(prospects, snapshot.state, known)), default=math.inf)

    def next_action(self, snapshot: WebShopSnapshot, known: Known | None = None) -> str | None:
        """The first action of a shortest way; of several always the same one.

        Where what is `known` does not suffice: what opens the likeliest product that was not opened, or lists others.

        Returns:
            None after a purchase, and when all that the customer's own queries list was opened in vain.
        """
        if snapshot.done:
            return None
        prospects = self.prospects(snapshot.shop, snapshot.goal)
        routes = _routes(prospects, snapshot.state, known)
        if routes:
            return min(routes, key=lambda route: route.turns).action
        return None if known is None else browse(snapshot.shop, snapshot.goal, snapshot.state, *known)

    def candidates(self, snapshot: WebShopSnapshot) -> Sequence[str]:
        """The admissible actions, suggested queries among them."""
        return snapshot.observation.admissible or ()


def _routes(prospects: Prospects, state: State, known: Known | None) -> list[Route]:
    """Ways to the best purchase, shortest of their kind; the ones to prefer come first."""
    targets = prospects.targets if known is None else prospects.targets & known.read
    routes = [*_buy_here(prospects, state, targets), *_through_results(prospects, state, targets)]
    found = prospects.cheapest_search(targets)
    if found is not None:
        routes.append(Route(found[0], f"search[{found[1]}]"))
    return routes


def _buy_here(prospects: Prospects, state: State, targets: frozenset[int]) -> Iterable[Route]:
    """Choosing and buying on the product's own page."""
    if state.page in ("start", "results") or state.product not in targets:
        return
    clicks = prospects.clicks(state.product, state.chosen)
    if state.page != "item":
        yield Route(len(clicks) + 2, f"click[{PREVIOUS}]")
    else:
        yield Route(len(clicks) + 1, f"click[{clicks[0] if clicks else BUY}]")


def _through_results(prospects: Prospects, state: State, targets: frozenset[int]) -> Iterable[Route]:
    """By the results of the last search, going back to them first if need be."""
    if state.page == "start":
        return
    back = {"results": 0, "item": 1}.get(state.page, 2)
    hits = prospects.shop.index.search(state.query)
    for rank, position in enumerate(hits):
        if position in targets:
            leaf = rank // PAGE_SIZE + 1 - state.number
            turns = back + abs(leaf) + 1 + prospects.turns_to_buy(position, ())
            if back or leaf:
                yield Route(turns, f"click[{PREVIOUS if back or leaf < 0 else NEXT}]")
            else:
                yield Route(turns, f"click[{prospects.shop.products[position].asin}]")
