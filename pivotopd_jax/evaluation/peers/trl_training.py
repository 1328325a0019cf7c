"""TRL's GRPOTrainer and DistillationTrainer on the rows of a case: `python trl_training.py CASE grpo|distillation`.

A span is from Trainer's `on_step_begin` to its `on_step_end` in `train()`: everything of an optimizer step but fetching
rows and the callbacks. The rollout is replaced by the rows of the case; for GRPO the old log-probs are computed there,
by the function that the trainer itself uses where it needs them. Then come loss, backward, clip and AdamW.
Gradient checkpointing, bf16, logging and checkpoints are off. The distillation is reverse KL over the whole vocabulary,
the teacher's forward pass included. Micro-batches of several sizes are tried, and the quickest counts.
"""

# Runs where TRL and torch are installed and this project is not.
# pyright: reportMissingImports=false

from __future__ import annotations

import sys
import time
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import Dataset
from measuring import medians, quickest, read_arrays, read_case, report
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import DistillationConfig, DistillationTrainer, GRPOConfig, GRPOTrainer

PACKAGES = ("trl", "transformers", "torch", "accelerate")
WARM_UP = 2


class Clock(TrainerCallback):
    """Notes the (wall clock, processor) seconds of every optimizer step."""

    def __init__(self):
        self.spent: list[tuple[float, float]] = []
        self.start = 0.0, 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.start = time.perf_counter(), time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.spent.append((time.perf_counter() - self.start[0], time.process_time() - self.start[1]))


def common_options(settings: dict[str, Any], rows: int, micro_rows: int, directory: str) -> dict[str, Any]:
    """What both trainers are told."""
    learning = settings["learning"]
    return {
        "output_dir": directory,
        "max_steps": WARM_UP + settings["rounds"],
        "per_device_train_batch_size": micro_rows,
        "gradient_accumulation_steps": rows // micro_rows,
        "learning_rate": learning["learning_rate"],
        "max_grad_norm": learning["max_grad_norm"],
        "lr_scheduler_type": "constant",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "logging_strategy": "no",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }


def load(directory: Any) -> Any:
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)


def make_trainer(kind: str, path: Any, settings: dict[str, Any], options: dict[str, Any], clock: Clock) -> Any:
    """The trainer of `kind`, whose prompts are never looked at."""
    rows = options["per_device_train_batch_size"] * options["gradient_accumulation_steps"]
    given = {
        "train_dataset": Dataset.from_dict({"prompt": ["-"] * rows * options["max_steps"]}),
        "processing_class": AutoTokenizer.from_pretrained(path / "student"),
        "callbacks": [clock],
    }
    if kind == "distillation":
        config = DistillationConfig(**options, beta=1.0)
        return DistillationTrainer(load(path / "student"), load(path / "teacher"), args=config, **given)
    learning = settings["learning"]
    config = GRPOConfig(
        **options, beta=0.0, loss_type="dapo", epsilon=learning["clip"], num_generations=learning["rollouts"]
    )
    return GRPOTrainer(load(path / "student"), reward_funcs=lambda completions, **_: [0.0] * len(completions),
                       args=config, **given)  # fmt: skip


def made_batch(trainer: Any, kind: str, tensors: dict[str, Any], micro_rows: int) -> dict[str, Any]:
    """What the trainer's rollout would have returned."""
    found = {name: value.clone() for name, value in tensors.items()}
    if kind == "grpo":
        ids = torch.cat([found["prompt_ids"], found["completion_ids"]], dim=1)
        mask = torch.cat([found["prompt_mask"], found["completion_mask"]], dim=1)
        kept = found["completion_ids"].shape[1]
        with torch.no_grad():
            scored = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, kept, batch_size=micro_rows)
        found["old_per_token_logps"] = scored[0]
    return found


def read_tensors(path: Any, kind: str) -> dict[str, Any]:
    """The rows under the names that both trainers use."""
    arrays = {name: torch.tensor(value) for name, value in read_arrays(path / "rows.npz").items()}
    tensors = {
        "prompt_ids": arrays["prompts"].long(),
        "prompt_mask": arrays["prompt_mask"].long(),
        "completion_ids": arrays["completions"].long(),
        "completion_mask": arrays["completion_mask"].long(),
        "tool_mask": arrays["trained"].long(),
        "num_items_in_batch": arrays["trained"].sum().float(),
    }
    return {**tensors, "advantages": arrays["advantages"]} if kind == "grpo" else tensors


def spent(kind: str, path: Any, settings: dict[str, Any], micro_rows: int) -> dict[str, Any]:
    """Medians of a step in micro-batches of `micro_rows`."""
    tensors, clock = read_tensors(path, kind), Clock()
    with TemporaryDirectory() as directory:
        options = common_options(settings, len(tensors["prompt_ids"]), micro_rows, directory)
        trainer = make_trainer(kind, path, settings, options, clock)
        trainer._generate_and_score_completions = lambda _: made_batch(trainer, kind, tensors, micro_rows)
        trainer.train()
    return {**medians(clock.spent[WARM_UP:]), "micro_rows": micro_rows}


def main(directory: str, kind: str) -> None:
    path, settings = read_case(directory)
    torch.set_num_threads(settings["threads"])
    found = [spent(kind, path, settings, micro_rows) for micro_rows in settings["learning"]["micro_rows"]]
    report(PACKAGES, {"trl": quickest(found)})


if __name__ == "__main__":
    main(*sys.argv[1:])
