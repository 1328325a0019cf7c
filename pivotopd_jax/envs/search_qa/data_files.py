"""Finds the files of search-based question answering: a corpus of passages and questions about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pivotopd_jax.envs.real_data import named_directory

VARIABLE = "SEARCH_QA_DATA"
CORPUS = ("corpus.jsonl", "corpus.jsonl.gz")
QUESTIONS = ("questions.jsonl", "questions.jsonl.gz", "questions.parquet")


@dataclass(frozen=True)
class SearchFiles:
    """Where the files are.

    Attributes:
        questions: always there.
        corpus: None where there is none.
    """

    questions: Path
    corpus: Path | None


def data_directory() -> Path:
    """The directory that $SEARCH_QA_DATA names; see `real_data.named_directory`."""
    return named_directory(VARIABLE, f"{CORPUS[0]} and {QUESTIONS[0]}")


def find(directory: Path, *, need_corpus: bool) -> SearchFiles:
    """The files in `directory`; of several forms of one file, the first in the order of `CORPUS` and `QUESTIONS`.

    Raises:
        FileNotFoundError: no questions, or no corpus although one is needed.
    """
    questions, corpus = _first(directory, QUESTIONS), _first(directory, CORPUS)
    if questions is None:
        raise FileNotFoundError(f"{directory} holds no questions: expected one of {', '.join(QUESTIONS)}")
    if corpus is None and need_corpus:
        raise FileNotFoundError(
            f"{directory} holds no passages: expected one of {', '.join(CORPUS)}, or the address of a server as the "
            "retriever"
        )
    return SearchFiles(questions, corpus)


def _first(directory: Path, names: tuple[str, ...]) -> Path | None:
    return next((directory / name for name in names if (directory / name).is_file()), None)
