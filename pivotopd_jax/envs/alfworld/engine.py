"""The ALFWorld engine: the official text game, word for word, as pure functions of an immutable state.

Agrees with alfworld 0.4 on textworld 1.7 in every sentence, list and order (`launch/verify_env.py` replays recorded
games), including what looks like mistakes: lamps never turn off, appliances work while closed, an object can be in two
receptacles, things taken and put back elsewhere lie "next to" the receptacle they came from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pivotopd_jax.envs.alfworld.games import Game, State, as_game, indices_of
from pivotopd_jax.envs.alfworld.phrases import HELP, Phrases, phrases, sentence_list
from pivotopd_jax.envs.protocol import Snapshot
from pivotopd_jax.records import Observation, StepResult, Task

NOTHING_HAPPENS = "Nothing happens."

Outcome = tuple[State, str] | None
"""The next state and the sentence shown; None for a command that is not admissible."""


def intro(game: Game) -> str:
    """The first text of an episode: banner, room and task."""
    return f"-= Welcome to TextWorld, ALFRED! =-\n\n{_room(game)}\n\nYour task is to: {game.description}"


def apply(game: Game, state: State, command: str) -> Outcome:
    """Carries a command out, surrounding white space aside; None when it is not admissible in `state`."""
    verb, _, rest = command.strip().partition(" ")
    action = _ACTIONS.get(verb)
    return None if action is None else action(game, phrases(game), state, rest)


def admissible(game: Game, state: State, *, help: bool = False) -> tuple[str, ...]:
    """The commands that would be carried out, sorted. `help` adds the command `help`, which the official list has.

    Every command starts with its verb and verbs sort as whole words, so the groups are joined, not sorted again.
    """
    words = phrases(game)
    place, holding = state.place, state.holding
    if place < 0:
        return words.standing(game, -1, holding, 0, help)
    commands = words.standing(game, place, holding, state.opened & game.at_place[place], help)
    if holding < 0:
        commands += _takes(game, words, state)
    elif game.knives >> holding & 1:
        commands += _slices(game, state)
    return commands + _uses(game, words, state) if game.toggleable else commands


def won(game: Game, state: State) -> bool:
    """Whether the goal holds in `state`."""
    goal, words = game.goal, phrases(game)
    if goal.lamps:
        held = goal.objects >> state.holding & 1 if state.holding >= 0 else 0
        return bool(held and state.toggled & goal.lamps & _in_reach(words, state))
    wanted = goal.objects if goal.property is None else goal.objects & getattr(state, goal.property)
    return _most_together(state.contents, words.goal_receptacles, wanted) >= goal.count


class AlfWorldSnapshot(NamedTuple):
    """One moment of an episode.

    Attributes:
        game: compared by identity.
        state: the facts.
        observation: what was last shown.
        done, won: as of the last step.
    """

    game: Game
    state: State
    observation: Observation
    done: bool
    won: bool


class AlfWorldEnv:
    """One running ALFWorld episode; `reset` takes tasks whose `source` is a `Game` or a packed row."""

    def __init__(self, *, list_help: bool = False) -> None:
        """`list_help`: name the command `help` among the admissible ones, as the official engine does."""
        self._list_help = list_help
        self._now: AlfWorldSnapshot | None = None

    def reset(self, task: Task) -> Observation:
        """Starts `task`; the observation is the official first text.

        Raises:
            GameError: `task.source` is not a game of ALFWorld.
        """
        game = as_game(task.source)
        state = game.initial
        observation = Observation(intro(game), admissible(game, state, help=self._list_help))
        self._now = AlfWorldSnapshot(game, state, observation, False, won(game, state))
        return observation

    def step(self, action: str) -> StepResult:
        """Carries `action` out; an inadmissible one changes nothing and reads "Nothing happens.".

        Returns:
            reward 1.0 when the task is won, which also ends the episode; 0.0 otherwise.

        Raises:
            RuntimeError: before `reset`, or after the episode was won.
        """
        game, state, shown, done, _ = self._current()
        if done:
            raise RuntimeError("step() after the episode was won; call reset(task) or restore(snapshot) first")
        after, feedback = apply(game, state, action) or (state, NOTHING_HAPPENS)
        if after is state:
            observation = Observation(feedback, shown.admissible)
        else:
            observation = Observation(feedback, admissible(game, after, help=self._list_help))
        victory = won(game, after)
        self._now = AlfWorldSnapshot(game, after, observation, victory, victory)
        return StepResult(observation, 1.0 if victory else 0.0, victory, victory)

    def accepts(self, action: str) -> bool:
        """Whether `action` would be carried out now. True for `help`, listed or not."""
        now = self._current()
        return not now.done and apply(now.game, now.state, action) is not None

    def snapshot(self) -> AlfWorldSnapshot:
        """The present moment.

        Raises:
            RuntimeError: before `reset`.
        """
        return self._current()

    def restore(self, snapshot: Snapshot) -> Observation:
        """Goes back to a moment of any episode and returns what was last shown then.

        Raises:
            TypeError: `snapshot` is not an `AlfWorldSnapshot`.
        """
        if not isinstance(snapshot, AlfWorldSnapshot):
            raise TypeError(f"expected an AlfWorldSnapshot, got {type(snapshot).__name__}")
        self._now = snapshot
        return snapshot.observation

    def _current(self) -> AlfWorldSnapshot:
        if self._now is None:
            raise RuntimeError("no episode is running; call reset(task) or restore(snapshot) first")
        return self._now


def _most_together(contents: tuple[int, ...], receptacles: tuple[int, ...], wanted: int) -> int:
    """The largest number of `wanted` objects in one of `receptacles`. A plain loop: this runs at every step."""
    most = 0
    for r in receptacles:
        together = (contents[r] & wanted).bit_count()
        if together > most:
            most = together
    return most


def _in_reach(words: Phrases, state: State) -> int:
    """Mask of the objects in receptacles at the player's place, open or not."""
    mask = 0
    if state.place >= 0:
        for r in words.here[state.place].receptacles:
            mask |= state.contents[r]
    return mask


