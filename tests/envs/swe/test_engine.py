"""Episodes: what is shown of a command, how they end, and that any moment can be gone on from."""

from __future__ import annotations

import pytest

from pivotopd_jax.envs.swe.boxed import OutputReader
from pivotopd_jax.envs.swe.engine import EXPECTED, Assignment, EpisodeLimits, SweEnv, show
from pivotopd_jax.envs.swe.finishing import DONE, SUBMIT
from pivotopd_jax.envs.swe.grading import Verdict
from pivotopd_jax.envs.swe.sandbox import Output, Ran
from pivotopd_jax.records import Task

MEND = "sed -i 's/a - b/a + b/' adding.py"


@pytest.fixture
def task(sandbox, instance) -> Task:
    return Task(instance.id, instance.repo, Assignment(instance, sandbox))


def test_an_episode_that_solves_its_task(task):
    env = SweEnv()
    first = env.reset(task)
    assert (first.text, first.admissible) == ("`add` does not add.", None)
    result = env.step("cat adding.py | head -2")
    assert result.observation.text == (
        "<returncode>0</returncode>\n<output>\ndef add(a, b):\n    return a - b\n</output>"
    )
    assert not result.done
    env.step(MEND)
    result = env.step(SUBMIT)
    assert (result.reward, result.done, result.won) == (1.0, True, True)
    assert env.snapshot().verdict == Verdict((1, 1), (1, 1))
    with pytest.raises(RuntimeError, match=r"step\(\) after the end"):
        env.step("ls")


@pytest.mark.parametrize(
    ("commands", "verdict"),
    [
        ([], Verdict((0, 1), (1, 1))),
        ([MEND, "sed -i 's/2 \\* a/a/' adding.py"], Verdict((1, 1), (0, 1))),
        (["echo 'def test_add(): pass' > tests/test_adding.py"], Verdict((0, 1), (1, 1))),
        (["echo 'import pytest\ndef pytest_collection_modifyitems(items): items[:] = []' > conftest.py"],
         Verdict((0, 1), (1, 1))),
        (["printf '[pytest]\naddopts = -k double' > pytest.ini"], Verdict((0, 1), (1, 1))),
        (["rm -rf .git; mkdir .git; echo nonsense > .git/HEAD", MEND], Verdict((1, 1), (1, 1))),
        (["echo 'print(\"PASSED tests/test_adding.py::test_add\")' >> adding.py"], Verdict((0, 1), (1, 1))),
    ],
)  # fmt: skip
def test_what_does_and_does_not_count(task, commands, verdict):
    """The tests, and what steers them, are as they were; the history is not looked at."""
    env = SweEnv()
    env.reset(task)
    for command in commands:
        env.step(command)
    result = env.step(SUBMIT)
    assert (env.snapshot().verdict, result.won) == (verdict, verdict.resolved)


def test_any_moment_can_be_gone_on_from(task):
    """Two recoveries from the same mistake, one of which mends it; neither sees the other."""
    env, other = SweEnv(), SweEnv()
    env.reset(task)
    env.step("rm adding.py")
    after = env.snapshot()
    assert other.restore(after) == after.observation
    other.step("git checkout -q adding.py")
    other.step(MEND)
    assert other.step(SUBMIT).won
    assert "No such file" in env.step("cat adding.py").observation.text
    assert not env.step(SUBMIT).won
    assert other.restore(after).text == after.observation.text
    assert hash(other.snapshot()) == hash(after)
    with pytest.raises(TypeError, match="expected a SweSnapshot, got str"):
        other.restore("there")


@pytest.mark.parametrize(
    "command", [f"echo {DONE}; exit 1", f"echo first; echo {DONE}", f"echo {DONE}x", f"cat <<'EOF'\nx\n{DONE}\nEOF"]
)
def test_only_the_first_line_and_status_0_hand_in(task, command):
    env = SweEnv()
    env.reset(task)
    assert not env.step(command).done


@pytest.mark.parametrize("command", ["", " \n", "x" * 20_001, "echo \0"])
def test_what_is_no_command(task, command):
    env = SweEnv()
    env.reset(task)
    assert not env.accepts(command)
    result = env.step(command)
    assert (result.observation.text, result.done) == (EXPECTED, False)
    assert env.accepts("anything else")


def test_a_command_that_does_not_end_and_one_that_ends_its_sandbox(task):
    env = SweEnv(command_seconds=1)
    env.reset(task)
    assert "<exception>The command was stopped after 1 seconds.</exception>" in env.step("sleep 60").observation.text
    text = env.step("rm adding.py; kill -KILL -1").observation.text
    assert (
        "<returncode>-1</returncode>\n<exception>The command ended its own sandbox (its processes were killed)" in text
    )
    assert "adding.py" in env.step("ls").observation.text


@pytest.mark.parametrize("limits", [EpisodeLimits(seconds=1.0), EpisodeLimits(characters=300)])
def test_an_episode_that_uses_up_its_limits_is_lost(task, limits):
    env = SweEnv(limits=limits)
    env.reset(task)
    assert not env.step("true").done
    result = env.step("sleep 1.2; seq 100")
    assert (result.done, result.won, result.reward) == (True, False, 0.0)
    assert env.snapshot().verdict is None


def test_long_output_is_shown_from_both_ends():
    reader = OutputReader(10)
    for piece in (b"0123", b"4567", b"89ab", b"cdef"):
        reader.add(piece)
    assert reader.output() == Output("01234", "bcdef", 6)
    ran = Ran(reader.output(), 0, b"", "ended", 0.1)
    assert show(ran, 60) == (
        "<returncode>0</returncode>\n"
        "<warning>The output was too long. Look at less at once, or search in it.</warning>\n"
        "<output_head>\n01234\n</output_head>\n<elided>6 bytes</elided>\n<output_tail>\nbcdef\n</output_tail>"
    )


def test_wrong_sources(task):
    with pytest.raises(TypeError, match="task 'x': expected an Assignment as its source, got str"):
        SweEnv().reset(Task("x", "x", "a source"))
    with pytest.raises(RuntimeError, match="no episode is running"):
        SweEnv().step("ls")
