"""Logs that anyone may have edited: the reading room, the report and the export show what can be shown."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from fuzz.documents import as_lines, broken, damaged, files, fuzz, read_or_refused
from hypothesis import given
from hypothesis import strategies as st
from viewing.run_on_disk import mistaken, trajectory, turn, write_run

from pivotopd_jax.recording import read_metrics
from pivotopd_jax.viewing.excerpt import excerpt
from pivotopd_jax.viewing.export import export
from pivotopd_jax.viewing.log import TrajectoryLog, parse_line
from pivotopd_jax.viewing.report import write_report
from pivotopd_jax.viewing.server import index

ROWS = [mistaken(), trajectory("cup/2", turn(), won=True)]
TAGS = {"div", "span", "p", "b", "section", "header", "details", "summary"}


class Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self, page: str):
        super().__init__()
        self.found: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.add(tag)


@fuzz(200)
@given(st.data())
def test_a_log_is_read_line_by_line(tmp_path, data):
    path = tmp_path / "trajectories" / "step_000000.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data.draw(files(ROWS, as_lines)))
    log = TrajectoryLog(tmp_path)
    json.dumps(index(log), allow_nan=False)
    for file, entry, record in log.records():
        assert isinstance(entry.task, str)
        assert parse_line(json.dumps(record).encode())
        assert file.name == "step_000000"
        page = read_or_refused(lambda record=record: excerpt(record))
        assert page is not None
        assert Tags(page).found <= TAGS
    lines = path.read_bytes().count(b"\n") + 1
    known = [*log.files["step_000000"].entries, *log.files["step_000000"].problems]
    assert len({one.line for one in known}) == len(known) <= lines
    log.search("lamp", 10)
    assert export(log, tmp_path / "out.jsonl") == len(log.files["step_000000"].entries)


@fuzz(25)
@given(st.data())
def test_a_report_is_written_or_refused(tmp_path, data):
    directory = write_run(tmp_path)
    summary = {
        "before": {"success": 0.1, "recovery": None, "by_kind": {"Look": 0.1}, "rejected": 0.5},
        "after": {"success": 0.1, "recovery": None, "by_kind": {"Look": 0.1}, "rejected": 0.5},
        "change": {"success": {"mean": 0.0, "interval": [0.0, 0.1]}, "recovery": None}, "tasks": 2, "mistakes": 0,
    }  # fmt: skip
    (directory / "summary.json").write_text(json.dumps(summary))
    name = data.draw(st.sampled_from(("metrics.jsonl", "configuration.json", "summary.json", "step_000010")))
    if name == "metrics.jsonl":
        lines = [json.loads(line) for line in (directory / name).read_text().splitlines()]
        (directory / name).write_bytes(data.draw(files(lines, as_lines)))
    elif name == "step_000010":
        (directory / "trajectories" / f"{name}.jsonl").write_bytes(data.draw(files(ROWS, as_lines)))
    else:
        (directory / name).write_bytes(data.draw(files(json.loads((directory / name).read_text()))))
    (directory / "report.html").unlink(missing_ok=True)
    written = read_or_refused(lambda: write_report(directory), FileNotFoundError, ValueError)
    assert (directory / "report.html").exists() == (written is not None)
    if written is not None:
        assert "script" not in Tags(written.read_text()).found


@fuzz(150)
@given(st.data())
def test_metrics_are_read_up_to_the_first_line_that_is_none(tmp_path, data):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(data.draw(files([{"step": 0, "a": 1.0}, {"step": 1, "a": 2}], as_lines)))
    for line in read_metrics(tmp_path):
        assert isinstance(line["step"], int)
        assert all(isinstance(name, str) for name in line)


@pytest.mark.parametrize("number", [10**400, 1e308, -(10**30), float("nan")])
def test_numbers_that_cannot_be_reckoned_with_are_no_credits(number):
    record = trajectory("t", turn(pivotal=True, advantages=[0.1, number, 0.1], reward_advantage=-1e308))
    assert "turn" in excerpt(record)


@fuzz(100)
@given(broken(mistaken(), most=6), st.data())
def test_a_line_is_a_trajectory_or_refused(record, data):
    found = read_or_refused(lambda: parse_line(data.draw(damaged(as_lines(record)))), ValueError)
    assert found is None or isinstance(found["turns"], list)
