"""The pages in a real browser: the reading room by keyboard, the report, and that nothing a model wrote ever runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from background_server import running
from viewing.conftest import Page
from viewing.run_on_disk import NASTY, trajectory, turn, write_lines, write_run

from pivotopd_jax.viewing.log import TrajectoryLog
from pivotopd_jax.viewing.report import write_report
from pivotopd_jax.viewing.server import make_server

VISIBLE = NASTY.replace("\x1b", "␛").replace("\x07", "␇").replace("\u202e", "U+202E")


@pytest.fixture(scope="module")
def room(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the reading room of a run, of which one step is long."""
    directory = write_run(tmp_path_factory.mktemp("pages") / "run")
    write_lines(directory, "step_000020", *(trajectory(f"many/{i}", turn()) for i in range(3000)))
    tried = [
        {"after": after, "turns": [turn(f"r{after}{i}", named="n") for i in range(2)], "final": f"end {after}"}
        for after in (0, 1)
    ]  # fmt: skip
    mistakes = (turn("a", pivotal=True), turn("b", pivotal=True), turn("c"))
    write_lines(directory, "step_000030", trajectory("two/1", *mistakes, recoveries=tried))
    server = make_server(TrajectoryLog(directory))
    with running(server):
        yield f"http://127.0.0.1:{server.server_address[1]}/"


def opened(page: Page, room: str, link: str = "") -> None:
    page.open("about:blank")
    page.open(room + link)
    page.wait(lambda: page.find("#reader .turn"), "no trajectory was shown")


def title(page: Page) -> str:
    return page.texts("#reader h2")[0]


def now(page: Page) -> list[str]:
    return page.texts(".turn.now > header > b")


def test_a_run_is_read_by_keyboard(page, room):
    opened(page, room)
    assert title(page) == "lamp/1"
    assert page.texts("#count") == ["3,007 of 3,007 trajectories"]
    page.press("j")
    page.wait(lambda: title(page) == "cup/2", "j leads to the next trajectory")
    page.press("k")
    page.wait(lambda: title(page) == "lamp/1", "k leads back")
    assert now(page) == ["turn 1"]
    page.press("\ue015")  # arrow down
    assert now(page) == ["turn 2"]
    page.press("\ue013")  # arrow up
    assert now(page) == ["turn 1"]
    page.press("p")
    assert now(page) == ["turn 2"]
    assert page.driver.current_url.endswith("#step_000000/1/2")
    page.press("?")
    page.wait(lambda: page.driver.execute_script("return document.getElementById('keys').open"), "? lists the keys")
    assert page.errors() == []


def test_a_pivotal_turn_shows_the_gold_action_and_its_recovery_beside_what_happened(page, room):
    opened(page, room, "#step_000000/1/2")
    assert now(page) == ["turn 2"]
    assert page.texts(".turn.pivotal .badge") == ["pivotal"]
    assert page.texts(".turn.pivotal .action") == ["go away", "use lamp 1"]
    assert page.texts(".turn.pivotal .lesson") == ["the lamp was there"]
    left, right = page.find(".pair:not(.columns)")[0].find_elements("css selector", ".turn")
    assert left.location["y"] == right.location["y"]
    assert left.location["x"] < right.location["x"]
    assert "wait" in left.text
    assert "not carried out" in left.text
    assert page.texts(".turn.recovery .action") == ["go back", "go back", "use lamp 1", "use lamp 1"]
    assert page.texts(".turn.recovery .observation")[-1] == "The lamp is on."
    # The token with the largest advantage has the strongest colour; the reward alone has another.
    assert page.texts(".turn.recovery .token.p5") == ["go back"]
    assert page.texts(".turn.pivotal .token.n3") == ["go away"]
    page.press("a")
    assert page.texts("#reader .token.n1") == ["go away"]
    page.press("o")
    page.wait(lambda: page.texts(".turn.now .prompt .text"), "o opens the prompt")
    assert page.texts(".turn.now .prompt .text") == ["Find the lamp. You are near it."]
    assert page.texts(".turn.now .prompt .before") == ["Find the lamp."]


