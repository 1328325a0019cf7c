"""The index of a log: what is found, what cannot be read, and that a file is read again only when it has changed."""

from __future__ import annotations

import json
import os

import pytest
from viewing.run_on_disk import mistaken, trajectory, turn, write_lines, write_run

from pivotopd_jax.viewing import log as log_module
from pivotopd_jax.viewing.export import export
from pivotopd_jax.viewing.log import TrajectoryLog, index_file, parse_line


def test_an_index_counts_what_there_is_and_finds_single_lines(tmp_path):
    log = TrajectoryLog(write_run(tmp_path))
    assert list(log.files) == ["step_000000", "validation_000000", "step_000010", "validation_000010"]
    first, second = log.files["step_000000"].entries
    assert (first.task, first.kind, first.won, first.turns, first.pivotal, first.recoveries) == (
        "lamp/1", "Look", False, 3, 1, 1,
    )  # fmt: skip
    assert (second.task, second.won, second.line, second.recoveries) == ("cup/2", True, 2, 0)
    assert log.read("step_000000", 1) == mistaken()
    assert log.read("step_000000", 2)["task"] == "cup/2"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"task": "x", "tu\n', "expected JSON: Invalid control character at character 18"),
        (b"[1, 2]\n", "expected an object with a list of turns"),
        (b'{"task": "x"}\n', "expected an object with a list of turns"),
        (b'{"turns": [1]}\n', "expected an object with a list of turns"),
        (b'{"turns": [], "recoveries": [{}]}\n', "expected turns in every recovery"),
        (b'{"turns": "\xff\xfe"}\n', r"expected JSON in UTF-8 \(UnicodeDecodeError\)"),
        (b"[" * 100_000 + b"\n", r"expected JSON in UTF-8 \(RecursionError\)"),
    ],
)
def test_a_malformed_line_is_named_and_the_others_can_be_read(tmp_path, line, reason):
    write_lines(tmp_path, "step_000000", trajectory("a", turn()), line, b"\n", trajectory("b", turn()))
    log = TrajectoryLog(tmp_path)
    file = log.files["step_000000"]
    assert [(entry.line, entry.task) for entry in file.entries] == [(1, "a"), (4, "b")]
    assert log.read("step_000000", 4)["task"] == "b"
    (problem,) = file.problems
    with pytest.raises(KeyError, match=f"step_000000.jsonl, line 2: {reason}"):
        log.read("step_000000", 2)
    assert (problem.file, problem.line) == ("step_000000", 2)


def test_a_line_cut_short_says_so(tmp_path):
    write_lines(tmp_path, "step_000000", trajectory("a", turn()), json.dumps(mistaken()).encode()[:100])
    (problem,) = TrajectoryLog(tmp_path).files["step_000000"].problems
    assert str(problem).endswith("; the line is cut short")
    assert problem.line == 2


def test_separators_of_unicode_do_not_break_lines_and_odd_numbers_become_none(tmp_path):
    record = json.dumps(trajectory("a\u2028b\x85c", turn(log_prob=float("nan"))), ensure_ascii=False).encode()
    write_lines(tmp_path, "step_000000", record + b"\n")
    log = TrajectoryLog(tmp_path)
    assert log.read("step_000000", 1)["task"] == "a\u2028b\x85c"
    assert log.read("step_000000", 1)["turns"][0]["log_prob"] is None


@pytest.mark.parametrize("odd", ["1e999", '"high"', "null", "[1]"])
def test_a_score_that_is_none_counts_as_nothing(tmp_path, odd):
    write_lines(tmp_path, "step_000000", b'{"task": 7, "score": %s, "group": null, "turns": []}\n' % odd.encode())
    (entry,) = TrajectoryLog(tmp_path).files["step_000000"].entries
    assert (entry.task, entry.score, entry.group, entry.won) == ("7", 0.0, 0, False)


