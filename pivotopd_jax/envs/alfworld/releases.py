"""Which release of ALFWorld a game file belongs to, told by its rules and its sentences."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Literal

from pivotopd_jax.envs.alfworld.pddl import GameError

Wording = Literal["move", "put"]
"""How releases speak: "move X to Y" (alfworld 0.4) or "put X in/on Y" (alfworld 0.2 and 0.3)."""

# Digests of the texts without white space (and comments, in the domains). The domains differ in two things that change
# no game: whether `help` is an action, and whether Sink, which no ALFRED scene has as a receptacle, cleans.
_DOMAINS = {
    "19173ff725cec7a1": "the games of release json_2.1.2",
    "6cbbf3d0d19be027": "alfworld 0.4",
    "ad3ba518468a4a37": "alfworld 0.2 and 0.3",
}
_GRAMMARS: dict[str, Wording] = {
    "8ccb165808cdb9ad": "move",
    "67561ba4096cf4de": "move",
    "9ca34206c40838b8": "put",
}


def check_domain(domain: str, name: str) -> None:
    """Makes sure that the rules of `domain` (PDDL text) are the ones this engine plays by.

    Raises:
        GameError: unknown rules, with `name` as the place they came from.
    """
    digest = _digest(re.sub(r";.*", "", domain))
    if digest not in _DOMAINS:
        known = ", ".join(sorted(set(_DOMAINS.values())))
        raise GameError(
            f"{name}: unknown PDDL domain (digest {digest}); known are the domains of {known}. "
            "Play this game with the official engine (OfficialAlfWorldEnv)"
        )


def read_grammar(grammar: str, name: str) -> tuple[Wording, str]:
    """Which wording a game file's grammar uses, and the task sentence written in it.

    Raises:
        GameError: no task sentence, or sentences of an unknown release, with `name` as the place they came from.
    """
    match = re.search(r'"rhs"\s*:\s*("Your task is to: (?:[^"\\]|\\.)*")', grammar)
    if match is None:
        raise GameError(f"{name}: the grammar has no sentence 'Your task is to: ...'")
    digest = _digest(grammar[: match.start()] + grammar[match.end() :])
    if digest not in _GRAMMARS:
        raise GameError(
            f"{name}: unknown grammar (digest {digest}); known are 'move X to Y' (alfworld 0.4) and "
            "'put X in/on Y' (alfworld 0.2 and 0.3). Play this game with the official engine (OfficialAlfWorldEnv)"
        )
    try:
        sentence = json.loads(match[1])
    except ValueError as error:
        raise GameError(f"{name}: the grammar's task sentence {match[1]:.80} is no JSON text ({error})") from error
    return _GRAMMARS[digest], sentence.removeprefix("Your task is to: ")


def _digest(text: str) -> str:
    return hashlib.sha256("".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()[:16]
