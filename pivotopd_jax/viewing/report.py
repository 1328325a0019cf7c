"""The report of a run: one HTML file that needs nothing else, with curves, tables and some pivotal turns to read.

It holds no script and asks no host for anything. Whatever a model, a teacher or a configuration says is escaped.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pivotopd_jax.files import parse_json
from pivotopd_jax.recording import CONFIGURATION_FILE, SUMMARY_FILE, read_metrics
from pivotopd_jax.viewing.excerpt import excerpt, shown
from pivotopd_jax.viewing.figures import Lines, figures
from pivotopd_jax.viewing.log import OCCASIONS, LogFile, TrajectoryLog
from pivotopd_jax.viewing.server import static

REPORT_FILE = "report.html"
EXCERPTS = 4
"""Trajectories shown in the report itself."""
VIEWER = "http://127.0.0.1:8765/"


def write_report(directory: Path) -> Path:
    """Writes report.html into the directory of a run, finished or not, from what the run has written there.

    Raises:
        FileNotFoundError: there are no metrics.
        ValueError: the configuration or the summary is not as a run writes it.
    """
    lines = read_metrics(directory)
    if not lines:
        raise FileNotFoundError(f"{directory} holds no metrics.jsonl with steps; expected the --workdir of a run")
    path = directory / REPORT_FILE
    path.write_text(report(directory, lines), encoding="utf-8", errors="backslashreplace")
    return path


def report(directory: Path, lines: Lines) -> str:
    """The page."""
    configuration, summary = _read(directory / CONFIGURATION_FILE), _read(directory / SUMMARY_FILE)
    try:
        log = TrajectoryLog(directory)
    except FileNotFoundError:
        log = None
    parts = [
        _heading(directory, lines, configuration, summary),
        _section("Before and after", _judged(directory, summary)) if summary else "",
        _section("Curves", f'<div class="figures">{"".join(figures(lines))}</div>'),
        _section("Success by type of task", success_by_kind(lines)),
        _section("What came of recoveries and of the teacher's answers", outcomes(lines)),
        _section("Where the time went", stage_times(lines)),
        _section("Pivotal turns", _excerpts(log)) if log else "",
        _section("Trajectories that were written down", logged(log, directory)) if log else "",
        _section("Configuration", _configuration(configuration)) if configuration else "",
    ]
    return static("report.html").format(
        title=shown(f"{directory.resolve().name}: report"), style=static("style.css"), body="\n".join(parts)
    )


def _read(path: Path) -> dict[str, Any]:
    """The object in a file; an empty one if there is no file.

    Raises:
        ValueError: it holds something else.
    """
    try:
        content = parse_json(path.read_bytes()) if path.exists() else {}
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}); remove it to have a report without") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds {content!r:.80}, not what a run writes; remove it to have a report without")
    return content


def _part(configuration: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = configuration.get(name)
    return part if isinstance(part, dict) else {}


def _section(title: str, content: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{content}</section>" if content else ""


def _heading(directory: Path, lines: Lines, configuration: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    world = summary.get("world") or _part(configuration, "world").get("name")
    played = configuration.get("tasks_per_step"), configuration.get("rollouts")
    seconds = sum(value for line in lines for name, value in line.items() if name.startswith("seconds/"))
    facts = {
        "method": summary.get("method") or configuration.get("method"),
        "world": world,
        "student": configuration.get("student"),
        "teacher": _part(configuration, "teacher").get("kind"),
        "steps": f"{len(lines)} of {configuration['steps']}" if "steps" in configuration else len(lines),
        "rollouts a step": f"{played[0]} tasks × {played[1]}" if all(played) else None,
        "learning rate": _part(configuration, "ppo").get("learning_rate"),
        "seed": configuration.get("seed"),
        "time in stages": f"{seconds / 60:.1f} min",
    }
    pairs = "".join(f"<div><dt>{k}</dt><dd>{shown(str(v))}</dd></div>" for k, v in facts.items() if v is not None)
    return f'<h1>{shown(directory.resolve().name)}</h1><dl class="facts">{pairs}</dl>'


# Tables


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table of texts, or of HTML that was made here (`Markup`)."""

    def cell(value: Any) -> str:
        return value if isinstance(value, Markup) else shown(str(value))

    body = "".join(f"<tr>{''.join(f'<td>{cell(value)}</td>' for value in row)}</tr>" for row in rows)
    heads = "".join(f"<th>{shown(name)}</th>" for name in head)
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


class Markup(str):
    """HTML that is not to be escaped again."""


def percent(value: float | None) -> str:
    """A share in percent."""
    return "–" if value is None else f"{100 * value:.1f}%"


def _judged(directory: Path, summary: Mapping[str, Any]) -> str:
    try:
        return before_and_after(summary)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"{directory / SUMMARY_FILE} is not as a run writes it ({type(error).__name__}: {str(error)[:80]!r}); "
            "remove it to have a report without"
        ) from error


