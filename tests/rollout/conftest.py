"""A tiny student that speaks the corridor's language, in both prompt styles."""

from __future__ import annotations

import pytest
from toy_student import Toy, make_toy


@pytest.fixture(scope="module", params=["transcript", "windowed"])
def toy(request: pytest.FixtureRequest) -> Toy:
    return make_toy(request.param)
