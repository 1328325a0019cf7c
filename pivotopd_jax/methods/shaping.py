"""What the shapes of several methods are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from pivotopd_jax.records import PLAIN, TokenBatch, View


def log_ratio(batch: TokenBatch, views: Mapping[View, Any], view: View) -> Any:
    """D = log(view) − log(plain) of every trained token in nats, 0 elsewhere and where there is no such view.

    `[rows, length]` float32.
    """
    return jnp.where(batch.mask, views[view] - views[PLAIN], 0.0)


def turns_of(batch: TokenBatch) -> dict[str, Any]:
    """Where each token belongs, as the keywords of `losses.credit.turn_sums`."""
    shape = (int(batch.trajectory.max()) + 1, int(batch.turn.max()) + 1)
    return {"trajectory": batch.trajectory, "turn": batch.turn, "mask": batch.mask, "shape": shape}
