"""The mini tokenizer: short commands, and any text survives it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from pivotopd_jax.models.mini_tokenizer import build_tokenizer, word_embeddings
from pivotopd_jax.prompts.chat import Chat, read_chat_template

TEXTS = ["You see a shelf 1, and a mug 12.<action>go to shelf 1</action>You arrive at shelf 1."] * 3 + [
    "Put a clean mug in fridge 1.<action>take mug 12 from shelf 1</action>"
]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer(TEXTS, phrases=("a rare phrase",), share=0.5)


def pieces(tokenizer, text: str) -> list[str]:
    return [tokenizer.decode([i]) for i in tokenizer.encode(text, add_special_tokens=False)]


def test_instances_phrases_and_words(tokenizer):
    assert pieces(tokenizer, "<action>go to shelf 1</action>") == ["<action>", "go to", " shelf 1", "</action>"]
    assert pieces(tokenizer, "You arrive at shelf 1.a rare phrase") == [
        "You arrive at",
        " shelf 1",
        ".",
        "a rare phrase",
    ]
    assert pieces(tokenizer, " clean mug") == [" clean", " mug"]


@given(text=st.text())
def test_any_text_survives(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text.encode(errors="replace").decode()


def test_it_is_an_ordinary_directory(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert [loaded.encode(text) for text in TEXTS] == [tokenizer.encode(text) for text in TEXTS]
    assert loaded.chat_template == tokenizer.chat_template


def test_chat_template_pieces_join_to_the_whole_template(tokenizer):
    chat = Chat(tokenizer)
    said = chat.encode("yes" + chat.template.end)
    whole = [*chat.opening("one"), *said, *chat.following("two", said)]
    messages = [("user", "one"), ("assistant", "yes"), ("user", "two")]
    expected = tokenizer.apply_chat_template(
        [{"role": role, "content": content} for role, content in messages], tokenize=False, add_generation_prompt=True
    )
    assert tokenizer.decode(whole) == expected
    cut = said[:-1]  # a response cut at the limit is closed by the following turn
    assert tokenizer.decode([*chat.opening("one"), *cut, *chat.following("two", cut)]) == expected
    assert chat.decode(said) == "yes"


def test_templates_that_cannot_be_kept_as_sampled_are_refused(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    other = AutoTokenizer.from_pretrained(tmp_path)
    original = other.chat_template
    other.chat_template = None
    with pytest.raises(ValueError, match="no chat template"):
        read_chat_template(other)
    other.chat_template = original.replace("message['content']", "message['content'] | upper")
    with pytest.raises(ValueError, match=r"ends an assistant turn|rewrites the user's words"):
        read_chat_template(other)


def test_tokens_that_share_words_have_similar_embeddings():
    tokens = [" mug 1", " mug", " mug 2", " cup 1", "\ngo to", "go to", "<|pad|>"]
    vectors = word_embeddings(tokens, 4096, scale=0.05)
    assert vectors.shape == (7, 4096)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors.std(axis=1), 0.05, rtol=0.05)
    cosine = vectors @ vectors.T / 0.05**2 / 4096
    assert cosine[0, 1] == pytest.approx(0.8 / np.sqrt(2), abs=0.05)
    assert cosine[0, 2] == pytest.approx(cosine[0, 3], abs=0.08)
    assert abs(cosine[1, 3]) < 0.05
    assert cosine[4, 5] == pytest.approx(0.8 * np.sqrt(2 / 3), abs=0.05)
    np.testing.assert_array_equal(vectors, word_embeddings(tokens, 4096, scale=0.05))


def test_it_is_the_same_in_every_process():
    """Whatever the seed of Python's hashes: a student is cached by its settings, and is to be one and the same."""
    script = (
        "from pivotopd_jax.models.mini_tokenizer import build_tokenizer\n"
        "words = [f'{a}{b}' for a in 'bdfglmnprst' for b in 'aeiou']\n"
        "texts = [f'{x}<action>{y}</action>{z}' for x, y, z in zip(words, words[1:], words[2:])]\n"
        "print(sorted(build_tokenizer(texts).get_vocab().items()))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
