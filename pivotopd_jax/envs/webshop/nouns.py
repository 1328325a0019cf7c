"""The nouns of product titles: from a file for known products, from spaCy for new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pivotopd_jax.envs.webshop.products import CatalogueError, Product, texts_of

MODEL = "en_core_web_sm"
_NOUNS = ("NOUN", "PROPN")


class NounsMissing(RuntimeError):
    """Nouns of some titles are not known, and there is no tagger to find them."""


class Nouns:
    """Nouns by product.

    Args:
        known: asin -> nouns of its title, lower case, as `title_nouns*.json` holds them.
    """

    def __init__(self, known: Mapping[str, Sequence[str]]) -> None:
        if not isinstance(known, Mapping):
            raise CatalogueError(f"expected an object with the nouns of each title, got {known!r:.80}")
        self._known = {asin: texts_of(nouns, f"nouns of {asin!r}") for asin, nouns in known.items()}

    def check(self, products: Sequence[Product]) -> None:
        """Makes sure now that the nouns of all `products` can be told later.

        Raises:
            NounsMissing: some are not known, and spaCy or its model is not installed.
        """
        unknown = [product.asin for product in products if product.asin not in self._known]
        if unknown:
            try:
                _tagger()
            except (ImportError, OSError) as error:
                raise NounsMissing(
                    f"the nouns of {len(unknown)} of {len(products)} titles (such as {unknown[0]}) are not in "
                    f"title_nouns*.json, and they cannot be found here ({error}); put that file beside the items, or "
                    f"run: pip install spacy && python -m spacy download {MODEL}"
                ) from error

    def of(self, product: Product) -> tuple[str, ...]:
        """The nouns of the title of `product`, repetitions included."""
        if product.asin not in self._known:
            self._known[product.asin] = tagged(product.title)
        return self._known[product.asin]


def tagged(title: str) -> tuple[str, ...]:
    """The nouns of `title` as spaCy sees them, lower case."""
    return tuple(token.text.lower() for token in _tagger()(title) if token.pos_ in _NOUNS)


@lru_cache(maxsize=1)
def _tagger() -> Any:
    import spacy  # pyright: ignore[reportMissingImports]  # optional: only catalogues with unknown titles need it

    return spacy.load(MODEL, exclude=["parser", "ner"])
