"""A hand-made shop, and the real one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_shop import tiny_goals, tiny_shop

from pivotopd_jax.envs.webshop.engine import Errand, WebShopEnv
from pivotopd_jax.envs.webshop.shop import load_goals, load_shop
from pivotopd_jax.records import Task


@pytest.fixture
def shop():
    return tiny_shop()


@pytest.fixture
def goals(shop):
    return tiny_goals(shop)


@pytest.fixture
def env(shop, goals):
    """An episode that asks for the blue oak table in L."""
    env = WebShopEnv()
    env.reset(Task("t", "WebShop", Errand(shop, goals[0])))
    return env


@pytest.fixture(scope="session")
def real(webshop_data: Path):
    """The real small shop and its goals."""
    return load_shop(webshop_data), load_goals(webshop_data)
