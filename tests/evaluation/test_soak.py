"""A soak, and that its verdict sees what it is there to see."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from toy_world import CorridorWorld

from pivotopd_jax.evaluation.soak import planned_lives
from pivotopd_jax.evaluation.soak_faults import GAP, FaultyWorld, ScriptedTeacher, broken
from pivotopd_jax.evaluation.soak_verdict import (
    Life,
    Watched,
    endings,
    leaks,
    life_table,
    lines_lost,
    logged_groups,
    tasks_lost,
)
from pivotopd_jax.records import Task
from pivotopd_jax.teachers.server import Call, CallFailed, Server

PROJECT = Path(__file__).resolve().parents[2]


def lived(**grown: float) -> Life:
    """A life of 200 s that begins to train after 20, is warm after 50 and grows by so much over the whole of it."""
    watched = []
    for age in range(200):
        at = {name: start + grown.get(name, 0) * age / 200 for name, start in
              {"memory": 500.0, "files": 9, "threads": 20, "children": 0}.items()}  # fmt: skip
        watched.append(Watched(age, at["memory"], *(int(at[name]) for name in ("files", "threads", "children"))))
    return Life("kill", watched, 200.0, -9, began=20.0, warm=50.0)


def test_what_grows_is_a_leak():
    assert leaks(lived()) == []
    assert leaks(lived(memory=20.0)) == []  # 4% between start and end: caches
    # From the first third of what is left to the last: from 500 + 120 · 75/200 to 500 + 120 · 175/200, by medians.
    assert leaks(lived(memory=120.0)) == ["memory grew from 545 to 605 MiB in 150 s"]
    assert leaks(lived(files=8)) == ["files grew from 11 to 15 in 150 s"]
    assert leaks(lived(children=2)) == ["children grew from 0 to 1 in 150 s"]
    # More than there ever were: 20 + 8 · 99/200 at most, 20 + 8 · 150/200 at least.
    assert leaks(lived(threads=8)) == ["threads grew from 23 to 26 in 150 s"]


def test_a_warm_up_is_no_leak():
    life = lived()
    life.watched = [w._replace(memory=w.memory + 300 * (w.age > 60)) for w in life.watched]
    life.warm = 20.0
    assert leaks(life) == ["memory grew from 500 to 800 MiB in 180 s"]
    life.warm = 61.0
    assert leaks(life) == []


def test_what_comes_and_goes_is_none():
    life = lived()
    life.watched = [w._replace(threads=w.threads + (w.age % 7 < 6) * 5) for w in life.watched]
    assert leaks(life) == []


def test_a_short_life_says_nothing_of_leaks():
    life = lived(memory=300.0)
    life.warm = 150.0
    assert leaks(life) == []
    life.warm = None
    assert leaks(life) == []


def test_lives_must_end_as_they_were_told():
    ended = [Life("kill", status=-9), Life("term", status=0, began=1.0), Life("term", status=-15)]
    assert endings(ended) == []
    assert endings([Life("term", status=-15, began=1.0)]) == ["life 0 was to end by term and has status -15"]
    assert endings([Life("term", status=None, began=1.0)]) == ["life 0 was to end by term and has status None"]
    assert endings([Life("kill", status=1, by_itself=True)]) == ["life 0 ended by itself, with status 1"]
    assert endings([Life("kill", status=-9, left=2)]) == ["life 0 left 2 processes behind"]


def line(step: int) -> dict[str, float]:
    return {"step": step}


def test_every_step_has_one_line():
    assert lines_lost([line(0), line(1)], 2) == []
    assert lines_lost([line(0), line(2)], 3) == ["of 3 steps metrics.jsonl has 2 lines; wrong are steps [1]"]
    assert lines_lost([line(0), line(0), line(1)], 2) == ["of 2 steps metrics.jsonl has 3 lines; wrong are steps [0]"]
    assert lines_lost([line(0), line(1)], 1) == ["of 1 steps metrics.jsonl has 2 lines; wrong are steps [1]"]


def test_every_task_is_trained_once():
    a, b = Task("a", "near", None), Task("b", "near", None)
    assert tasks_lost(4, [a, b], {("a", 0): 3, ("b", 1): 3}, 3) == []
    assert tasks_lost(4, [a, a], {("a", 0): 3, ("a", 1): 3}, 3) == []
    assert tasks_lost(4, [a, b], {("a", 0): 3}, 3) == ["step 4: task b in 0 groups, not 1"]
    assert tasks_lost(4, [a], {("a", 0): 3, ("a", 1): 3}, 3) == ["step 4: task a in 2 groups, not 1"]
    assert tasks_lost(4, [a], {("a", 0): 3, ("c", 1): 3}, 3) == ["step 4: task c in 1 groups, not 0"]
    assert tasks_lost(4, [a], {("a", 0): 2}, 3) == ["step 4: 2 rollouts of a, not 3"]


def test_groups_are_read_from_the_log(tmp_path):
    records = [{"task": "a", "group": 0}, {"task": "a", "group": 0}, {"task": "b", "group": 1}]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, records)) + "\n")
    assert logged_groups(tmp_path / "log") == {("a", 0): 2, ("b", 1): 1}
    assert logged_groups(tmp_path / "nothing") == {}


def test_ends_of_lines_within_a_response_are_none_of_the_log(tmp_path):
    record = {"task": "a\x85b\u2028c", "group": 0}
    (tmp_path / "log").write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
    assert logged_groups(tmp_path / "log") == {("a\x85b\u2028c", 0): 1}


def test_the_table_has_a_line_a_life():
    rows = life_table([lived(files=4), Life("term", status=-15)]).splitlines()
    assert len(rows) == 3
    assert rows[1].split() == ["0", "200", "kill", "-9", "500", "→", "500", "10", "→", "12", "20", "→", "20", "0", "→",
                               "0"]  # fmt: skip


def test_lives_fill_the_time_and_end_with_a_long_one():
    lives = planned_lives(7200.0, 0)
    assert sum(seconds for seconds, _ in lives) == pytest.approx(7200)
    assert lives[-1] == (2880.0, "term")
    assert {ending for _, ending in lives} == {"kill", "term"}
    assert 10 < len(lives) < 60


def test_environments_fail_now_and_then_and_never_twice_in_a_row():
    world = FaultyWorld(CorridorWorld(), hang_seconds=0.0, seed=1)  # what hangs comes back at once
    env = world.make()
    (task,) = [task for task in CorridorWorld().tasks("train") if not broken(task)][:1]
    crashed: list[int] = []
    for call in range(3000):
        try:
            env.reset(task)
        except OSError:
            crashed.append(call)
    assert len(crashed) > 3
    assert min(b - a for a, b in itertools.pairwise(crashed)) >= GAP[0]


def test_some_tasks_are_always_broken():
    tasks = [Task(f"game {i}", "near", (1, 4)) for i in range(2000)]
    kinds = [broken(task) for task in tasks]
    assert kinds == [broken(task) for task in tasks]
    assert 20 <= len([kind for kind in kinds if kind]) <= 60
    assert {*kinds} == {"", "crash", "hang"}
    task = tasks[kinds.index("crash")]
    for _ in range(3):
        with pytest.raises(OSError, match="put in on purpose"):
            FaultyWorld(CorridorWorld(), hang_seconds=0.0, seed=1).make().reset(task)


@pytest.mark.parametrize(
    ("outage", "kind"), [("error", "server_error"), ("hang up", "unreachable"), ("stall", "timeout")]
)
def test_the_scripted_teacher_has_outages(outage: Any, kind: str):
    with ScriptedTeacher(pause=0.0, stall=2.0).serving() as teacher:
        server = Server(teacher.url, "teacher", deadline_seconds=0.5, retries=0)
        call = Call("/chat/completions", {"model": "teacher", "messages": [{"role": "user", "content": "?"}]})
        (reply,) = server.send([call])
        assert reply["choices"][0]["message"]["content"] == "<action>look</action>"
        teacher.outage = outage
        (reply,) = server.send([call])
        assert isinstance(reply, CallFailed)
        assert reply.kind == kind


@pytest.mark.slow
def test_five_minutes_of_faults_keep_every_promise(tmp_path):
    command = [sys.executable, "launch/soak.py", f"--workdir={tmp_path / 'soak'}", "--minutes=5"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("verdict: every promise was kept")
    again = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "is not empty; a soak counts all that it finds there" in again.stderr
