"""transformers' `generate` on the prompts of a case, on the CPU: `python transformers_sampling.py CASE`.

A span is a call of `generate` with its cache of keys and values, from ids to ids, without gradients and without scores.
"with_cache" hands the cache of a turn to the next one, as its documentation shows for chats: prompts are then padded
in their midst, where the attention mask leaves the padding out.
"""

# Runs where transformers and torch are installed and this project is not.
# pyright: reportMissingImports=false

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from measuring import measure, multi_turn, pad_left, read_arrays, read_case, report, unpad
from transformers import AutoModelForCausalLM, DynamicCache

PACKAGES = ("transformers", "torch")


class TransformersSampling:
    """Samples at temperature 1 from the whole distribution, without an early end."""

    def __init__(self, directory: Any):
        self.model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
        self.model.generation_config.eos_token_id = None

    def generate(self, ids: Any, mask: Any, new_tokens: int, **more: Any) -> Any:
        """`[rows, length + new_tokens]` ids that continue `ids [rows, length]`."""
        with torch.inference_mode():
            return self.model.generate(
                ids, attention_mask=mask, max_new_tokens=new_tokens, do_sample=True, temperature=1.0, top_k=0,
                top_p=1.0, **more,
            )  # fmt: skip

    def __call__(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[list[int]]:
        ids, mask = padded(prompts)
        return self.generate(ids, mask, new_tokens)[:, ids.shape[1] :].tolist()

    def turns_with_cache(self, arrays: dict[str, Any], new_tokens: int) -> None:
        """All turns on one cache."""
        ids, mask = padded(unpad(arrays["tokens"], arrays["lengths"]))
        cache = DynamicCache(config=self.model.config)
        for turn in range(len(arrays["observations"]) + 1):
            if turn:
                shown = padded(unpad(arrays["observations"][turn - 1], arrays["observation_lengths"][turn - 1]))
                ids, mask = torch.cat([ids, shown[0]], dim=1), torch.cat([mask, shown[1]], dim=1)
            ids = self.generate(ids, mask, new_tokens, past_key_values=cache)
            mask = torch.cat([mask, torch.ones_like(ids[:, mask.shape[1] :])], dim=1)


def padded(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """Ids `[rows, longest]` with padding on the left, and their mask."""
    return torch.tensor(pad_left(rows, 0)), torch.tensor(pad_left([[1] * len(row) for row in rows], 0))


def main(directory: str) -> None:
    path, settings = read_case(directory)
    torch.set_num_threads(settings["threads"])
    arrays, sampling, rounds = read_arrays(path / "prompts.npz"), settings["sampling"], settings["rounds"]
    generate, prompts = TransformersSampling(path / "student"), unpad(arrays["tokens"], arrays["lengths"])
    turn_tokens = sampling["turn_tokens"]
    results = {
        "single_turn": measure(lambda: generate(prompts, sampling["new_tokens"]), rounds=rounds),
        "multi_turn": measure(lambda: multi_turn(generate, arrays, turn_tokens), rounds=rounds),
    }
    with_cache = {"multi_turn": measure(lambda: generate.turns_with_cache(arrays, turn_tokens), rounds=rounds)}
    report(PACKAGES, {"transformers": results, "transformers_with_cache": with_cache})


if __name__ == "__main__":
    main(sys.argv[1])