def test_recoveries_from_mistakes_in_a_row_are_shown_to_their_ends(page, room):
    opened(page, room, "#step_000030/1/1")
    assert page.texts(".turn.recovery .action:last-child") == ["r00", "r01", "r10", "r11"]
    assert page.texts(".turn.recovery > header > b") == ["turn 2", "turn 3", "then", "turn 3", "turn 4", "then"]
    assert page.texts(".turn[data-turn] .action:not(.gold)") == ["a", "b", "c"]


def test_filters_and_search(page, room):
    opened(page, room)
    page.press("f")
    page.wait(lambda: page.texts("#count") == ["2 of 3,007 trajectories"], "f keeps those that were won")
    assert title(page) == "cup/2"
    page.press("ff")
    page.press("m")
    page.wait(lambda: page.texts("#count") == ["4 of 3,007 trajectories"], "m keeps those with a pivotal turn")
    page.press("v")
    page.wait(lambda: page.texts("#count") == ["3 of 3,007 trajectories"], "v keeps those with a recovery")
    page.press("mv")
    page.driver.execute_script(
        "const s = document.getElementById('kind'); s.value = 'Pick'; s.dispatchEvent(new Event('change'))"
    )
    page.wait(lambda: page.texts("#count") == ["1 of 3,007 trajectories"], "one type alone")
    opened(page, room)
    page.press("/")
    page.press("lamp is ON")
    page.wait(lambda: page.texts("#count") == ["2 of 3,007 trajectories"], "search finds what a recovery led to")
    assert page.texts("#reader mark") == ["lamp is on"]


def test_checkpoints_are_compared_on_one_task(page, room):
    opened(page, room, "#validation_000000/1/1")
    page.press("c")
    page.wait(lambda: page.find(".turns.two"), "c opens the comparison")
    assert page.texts(".columns b") == ["validation, after 0 steps", "validation, after 10 steps"]
    assert page.texts(".turn.differs .action") == ["wait", "use lamp 1"]
    assert now(page) == ["turn 2"]
    page.press("x")
    page.wait(lambda: not page.find(".turns.two"), "x ends it")


def test_a_long_list_has_few_elements(page, room):
    opened(page, room)
    assert len(page.find(".entry")) < 40
    page.driver.execute_script("document.getElementById('list').scrollTop = 1e9")
    page.wait(lambda: "many/2999" in page.texts(".entry .task"), "the end of the list")
    assert len(page.find(".entry")) < 40


def test_markup_and_control_characters_are_text(page, room):
    page.requests()
    opened(page, room, "#step_000010/1/1")
    assert title(page) == VISIBLE
    for selector in (".observation", ".lesson", ".action", ".action.gold"):
        assert VISIBLE in page.texts(f"#reader .turn {selector}")
    assert page.texts("#reader .control")[:3] == ["␛", "␇", "U+202E"]
    assert page.driver.title == "run: trajectories"
    assert page.find("#reader script, #reader img, #side script, #side img") == []
    assert all(address.startswith((room, "about:")) for address in page.requests())
    assert page.errors() == []


def test_light_and_dark(page, room):
    opened(page, room)
    colours = []
    for _ in range(2):
        colours.append(page.find("body")[0].value_of_css_property("color"))
        page.press("t")
    assert colours[0] != colours[1]


def test_the_report_asks_nobody_for_anything(page, tmp_path):
    path = write_report(write_run(tmp_path / "run"))
    page.open("about:blank")
    page.requests()
    page.open(path.as_uri())
    page.wait(lambda: page.find("figure svg"), "the figures")
    assert page.requests() == [path.as_uri()]
    assert page.driver.title == "run: report"
    assert page.find("script, img, link, iframe") == []
    assert VISIBLE in page.texts(".facts dd")
    assert VISIBLE in page.texts(".turn.pivotal .action.gold")
    assert page.errors() == []
    before = page.find("body")[0].value_of_css_property("background-color")
    colour = "return getComputedStyle(document.documentElement).backgroundColor"
    page.find("#light")[0].click()
    light = page.driver.execute_script(colour)
    page.find("#dark")[0].click()
    assert page.driver.execute_script(colour) != light, before
