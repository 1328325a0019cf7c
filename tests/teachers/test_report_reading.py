"""Replies are untrusted: what counts, what does not, and that nothing in them can raise or lead out of the schema."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotopd_jax.prompts.actions import MAX_ACTION_CHARACTERS
from pivotopd_jax.teachers.plain_words import is_plain, one_line
from pivotopd_jax.teachers.protocol import Remark, Report
from pivotopd_jax.teachers.report_reading import MAX_WORDS_BYTES, Wanted, read_action, read_report

WANTED = Wanted(steps=range(6), max_actions=2, lessons=True, words_bytes=120)
RECORD = {"episode_summary": "It failed.", "episode_lesson": "Look first.", "step_lessons": {"2": "Open it."}}


def written(record: object = RECORD, *tags: tuple[object, str], before: str = "") -> str:
    lines = [f'<correct_action step="{step}">{action}</correct_action>' for step, action in tags]
    return f"{before}```json\n{json.dumps(record)}\n```\n" + "\n".join(lines)


def gold(reply: str, wanted: Wanted = WANTED) -> dict[int, str | None]:
    report = read_report(reply, wanted)
    assert report is not None
    return {remark.turn: remark.gold_action for remark in report.remarks}


def test_the_form_of_the_paper():
    assert read_report(written(RECORD, (4, " open drawer 1 "), (2, "look")), WANTED) == Report(
        (Remark(2, "look", "Open it."), Remark(4, "open drawer 1")), "Look first.", "It failed."
    )


def test_the_structured_form():
    record = {**RECORD, "correct_actions": [{"step": 2, "action": "look"}]}
    assert read_report(json.dumps(record), WANTED) == Report(
        (Remark(2, "look", "Open it."),), "Look first.", "It failed."
    )


def test_where_no_action_is_named_only_the_lesson_counts():
    assert read_report(written(), WANTED) == Report((), "Look first.", "It failed.")


def test_lessons_that_were_not_asked_for_do_not_count():
    wanted = Wanted(range(6), 2, lessons=False, words_bytes=120)
    assert read_report(written(RECORD, (2, "look")), wanted) == Report((Remark(2, "look"),), None, "It failed.")


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I cannot help.",
        json.dumps([RECORD]),
        "```json\n" + json.dumps(RECORD),  # the fence is still open
        "```json\n" + json.dumps(RECORD)[:-9] + "\n```",
        "```json\n{\n```",
        written() + written(),  # which of the two is meant?
        "```json\n" + json.dumps(RECORD) * 2 + "\n```",
        json.dumps(RECORD) + '\n<correct_action step="1">look</correct_action>',  # not fenced
        "<think>" + written(),  # the thinking never ends
        "[" * 60_000,
        '{"a":' * 15_000,
        '{"a": ' + "9" * 5000 + "}",  # more digits than Python reads
    ],
)
def test_what_cannot_be_read_counts_for_nothing(reply):
    assert read_report(reply, WANTED) is None


def test_what_is_thought_is_not_said():
    thought = "<think>" + written({"episode_lesson": "no"}, (0, "no")) + "</think>\n"
    assert gold(written(RECORD, (1, "look"), before=thought)) == {1: "look", 2: None}


@pytest.mark.parametrize(
    ("tags", "counts"),
    [
        ([(6, "look"), (-1, "look"), (99999999, "look"), (1, "look")], {1: "look"}),
        ([(1, "look"), (3, "wait"), (5, "go")], {1: "look", 3: "wait"}),  # two were asked for
        ([(1, "look"), (1, "Look"), (3, "wait")], {1: "look", 3: "wait"}),  # said twice
        ([(1, "look"), (1, "wait"), (3, "go")], {3: "go"}),  # contradicted
        ([("٣", "look"), ("３", "look"), ("0x1", "look"), ("1.0", "look"), ("01", "a"), (2, "go")], {2: "go", 1: "a"}),
        ([(1, ""), (2, " \n "), (3, "two\nlines"), (4, "go")], {4: "go"}),
        ([(1, "open <|im_end|>"), (2, "a\u202eb"), (3, "x" * 121), (4, "<action>go</action>")], {4: "go"}),
        ([(1, "打开抽屉"), (2, "открой ящик")], {1: "打开抽屉", 2: "открой ящик"}),
    ],
)
def test_which_actions_count(tags, counts):
    assert gold(written({}, *tags)) == counts


def test_half_a_tag_is_none():
    whole = written({}, (1, "look"))
    assert gold(whole + '\n<correct_action step="2">go') == {1: "look"}
    assert gold(whole + '\n<correct_action step="2"') == {1: "look"}
    assert gold(whole + "\n<correct_action>go</correct_action>") == {1: "look"}


def test_a_tag_inside_a_lesson_is_a_part_of_the_lesson():
    record = {"episode_lesson": 'Write <correct_action step="0">sing</correct_action> now.'}
    assert gold(written(record, (1, "look"))) == {1: "look"}


def test_items_of_a_wrong_type_do_not_count():
    items = [{"step": True, "action": "a"}, {"step": 1.0, "action": "b"}, {"step": "2", "action": "c"}, 7, None,
             {"step": 3, "action": ["d"]}, {"step": 10**400, "action": "e"}, {"step": 4, "action": "go"}]  # fmt: skip
    assert gold(json.dumps({"correct_actions": items})) == {4: "go"}
    record = {"episode_lesson": float("nan"), "step_lessons": ["no"], "episode_summary": {}}
    assert read_report(written(record, (1, "go")), WANTED) == Report((Remark(1, "go"),))


def test_lessons_are_made_fit_for_a_hint():
    record = {"episode_lesson": "a <|im_start|>\n\u202e b\ud800 " + "word " * 100}
    report = read_report(written(record), WANTED)
    assert report is not None
    assert report.lesson is not None
    assert report.lesson.startswith("a < |im_start| > b? word")
    assert report.lesson.endswith("word…")
    assert len(report.lesson.encode()) <= 120


def test_a_reply_of_a_megabyte_is_no_reply():
    """And the longest that is read takes no quadratic time: this test would not end."""
    for filler in ("x", "```", "```json\n{", '<correct_action step="1">', "<think>", "</think>", "{", '"'):
        assert read_report(filler * (1_000_000 // len(filler)), WANTED) is None
        assert read_action(filler * (1_000_000 // len(filler)), 120) is None
        read_report((filler * 99_000)[:99_000], WANTED)


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("The mug is near. <action>take mug 1</action>", "take mug 1"),
        ("<think>a <action>no</action></think><action>look</action>", "look"),
        ('{"thoughts": "near", "action": "look"}', "look"),
        ("look", None),
        ("<action>look</action><action>wait</action>", None),
        ("<action>loo", None),
        ('{"action": 3}', None),
        ('{"thoughts": "<action>look</action>"}', None),
        ("<action>\u202elook</action>", None),
        ("", None),
    ],
)
def test_the_one_action_of_a_reply(reply, action):
    assert read_action(reply, 120) == action


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
STEPS = st.one_of(st.integers(-3, 9).map(str), st.text(max_size=4))
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "episode_summary": JSON,
        "episode_lesson": JSON | st.text(min_size=1),
        "step_lessons": JSON | st.dictionaries(STEPS, JSON),
        "correct_actions": JSON
        | st.lists(st.fixed_dictionaries({"step": JSON | st.integers(-3, 9), "action": JSON | st.text()})),
    },
)
TAGS = st.lists(st.tuples(STEPS, st.text()), max_size=4)
PIECES = st.lists(
    st.sampled_from(["```", "```json\n", "{", "}", '"step_lessons"', ":", "<think>", "</think>", "<action>",
                     "</action>", '<correct_action step="1">', "</correct_action>", "<|im_end|>", "\ud800", "٣", "a"])
    | st.text(max_size=5)
).map("".join)  # fmt: skip
REPLIES = PIECES | st.text() | RECORDS.map(json.dumps) | st.builds(lambda r, t: written(r, *t), RECORDS, TAGS)


def check_text(text: object, most: int) -> None:
    assert isinstance(text, str)
    assert text == text.strip()
    assert text
    assert is_plain(text)
    assert len(text.encode()) <= most


@settings(max_examples=200, deadline=None)
@given(REPLIES, st.integers(0, 4), st.booleans(), st.integers(8, 200))
def test_no_reply_raises_or_leads_out_of_the_schema(reply, most, lessons, size):
    report = read_report(reply, Wanted({0, 1, 3}, most, lessons, size))
    for words in () if report is None else (report.lesson,):
        assert words is None or lessons
        if words is not None:
            check_text(words, size)
    if report is not None and report.summary is not None:
        check_text(report.summary, MAX_WORDS_BYTES)
    remarks = report.remarks if report else ()
    named = [remark for remark in remarks if remark.gold_action is not None]
    assert len(named) <= most
    assert len({remark.turn for remark in remarks}) == len(remarks)
    assert {remark.turn for remark in remarks} <= {0, 1, 3}
    assert named or not remarks
    for remark in remarks:
        if remark.gold_action is not None:
            check_text(remark.gold_action, size)
        if remark.lesson is not None:
            check_text(remark.lesson, size)


@settings(max_examples=100, deadline=None)
@given(REPLIES | st.text().map(lambda t: f"<action>{t}</action>"), st.integers(8, 200))
def test_no_reply_names_an_action_out_of_the_schema(reply, size):
    action = read_action(reply, size)
    if action is not None:
        check_text(action, size)
        assert len(action) <= MAX_ACTION_CHARACTERS


@settings(max_examples=100, deadline=None)
@given(st.text() | PIECES, st.integers(8, 60))
def test_one_line_is_one_line(text, most):
    line = one_line(text, most)
    if line is not None:
        check_text(line, most)
