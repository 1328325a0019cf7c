"""Tunix's GRPO step on the rows of a case: `python tunix_grpo.py CASE`.

A span is: the old log-probs by the function that its rollouts use (`compute_per_token_logps`), then
`rl.trainer.Trainer.train` on the micro-batches of one optimizer step with the loss and input functions that GRPOLearner
gives it: its jitted train step (loss, backward, clip, AdamW), no metrics written, no checkpoints. Rollout, rewards and
advantages are outside. Micro-batches of several sizes are tried, and the quickest counts.
"""

# Runs where Tunix is installed and this project is not.
# pyright: reportMissingImports=false

from __future__ import annotations

import sys
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from measuring import measure, quickest, read_arrays, read_case, report
from tunix.rl import common, function_registry
from tunix.rl.grpo.grpo_learner import GRPOConfig
from tunix.rl.trainer import Trainer
from tunix.sft.peft_trainer import TrainingConfig
from tunix_model import PACKAGES, load


class TunixStep:
    """One optimizer step after another on the same rows."""

    def __init__(self, directory: Any, settings: dict[str, Any], arrays: dict[str, Any], micro_rows: int):
        learning, self.pad = settings["learning"], settings["pad"]
        self.model, _ = load(directory)
        self.config = GRPOConfig(
            num_generations=learning["rollouts"], num_iterations=2, beta=0.0, epsilon=learning["clip"],
            loss_agg_mode="token-mean",
        )  # fmt: skip
        self.config.temperature = 1.0  # as GRPOLearner sets it
        self.batches = micro_batches(arrays, micro_rows)
        optimizer = optax.chain(
            optax.clip_by_global_norm(learning["max_grad_norm"]),
            optax.adamw(learning["learning_rate"], weight_decay=0.0),
        )
        steps = len(self.batches)
        training = TrainingConfig(eval_every_n_steps=1 << 30, gradient_accumulation_steps=steps if steps > 1 else None)
        self.trainer = Trainer(self.model, optimizer, training, dict)
        self.trainer.is_managed_externally = True  # as RLCluster does
        policy_loss = function_registry.get_policy_loss_fn(self.config.policy_loss_fn)

        def loss(model: Any, train_example: Any, algo_config: Any) -> Any:
            return policy_loss(model, train_example, algo_config=algo_config, pad_id=self.pad, eos_id=-1)

        self.trainer.with_loss_fn(lambda m, train_example, algo_config: loss(m, train_example, self.config), True)
        self.trainer.with_gen_model_input_fn(lambda x: {"train_example": x, "algo_config": self.config})

    def __call__(self) -> None:
        graphdef, state = nnx.split(self.model)
        examples = []
        for batch in self.batches:
            old = common.compute_per_token_logps(
                graphdef, state, batch.prompt_ids, batch.completion_ids, pad_id=self.pad, eos_id=-1
            )
            examples.append(batch.replace(old_per_token_logps=old))
        self.trainer.train(examples)
        jax.block_until_ready(nnx.state(self.model))


def micro_batches(arrays: dict[str, Any], size: int) -> list[Any]:
    """The rows, `size` at a time; the last rows are repeated until all are as many."""
    rows = jnp.arange(-(-len(arrays["prompts"]) // size) * size) % len(arrays["prompts"])
    a = {name: jnp.asarray(value)[rows] for name, value in arrays.items()}
    whole = common.TrainExample(
        prompt_ids=a["prompts"], prompt_mask=a["prompt_mask"], completion_ids=a["completions"],
        completion_mask=a["trained"], advantages=a["advantages"], ref_per_token_logps=None, old_per_token_logps=None,
    )  # fmt: skip
    return [jax.tree.map(itemgetter(slice(i, i + size)), whole) for i in range(0, len(rows), size)]


def main(directory: str) -> None:
    path, settings = read_case(directory)
    arrays, found = read_arrays(path / "rows.npz"), []
    for micro_rows in settings["learning"]["micro_rows"]:
        step = TunixStep(path / "student", settings, arrays, micro_rows)
        found.append({**measure(step, rounds=settings["rounds"]), "micro_rows": micro_rows})
    report(PACKAGES, {"tunix": quickest(found)})


if __name__ == "__main__":
    main(sys.argv[1])