def _takes(game: Game, words: Phrases, state: State) -> tuple[str, ...]:
    commands: tuple[str, ...] = ()
    shut, receptacles = game.openable & ~state.opened, words.here[state.place].receptacles
    for r in receptacles:
        things = state.contents[r] & game.pickupable
        if things and not shut >> r & 1:
            commands += words.takes(game, r, things)
    return tuple(sorted(commands)) if len(receptacles) > 1 else commands


def _slices(game: Game, state: State) -> tuple[str, ...]:
    names, things = game.object_names, game.sliceable & state.located[state.place]
    return tuple(sorted(f"slice {names[o]} with {names[state.holding]}" for o in indices_of(things)))


def _uses(game: Game, words: Phrases, state: State) -> tuple[str, ...]:
    lamps = _in_reach(words, state) & game.toggleable
    return tuple(sorted(f"use {game.object_names[o]}" for o in indices_of(lamps))) if lamps else ()


def _describe(game: Game, words: Phrases, state: State, r: int) -> tuple[str, int]:
    """What examining a receptacle says, and the receptacles observed afterwards: a closed one shows nothing."""
    name, bit = game.receptacle_names[r], 1 << r
    if not game.openable & bit:
        return f"On the {name}, you see {words.listing(game, state.contents[r])}.", state.observed | bit
    if state.opened & bit:
        return f"The {name} is open. In it, you see {words.listing(game, state.contents[r])}.", state.observed | bit
    return f"The {name} is closed.", state.observed


def _reachable(game: Game, words: Phrases, state: State, name: str) -> int:
    """Index of the receptacle called `name` if it is at the player's place and not shut; -1 otherwise."""
    r = words.receptacle_index.get(name, -1)
    if r < 0 or game.place[r] != state.place or game.openable & ~state.opened & 1 << r:
        return -1
    return r


