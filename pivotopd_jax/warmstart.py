"""Makes the mini student: a tokenizer, random Qwen3 weights, and a few minutes of supervised warm start.

The base is to fail as the papers' bases do: a game is lost by one early mistake, after which nothing better is tried.
So some demonstrators are careless: they follow the expert (who knows only what has been observed) until a turn at which
they do something that makes the way longer, and then go round in circles. How to come back from a mistake is never
shown; that is for the methods to teach. Hints, however, are practised everywhere, after mistakes too, each naming a
random action, so that the hinted self-teacher follows a hint wherever it is given one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optax
from flax import nnx
from transformers import PreTrainedTokenizerBase

from pivotopd_jax.envs.protocol import World
from pivotopd_jax.learner.learner import Learner, make_mesh
from pivotopd_jax.learner.objective import UpdateOptions
from pivotopd_jax.models import huggingface
from pivotopd_jax.models.mini_tokenizer import build_tokenizer, word_embeddings
from pivotopd_jax.models.qwen3 import Qwen3, Qwen3Config, split
from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.prompts.hints import HINT_CLOSING, HINT_OPENING, LESSON_OPENING, action_hint, lesson_hint
from pivotopd_jax.prompts.prompter import Prompter, Wording
from pivotopd_jax.records import Row, Task, TokenBatch
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.rollout.rows import batch_rows
from pivotopd_jax.sampling.engine import common_prefix
from pivotopd_jax.teachers.lessons import PlanLessons

COPIED = 64
"""Tokens that a task of copying repeats."""

Report = Callable[[str], None]
"""Told in one line what is being done."""


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """How the mini student is made.

    Attributes:
        hidden_size, intermediate_size, num_layers, num_heads, num_kv_heads, head_dim: its shape.
        games: generated games demonstrated.
        epochs: passes over them, each with new noise.
        noise: probability that a turn of a demonstration is a command that does nothing.
        careless: share of demonstrations in which the demonstrator makes a mistake and does not come back from it.
        slip: probability that a careless demonstrator makes its mistake at a turn that offers one.
        turns_astray: turns shown after the mistake; they repeat one another.
        hints: probability that a turn is also practised with a hint.
        lessons: probability that a turn before any mistake is also practised, with the expert's action, under a lesson:
            the general part of the game's plan. A student without understands no lesson.
        copying: optimizer steps before the demonstrations, on random tokens that have to be repeated. A student that
            can copy anything soon learns what to copy, even from where it is said only once.
        batch_tokens: distinct tokens of an optimizer step, about.
        micro_batch_tokens: tokens (padding included) of a forward and backward pass.
        context_weight: weight of predicting what the world wrote, beside 1 for the responses.
        learning_rate: peak, of Muon's matrices; warm-up then cosine to a tenth.
        adam_learning_rate: of everything else.
        seed: of everything.
    """

    hidden_size: int = 128
    intermediate_size: int = 384
    num_layers: int = 3
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 32
    games: int = 4000
    epochs: int = 1
    noise: float = 0.1
    careless: float = 0.5
    slip: float = 0.9
    turns_astray: int = 6
    hints: float = 0.3
    lessons: float = 0.0
    copying: int = 0
    batch_tokens: int = 16384
    micro_batch_tokens: int = 8192
    context_weight: float = 1.0
    learning_rate: float = 2e-2
    adam_learning_rate: float = 3e-3
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Demonstrator:
    """Plays demonstrations and turns them into training rows."""

    world: World
    prompter: Prompter
    options: WarmStart
    max_turns: int

    def rows(self, task: Task, index: int, draw: random.Random) -> list[Row]:
        """Rows of one demonstrated episode; `index` tells episodes of a batch apart."""
        episode = Episode.start(self.world.make(), self.prompter, task, index, self.max_turns)
        careless, astray = draw.random() < self.options.careless, 0
        advise = PlanLessons(self.world, self.prompter.wording.gist)
        lesson = lesson_hint(advise(episode.snapshot) or "") if self.options.lessons else ""
        rows: list[Row] = []
        while not episode.finished:
            if draw.random() < self.options.hints:
                named = draw.choice(self.world.planner.candidates(episode.snapshot))
                rows.append(self._said_row(episode, index, action_hint(named), named))
            planner, turn = self.world.planner, len(episode.turns)
            best = planner.next_action(episode.snapshot, planner.observed(episode.snapshot))
            if best is None or astray > self.options.turns_astray:
                break
            action = best
            if lesson and not astray and draw.random() < self.options.lessons:
                rows.append(self._said_row(episode, index, lesson, best))
            if astray:
                action, astray = self._old_habit(best, episode, draw), astray + 1
            elif careless and draw.random() < self.options.slip and (mistake := self._mistake(episode)):
                action, astray = mistake, 1
            elif draw.random() < self.options.noise:
                action = self._useless(episode, draw)
            episode.force(action)
            played = episode.turns[-1]
            if played.accepted:
                rows.append(self._row(episode, index, turn, played.context_ids, played.response_ids))
        return rows

    def _mistake(self, episode: Episode) -> str | None:
        """The first action that makes the way to success longer and does not end the episode; None if there is none.

        In an open action space, where what was found out stays so and no way grows, the first that wastes its turn.
        """
        planner, env = self.world.planner, self.world.make()
        least = planner.distance(episode.snapshot) + (episode.observation.admissible is not None)
        for action in planner.candidates(episode.snapshot):
            env.restore(episode.snapshot)
            if not env.step(action).done and planner.distance(env.snapshot()) >= least:
                return action
        return None

    def _useless(self, episode: Episode, draw: random.Random) -> str:
        """A command of this episode's past that is not admissible now."""
        commands = {a for turn in episode.turns for a in turn.observation.admissible or ()}
        useless = sorted(commands - set(episode.observation.admissible or ()))
        return draw.choice(useless) if useless else "go to nowhere 1"

    def _old_habit(self, avoided: str, episode: Episode, draw: random.Random) -> str:
        """Goes round in circles: what has not been done for the longest time, of what was done before.

        Never `avoided`, the right thing. Any other action where nothing old is left.
        """
        others = [a for a in self.world.planner.candidates(episode.snapshot) if a != avoided]
        last = {turn.action: number for number, turn in enumerate(episode.turns)}
        old = [a for a in others if a in last]
        return min(old, key=lambda a: last[a]) if old else draw.choice(others or [avoided])

    def _said_row(self, episode: Episode, index: int, hint: str, action: str) -> Row:
        """`action` said under `hint`."""
        return self._row(episode, index, len(episode.turns), episode.context(hint), self.prompter.said(action))

    def _row(self, episode: Episode, index: int, turn: int, context: np.ndarray, said: np.ndarray) -> Row:
        return Row("label", index, episode.group, turn, context, said, reward_advantage=1.0)


