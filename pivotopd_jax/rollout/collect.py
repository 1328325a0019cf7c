"""Who acts: plays episodes to their end, many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pivotopd_jax.envs.protocol import World
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Observation, Task, Trajectory
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.sampling.policy import Policy, Request, request_seed

Actor = Callable[[int, Episode], str | None]
"""Who acts at this turn of the episode with this index: an action that a teacher forces, or None for the student."""

Start = Callable[[], Episode]
"""Makes an episode when there is room for it."""


def student(index: int, episode: Episode) -> str | None:
    """The student acts at every turn."""
    del index, episode
    return None


def play(
    policy: Policy | None,
    starts: Sequence[Start],
    *,
    temperature: float,
    seed: int,
    concurrency: int,
    actor: Actor = student,
    first: int = 0,
    on_finish: Callable[[Trajectory], None] = lambda _: None,
) -> list[Trajectory]:
    """Plays every start to its end.

    Args:
        policy: samples the student's responses; None if the actor never lets the student speak.
        starts: one a trajectory; each is called when its episode begins.
        temperature: of sampling; 0 is greedy.
        seed: fixes all samples, whatever `concurrency` is.
        concurrency: episodes alive at once; a finished one makes room for the next.
        actor: who acts.
        first: index of the first start, where others come before these: samples and actor go by it.
        on_finish: told of every finished trajectory, in order of finishing.

    Returns:
        Trajectories in the order of `starts`.
    """
    waiting = list(enumerate(starts, first))[::-1]
    alive: dict[int, Episode] = {}
    done: dict[int, Trajectory] = {}
    while waiting or alive:
        while waiting and len(alive) < concurrency:
            index, start = waiting.pop()
            alive[index] = start()
        speaking = {i: e for i, e in alive.items() if not e.finished and not _forced(i, e, actor)}
        if speaking:
            assert policy is not None, "this actor lets the student speak; a policy is needed"
            _speak(policy, speaking, temperature, seed)
        for index in [i for i, episode in alive.items() if episode.finished]:
            done[index] = alive.pop(index).trajectory()
            on_finish(done[index])
    return [done[i] for i in sorted(done)]


def _forced(index: int, episode: Episode, actor: Actor) -> bool:
    """Plays forced actions until the student is to speak or the episode ends; says whether it ended."""
    while not episode.finished:
        action = actor(index, episode)
        if action is None:
            return False
        episode.force(action)
    return True


def _speak(policy: Policy, episodes: dict[int, Episode], temperature: float, seed: int) -> None:
    contexts = {i: episode.context() for i, episode in episodes.items()}
    requests = [Request(i, contexts[i], request_seed(seed, i, len(e.turns))) for i, e in episodes.items()]
    samples = policy.sample(requests, temperature=temperature)
    for (i, episode), sample in zip(episodes.items(), samples, strict=True):
        episode.respond(contexts[i], sample)


def fresh_starts(
    world: World,
    prompter: Prompter,
    tasks: Sequence[Task],
    *,
    rollouts: int,
    max_turns: int,
    advise: Callable[[Observation], str] | None = None,
) -> list[Start]:
    """`rollouts` starts for each task, group by group, with the advice that `advise` gives on the first observation."""

    def start(task: Task, group: int) -> Start:
        return lambda: Episode.start(world.make(), prompter, task, group, max_turns, advise)

    return [start(task, group) for group, task in enumerate(tasks) for _ in range(rollouts)]


def resumed_starts(
    world: World, prompter: Prompter, points: Sequence[tuple[Trajectory, int]], *, max_turns: int
) -> list[Start]:
    """A start after each (trajectory, turn)."""

    def start(trajectory: Trajectory, turn: int) -> Start:
        return lambda: Episode.resume(world.make(), prompter, trajectory, turn, max_turns)

    return [start(trajectory, turn) for trajectory, turn in points]
