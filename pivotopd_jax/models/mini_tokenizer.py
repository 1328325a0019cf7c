"""A tokenizer for the mini student, made from the texts of a small world.

Bytes are its alphabet, so that it can write anything; on top it has one token for each object instance ("shelf 1"), for
each word, and for each phrase that the world repeats word by word. A command is then three to six tokens.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

USER, ASSISTANT, END, PAD = "<|user|>", "<|assistant|>", "<|end|>", "<|pad|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '" + USER + "' if message['role'] == 'user' else '" + ASSISTANT + "' }}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ '" + END + "' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '" + ASSISTANT + "' }}{% endif %}"
)
TAGS = ("<action>", "</action>", "<think>", "</think>")

_INSTANCE = re.compile(r" ?\b[a-z]+ \d+(?!\d)")
_PART = re.compile(r"[A-Za-z]+|\d+|[^A-Za-z\d ]")
_WORD = re.compile(r" ?[A-Za-z]+|[^A-Za-z]")


def _pieces(text: str) -> list[str]:
    """What lies between the instances and tags of `text`."""
    cut = re.compile("|".join([_INSTANCE.pattern, *map(re.escape, TAGS)]))
    return [piece for piece in cut.split(text) if piece]


def _units(texts: Sequence[str], phrases: Sequence[str], share: float) -> list[str]:
    """Instances, frequent phrases and words of `texts`, most frequent first."""
    instances: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    for text in texts:
        instances.update(" " + found.strip() for found in _INSTANCE.findall(text))
        documents.update(list(dict.fromkeys(_pieces(text))))  # a set has another order in every process
    frequent = {piece for piece, count in documents.items() if count >= share * len(texts)} | set(phrases)
    words: Counter[str] = Counter()
    for piece, count in documents.items():
        if piece not in frequent:
            words.update({word: count for word in _WORD.findall(piece)})
    return [*instances, *sorted(frequent), *words]


def build_tokenizer(
    texts: Iterable[str], *, phrases: Sequence[str] = (), share: float = 0.05
) -> PreTrainedTokenizerFast:
    """A tokenizer with a chat template, for the texts of a small world.

    Args:
        texts: whole episodes as the student will see them.
        phrases: strings that get a token of their own even if rare.
        share: of the texts that must hold a phrase for it to get a token.
    """
    units = _units(list(texts), phrases, share)
    single = [unit for unit in dict.fromkeys(units) if len(unit.encode()) > 1]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={byte: i for i, byte in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in (PAD, USER, ASSISTANT, END)])
    core.add_tokens([AddedToken(unit, special=False, normalized=False) for unit in (*TAGS, *single)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def word_embeddings(
    tokens: Sequence[str], size: int, *, scale: float = 0.05, own_share: float = 0.2, seed: int = 0
) -> np.ndarray:
    """Random embeddings in which tokens that share words are alike: "mug" and "mug 1" need not be learned apart.

    Args:
        tokens: texts of the tokens.
        size: of an embedding.
        scale: standard deviation of its entries.
        own_share: share of the variance that is a token's own. The rest is equally of its words, numbers and signs.

    Returns:
        `[tokens, size]` float32.
    """
    draw = np.random.default_rng(seed)
    parts = [list(dict.fromkeys(_PART.findall(token))) for token in tokens]
    vectors = {part: draw.standard_normal(size) for part in dict.fromkeys(p for found in parts for p in found)}
    own = draw.standard_normal((len(tokens), size))
    shared = np.stack(
        [sum((vectors[p] for p in found), np.zeros(size)) / math.sqrt(len(found) or 1) for found in parts]
    )
    return (scale * (math.sqrt(1 - own_share) * shared + math.sqrt(own_share) * own)).astype(np.float32)
