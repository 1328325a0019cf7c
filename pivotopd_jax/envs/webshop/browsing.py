"""What the expert does while no product it has opened will do: opens what is listed, best hit first, then lists more.

It knows the instruction, the price tags that lists have shown, and which products it has opened. Its queries come from
the instruction. The order is fixed, so that a student can learn it; trusting the search engine's order finds products
sooner than comparing titles with the request does.
"""

from __future__ import annotations

from collections.abc import Sequence

from pivotopd_jax.envs.webshop.engine import suggested_queries
from pivotopd_jax.envs.webshop.goals import Goal
from pivotopd_jax.envs.webshop.pages import NEXT, PAGE_SIZE, PREVIOUS, State, hits_on_page
from pivotopd_jax.envs.webshop.prospects import searchable
from pivotopd_jax.envs.webshop.shop import Shop


def browse(shop: Shop, goal: Goal, state: State, listed: frozenset[int], read: frozenset[int]) -> str | None:
    """The next action of the search for a product; None when every list was seen and all that is affordable opened.

    Args:
        shop, goal, state: where the customer is.
        listed, read: positions of the products that lists have shown, and of those opened.
    """
    if state.page not in ("start", "results"):
        return f"click[{PREVIOUS}]"
    if state.page == "results":
        unread = _worth_opening(shop, goal, hits_on_page(shop, state.query, state.number), read)
        if unread:
            return f"click[{shop.products[unread[0]].asin}]"
    return _list_more(shop, goal, state, listed) or _go_back_to(shop, goal, state, read)


def own_queries(goal: Goal) -> Sequence[str]:
    """The queries that the instruction suggests, the ones to try first in front."""
    attributes = [query for attribute in goal.attributes if (query := searchable(attribute))]
    return list(dict.fromkeys([*suggested_queries(goal), *attributes]))


def _worth_opening(shop: Shop, goal: Goal, hits: Sequence[int], read: frozenset[int]) -> list[int]:
    """Those not opened whose price tag fits; which price of a range will be asked cannot be seen."""
    return [i for i in hits if i not in read and min(shop.products[i].prices) <= goal.price_upper]


def _list_more(shop: Shop, goal: Goal, state: State, listed: frozenset[int]) -> str | None:
    """Shows products that were never listed: further down these results, or by another query."""
    own = own_queries(goal)
    if state.page == "results" and state.query in own:
        later = shop.index.search(state.query)[state.number * PAGE_SIZE :]
        if not listed.issuperset(later):
            return f"click[{NEXT}]"
    for query in own:
        if not listed.issuperset(shop.index.search(query)):
            return f"search[{query}]"
    return None


def _go_back_to(shop: Shop, goal: Goal, state: State, read: frozenset[int]) -> str | None:
    """Towards a list with a product that was not opened yet."""
    for query in own_queries(goal):
        hits = shop.index.search(query)
        left = _worth_opening(shop, goal, hits, read)
        if left:
            leaf = hits.index(left[0]) // PAGE_SIZE + 1 - state.number
            here = state.page == "results" and state.query == query
            return f"click[{NEXT if leaf > 0 else PREVIOUS}]" if here else f"search[{query}]"
    return None
