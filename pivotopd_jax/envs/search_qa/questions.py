"""Questions with gold answers, from jsonl files and from the parquet files of Search-R1 and verl."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pivotopd_jax.envs.row_files import DataError, read_rows, text_of
from pivotopd_jax.envs.search_qa.passages import Passage

TEST_SETS = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
"""The sets of the papers' table, in its order; the metric is their unweighted mean."""

SPLITS = ("train", "validation", "test")

_SPLIT_NAMES = {"train": "train", "validation": "validation", "dev": "validation", "test": "test"}


class Question(NamedTuple):
    """A question as a task holds it.

    Attributes:
        id: unique in its file.
        kind: the set it comes from, or its number of hops.
        text: as asked.
        golds: answers, each of them right.
        supports: the passages that answer it, first hop first; empty where they are not known.
        queries: for each support the query that shows it, naming only what the question (the first) or the support
            before it says; empty where they are not known.
        split: as its row says; "" if it says none.
    """

    id: str
    kind: str
    text: str
    golds: tuple[str, ...]
    supports: tuple[Passage, ...] = ()
    queries: tuple[str, ...] = ()
    split: str = ""


def read_questions(path: Path, passages: Mapping[str, Passage] | None = None) -> list[Question]:
    """The questions of a .jsonl, .jsonl.gz or .parquet file, in its order.

    Args:
        path: the file.
        passages: of the corpus, by id. None where there is none: then supports have ids, but no contents.

    Raises:
        DataError: a damaged file, a broken row, an unknown set, or a support that the corpus does not have.
        ImportError: a .parquet file, and nothing to read it with.
        FileNotFoundError: no such file.
    """
    found: dict[str, Question] = {}
    for number, (where, row) in enumerate(read_rows(path)):
        question = _question(row, where, f"{path.name.partition('.')[0]}-{number}", passages)
        if question.id in found:
            raise DataError(f"{where}: the id {question.id!r} was there before; expected each question once")
        found[question.id] = question
    return list(found.values())


def in_split(questions: Iterable[Question], split: str) -> list[Question]:
    """Those of one split, as their rows say.

    Where all rows name the same split, or none, a tenth of the questions is held out for each of validation and test,
    by a hash of their text.
    """
    questions = list(questions)
    named = len({question.split for question in questions}) > 1
    return [q for q in questions if (q.split or "train" if named else held_out(q.text)) == split]


def held_out(text: str) -> str:
    """The split of what is asked in `text`, the same in every process."""
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
    return {0: "test", 1: "validation"}.get(digest[0] % 10, "train")


def _question(row: dict[str, Any], where: str, id: str, passages: Mapping[str, Passage] | None) -> Question:
    kind = text_of(row, "data_source", where).removeprefix("searchR1_")
    if kind not in TEST_SETS:
        raise DataError(f"{where}: data_source {kind!r} is not known; expected one of {', '.join(TEST_SETS)}")
    extra = row.get("extra_info")
    named = extra.get("split") if isinstance(extra, dict) else None
    split = _SPLIT_NAMES.get(named, "") if isinstance(named, str) else ""
    own = str(row["id"]) if row.get("id") else id
    supports = tuple(_support(support, where, passages) for support in _listed(row.get("supporting_ids")))
    return Question(own, kind, _asked(row, where), _golds(row, where), supports, (), split)


def _asked(row: dict[str, Any], where: str) -> str:
    """The `question`; in files that have none, the last line of the prompt, after "Question:" where that is there."""
    prompt = _listed(row.get("prompt"))
    if row.get("question") or not prompt or not isinstance(prompt[-1], dict):
        return text_of(row, "question", where).strip()
    words = text_of(prompt[-1], "content", where).strip()
    return (words.rpartition("Question:")[2].strip() or words).splitlines()[-1]


def _golds(row: dict[str, Any], where: str) -> tuple[str, ...]:
    golds = _listed(row.get("golden_answers")) or _upstream_golds(row)
    if not golds or not all(isinstance(gold, str) and gold.strip() for gold in golds):
        raise DataError(f"{where}: golden_answers are {golds!r:.80}; expected a list of texts that are not empty")
    return tuple(golds)


def _upstream_golds(row: dict[str, Any]) -> list[Any]:
    """`reward_model.ground_truth.target`, where Search-R1 keeps them."""
    for key in ("reward_model", "ground_truth"):
        row = row.get(key) or {}
        if not isinstance(row, dict):
            return []
    return _listed(row.get("target"))


def _listed(value: Any) -> list[Any]:
    """A list, whatever kind of sequence a reader of parquet made of it; one text is a list of one."""
    if isinstance(value, str | int):
        return [value]
    return list(value) if isinstance(value, Iterable) and not isinstance(value, Mapping) else []


def _support(id: Any, where: str, passages: Mapping[str, Passage] | None) -> Passage:
    if passages is None:
        return Passage(str(id), "")
    if str(id) not in passages:
        raise DataError(f"{where}: the supporting passage {id!r} is not in the corpus; expected one of its ids")
    return passages[str(id)]
