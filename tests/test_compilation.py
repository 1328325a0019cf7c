"""What a run compiles: it is counted, bounded by the shapes that there are, and not built again."""

from __future__ import annotations

from collections import Counter

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache
from test_train import tiny_config

from pivotopd_jax.compilation import Compiled, compiled, programs
from pivotopd_jax.learner.learner import TrainState
from pivotopd_jax.recording import Moment, QuietRecorder, first_step, read_metrics
from pivotopd_jax.run import Run, make_run
from pivotopd_jax.sampling.engine import KEYS
from pivotopd_jax.sampling.slots import bucket
from pivotopd_jax.train import Progress, train, train_step


def built_in(run: Run, state: TrainState, step: int) -> tuple[TrainState, Counter[str]]:
    """The state after a step, and what was built for it."""
    before = programs()
    progress, _ = train_step(run, Progress(state), step, QuietRecorder())
    return progress.state, programs() - before


def test_programs_are_counted_by_name():
    @jax.jit
    def doubled(x):
        return x + x

    short, long = jnp.ones(3), jnp.ones(5)
    before, names = compiled(), programs()
    for x in (short, long, short):
        doubled(x)
    since = compiled().since(before)
    assert programs() - names == Counter(doubled=2)
    assert since.programs == 2
    assert since.seconds > 0


def test_what_the_persistent_cache_held_is_told_apart(tmp_path):
    def power(x):
        return x**7.25

    x, directory = jnp.ones(3), jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    compilation_cache.reset_cache()
    try:
        found = []
        for _ in range(2):
            before = compiled()
            jax.jit(lambda x: power(x))(x)
            found.append(compiled().since(before)[:2])
    finally:
        jax.config.update("jax_compilation_cache_dir", directory)
        compilation_cache.reset_cache()
    assert found == [(1, 0), (1, 1)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tiny_config(), tmp_path_factory.mktemp("compilation") / "run")


def test_the_programs_of_a_run_are_bounded_by_its_shapes(run):
    """After the first step all that can be new are lengths of the cache and densities of a micro-batch."""
    jax.clear_caches()
    state, steps = run.learner.init(run.reference), []
    for step in range(4):
        state, built = built_in(run, state, step)
        steps.append(built)
    capacity = run.policy.capacity
    lengths = len({min(capacity, bucket(needed, KEYS)) for needed in range(1, capacity + 1)})
    assert lengths == 3
    # Of the sampler see docs/sampling.md; a micro-batch is trained at a quarter, half or all of its tokens.
    most = {"fill": 4 * (2 * lengths - 1), "decode": 2 * lengths, "copy": lengths, "_longer": 2 * (lengths - 1)}
    most |= {"_score": 3, "_accumulate": 3, "_apply_gradient": 1}
    total = sum(steps, Counter())
    assert {name for name in most if 0 < total[name] <= most[name]} == set(most)
    later = sum(steps[1:], Counter())
    assert set(later) <= set(most), "operations outside jit meet no new shapes"
    assert later.total() <= sum(most.values()) - sum(steps[0][name] for name in most)


def test_a_step_on_shapes_that_were_seen_builds_nothing(run):
    first, second = (run.learner.init(run.reference) for _ in range(2))
    built_in(run, first, 0)
    assert built_in(run, second, 0)[1] == Counter()


def test_a_run_says_what_it_compiled_and_when_its_first_step_ended(tmp_path, capsys):
    before = compiled()
    train(tiny_config("grpo", steps=2), tmp_path / "run")
    lines, since = read_metrics(tmp_path / "run"), compiled().since(before)
    assert sum(line["compile/programs"] for line in lines) == since.programs > 0
    assert sum(line["compile/cached"] for line in lines) == since.cached
    assert sum(line["compile/seconds"] for line in lines) == pytest.approx(since.seconds)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("first step ended")]
    assert len(said) == 1


def test_the_line_of_the_first_step_adds_up():
    begun, ready, ended = (
        Moment(2.0, Compiled(1, 1, 0.5)),
        Moment(3.5, Compiled(2, 1, 0.7)),
        Moment(9.0, Compiled(9, 6, 4.5)),
    )
    assert first_step(begun, ready, ended) == (
        "first step ended 9.0 s after the process began: 2.0 before the run, 1.5 student and world, 5.5 the step; "
        "4.0 s of it to build 8 programs, of which 5 were read from the persistent cache"
    )
