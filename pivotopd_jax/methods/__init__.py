"""Methods by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pivotopd_jax.methods.method import Method
from pivotopd_jax.methods.pivotopd import grpo, opsd, pivotopd, preventive_only, recovery_only

METHODS: Mapping[str, Callable[[Any], Method]] = {
    method.__name__: method for method in (pivotopd, grpo, preventive_only, recovery_only, opsd)
}


def make_method(name: str, knobs: Any) -> Method:
    """The method `name` with its knobs set.

    Raises:
        ValueError: there is no such method; names those that exist.
    """
    if name not in METHODS:
        raise ValueError(f"method {name!r} is not known; choose one of {', '.join(METHODS)}")
    return METHODS[name](knobs)