def before_and_after(summary: Mapping[str, Any]) -> str:
    """The closing table of the run."""

    def measured(key: str, title: str) -> list[str]:
        cells = [f"{percent(s[key])}{_interval(s.get(f'{key}_interval'))}" for s in (before, after)]
        change = summary["change"].get(key)
        return [title, *cells, f"{100 * change['mean']:+.1f}{_interval(change['interval'])}" if change else ""]

    before, after = summary["before"], summary["after"]
    rows = [measured("success", "success"), measured("recovery", "recovery from oracle-pivotal mistakes")]
    for kind, share in before["by_kind"].items():
        then = after["by_kind"][kind]
        rows.append([f"success, {kind}", percent(share), percent(then), f"{100 * (then - share):+.1f}"])
    rows.append(["actions that did nothing", percent(before["rejected"]), percent(after["rejected"]), ""])
    note = (
        f"{summary['tasks']} held-out tasks, {summary['mistakes']} mistakes of the student before training; in "
        "brackets 95% bootstrap intervals, of the change over paired tasks or mistakes."
    )
    return table(["", "before", "after", "change, points"], rows) + f'<p class="quiet">{note}</p>'


def _interval(bounds: Sequence[float] | None) -> str:
    return f" [{100 * bounds[0]:.1f}, {100 * bounds[1]:.1f}]" if bounds else ""


def success_by_kind(lines: Lines) -> str:
    """Success on the validation panel at each evaluation."""
    judged = [line for line in lines if "eval/success" in line]
    kinds = list(dict.fromkeys(name for line in judged for name in line if name.startswith("eval/success_")))
    if not judged:
        return ""
    rows = [
        [int(line["step"]) + 1, percent(line["eval/success"]), *(percent(line.get(k)) for k in kinds)]
        for line in judged
    ]
    return table(["after step", "all", *(name.removeprefix("eval/success_") for name in kinds)], rows)


def outcomes(lines: Lines) -> str:
    """How often each outcome occurred over the run."""
    parts = []
    for prefix, title in (("recovery/", "recovery"), ("teacher/", "teacher's answer")):
        totals = added_up(lines, prefix)
        if totals:
            every = totals.pop("rows", None)
            rows = [[name.replace("_", " "), f"{int(count):,}"] for name, count in totals.items()]
            if every is not None:
                rows.append(["rows trained on", f"{int(every):,}"])
            parts.append(table([title, "times"], rows))
    return f'<div class="beside">{"".join(parts)}</div>' if parts else ""


def stage_times(lines: Lines) -> str:
    """Seconds of each stage."""
    totals = added_up(lines, "seconds/")
    whole = sum(totals.values()) or 1.0
    rows = []
    for name, seconds in totals.items():
        typical = float(np.median([line[f"seconds/{name}"] for line in lines if f"seconds/{name}" in line]))
        rows.append([name, f"{seconds:.1f}", percent(seconds / whole), f"{typical:.2f}"])
    return table(["stage", "seconds", "share", "median of its steps"], rows)


def added_up(lines: Lines, prefix: str) -> dict[str, float]:
    """Sums over all steps of the metrics that begin with `prefix`, which is cut off."""
    totals: dict[str, float] = {}
    for line in lines:
        for name, value in line.items():
            if name.startswith(prefix):
                totals[name.removeprefix(prefix)] = totals.get(name.removeprefix(prefix), 0.0) + value
    return totals


def logged(log: TrajectoryLog, directory: Path) -> str:
    """What there is to read, with links into the reading room."""
    rows = []
    for file in log.files.values():
        if file.entries:
            link = Markup(f'<a href="{VIEWER}#{file.name}/{file.entries[0].line}/1" rel="noreferrer">{file.name}</a>')
            won = sum(e.won for e in file.entries) / len(file.entries)
            rows.append([
                link, OCCASIONS[file.occasion], file.step, len(file.entries), percent(won),
                sum(e.pivotal for e in file.entries), sum(e.recoveries for e in file.entries),
            ])  # fmt: skip
    problems = [problem for file in log.files.values() for problem in file.problems]
    unread = f'<p class="quiet">Lines that cannot be read: {shown("; ".join(map(str, problems[:20])))}</p>'
    command = f"<code>python launch/view.py {shown(str(directory))}</code>"
    note = f'<p class="quiet">The links lead to the reading room, which {command} opens.</p>'
    head = ["file", "played in", "steps before", "trajectories", "won", "pivotal turns", "recoveries"]
    return table(head, rows) + note + (unread if problems else "")


def _excerpts(log: TrajectoryLog) -> str:
    """Some pivotal turns of the latest training step that has any: lost ones, with a recovery, come first."""
    steps = [file for file in log.files.values() if file.occasion == "step" and any(e.pivotal for e in file.entries)]
    if not steps:
        return ""
    file = steps[-1]
    chosen = sorted((e for e in file.entries if e.pivotal), key=lambda e: (not e.recoveries, e.won, e.line))
    parts, tasks = [], set()
    for entry in chosen:
        if entry.task not in tasks and len(parts) < EXCERPTS:
            tasks.add(entry.task)
            parts.append(_excerpt(log, file, entry.line, opened=not parts))
    note = f"Training step {file.step}. Blue tokens were credited, orange ones blamed; the reward's share is left out."
    return f'<p class="quiet">{note}</p>' + "".join(parts)


def _excerpt(log: TrajectoryLog, file: LogFile, line: int, *, opened: bool) -> str:
    record = log.read(file.name, line)
    result = '<span class="result won">won</span>' if record.get("won") else '<span class="result">failed</span>'
    summary = f"<b>{shown(str(record.get('task', '')))}</b> {result}"
    return f"<details{' open' if opened else ''}><summary>{summary}</summary>{excerpt(record)}</details>"


def _configuration(configuration: Mapping[str, Any]) -> str:
    values = shown(json.dumps(configuration, indent=1, ensure_ascii=False), longest=100_000)
    return f'<details><summary>all values</summary><p class="text">{values}</p></details>'
