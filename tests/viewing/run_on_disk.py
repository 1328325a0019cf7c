"""A small run as it lies on disk, made by hand: what the tests of the reading room and of the report read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NASTY = '<script>document.title = "1"</script><img src=x onerror="document.title=2"> \x1b[31mred\x07 \u202eright'
"""Markup, a terminal's escape, a bell, and an override of the direction of writing."""


def turn(action: str | None = "look", **more: Any) -> dict[str, Any]:
    response = f"<action>{action}</action>"
    record = {"observation": "You see a lamp.", "response": response, "action": action, "accepted": True}
    tokens = {"tokens": ["<action>", str(action), "</action>"], "log_probs": [-0.1, -1.0, 0.0]}
    return {**record, "actor": "student", "log_prob": -1.1, **tokens, **more}


def trajectory(task: str, *turns: dict[str, Any], won: bool = False, **more: Any) -> dict[str, Any]:
    fields = {"task": task, "kind": "Look", "group": 0, "won": won, "score": float(won)}
    return {**fields, "turns": list(turns), "final": "It is over.", "recoveries": [], **more}


def mistaken(task: str = "lamp/1") -> dict[str, Any]:
    """Three turns, of which the second is pivotal; a recovery of two turns follows it."""
    shown = {"prompt_kept": 0, "prompt": "Find the lamp. You see a lamp."}
    pivotal = turn(
        "go away", pivotal=True, gold_action="use lamp 1", lesson="the lamp was there", reward_advantage=-0.5,
        advantages=[-0.5, -0.9, -0.5], prompt_kept=14, prompt=" You are near it.",
    )  # fmt: skip
    recovery = {
        "after": 1,
        "turns": [
            turn("go back", named="go back", observation="You are far away.", advantages=[0.0, 2.0, 0.0]),
            turn("use lamp 1", named="use lamp 1", observation="You are near it again."),
        ],
        "final": "The lamp is on.",
    }
    return trajectory(task, turn("look", **shown), pivotal, turn("wait", accepted=False), recoveries=[recovery])


def write_lines(directory: Path, name: str, *lines: dict[str, Any] | bytes) -> Path:
    """Writes a file of the log; bytes are written as they are."""
    path = directory / "trajectories" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [x if isinstance(x, bytes) else json.dumps(x, ensure_ascii=False).encode() + b"\n" for x in lines]
    path.write_bytes(b"".join(written))
    return path


def write_run(directory: Path) -> Path:
    """A run of two logged steps and two evaluations, with its metrics and its configuration."""
    write_lines(directory, "step_000000", mistaken(), trajectory("cup/2", turn(), won=True, kind="Pick"))
    nasty = {"observation": NASTY, "lesson": NASTY, "gold_action": NASTY, "pivotal": True}
    write_lines(
        directory, "step_000010", trajectory(NASTY, turn(NASTY, **nasty), kind=NASTY), mistaken("book/3")
    )  # fmt: skip
    for step, won in ((0, False), (10, True)):
        last = turn("use lamp 1" if won else "wait")
        write_lines(directory, f"validation_{step:06d}", trajectory("held-out/1", turn(), last, won=won))
    metrics = [
        {
            "step": step, "train/success": 0.25 + step / 20, "eval/success": step / 10, "eval/success_Look": step / 10,
            f"eval/success_{NASTY}": 0.5,
            "train/pivotal_turns": 3.0, "recovery/rows": 4.0, "recovery/followed": 3.0, "teacher/report/ok": 4.0,
            "seconds/collect": 2.0, "seconds/update": 6.0, "update/kl_reference": 0.01 * step,
        }
        for step in range(3)
    ]  # fmt: skip
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    configuration = {"method": "pivotopd", "steps": 3, "student": NASTY, "tasks_per_step": 2, "rollouts": 2}
    (directory / "configuration.json").write_text(json.dumps(configuration))
    return directory
