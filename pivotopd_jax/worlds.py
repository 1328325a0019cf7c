"""Environments by name, each with its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.envs.protocol import World
from pivotopd_jax.envs.search_qa.world import SearchQA
from pivotopd_jax.envs.swe.engine import EpisodeLimits
from pivotopd_jax.envs.swe.sandbox import MEBIBYTE, Limits
from pivotopd_jax.envs.swe.world import Swe
from pivotopd_jax.envs.webshop.world import WebShop
from pivotopd_jax.prompts.alfworld import AlfWorldWording
from pivotopd_jax.prompts.prompter import Wording
from pivotopd_jax.prompts.search_qa import SearchQAWording
from pivotopd_jax.prompts.swe import SweWording
from pivotopd_jax.prompts.webshop import WebShopWording


def _alfworld(options: Any) -> tuple[World, Wording]:
    distractors = options.distractors if options.distractors >= 0 else None
    world = AlfWorld(
        options.source or "real", receptacles=options.receptacles or None, distractors=distractors,
        search=options.search,
    )  # fmt: skip
    return world, AlfWorldWording()


def _webshop(options: Any) -> tuple[World, Wording]:
    world = WebShop(
        options.source or "real", ranking=options.ranking, goal_kind=options.goal_kind, split_by=options.split_by,
        products=options.products, options=options.option_names, values=options.option_values,
        distractors=options.distractors,
    )  # fmt: skip
    return world, WebShopWording()


def _search_qa(options: Any) -> tuple[World, Wording]:
    world = SearchQA(
        options.source or "real", retriever=options.retriever, top_k=options.top_k, hops=options.hops,
        distractors=options.distractors, passages=options.passages, test_questions=options.test_questions,
    )  # fmt: skip
    return world, SearchQAWording()


def _swe(options: Any) -> tuple[World, Wording]:
    world = Swe(
        options.source or "real", actions=options.actions, changes=options.changes, orders=options.orders,
        built=options.built, image=options.image, server=options.server,
        episode=EpisodeLimits(options.episode_seconds, options.episode_characters),
        limits=Limits(
            options.command_seconds, options.memory_mib * MEBIBYTE, options.processes, options.disk_mib * MEBIBYTE
        ),
    )  # fmt: skip
    return world, SweWording()


WORLDS: Mapping[str, Callable[[Any], tuple[World, Wording]]] = {
    "alfworld": _alfworld,
    "webshop": _webshop,
    "search_qa": _search_qa,
    "swe": _swe,
}


def make_world(options: Any) -> tuple[World, Wording]:
    """The world that `config.world` describes.

    Raises:
        ValueError: there is no such world, or its data are missing.
    """
    if options.name not in WORLDS:
        raise ValueError(f"world {options.name!r} is not known; choose one of {', '.join(WORLDS)}")
    return WORLDS[options.name](options)
