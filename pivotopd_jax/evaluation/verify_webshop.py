"""Replays recorded WebShop episodes in our engine and counts where the two agree."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pivotopd_jax.envs.webshop.engine import Errand, WebShopEnv
from pivotopd_jax.envs.webshop.goals import NO_BOUND, Goal, with_bound
from pivotopd_jax.envs.webshop.nouns import Nouns
from pivotopd_jax.envs.webshop.pages import SEPARATOR
from pivotopd_jax.envs.webshop.shop import Shop, load_goals, load_shop
from pivotopd_jax.evaluation.verify import MAX_DIFFERENCES, read_json_lines
from pivotopd_jax.records import Task

RESULT_PAGES_WANTED = 0.99
"""Share of result pages that must agree: a document whose length falls on the edge of two bytes may change places."""

KNOWN_CEILINGS = 1
"""Recorded purchases that were worth less than 1 in WebShop, too."""

_BOUND = re.compile(r", and price lower than ([\d.]+) dollars$")
_RESULTS = re.compile(r"Page \d+ \(Total results: \d+\)")


@dataclass
class ShopAgreement:
    """Counts of one verification.

    Attributes:
        episodes: recorded episodes.
        steps: recorded steps; the first text of an episode is not a step.
        intro_equal: episodes whose first text agrees.
        observation_equal: steps whose text agrees, character for character; of a purchase, after which recordings have
            no text, that it was carried out.
        result_pages, result_pages_equal: those of the steps that showed results, and how many agree.
        reward_equal: episodes whose reward agrees; where none was recorded, whose purchase is worth 1.
        first_differences: the first few disagreements: {session, step, what, expected, got}; step 0 is the start.
    """

    episodes: int = 0
    steps: int = 0
    intro_equal: int = 0
    observation_equal: int = 0
    result_pages: int = 0
    result_pages_equal: int = 0
    reward_equal: int = 0
    first_differences: list[dict[str, Any]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Everything agrees but what is known not to: a result page in a hundred, and one reward."""
        others = self.observation_equal - self.result_pages_equal == self.steps - self.result_pages
        pages = self.result_pages_equal >= RESULT_PAGES_WANTED * self.result_pages
        rewards = self.reward_equal >= self.episodes - KNOWN_CEILINGS
        return self.episodes > 0 and self.intro_equal == self.episodes and others and pages and rewards

    def to_json(self) -> str:
        """One line of JSON with the fields above."""
        return json.dumps(asdict(self))


def verify_webshop(episodes: str | Path, data: str | Path) -> ShopAgreement:
    """Plays every recorded WebShop episode again.

    WebShop draws prices and bounds anew at each start. The bound is read off the recorded text. The price was not
    recorded, only that it lay below the bound: every product costs the least of its range here.

    Args:
        episodes: `*.jsonl`, `.jsonl.xz` or `.jsonl.gz`, one episode a line: {session, first_obs, reward?, steps:
            [{action, next_obs}]}; `session` is the number of the goal in WebShop's order.
        data: folder of WebShop's own files.

    Raises:
        FileNotFoundError: no such recording, or files are missing under `data`.
        ValueError: a file or an episode cannot be read.
    """
    agreement, goals, cheap = ShopAgreement(), load_goals(Path(data)), _cheapest(load_shop(Path(data)))
    for episode in read_json_lines(episodes):
        _Replay(agreement, episode, cheap, goals).run()
    return agreement


def _cheapest(shop: Shop) -> Shop:
    products = [replace(product, price=min(product.prices)) for product in shop.products]
    nouns = Nouns({product.asin: shop.nouns(i) for i, product in enumerate(shop.products)})
    return Shop(shop.name, products, nouns, shop.ranking)


class _Replay:
    """One episode, step by step beside its recording."""

    def __init__(self, agreement: ShopAgreement, episode: dict[str, Any], shop: Shop, goals: Sequence[Goal]) -> None:
        try:
            self._number, self._first, self._steps = episode["session"], episode["first_obs"], episode["steps"]
            goal = with_bound(goals[self._number], _bound(self._first))
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError(
                f"episode {str(episode)[:120]}: {error!r}; expected session (below {len(goals)}), first_obs and steps"
            ) from error
        self._agreement, self._reward = agreement, episode.get("reward", 1.0)
        self._env, self._task = WebShopEnv(), Task(f"webshop-{self._number}", "", Errand(shop, goal))

    def run(self) -> None:
        self._agreement.episodes += 1
        shown = self._env.reset(self._task)
        self._agreement.intro_equal += self._same(0, "intro", self._first, shown.text)
        reward = sum(self._step(number, step) for number, step in enumerate(self._steps, 1))
        self._agreement.reward_equal += self._same(len(self._steps), "reward", self._reward, reward)

    def _step(self, number: int, step: dict[str, Any]) -> float:
        result, expected = self._env.step(step["action"]), step["next_obs"]
        if expected is None:
            equal = self._same(number, "purchase", True, result.done)
        else:
            equal = self._same(number, "observation", expected, result.observation.text)
        self._agreement.steps += 1
        self._agreement.observation_equal += equal
        if expected is not None and _RESULTS.search(expected):
            self._agreement.result_pages += 1
            self._agreement.result_pages_equal += equal
        return result.reward

    def _same(self, number: int, what: str, expected: Any, got: Any) -> bool:
        differences = self._agreement.first_differences
        if expected != got and len(differences) < MAX_DIFFERENCES:
            where = {"session": self._number, "step": number, "what": what}
            differences.append({**where, "expected": expected, "got": got})
        return expected == got


def _bound(first_text: str) -> float:
    found = _BOUND.search(first_text.split(SEPARATOR)[2])
    return float(found.group(1)) if found else NO_BOUND
