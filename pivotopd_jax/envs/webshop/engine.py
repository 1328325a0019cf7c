"""The WebShop engine: every page and action of the official simulator, as pure functions of an immutable state.

Left out on purpose: the search engine's hidden doors (queries that begin with <r>, <a>, <c> or <q> list products at
random or by hidden labels, or crash). Any query is words here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, get_args

from pivotopd_jax.envs.protocol import Snapshot
from pivotopd_jax.envs.webshop import pages
from pivotopd_jax.envs.webshop.goals import Goal
from pivotopd_jax.envs.webshop.pages import BACK, BUY, NEXT, PREVIOUS, SUB_PAGES, PageName, Piece, State, Style
from pivotopd_jax.envs.webshop.shop import Shop
from pivotopd_jax.records import Observation, StepResult, Task

_PRICE_WORDS = re.compile(r",? and price lower than [\d.]+ dollars\s*$")


class Errand(NamedTuple):
    """What a task of WebShop starts from: a goal in a shop."""

    shop: Shop
    goal: Goal


class WebShopSnapshot(NamedTuple):
    """One moment of an episode.

    Attributes:
        shop: compared by identity.
        goal: what is wanted.
        state: where the customer is.
        observation: what was last shown.
        reward: of the purchase; 0 before it.
        done: something was bought.
    """

    shop: Shop
    goal: Goal
    state: State
    observation: Observation
    reward: float
    done: bool

    @property
    def won(self) -> bool:
        """The purchase was worth the full reward."""
        return self.done and self.reward == 1.0


def split_action(action: str) -> tuple[str, str] | None:
    """The verb and the lower-case argument of "verb[argument]"; None for anything else.

    The argument lies between the last pair of brackets of the first line and is not empty; what follows is ignored.
    """
    line = action.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 0, max(0, end - 1))
    return (line[:start], line[start + 1 : end].lower()) if start > 0 else None


@lru_cache(maxsize=4096)
def suggested_queries(goal: Goal) -> tuple[str, ...]:
    """What a customer would type first: the request with the wanted options, and the bare request."""
    request = _PRICE_WORDS.sub("", goal.request).lower().removeprefix("find me ").strip()
    values = " ".join(value for _, value in goal.options)
    return tuple(dict.fromkeys([f"{request} {values}".strip(), request]))


def clickables(shown: list[Piece]) -> dict[str, Piece]:
    """What can be clicked, by lower-case text. Buttons come before options; of equal options the last one counts."""
    found = {piece.text: piece for piece in shown if piece.kind == "option"}
    found |= {piece.text.lower(): piece for piece in shown if piece.kind in ("button", "link")}
    found.pop("search", None)
    return found


def search(shop: Shop, state: State, query: str) -> State:
    """The first page of results."""
    return _show_results(shop, state, query, 1)


def _show_results(shop: Shop, state: State, query: str, number: int) -> State:
    listed = state.listed.union(pages.hits_on_page(shop, query, number))
    return State("results", query, number, -1, (), state.visited, listed, state.read)


def click(shop: Shop, state: State, piece: Piece) -> State:
    """Where a click on something that is on the page leads."""
    if piece.kind == "link":
        product = shop.position(piece.text)
        opened = frozenset([product])
        return state._replace(page="item", product=product, visited=state.visited | opened, read=state.read | opened)
    if piece.kind == "option":
        chosen = {**dict(state.chosen), piece.name: piece.text}
        return state._replace(chosen=tuple(chosen.items()))
    if piece.text == BACK:
        return State(listed=state.listed, read=state.read)
    if piece.text == BUY:
        return state._replace(page="done")
    if state.page == "results":
        return _show_results(shop, state, state.query, state.number + (1 if piece.text == NEXT else -1))
    if piece.text != PREVIOUS:
        return state._replace(page=_sub_page(piece.text))
    return (
        _show_results(shop, state, state.query, state.number) if state.page == "item" else state._replace(page="item")
    )


def _sub_page(label: str) -> PageName:
    return next(page for page in get_args(PageName) if SUB_PAGES.get(page) == label)


class WebShopEnv:
    """One running WebShop episode; `reset` takes tasks whose `source` is an `Errand`."""

    def __init__(self, *, style: Style = "text", show_attributes: bool = False) -> None:
        """`style`: of observations. `show_attributes`: item pages get WebShop's optional fourth sub-page.

        Raises:
            ValueError: unknown style.
        """
        if style not in get_args(Style):
            raise ValueError(f"observation style {style!r} is not known; choose one of {', '.join(get_args(Style))}")
        self._style, self._show_attributes = style, show_attributes
        self._now: WebShopSnapshot | None = None

    def reset(self, task: Task) -> Observation:
        """Starts `task` on the search page.

        Raises:
            TypeError: `task.source` is not an errand.
        """
        if not isinstance(task.source, Errand):
            raise TypeError(f"task {task.id!r}: expected an Errand as its source, got {type(task.source).__name__}")
        shop, goal = task.source
        return self._go(shop, goal, State())

    def step(self, action: str) -> StepResult:
        """Carries `action` out: `search[words]` anywhere, or `click[text]` on something on the page.

        Anything else changes nothing and shows the same page again.

        Returns:
            reward 0 to 1 for a purchase, which ends the episode; 0.0 otherwise. `won` means the full reward.

        Raises:
            RuntimeError: before `reset`, or after a purchase.
        """
        now = self._current()
        if now.done:
            raise RuntimeError("step() after a purchase; call reset(task) or restore(snapshot) first")
        after = self._apply(now, action)
        if after is not None and after.page == "done":
            self._buy(now, after)
        elif after is not None:
            self._go(now.shop, now.goal, after)
        now = self._current()
        return StepResult(now.observation, now.reward, now.done, now.won)

    def accepts(self, action: str) -> bool:
        """Whether `action` would be carried out now."""
        now = self._current()
        return not now.done and self._apply(now, action) is not None

    def snapshot(self) -> WebShopSnapshot:
        """The present moment.

        Raises:
            RuntimeError: before `reset`.
        """
        return self._current()

    def restore(self, snapshot: Snapshot) -> Observation:
        """Goes back to a moment of any episode and returns what was last shown then.

        Raises:
            TypeError: `snapshot` is not a `WebShopSnapshot`.
        """
        if not isinstance(snapshot, WebShopSnapshot):
            raise TypeError(f"expected a WebShopSnapshot, got {type(snapshot).__name__}")
        self._now = snapshot
        return snapshot.observation

    def _current(self) -> WebShopSnapshot:
        if self._now is None:
            raise RuntimeError("no episode is running; call reset(task) or restore(snapshot) first")
        return self._now

    def _apply(self, now: WebShopSnapshot, action: str) -> State | None:
        parts = split_action(action)
        if parts is None:
            return None
        verb, argument = parts
        if verb == "search":
            return search(now.shop, now.state, argument)
        piece = clickables(self._pieces(now.shop, now.goal, now.state)).get(argument) if verb == "click" else None
        return None if piece is None else click(now.shop, now.state, piece)

    def _pieces(self, shop: Shop, goal: Goal, state: State) -> list[Piece]:
        return pages.pieces(shop, goal.instruction, state, show_attributes=self._show_attributes)

    def _go(self, shop: Shop, goal: Goal, state: State) -> Observation:
        shown = self._pieces(shop, goal, state)
        text = pages.plain_text(shown) if self._style == "text" else pages.rich_text(shop, state, shown)
        actions = [f"click[{piece.text}]" for piece in clickables(shown).values()]
        actions += [f"search[{query}]" for query in suggested_queries(goal)]
        observation = Observation(text, tuple(sorted(set(actions))), free_verbs=("search",))
        self._now = WebShopSnapshot(shop, goal, state, observation, 0.0, False)
        return observation

    def _buy(self, now: WebShopSnapshot, after: State) -> None:
        reward = now.shop.reward(now.goal, after.product, dict(after.chosen)).total
        self._now = WebShopSnapshot(now.shop, now.goal, after, Observation(pages.thanks(reward), ()), reward, True)
