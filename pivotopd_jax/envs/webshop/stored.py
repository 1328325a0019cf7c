"""A catalogue kept in files: made once, then mapped into memory, so that processes share its pages.

The full catalogue holds more than a million products. Read as JSON they would take 15 GB in every process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from pivotopd_jax.envs.mapped import MappedRecords, write_records
from pivotopd_jax.envs.webshop.goals import synthetic_goals, write_goals
from pivotopd_jax.envs.webshop.products import CatalogueError, Product, iterate_products
from pivotopd_jax.envs.webshop.retrieval import Index
from pivotopd_jax.files import whole_directory

ASINS, PLACES, GOALS = "asins.npy", "places.npy", "goals.jsonl"
LAYOUT = 2
"""Of the files, those of the index included; a catalogue kept in another layout is not opened but made anew."""
LONGEST_ITEM = 16 << 20
"""Characters; a longer one is taken for a broken file."""

_NEXT = re.compile(r"[\s,]*")


class StoredProducts(MappedRecords[Product]):
    """The products of a directory that `store` made."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, _read_product)
        self._asins = np.load(directory / ASINS, mmap_mode="r")
        self._places = np.load(directory / PLACES, mmap_mode="r")

    def find(self, asin: str) -> int | None:
        """Where the product with this identifier stands; None if there is none."""
        key = np.bytes_(asin.encode())
        place = int(np.searchsorted(self._asins, key))
        return int(self._places[place]) if place < len(self) and self._asins[place] == key else None


def _read_product(line: bytes) -> Product:
    fields = json.loads(line)
    for name in ("bullets", "attributes", "prices"):
        fields[name] = tuple(fields[name])
    fields["options"] = {name: tuple(values) for name, values in fields["options"].items()}
    return Product(**fields)


def store(
    directory: Path, rows: Iterable[Mapping[str, Any]], attributes: Mapping[str, Any], ranking: str, *, seed: int
) -> None:
    """Makes `directory`, whole or not at all: products, their index, and the synthetic goals in WebShop's order.

    Args:
        directory: must not exist; if another process makes it at the same time, the first one stands.
        rows, attributes, seed: as for `products.read_products`.
        ranking: of the index.
    """
    with whole_directory(directory) as unfinished:
        _write_products(unfinished, iterate_products(rows, attributes, seed=seed))
        products = StoredProducts(unfinished)
        Index(products, ranking).save(unfinished)
        write_goals(unfinished / GOALS, synthetic_goals(products, attributes, seed=seed))


def _write_products(directory: Path, products: Iterator[Product]) -> None:
    asins: list[bytes] = []

    def lines() -> Iterator[bytes]:
        for product in products:
            asins.append(product.asin.encode())
            yield json.dumps(_fields(product), ensure_ascii=False).encode() + b"\n"

    write_records(directory, lines())
    if not asins:
        raise CatalogueError("the item file holds no product")
    names = np.asarray(asins)
    places = np.argsort(names, kind="stable")
    np.save(directory / ASINS, names[places])
    np.save(directory / PLACES, places.astype(np.int32))


def _fields(product: Product) -> dict[str, Any]:
    """As `asdict`, without its deep copies."""
    return {field.name: getattr(product, field.name) for field in fields(product)}


def stream_rows(text: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """The objects of one JSON list, read piece by piece: the full item file is five gigabytes.

    Args:
        text: the file in pieces of any length.

    Raises:
        CatalogueError: it is not a JSON list, or ends early.
    """
    decode, pending, opened = json.JSONDecoder().raw_decode, "", False
    for piece in text:
        pending += piece
        at, opened = _open_list(pending, opened)
        while opened and (at := _NEXT.match(pending, at).end()) < len(pending):  # type: ignore[union-attr]
            if pending[at] == "]":
                return
            try:
                row, at = decode(pending, at)
            except RecursionError:
                raise CatalogueError(f"an item is nested too deeply, near {pending[at : at + 40]!r}") from None
            except ValueError:
                break  # the object goes on in the next piece
            yield row
        pending = pending[at:]
        if len(pending) > LONGEST_ITEM:
            break
    raise CatalogueError(f"the JSON list of items is broken or ends early, near {pending[:40]!r}")


def _open_list(text: str, opened: bool) -> tuple[int, bool]:
    """Where the items in `text` begin, and whether the list has been opened by then."""
    start = len(text) - len(text.lstrip("\ufeff \t\r\n"))
    if opened or start == len(text):
        return 0, opened
    if text[start] != "[":
        raise CatalogueError(f"expected a JSON list of items, found {text[start : start + 40]!r}")
    return start + 1, True
