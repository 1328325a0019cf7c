"""Bootstrap intervals, against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap

from pivotopd_jax.evaluation.intervals import Estimate, bootstrap_interval, estimate, interval_text, percent_text

SHARES = np.asarray([0.0, 0.125, 0.5, 1.0, 1.0, 0.25, 0.0, 0.875, 0.0])


@pytest.mark.parametrize("statistic", [np.mean, np.median])
def test_intervals_are_those_of_scipy(statistic):
    theirs = bootstrap(
        (SHARES,), statistic, n_resamples=4000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    assert bootstrap_interval(SHARES, statistic=statistic) == pytest.approx(tuple(theirs), rel=1e-12)


def test_the_bootstrap_interval_is_that_of_a_mean():
    values = np.r_[np.ones(60), np.zeros(40)]
    low, high = bootstrap_interval(values)
    assert (low, high) == pytest.approx((0.6 - 1.96 * 0.049, 0.6 + 1.96 * 0.049), abs=0.01)
    assert bootstrap_interval([0.25] * 7) == (0.25, 0.25)


def test_estimates_as_text():
    assert estimate([]) is None
    found = estimate([True, True])
    assert found == Estimate(1.0, 1.0, 1.0, 2)
    assert (percent_text(found, signed=True), percent_text(None)) == ("+100.0 [100.0, 100.0]", "–")
    assert interval_text(Estimate(-1.234, -2, 0.5, 9), digits=2) == "-1.23 [-2.00, 0.50]"
