"""The report of a run, as HTML: its numbers, and that whatever came from elsewhere is escaped."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from viewing.run_on_disk import NASTY, mistaken, trajectory, turn, write_lines, write_run

from pivotopd_jax.recording import read_metrics
from pivotopd_jax.viewing.excerpt import credits, excerpt, shade, shown
from pivotopd_jax.viewing.report import stage_times, write_report

SUMMARY = {
    "tasks": 4, "mistakes": 2, "method": "pivotopd", "world": NASTY,
    "before": {"success": 0.25, "success_interval": [0.0, 0.5], "by_kind": {"Look": 0.25}, "rejected": 0.1,
               "recovery": None, "recovery_interval": None},
    "after": {"success": 0.75, "success_interval": [0.5, 1.0], "by_kind": {"Look": 0.75}, "rejected": 0.2,
              "recovery": None, "recovery_interval": None},
    "change": {"success": {"mean": 0.5, "interval": [0.25, 0.75]}, "recovery": None},
}  # fmt: skip


def test_a_finished_run(tmp_path):
    write_run(tmp_path)
    (tmp_path / "summary.json").write_text(json.dumps(SUMMARY))
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "<td>25.0% [0.0, 50.0]</td><td>75.0% [50.0, 100.0]</td><td>+50.0 [25.0, 75.0]</td>" in page
    assert page.count("<figure>") == 7
    assert "<td>followed</td><td>9</td>" in page
    assert "<td>report/ok</td><td>12</td>" in page
    assert "<td>update</td><td>18.0</td><td>75.0%</td><td>6.00</td>" in page
    assert "<td>3</td><td>20.0%</td><td>20.0%</td><td>50.0%</td>" in page
    assert "#step_000010/1/1" in page


def test_nothing_that_came_from_elsewhere_is_markup(tmp_path):
    write_run(tmp_path)
    (tmp_path / "summary.json").write_text(json.dumps(SUMMARY))
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page)
    assert "default-src 'none'" in page
    found = Elements(page)
    assert not {"script", "img", "iframe", "link", "object", "form"} & found.names
    assert {name for name in found.attributes if name.startswith("on")} == set()
    # Links into the reading room, and parts of a figure: nothing else leads anywhere.
    assert all(address.startswith(("http://127.0.0.1:8765/#", "#")) for address in found.addresses), found.addresses
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


class Elements(HTMLParser):
    """Names, attributes and addresses of all elements of a page."""

    def __init__(self, page: str):
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.addresses: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.addresses |= {value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "action")}


def test_a_run_that_has_just_begun(tmp_path):
    """Neither evaluations, nor a summary, nor a configuration, nor trajectories."""
    (tmp_path / "metrics.jsonl").write_text(
        '{"step": 0, "train/success": 0.5, "seconds/collect": 1.0}\n{"step": 1, "tr'
    )
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert page.count("<figure>") == 2
    with pytest.raises(FileNotFoundError, match=r"holds no metrics\.jsonl with steps"):
        write_report(tmp_path / "nowhere")


def test_the_same_run_gives_the_same_report(tmp_path):
    write_run(tmp_path)
    assert write_report(tmp_path).read_bytes() == write_report(tmp_path).read_bytes()


def test_lines_that_cannot_be_read_are_named(tmp_path):
    write_run(tmp_path)
    write_lines(tmp_path, "step_000000", b"<b>broken</b>\n", mistaken())
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "Lines that cannot be read: step_000000.jsonl, line 1: expected JSON" in page


def test_texts_are_escaped_made_visible_and_cut():
    assert shown("a<b>&\"'\x00\x7f\x9b\u200b\n\t") == (
        "a&lt;b&gt;&amp;&quot;&#x27;" + "".join(
            f'<span class="control">{name}</span>' for name in ("␀", "␡", "U+009B", "U+200B")
        ) + "\n\t"
    )  # fmt: skip
    assert shown("\ud800") == '<span class="control">U+D800</span>'
    assert shown("é" * 10, longest=4) == 'éééé <span class="quiet">… 6 more characters</span>'


def test_colours_leave_the_share_of_the_reward_out():
    assert credits({"advantages": [0.5, -1.5, 0.5], "reward_advantage": 0.5}) == [0.0, -2.0, 0.0]
    assert credits({"advantages": [0.5, None]}) == credits({"advantages": "x"}) == credits({}) == []
    assert [shade(value, 2.0) for value in (0.0, 0.1, 0.5, -2.0, 2.0)] == ["", "p1", "p2", "n5", "p5"]


def test_an_excerpt_shows_each_turn_once_and_the_recovery_beside_what_happened():
    turns = [turn(f"a{i}", pivotal=i in (1, 2)) for i in range(5)]
    branch = {"after": 1, "turns": [turn("r", named="n")], "final": "end"}
    page = excerpt(trajectory("t", *turns, recoveries=[branch]))
    assert re.findall(r"<b>(turn \d|then)</b>", page) == ["turn 1", "turn 2", "turn 3", "turn 3", "then"]
    assert page.count('<div class="pair">') == 2


def test_stages_without_seconds_are_no_division_by_zero():
    assert "<td>collect</td><td>0.0</td><td>0.0%</td>" in stage_times([{"seconds/collect": 0.0}])


@pytest.mark.parametrize("name", ["configuration.json", "summary.json"])
@pytest.mark.parametrize("content", ["[1]", "{", '{"before": 1}', "[" * 100_000])
def test_what_no_run_wrote_is_named(tmp_path, name, content):
    directory = write_run(tmp_path)
    (directory / name).write_text(content)
    if (name, content) == ("configuration.json", '{"before": 1}'):
        assert write_report(directory).exists()
        return
    with pytest.raises(ValueError, match=f"{name} (is not JSON|holds|is not as a run writes it).*remove it"):
        write_report(directory)
    assert not (directory / "report.html").exists()


def test_lines_of_metrics_that_are_none_end_them(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for odd in (
        "3",
        '{"step": "1"}',
        '{"step": 1, "a": "b"}',
        '{"step": 1, "a": %s}' % ("9" * 400),
        "{",
        "[" * 100_000,
    ):
        path.write_text('{"step": 0, "a": NaN}\n' + odd + '\n{"step": 2}\n')
        assert [line["step"] for line in read_metrics(tmp_path)] == [0]
