"""Files of games, products, passages, questions and tasks, broken in every way: read, or refused in one line."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.documents import as_json, as_lines, broken, damaged, files, fuzz, read_or_refused
from hypothesis import given
from hypothesis import strategies as st
from tiny_shop import ATTRIBUTES, MUG, NOUNS, OAK, PINE
from toy_student import make_toy

from pivotopd_jax.envs.alfworld.engine import AlfWorldEnv
from pivotopd_jax.envs.alfworld.games import as_game, load_game_file, load_packed
from pivotopd_jax.envs.alfworld.pddl import GameError
from pivotopd_jax.envs.search_qa.answers import exact_match
from pivotopd_jax.envs.search_qa.data_files import DataError
from pivotopd_jax.envs.search_qa.engine import show
from pivotopd_jax.envs.search_qa.http_retriever import RetrieverFailure, read_reply
from pivotopd_jax.envs.search_qa.passages import read_passages
from pivotopd_jax.envs.search_qa.questions import read_questions
from pivotopd_jax.envs.search_qa.serving import BadRequest, answer
from pivotopd_jax.envs.swe.grading import judge, results
from pivotopd_jax.envs.swe.instances import Instance, as_row, read_instances
from pivotopd_jax.envs.swe.swerex import read_answer
from pivotopd_jax.envs.webshop import data_files
from pivotopd_jax.envs.webshop.engine import Errand, WebShopEnv
from pivotopd_jax.envs.webshop.goals import human_goals, read_goals, synthetic_goals, write_goals
from pivotopd_jax.envs.webshop.nouns import Nouns
from pivotopd_jax.envs.webshop.products import CatalogueError, read_products
from pivotopd_jax.envs.webshop.shop import Shop
from pivotopd_jax.envs.webshop.stored import stream_rows
from pivotopd_jax.records import Task

CHAT = make_toy().prompter.chat


def can_be_shown(*texts: str) -> None:
    """A student could read these."""
    for text in texts:
        assert isinstance(text, str)
        CHAT.encode(text)


# ALFWorld


def play(game: Any) -> None:
    """Some admissible actions, and one that is not."""
    env = AlfWorldEnv()
    observation = env.reset(Task(game.id, game.kind, game))
    can_be_shown(observation.text)
    for turn in range(6):
        assert observation.admissible is not None
        can_be_shown(*observation.admissible)
        action = observation.admissible[turn % len(observation.admissible)] if turn else "fly away"
        result = env.step(action)
        observation = result.observation
        can_be_shown(observation.text)
        if result.done:
            return


@fuzz(150)
@given(st.data())
def test_packed_games_are_read_and_played_or_refused(kitchen, tmp_path, data):
    kind = data.draw(st.sampled_from(sorted(kitchen.goals)))
    row = {
        "id": f"{kind}-A-B-C-1/trial",
        "task_desc": "tidy up.",
        "walkthrough": [],
        "pddl_problem": kitchen.problem(kind),
    }
    ending, pack = data.draw(st.sampled_from([("", bytes), (".xz", lzma.compress), (".gz", gzip.compress)]))
    content = pack(data.draw(files([row, row | {"id": "2"}], as_lines)))
    path = tmp_path / f"train.jsonl{ending}"
    path.write_bytes(data.draw(damaged(content)))
    for found in read_or_refused(lambda: load_packed(path), GameError) or ():
        game = read_or_refused(lambda found=found: as_game(found), GameError)
        if game is not None:
            play(game)


FACTS = (
    "(inReceptacle Apple_bar_1 Drawer_bar_1)", "(receptacleAtLocation Drawer_bar_1 loc_bar_4)", "(isHot Mug_bar_1)",
    "(objectAtLocation Apple_bar_1 loc_bar_9)", "(atLocation agent1 loc_bar_5)",
    "(inReceptacleObject Mug_bar_1 Mug_bar_1)",
    "(openable Apple_bar_1)", "(objectType Apple_bar_1)", "(a b c d)", "(= (total-cost) 3)", "(", ")", ";", "(:goal",
    "- object", "(receptacleAtLocation CounterTop_bar_1 loc)",
    "(objectType Mug_bar_1 )", "Type", "_bar_", "basin", "loc_bar_1", "loc", "Mug", "agent1", "(:init", "\x00", " ",
)  # fmt: skip


@fuzz(300)
@given(st.data())
def test_problems_with_other_words_in_them_are_read_and_played_or_refused(kitchen, data):
    kind = data.draw(st.sampled_from(sorted(kitchen.goals)))
    words = kitchen.problem(kind).split(" ")
    for _ in range(data.draw(st.integers(1, 5))):
        at, kind_of_change = (
            data.draw(st.integers(0, len(words) - 1)),
            data.draw(st.sampled_from(("put", "take", "swap"))),
        )
        if kind_of_change == "put":
            words.insert(at, data.draw(st.sampled_from(FACTS)))
        elif kind_of_change == "take":
            del words[at]
        else:
            other = data.draw(st.integers(0, len(words) - 1))
            words[at], words[other] = words[other], words[at]
    row = {"id": f"{kind}-A/trial", "task_desc": "tidy up.", "pddl_problem": " ".join(words)}
    game = read_or_refused(lambda: as_game(row), GameError)
    if game is not None:
        play(game)


@pytest.fixture(scope="module")
def game_file(alfworld_data: Path) -> dict[str, Any]:
    """What a game.tw-pddl holds."""
    with lzma.open(alfworld_data / "valid_seen.jsonl.xz", "rt") as lines:
        row = json.loads(next(lines))
    grammar = (alfworld_data / "grammar.twl2").read_text().replace("UNKNOWN GOAL", row["task_desc"])
    domain = (alfworld_data / "domain.pddl").read_text()
    return {"pddl_domain": domain, "grammar": grammar, "solvable": True, **row}


@fuzz(100)
@given(st.data())
def test_game_files_are_read_and_played_or_refused(game_file, tmp_path, data):
    path = tmp_path / game_file["id"] / "game.tw-pddl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.draw(files({k: v for k, v in game_file.items() if k != "id"})))
    game = read_or_refused(lambda: load_game_file(path), GameError)
    if game is not None:
        play(game)


# WebShop


def shop_from(items: Any, attributes: Any) -> Shop:
    return Shop("broken", read_products(items, attributes), Nouns(NOUNS))


@fuzz(300)
@given(st.data())
def test_products_are_read_and_sold_or_refused(tmp_path, data):
    paths = {name: tmp_path / f"{name}.json" for name in ("items", "attributes")}
    paths["items"].write_bytes(data.draw(files([OAK, PINE, MUG])))
    paths["attributes"].write_bytes(data.draw(files(ATTRIBUTES)))

    def opened() -> list[Errand]:
        items, attributes = (data_files.read(path) for path in paths.values())
        products = read_products(items, attributes)
        wanted = synthetic_goals(products, attributes)
        place = Shop("broken", products, Nouns({product.asin: ["table"] for product in products}))
        return [Errand(place, goal) for goal in wanted]

    for errand in read_or_refused(opened, CatalogueError) or ():
        env = WebShopEnv()
        seen = env.reset(Task("t", "WebShop", errand))
        can_be_shown(seen.text, *seen.admissible or ())
        for action in (
            "search[table]",
            "click[oak]",
            "click[red]",
            "click[description]",
            "click[< prev]",
            "click[buy now]",
        ):
            result = env.step(action)
            can_be_shown(result.observation.text)
            assert 0.0 <= result.reward <= 1.0
            if result.done:
                break


TOLD = {"OAK": [{"instruction": "a table.", "instruction_attributes": ["oak"], "instruction_options": ["red"]}]}


@fuzz(150)
@given(st.data())
def test_what_people_wrote_is_read_or_refused(tmp_path, data):
    path = tmp_path / "human.json"
    path.write_bytes(data.draw(files(TOLD)))
    products = read_products([OAK, PINE, MUG], ATTRIBUTES)
    for goal in read_or_refused(lambda: human_goals(products, data_files.read(path)), CatalogueError) or ():
        can_be_shown(goal.instruction, *goal.attributes, *(text for option in goal.options for text in option))


@fuzz(150)
@given(st.data())
def test_frozen_goals_are_read_or_refused(tmp_path, data):
    path = tmp_path / "goals.jsonl"
    write_goals(path, synthetic_goals(read_products([OAK, PINE, MUG], ATTRIBUTES), ATTRIBUTES))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_bytes(data.draw(files(rows, as_lines)))
    for goal in read_or_refused(lambda: read_goals(path), CatalogueError) or ():
        can_be_shown(
            goal.instruction, goal.query, *goal.attributes, *(text for option in goal.options for text in option)
        )
        assert isinstance(goal.price_upper, float)


@fuzz(100)
@given(st.data())
def test_a_catalogue_in_pieces_is_read_or_refused(tmp_path, data):
    path = tmp_path / "items.json.gz"
    path.write_bytes(data.draw(damaged(gzip.compress(data.draw(files([OAK, PINE, MUG]))))))
    read_or_refused(lambda: read_products(list(stream_rows(data_files.pieces(path))), ATTRIBUTES), CatalogueError)


# Search QA

PASSAGES = [{"id": str(i), "contents": f'"Title {i}"\nText {i} <b>'} for i in range(3)]
QUESTIONS = [
    {"id": "a", "data_source": "hotpotqa", "question": "Who?", "golden_answers": ["Ann Lee", "A. Lee"],
     "supporting_ids": ["0", 1], "extra_info": {"split": "dev"}},
    {"data_source": "searchR1_nq", "prompt": [{"role": "user", "content": "Answer.\nQuestion: what?"}],
     "reward_model": {"ground_truth": {"target": ["it"]}}},
]  # fmt: skip


@fuzz(200)
@given(st.data())
def test_passages_and_questions_are_read_or_refused(tmp_path, data):
    corpus, asked = tmp_path / "corpus.jsonl", tmp_path / "questions.jsonl.gz"
    corpus.write_bytes(data.draw(files(PASSAGES, as_lines)))
    asked.write_bytes(data.draw(damaged(gzip.compress(data.draw(files(QUESTIONS, as_lines))))))
    passages = read_or_refused(lambda: read_passages(corpus), DataError)
    if passages:
        can_be_shown(show(passages))
    known = {passage.id: passage for passage in passages} if passages else None
    for question in read_or_refused(lambda: read_questions(asked, known), DataError) or ():
        can_be_shown(question.id, question.kind, question.text, *question.golds)
        assert not exact_match("somebody else entirely", question.golds)


@fuzz(300)
@given(files({"result": [[{"document": {"id": "1", "contents": '"A"\nb'}, "score": 1.5}], []]}))
def test_replies_of_retrievers_are_read_or_refused(content):
    for hits in read_or_refused(lambda: read_reply(content, 2, 3), RetrieverFailure) or ():
        can_be_shown(show([hit.passage for hit in hits]))
        assert all(np.isfinite(hit.score) for hit in hits)


class Nothing:
    def search(self, queries: Sequence[str], k: int) -> list[list[Any]]:
        assert all(isinstance(query, str) for query in queries)
        return [[] for _ in queries]


@fuzz(150)
@given(broken({"queries": ["a", "b"], "topk": 3, "return_scores": True}))
def test_requests_for_passages_are_answered_or_refused(body):
    found = read_or_refused(lambda: answer(Nothing(), body), BadRequest)
    assert found is None or set(found) == {"result"}


# SWE

INSTANCE = Instance(
    "adding-1", "adding", "abc", "`add` does not add.", "--- a/x\n+++ b/x\n", "", ("tests/test_a.py::test_add",),
    ("tests/test_a.py::test_b[1]",),
)  # fmt: skip


@fuzz(200)
@given(st.data())
def test_tasks_are_read_or_refused(tmp_path, data):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(data.draw(files([as_row(INSTANCE), as_row(INSTANCE) | {"instance_id": "b"}], as_lines)))
    for one in read_or_refused(lambda: read_instances(path), DataError) or ():
        can_be_shown(one.id, one.statement, *one.test_files)
        assert one.id
        assert not judge(one, {}).resolved


REPORT = (
    "PASSED tests/test_a.py::test_add", "FAILED tests/test_a.py::test_b[1] - assert 1", "ERROR ", "\n",
    "short test summary info", "PASSED", "XPASS a", "tests/test_a.py::test_b[1", "\x00", "\ud800",
)  # fmt: skip


@fuzz(200)
@given(st.lists(st.one_of(st.sampled_from(REPORT), st.text(max_size=5)), max_size=12).map("".join))
def test_reports_of_tests_are_read(report):
    outcomes = results(report)
    solved = judge(INSTANCE, outcomes).resolved
    assert not solved or {"tests/test_a.py::test_add", "tests/test_a.py::test_b[1]"} <= outcomes.keys()


@fuzz(200)
@given(
    broken({"stdout": "0 5\naGVsbG8=\naGVsbG8=\nZGlmZg==", "stderr": ""}).filter(lambda found: isinstance(found, dict))
)
def test_answers_of_swe_rex_are_read(answered):
    ran = read_answer(answered, b"before", 100, 10.0, 1.0)
    assert ran.ending in ("ended", "timeout", "lost")
    assert isinstance(ran.tree, bytes)
    can_be_shown(ran.output.head, ran.output.tail)


def test_the_good_documents_are_read():
    assert len(read_products(json.loads(as_json([OAK, PINE, MUG])), ATTRIBUTES)) == 3
