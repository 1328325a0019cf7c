from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotopd_jax.losses.advantages import group_advantages

ONE_SUCCESS = np.array([1.0, 0, 0, 0, 0, 0, 0, 0])
ONE_GROUP = np.zeros(8, np.int32)


@pytest.mark.usefixtures("x64")
def test_one_success_of_eight_is_divided_by_the_sample_standard_deviation():
    # Mean 1/8, sample variance (0.875² + 7 · 0.125²) / 7 = 1/8.
    advantages = group_advantages(ONE_SUCCESS, ONE_GROUP)
    np.testing.assert_allclose(advantages, [2.4748667342] + [-0.3535523906] * 7, rtol=1e-9)
    np.testing.assert_allclose(advantages[0], 0.875 / (0.125**0.5 + 1e-6), rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_mean_normalization_leaves_the_division_out():
    advantages = group_advantages(ONE_SUCCESS, ONE_GROUP, normalization="mean")
    np.testing.assert_array_equal(advantages, [0.875] + [-0.125] * 7)


@pytest.mark.parametrize("normalization", ["mean_std", "mean"])
@pytest.mark.parametrize("value", [0.0, 0.1, 0.7, 1 / 3, -1e-8, 1e8])
@pytest.mark.parametrize("size", [1, 3, 7, 8])
def test_equal_returns_give_exactly_zero(value, size, normalization):
    returns = np.full(size, value, np.float32)
    advantages = group_advantages(returns, np.zeros(size, np.int32), normalization=normalization)
    np.testing.assert_array_equal(advantages, np.zeros(size))


@pytest.mark.usefixtures("x64")
@settings(deadline=None, max_examples=30, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from([-7, 0, 3, 2_000_000_000]), st.floats(-10, 10, width=16)), min_size=12, max_size=12
    )
)
def test_interleaved_groups_of_any_ids_match_numpy_group_by_group(rows):
    ids, returns = (np.array(column) for column in zip(*rows, strict=True))
    with jax.enable_x64(True):
        advantages = np.asarray(group_advantages(returns, ids))
    for group in np.unique(ids):
        members = returns[ids == group]
        deviation = members.std(ddof=1) if len(members) > 1 else 0.0
        expected = (members - members.mean()) / (deviation + 1e-6)
        np.testing.assert_allclose(advantages[ids == group], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.usefixtures("x64")
def test_epsilon_bounds_the_division():
    # Mean 0.5, sample standard deviation 1/√2, both to be seen in the result.
    advantages = group_advantages(np.array([0.0, 1.0]), np.array([4, 4]), epsilon=0.5)
    np.testing.assert_allclose(advantages, np.array([-0.5, 0.5]) / (0.5**0.5 + 0.5), rtol=1e-12)


def test_jit_agrees():
    returns, ids = np.array([1.0, 0, 0, 2, 5], np.float32), np.array([9, 9, -1, -1, 9])
    jitted = jax.jit(functools.partial(group_advantages, normalization="mean"))
    np.testing.assert_allclose(jitted(returns, ids), [-1, -2, -1, 1, 3], rtol=1e-6)


def test_unknown_normalization_is_named():
    with pytest.raises(ValueError, match=r'median.*expected "mean_std" or "mean"'):
        group_advantages(ONE_SUCCESS, ONE_GROUP, normalization="median")  # pyright: ignore[reportArgumentType]


def test_shapes_are_checked():
    with pytest.raises(AssertionError):
        group_advantages(ONE_SUCCESS, ONE_GROUP[:4])
