"""A catalogue kept in files: made once, then mapped into memory, so that processes share its pages.

The full catalogue holds more than a million products. Read as JSON they would take 15 GB in every process.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any, overload

import numpy as np

from pivotopd_jax.envs.webshop.goals import synthetic_goals, write_goals
from pivotopd_jax.envs.webshop.products import CatalogueError, Product, iterate_products
from pivotopd_jax.envs.webshop.retrieval import Index

PRODUCTS, OFFSETS, ASINS, PLACES, GOALS = "products.jsonl", "offsets.npy", "asins.npy", "places.npy", "goals.jsonl"
LONGEST_ITEM = 16 << 20
"""Characters; a longer one is taken for a broken file."""

_NEXT = re.compile(r"[\s,]*")


class StoredProducts(Sequence[Product]):
    """The products of a directory that `store` made, each read when it is asked for; the latest 4096 are remembered."""

    def __init__(self, directory: Path) -> None:
        self._offsets = np.load(directory / OFFSETS, mmap_mode="r")
        self._asins = np.load(directory / ASINS, mmap_mode="r")
        self._places = np.load(directory / PLACES, mmap_mode="r")
        with (directory / PRODUCTS).open("rb") as file:
            self._lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._read = lru_cache(maxsize=4096)(self._parse)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Product: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Product]: ...

    def __getitem__(self, index: int | slice) -> Product | Sequence[Product]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"product {index} of {len(self)}")
        return self._read(index % len(self))

    def find(self, asin: str) -> int | None:
        """Where the product with this identifier stands; None if there is none."""
        key = np.bytes_(asin.encode())
        place = int(np.searchsorted(self._asins, key))
        return int(self._places[place]) if place < len(self) and self._asins[place] == key else None

    def _parse(self, index: int) -> Product:
        fields = json.loads(self._lines[self._offsets[index] : self._offsets[index + 1]])
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
    directory.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f"{directory.name}."))
    try:
        _write_products(unfinished, iterate_products(rows, attributes, seed=seed))
        products = StoredProducts(unfinished)
        Index(products, ranking).save(unfinished)
        write_goals(unfinished / GOALS, synthetic_goals(products, attributes, seed=seed))
        unfinished.chmod(0o755)
        os.rename(unfinished, directory)
    except OSError:
        if not directory.is_dir():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write_products(directory: Path, products: Iterator[Product]) -> None:
    offsets, asins = [0], []
    with (directory / PRODUCTS).open("wb") as file:
        for product in products:
            offsets.append(offsets[-1] + file.write(json.dumps(_fields(product), ensure_ascii=False).encode() + b"\n"))
            asins.append(product.asin.encode())
    if not asins:
        raise CatalogueError("the item file holds no product")
    names = np.asarray(asins)
    places = np.argsort(names, kind="stable")
    np.save(directory / OFFSETS, np.asarray(offsets, np.int64))
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
