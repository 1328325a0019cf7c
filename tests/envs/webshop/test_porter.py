"""The stemmer agrees with Snowball's Porter, but for the extensions and short words."""

from __future__ import annotations

import pytest
import Stemmer

from pivotopd_jax.envs.webshop.porter import stem

WORDS = """
caresses ponies ties caress cats feed agreed disabled matting mating meeting milling messing meetings plastered bled
motoring sing conflated troubled sized hopping tanned falling hissing fizzed failing filing happy sky relational
conditional rational valency hesitancy digitizer radically differently vilely analogously vietnamization predication
operator feudalism decisiveness hopefulness callousness formality sensitivity sensibility triplicate formative
formalize electricity electrical hopeful goodness revival allowance inference airliner gyroscopic adjustable
defensible irritant replacement adjustment dependent adoption homologous communism activate angularity effective
bowdlerize probate rate cease controlling rolling women's 12.5 o'neil yoyo syzygy
"""


@pytest.mark.parametrize("word", WORDS.split())
def test_as_snowball(word):
    assert stem(word) == Stemmer.Stemmer("porter").stemWord(word)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("possibly", "possibl"),
        ("incredibly", "incred"),
        ("technology", "technolog"),
        ("us", "us"),
        ("s", "s"),
        ("", ""),
    ],
)
def test_extensions_and_short_words(word, expected):
    assert stem(word) == expected


def test_all_real_words(real):
    shop, _ = real
    words = {word for product in shop.products for word in product.title.lower().split() if len(word) > 2}
    theirs = Stemmer.Stemmer("porter")
    differ = {word for word in words if stem(word) != theirs.stemWord(word)}
    assert len(words) > 3000
    assert all("bl" in word or "log" in word for word in differ), differ
