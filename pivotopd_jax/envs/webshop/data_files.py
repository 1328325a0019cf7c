"""Finds and reads WebShop's own files, as they are: plain or gzipped, the small set or the full one."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotopd_jax.envs.real_data import named_directory
from pivotopd_jax.envs.webshop.products import CatalogueError
from pivotopd_jax.files import parse_json

VARIABLE = "WEBSHOP_DATA"
ITEMS = ("items_shuffle_1000.json", "items_shuffle.json")
ATTRIBUTES = ("items_ins_v2_1000.json", "items_ins_v2.json")
HUMAN = ("items_human_ins.json", "items_human_ins_1k_part.json")


@dataclass(frozen=True)
class ShopFiles:
    """Where the files of a catalogue are.

    Attributes:
        items, attributes: always there.
        human, nouns: None where there are none.
    """

    items: Path
    attributes: Path
    human: Path | None
    nouns: Path | None


def data_directory() -> Path:
    """The directory that $WEBSHOP_DATA names; see `real_data.named_directory`."""
    return named_directory(VARIABLE, f"{ITEMS[0]} and {ATTRIBUTES[0]}")


def find(directory: Path) -> ShopFiles:
    """The files of the catalogue in `directory`; where both sets are, the small one.

    Raises:
        FileNotFoundError: items or attributes are missing, or only of different sets.
    """
    for items, attributes in zip(ITEMS, ATTRIBUTES, strict=True):
        pair = _either(directory, items), _either(directory, attributes)
        if pair[0] and pair[1]:
            nouns = sorted(directory.glob("title_nouns*.json*"))
            human = next((path for name in HUMAN if (path := _either(directory, name))), None)
            return ShopFiles(pair[0], pair[1], human, nouns[0] if nouns else None)
    sets = " or ".join(f"{items} with {attributes}" for items, attributes in zip(ITEMS, ATTRIBUTES, strict=True))
    raise FileNotFoundError(f"{directory} does not hold WebShop's files: expected {sets}, each plain or .gz")


def need_human(files: ShopFiles) -> Path:
    """The file of people's instructions.

    Raises:
        FileNotFoundError: there is none.
    """
    if files.human is None:
        raise FileNotFoundError(f"{files.items.parent} has no {HUMAN[0]}; use goal_kind='synthetic', or put it there")
    return files.human


def read(path: Path) -> Any:
    """The value in a JSON file, gzipped if its name ends in .gz.

    Raises:
        CatalogueError: it is not JSON.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            return parse_json(file.read())
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CatalogueError(f"{path} cannot be read as JSON ({error}); download it again") from error


def pieces(path: Path) -> Iterator[str]:
    """The text of a file, a megabyte at a time, gunzipped if its name ends in .gz.

    Raises:
        CatalogueError: it is no text, or a broken archive.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            while piece := file.read(1 << 20):
                yield piece
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CatalogueError(f"{path} cannot be read as text ({error}); download it again") from error


def _either(directory: Path, name: str) -> Path | None:
    return next((path for path in (directory / name, directory / f"{name}.gz") if path.is_file()), None)