def test_logs_of_earlier_versions_are_read(tmp_path):
    """They have neither tokens nor prompts nor recoveries."""
    old = {
        "task": "a", "kind": "Pick", "group": 3, "won": True, "score": 1.0, "final": "done",
        "turns": [{"observation": "o", "response": "r", "action": None, "accepted": False, "actor": "student",
                   "log_prob": -1.0, "gold_action": "g", "lesson": None, "pivotal": True}],
    }  # fmt: skip
    write_lines(tmp_path, "step_000000", old)
    (entry,) = TrajectoryLog(tmp_path).files["step_000000"].entries
    assert (entry.group, entry.won, entry.pivotal, entry.recoveries) == (3, True, 1, 0)


def test_only_files_of_the_log_are_read(tmp_path):
    write_run(tmp_path)
    (tmp_path / "secret.jsonl").write_text(json.dumps(trajectory("secret", turn())))
    write_lines(tmp_path, "notes", trajectory("notes", turn()))
    log = TrajectoryLog(tmp_path)
    for name in ("notes", "../secret", "/etc/passwd", "", "step_000000.jsonl"):
        with pytest.raises(KeyError, match="the log has no file"):
            log.read(name, 1)
    with pytest.raises(KeyError, match=r"step_000000\.jsonl has no line 7"):
        log.read("step_000000", 7)


def test_what_has_changed_is_read_again_and_nothing_else(tmp_path, monkeypatch):
    log = TrajectoryLog(write_run(tmp_path))
    read = []
    monkeypatch.setattr(log_module, "index_file", lambda path: read.append(path.stem) or index_file(path))
    log.refresh()
    assert read == []
    write_lines(tmp_path, "step_000010", trajectory("new", turn()), trajectory("newer", turn()))
    write_lines(tmp_path, "step_000020", trajectory("newest", turn()))
    log.refresh()
    assert sorted(read) == ["step_000010", "step_000020"]
    assert log.read("step_000010", 2)["task"] == "newer"


def test_search_looks_at_texts_and_not_at_keys(tmp_path):
    quoted = trajectory("q", turn(observation='She said "Grüße".\nThen\ta \u0130.'), trajectory_note="pivotal")
    write_run(tmp_path)
    write_lines(tmp_path, "step_000020", quoted)
    log = TrajectoryLog(tmp_path)
    assert log.search("USE LAMP 1", 10) == (
        [("step_000000", 1), ("step_000010", 2), ("validation_000010", 1)], True,
    )  # fmt: skip
    assert log.search("pivotal", 10) == ([], True)
    assert log.search('said "grü', 10) == ([("step_000020", 1)], True)
    assert log.search("\nthen\ta", 10) == ([("step_000020", 1)], True)
    assert log.search("you see a lamp", 2) == ([("step_000000", 1), ("step_000000", 2)], False)


def test_where_there_is_no_log_one_says_what_was_expected(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no folder trajectories; expected the --workdir of a run"):
        TrajectoryLog(tmp_path)
    (tmp_path / "trajectories").mkdir()
    with pytest.raises(FileNotFoundError, match="holds no trajectories yet"):
        TrajectoryLog(tmp_path)


def test_an_export_is_a_chat_a_line(tmp_path):
    log = TrajectoryLog(write_run(tmp_path / "run"))
    assert export(log, tmp_path / "out.jsonl") == 6
    chats = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    first = chats[0]
    assert (first["id"], first["occasion"], first["step"], first["won"]) == ("run/step_000000/1", "training", 0, False)
    assert [message["role"] for message in first["messages"]] == ["user", "assistant"] * 3 + ["user"]
    assert first["messages"][3]["metadata"]["gold_action"] == "use lamp 1"
    assert first["messages"][-1]["content"] == "It is over."
    (recovery,) = first["recoveries"]
    assert recovery["after"] == 1
    assert recovery["messages"][1]["metadata"]["named"] == "go back"
    assert recovery["messages"][-1]["content"] == "The lamp is on."


def test_a_line_that_changed_under_the_index_is_an_error_of_its_own(tmp_path):
    path = write_lines(tmp_path, "step_000000", trajectory("a", turn()))
    log = TrajectoryLog(tmp_path)
    os.truncate(path, 20)
    with pytest.raises(ValueError, match="expected JSON"):
        log.read("step_000000", 1)


def test_parse_line_gives_no_content_away():
    with pytest.raises(ValueError, match="expected JSON") as caught:
        parse_line(b"root:x:0:0:\n")
    assert "root" not in str(caught.value)
