"""Tunix's Sampler on the prompts of a case: `python tunix_sampling.py CASE`.

A span is a call of the Sampler, from ids to ids: prefill and decoding loop are jitted and compiled before, prompts are
padded to the longest and not further, the cache is as long as it has to be, log-probs are not asked for. It keeps
nothing between calls, so that every turn of the multi-turn case reads its whole prompt.
"""

# Runs where Tunix is installed and this project is not.
# pyright: reportMissingImports=false

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from measuring import measure, multi_turn, read_arrays, read_case, report, unpad
from tunix.generate.sampler import CacheConfig, Sampler
from tunix_model import PACKAGES, load


class Numbered:
    """A tokenizer to which text is the number of a prompt that is ids already."""

    def __init__(self, pad: int):
        self.prompts: Sequence[Sequence[int]] = ()
        self.pad = pad

    def encode(self, text: str) -> list[int]:
        return list(self.prompts[int(text)])

    def decode(self, ids: Any) -> str:
        del ids
        return ""

    def bos_id(self) -> int:
        return 0  # none is put before a prompt

    def eos_id(self) -> int:
        return -1

    def pad_id(self) -> int:
        return self.pad


class TunixSampling:
    """Samples at temperature 1, without an early end."""

    def __init__(self, model: Any, config: Any, *, pad: int, capacity: int):
        self.tokenizer = Numbered(pad)
        self.sampler = Sampler(
            model, self.tokenizer, CacheConfig(capacity, config.num_layers, config.num_kv_heads, config.head_dim)
        )

    def __call__(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[list[int]]:
        self.tokenizer.prompts = prompts
        output = self.sampler(
            [str(i) for i in range(len(prompts))], new_tokens, max_prompt_length=max(map(len, prompts)),
            eos_tokens=[-1], temperature=1.0, top_p=1.0, seed=0,
        )  # fmt: skip
        return [tokens.tolist() for tokens in output.tokens]


def main(directory: str) -> None:
    path, settings = read_case(directory)
    arrays, sampling, rounds = read_arrays(path / "prompts.npz"), settings["sampling"], settings["rounds"]
    model, config = load(path / "student")
    prompts = unpad(arrays["tokens"], arrays["lengths"])
    single = TunixSampling(model, config, pad=settings["pad"], capacity=max(map(len, prompts)) + sampling["new_tokens"])
    turns = TunixSampling(model, config, pad=settings["pad"], capacity=sampling["capacity"])
    results = {
        "single_turn": measure(lambda: single(prompts, sampling["new_tokens"]), rounds=rounds),
        "multi_turn": measure(lambda: multi_turn(turns, arrays, sampling["turn_tokens"]), rounds=rounds),
    }
    report(PACKAGES, {"tunix": results})


if __name__ == "__main__":
    main(sys.argv[1])