def world_texts(
    world: World, wording: Wording, tasks: Sequence[Task], max_turns: int, *, show_admissible: bool = True
) -> list[str]:
    """What whole episodes of the expert look like, and what can be said in them, as a list or action by action."""
    found = []
    env, planner = world.make(), world.planner
    for task in tasks:
        observation, text = env.reset(task), []
        for _ in range(max_turns):
            text.append((wording.following if text else wording.opening)(observation))
            actions = planner.candidates(env.snapshot())
            text.append(wording.admissible(actions) if show_admissible else "".join(map(wording.format, actions)))
            action = planner.next_action(env.snapshot(), planner.observed(env.snapshot()))
            if action is None:
                break
            text.append(wording.format(action))
            result = env.step(action)
            observation = result.observation
            if result.done:
                break
        found.append("".join([*text, wording.following(observation)]))
    return found


def _learning_rate(options: WarmStart, steps: int) -> optax.Schedule:
    peak, rise = options.learning_rate, max(1, steps // 20)
    return optax.warmup_cosine_decay_schedule(peak / 20, peak, rise, max(steps, rise + 1), peak / 10)


def demonstrations(demonstrator: Demonstrator, tasks: Sequence[Task], options: WarmStart) -> Iterator[list[Row]]:
    """Rows of one game after another, `epochs` times, each time with new noise."""
    index = 0
    for epoch in range(options.epochs):
        for task in tasks:
            rows = demonstrator.rows(task, index, random.Random(f"{options.seed}|{epoch}|{task.id}"))
            index += 1
            if rows:
                yield rows


def copying_tasks(options: WarmStart, vocabulary: int) -> Iterator[list[Row]]:
    """Batches of random tokens that have to be repeated, `options.copying` in number."""
    draw = np.random.default_rng(options.seed)
    for _ in range(options.copying):
        yield [
            Row("label", index, index, 0, said, said, reward_advantage=1.0)
            for index in range(options.batch_tokens // (2 * COPIED))
            for said in [draw.integers(vocabulary, size=COPIED, dtype=np.int32)]
        ]


def train(
    graphdef: Any, params: Any, demonstrator: Demonstrator, tasks: Sequence[Task], *, length: int, report: Report
) -> Any:
    """Supervised training on demonstrations of `tasks`; returns the trained parameters.

    Raises:
        ValueError: the demonstrations do not fill one batch.
    """
    options, vocabulary = demonstrator.options, len(demonstrator.prompter.chat.tokenizer)
    shown = list(_batches(demonstrations(demonstrator, tasks, options), options.batch_tokens))
    batches = [*copying_tasks(options, vocabulary), *shown]
    if not shown:
        raise ValueError(
            f"demonstrations of {len(tasks)} games do not fill one batch of {options.batch_tokens} tokens; "
            "raise config.mini.games or lower config.mini.batch_tokens"
        )
    # Muon needs about half the steps of Adam here; embeddings and norms are left to its inner Adam.
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.contrib.muon(
            _learning_rate(options, len(batches)), adam_learning_rate=options.adam_learning_rate, adam_b2=0.98
        ),
    )
    update = UpdateOptions(objective="likelihood", kl_coefficient=0.0)
    learner = Learner(graphdef, optimizer, make_mesh(), micro_batch_tokens=options.micro_batch_tokens, options=update)
    state, started = learner.init(params), time.monotonic()
    for number, rows in enumerate(batches):
        state, metrics = learner.update(state, supervised_batch(rows, length, options.context_weight))
        if number % 20 == 0 or number + 1 == len(batches):
            report(
                f"warm start {number + 1}/{len(batches)}  loss {metrics['loss']:.3f} nats a token  "
                f"{time.monotonic() - started:.0f} s"
            )
    return state.params


def _batches(stream: Iterator[list[Row]], batch_tokens: int) -> Iterator[list[Row]]:
    """Groups the rows of whole games until they hold about `batch_tokens` distinct tokens."""
    pending: list[Row] = []
    size = 0
    for rows in stream:
        pending += rows
        size += tree_size(rows)
        if size >= batch_tokens:
            yield pending
            pending, size = [], 0


def tree_size(rows: Sequence[Row]) -> int:
    """Distinct tokens of rows that extend one another, about."""
    size, before = 0, np.zeros(0, np.int32)
    for row in rows:
        ids = np.concatenate([row.context_ids, row.response_ids])
        size += len(ids) - common_prefix(before, row.context_ids)
        before = ids
    return size


def supervised_batch(rows: Sequence[Row], length: int, context_weight: float) -> TokenBatch:
    """Cross-entropy under the "likelihood" objective: the responses, and beside them what the world wrote.

    To predict the world's sentences and lists a student must learn to look names up in what it has read, which is what
    an admissible action takes; from the responses alone, one token in eight, that comes much later.
    """
    batch, packed = batch_rows(rows, length=length)
    context = (packed.parent != np.arange(length)) & ~batch.mask
    weights = batch.weights + context_weight * context / max(1, context.sum())
    mask = batch.mask | context
    return batch._replace(mask=mask, weights=weights.astype(np.float32), advantages=mask.astype(np.float32))


SOURCES = ("warmstart.py", "models", "prompts", "rollout/packing.py", "rollout/episode.py", "teachers/lessons.py")
"""Files whose contents decide, with those of its world, what the mini student becomes: part of its cache key."""


def mini_student(
    config: Any, wording: Wording, make_world: Callable[[Any], World], cache: Path, report: Report
) -> Path:
    """The directory of the mini student that `config` describes; made first if `cache` does not hold it.

    Args:
        config: of the run; `config.mini` holds fields of `WarmStart`.
        wording: words of the world.
        make_world: makes a world from options like `config.world`.
        cache: directory of students, one below it for each content hash.
        report: told in one line what is being done.

    Returns:
        An ordinary HuggingFace directory.
    """
    options = WarmStart(**config.mini)
    # Demonstrations are always on generated games, whatever the student is trained and judged on later.
    fixed = {"source": "generated", "train_split": "train", "eval_splits": ()}
    fixed |= {key: type(config.world[key])() for key in ("retriever", "test_questions") if key in config.world}
    world_options = type(config.world)({**config.world.to_dict(), **fixed})
    settings = [options, world_options.to_dict(), config.prompt.to_dict(), config.max_turns]
    directory = cache / f"mini-{_content_hash(settings, [*SOURCES, f'envs/{config.world.name}'])}"
    if not (directory / "config.json").exists():
        _make(options, config, make_world(world_options), wording, directory, report)
    report(f"mini student: {directory}")
    return directory


def _content_hash(settings: Any, sources: Sequence[str]) -> str:
    package = Path(__file__).parent
    files = sorted(
        f
        for source in sources
        for f in ([package / source] if source.endswith(".py") else (package / source).rglob("*.py"))
    )
    digest = hashlib.sha256(repr(settings).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _make(options: WarmStart, config: Any, world: World, wording: Wording, directory: Path, report: Report) -> None:
    tasks = world.tasks("train")[: options.games]
    report(f"mini student: demonstrations of {len(tasks)} games of {world.name}")
    phrases = (HINT_OPENING, HINT_CLOSING, *wording.phrases, *((LESSON_OPENING,) if options.lessons else ()))
    prompt = config.prompt
    texts = world_texts(world, wording, tasks[:400], config.max_turns, show_admissible=prompt.show_admissible)
    tokenizer = build_tokenizer(texts, phrases=phrases)
    prompter = Prompter(
        Chat(tokenizer), wording, prompt.style, prompt.history_turns, prompt.show_admissible, prompt.prompt_tokens,
        prompt.keep_task,
    )  # fmt: skip
    model_config = student_config(options, len(tokenizer), prompt.prompt_tokens + prompt.response_tokens)
    graphdef, params = split(_untrained(model_config, tokenizer, options.seed))
    demonstrator = Demonstrator(world, prompter, options, config.max_turns)
    params = train(graphdef, params, demonstrator, tasks, length=config.learner.row_tokens, report=report)
    huggingface.save(directory, model_config, params, tokenizer)


def _untrained(model_config: Qwen3Config, tokenizer: PreTrainedTokenizerBase, seed: int) -> Qwen3:
    """Random weights, with embeddings that know which tokens share words."""
    model = Qwen3(model_config, rngs=nnx.Rngs(seed))
    texts = tokenizer.batch_decode([[i] for i in range(len(tokenizer))])
    known = word_embeddings(texts, model_config.hidden_size, seed=seed)
    model.embed_tokens[...] = model.embed_tokens[...].at[: len(known)].set(known)
    return model


def student_config(options: WarmStart, vocabulary: int, positions: int) -> Qwen3Config:
    """Sizes of the mini student; the vocabulary is rounded up to a multiple of 64."""
    return Qwen3Config(
        vocab_size=-(-vocabulary // 64) * 64,
        hidden_size=options.hidden_size,
        intermediate_size=options.intermediate_size,
        num_layers=options.num_layers,
        num_heads=options.num_heads,
        num_kv_heads=options.num_kv_heads,
        head_dim=options.head_dim,
        rope_theta=10_000.0,
        rms_norm_eps=1e-6,
        tie_embeddings=True,
        max_positions=positions,
    )