def _look(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    if rest:
        return None
    if state.place < 0:
        return state, "You are in the middle of a room. Looking quickly around you, you see nothing."
    return state, _facing(game, words, state)


def _room(game: Game) -> str:
    """What the first text says of the room: everything in it, unlike a later `look` from the same spot."""
    words = phrases(game)
    if game.initial.place < 0:
        return f"You are in the middle of a room. Looking quickly around you, you see {words.room}."
    return _facing(game, words, game.initial)


def _facing(game: Game, words: Phrases, state: State) -> str:
    """Names an object once for every receptacle here that it was taken from, if the facts still place it here."""
    here = words.here[state.place]
    present = state.located[state.place]
    beside = sorted((o, r) for r in here.receptacles for o in indices_of(state.removed[r] & present))
    floor = sentence_list([f"a {game.object_names[o]}" for o, _ in beside])
    return f"You are facing the {here.facing}. Next to it, you see {floor}."


def _inventory(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    if rest:
        return None
    if state.holding < 0:
        return state, "You are not carrying anything."
    return state, f"You are carrying: a {game.object_names[state.holding]}."


def _help(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    return (state, HELP) if not rest and game.wording == "move" else None


def _go(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    r = words.receptacle_index.get(rest[3:], -1)
    if r < 0 or not rest.startswith("to ") or game.place[r] == state.place:
        return None
    sight, observed = _describe(game, words, state, r)
    # _replace costs three times as much, and going is what players do most.
    after = tuple.__new__(State, (game.place[r], *state[1:9], observed, *state[10:]))
    arrival = game.receptacle_names[r] if game.wording == "move" else game.place_names[game.place[r]]
    return after, f"You arrive at {arrival}. {sight}"


def _open(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    r = words.receptacle_index.get(rest, -1)
    if r < 0 or game.place[r] != state.place or not game.openable & ~state.opened & 1 << r:
        return None
    after = state._replace(opened=state.opened | 1 << r)
    sight, observed = _describe(game, words, after, r)
    return after._replace(observed=observed), f"You open the {rest}. {sight}"


def _close(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    r = words.receptacle_index.get(rest, -1)
    if r < 0 or game.place[r] != state.place or not game.openable & state.opened & 1 << r:
        return None
    return state._replace(opened=state.opened ^ 1 << r), f"You close the {rest}."


def _take(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    name, _, receptacle = rest.partition(" from ")
    o, r = words.object_index.get(name, -1), _reachable(game, words, state, receptacle)
    if o < 0 or r < 0 or state.holding >= 0 or not game.pickupable & state.contents[r] & 1 << o:
        return None
    after = state._replace(
        holding=o,
        contents=_put(state.contents, r, state.contents[r] & ~(1 << o)),
        located=_put(state.located, state.place, state.located[state.place] & ~(1 << o)),
        removed=_put(state.removed, r, state.removed[r] | 1 << o),
    )
    return after, f"You pick up the {name} from the {receptacle}."


def _place(game: Game, words: Phrases, state: State, rest: str, between: str) -> Outcome:
    name, _, receptacle = rest.partition(between)
    o, r = words.object_index.get(name, -1), _reachable(game, words, state, receptacle)
    if o < 0 or r < 0 or state.holding != o or not game.accepts[r] >> o & 1:
        return None
    after = state._replace(
        holding=-1,
        contents=_put(state.contents, r, state.contents[r] | 1 << o),
        located=_put(state.located, state.place, state.located[state.place] | 1 << o),
        removed=_put(state.removed, r, state.removed[r] & ~(1 << o)),
    )
    return after, f"You {game.wording} the {name}{between}the {receptacle}."


def _move(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    return _place(game, words, state, rest, " to ") if game.wording == "move" else None


def _put_in(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    return _place(game, words, state, rest, " in/on ") if game.wording == "put" else None


def _put(masks: tuple[int, ...], index: int, mask: int) -> tuple[int, ...]:
    return (*masks[:index], mask, *masks[index + 1 :])


def _examine(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    r = words.receptacle_index.get(rest, -1)
    if r >= 0 and game.place[r] == state.place:
        sight, observed = _describe(game, words, state, r)
        return (state if observed == state.observed else state._replace(observed=observed)), sight
    o = words.object_index.get(rest, -1)
    return (state, words.object_sight(game, state, o)) if 0 <= o == state.holding else None


def _use(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    o = words.object_index.get(rest, -1)
    if o < 0 or not game.toggleable & _in_reach(words, state) & 1 << o:
        return None
    return state._replace(toggled=state.toggled | 1 << o), f"You turn on the {rest}."


def _treat(game: Game, words: Phrases, state: State, rest: str, able: int, appliances: int) -> int:
    """Mask of the held object if `rest` reads "object with appliance" and both are right; 0 otherwise."""
    name, _, appliance = rest.partition(" with ")
    o, r = words.object_index.get(name, -1), words.receptacle_index.get(appliance, -1)
    right = o >= 0 and r >= 0 and o == state.holding and game.place[r] == state.place
    return able & 1 << o if right and appliances >> r & 1 else 0


def _clean(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    held = _treat(game, words, state, rest, game.cleanable, game.sinks)
    return (state._replace(clean=state.clean | held), _using("clean", rest)) if held else None


def _heat(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    held = _treat(game, words, state, rest, game.heatable, game.microwaves)
    return (state._replace(hot=state.hot | held, cool=state.cool & ~held), _using("heat", rest)) if held else None


def _cool(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    held = _treat(game, words, state, rest, game.coolable, game.fridges)
    return (state._replace(cool=state.cool | held, hot=state.hot & ~held), _using("cool", rest)) if held else None


def _using(verb: str, rest: str) -> str:
    name, _, appliance = rest.partition(" with ")
    return f"You {verb} the {name} using the {appliance}."


def _slice(game: Game, words: Phrases, state: State, rest: str) -> Outcome:
    name, _, knife = rest.partition(" with ")
    o, k = words.object_index.get(name, -1), words.object_index.get(knife, -1)
    if o < 0 or k < 0 or k != state.holding or not game.knives >> k & 1 or state.place < 0:
        return None
    if not game.sliceable & state.located[state.place] & 1 << o:
        return None
    return state._replace(sliced=state.sliced | 1 << o), f"You sliced the {name} with the {knife}."


_ACTIONS: dict[str, Callable[[Game, Phrases, State, str], Outcome]] = {
    "clean": _clean,
    "close": _close,
    "cool": _cool,
    "examine": _examine,
    "go": _go,
    "heat": _heat,
    "help": _help,
    "inventory": _inventory,
    "look": _look,
    "move": _move,
    "open": _open,
    "put": _put_in,
    "slice": _slice,
    "take": _take,
    "use": _use,
}
