"""Draws small fictional encyclopedias from a seed, each with one question that takes several passages to answer.

The question names an entity and a chain of relations. The passage of each entity on the chain names the next one,
sometimes by a second name, which the next passage explains. The rest are passages on entities of similar names, other
facts about the same entities, and others. A passage is one or two short sentences of words from short lists, so that
a small student can learn them in minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from pivotopd_jax.envs.search_qa.passages import Passage, make_passage
from pivotopd_jax.envs.search_qa.questions import SPLITS, Question, held_out
from pivotopd_jax.envs.search_qa.retrieval import Bm25

RELATIONS = {
    "film": {"director": "person", "writer": "person", "star": "person"},
    "song": {"singer": "person", "writer": "person", "producer": "person"},
    "person": {"mother": "person", "teacher": "person", "partner": "person", "home": "town"},
    "town": {"mayor": "person", "founder": "person", "poet": "person"},
}
"""Kind of entity -> its relations, each with the kind of entity that it leads to."""

FIRST = ("Ada", "Bela", "Cora", "Dora", "Egon", "Faye", "Gil", "Hugo", "Iris", "Jan", "Kim", "Leo")
LAST = ("Ash", "Birch", "Crane", "Dove", "Elm", "Finch", "Gull", "Heron", "Ivy", "Lark", "Oak", "Wren")
CALLED = ("Big", "Lucky", "Old", "Quick", "Shy", "Wild")
ANIMALS = ("Bear", "Cat", "Fox", "Hare", "Mole", "Wolf")
COLOURS = ("Amber", "Black", "Blue", "Golden", "Green", "Red", "Silver", "White")
THINGS = ("Bell", "Boat", "Garden", "Key", "Lamp", "Moon", "River", "Rose")
PLACES = ("Cold", "Deep", "East", "High", "Long", "Low", "North", "West")
GROUNDS = ("Bay", "Ford", "Hill", "Lake", "Mill", "Port", "Vale", "Well")

NAMES = {"person": (FIRST, LAST), "film": (COLOURS, THINGS), "song": (COLOURS, THINGS), "town": (PLACES, GROUNDS)}
SIMILAR = {"person": "Junior", "film": "Two", "song": "Two", "town": "Village"}
"""What the name of a similar entity has in addition."""

MOST_HOPS, MOST_DISTRACTORS, MOST_PASSAGES = 4, 4, 64


@dataclass(frozen=True)
class Entity:
    """Something that has a passage.

    Attributes:
        kind: a key of `RELATIONS`.
        name: title of its passage.
        called: the second name by which others speak of it; "" for none.
    """

    kind: str
    name: str
    called: str = ""

    @property
    def spoken(self) -> str:
        """The name that other passages use."""
        return self.called or self.name


@dataclass(frozen=True)
class Encyclopedia:
    """One question and the passages among which its answer is.

    Attributes:
        question: with its supports and the queries that show them.
        passages: in the order of their ids.
        names: of all entities, second names included.
        index: of the passages.
    """

    question: Question
    passages: tuple[Passage, ...]
    names: tuple[str, ...]
    index: Bm25 = field(compare=False, repr=False)


def check_sizes(hops: int, distractors: int, passages: int, top_k: int) -> None:
    """Makes sure that such an encyclopedia can be drawn.

    Raises:
        ValueError: a size out of range.
    """
    limits = {
        "top_k": (top_k, 1, MOST_DISTRACTORS + 1),
        "hops": (hops, 2, MOST_HOPS),
        # With fewer, the passage that names an entity would be among those that a search for the entity shows.
        "distractors": (distractors, max(1, top_k - 1), MOST_DISTRACTORS),
        "passages": (passages, hops * (1 + distractors), MOST_PASSAGES),
    }
    for name, (size, least, most) in limits.items():
        if not least <= size <= most:
            raise ValueError(f"{name}={size}: expected {least} to {most}")


def generate_encyclopedia(
    seed: int, *, hops: int = 2, distractors: int = 2, passages: int = 12, top_k: int = 3, split: str = "train"
) -> Encyclopedia:
    """Draws one encyclopedia. The same arguments give the same one in every process.

    A search for any one name shows at most one of the question's supports, and the query of each support shows it.

    Args:
        seed: any integer; other seeds give other encyclopedias.
        hops: supports of the question, 2 to 4.
        distractors: passages like that of each support, at least `top_k` − 1.
        passages: how many there are, at least hops · (1 + distractors).
        top_k: passages that a search shows.
        split: train, validation or test. A question is asked in one split only.

    Raises:
        ValueError: an argument out of range.
    """
    check_sizes(hops, distractors, passages, top_k)
    if split not in SPLITS:
        raise ValueError(f"generated questions have no split {split!r}; expected one of {', '.join(SPLITS)}")
    random = Random(f"search qa {split} {seed} {hops} {distractors} {passages} {top_k}")
    while True:
        drawer = _Drawer(random, top_k)
        chain, relations = drawer.chain(hops)
        if held_out(_asked(chain, relations)) != split:
            continue
        drawn = drawer.encyclopedia(chain, relations, distractors, passages)
        if is_sound(drawn, top_k):
            return replace(drawn, question=drawn.question._replace(id=f"{split}-{seed}"))


def is_sound(drawn: Encyclopedia, top_k: int) -> bool:
    """Whether each own query shows its support, and no name shows two supports."""
    supports = frozenset(drawn.question.supports)

    def shown(queries: tuple[str, ...]) -> list[set[Passage]]:
        return [{hit.passage for hit in hits} for hits in drawn.index.search(queries, top_k)]

    own = zip(drawn.question.supports, shown(drawn.question.queries), strict=True)
    return all(support in found for support, found in own) and all(
        len(supports & found) <= 1 for found in shown(drawn.names)
    )


class _Drawer:
    """Draws the parts of one encyclopedia; no name is drawn twice."""

    def __init__(self, random: Random, top_k: int) -> None:
        self._random, self._top_k = random, top_k
        self._used: dict[str, None] = {}

    def chain(self, hops: int) -> tuple[list[Entity], list[str]]:
        """The entities from the one that the question names to the answer, and the relations between them."""
        entities, relations = [self._entity(self._random.choice(list(RELATIONS)), 0.0)], []
        for hop in range(hops):
            known = RELATIONS[entities[-1].kind]
            relations.append(self._random.choice([relation for relation in known if relation not in relations]))
            # The answer has no passage of its own that could explain a second name.
            entities.append(self._entity(known[relations[-1]], 0.5 if hop + 1 < hops else 0.0))
        return entities, relations

    def encyclopedia(self, chain: list[Entity], relations: list[str], distractors: int, passages: int) -> Encyclopedia:
        """The passages around a chain, in random order."""
        steps = list(zip(chain, relations, chain[1:], strict=False))
        drafts = [_fact(entity, relation, target) for entity, relation, target in steps]
        for entity, relation, _ in steps:
            drafts += self._distractors(entity, relation, distractors)
        while len(drafts) < passages:
            entity = self._entity(self._random.choice(list(RELATIONS)), 0.5)
            drafts.append(self._about(entity, self._random.choice(list(RELATIONS[entity.kind]))))
        order = self._random.sample(range(len(drafts)), len(drafts))
        made = {draft: make_passage(str(i), *drafts[draft]) for i, draft in enumerate(order)}
        question = Question(
            "", f"{len(steps)} hops", _asked(chain, relations), (chain[-1].name,),
            tuple(made[step] for step in range(len(steps))), tuple(entity.spoken for entity in chain[:-1]),
        )  # fmt: skip
        return Encyclopedia(question, tuple(made.values()), tuple(self._used), Bm25(tuple(made.values())))

    def _entity(self, kind: str, chance_of_second_name: float) -> Entity:
        second = kind == "person" and self._random.random() < chance_of_second_name
        return Entity(kind, self._name(*NAMES[kind]), self._name(CALLED, ANIMALS) if second else "")

    def _name(self, first: tuple[str, ...], last: tuple[str, ...]) -> str:
        while (name := f"{self._random.choice(first)} {self._random.choice(last)}") in self._used:
            pass
        self._used[name] = None
        return name

    def _distractors(self, entity: Entity, relation: str, count: int) -> list[tuple[str, str]]:
        """In turn something of a similar name, and another fact.

        The first `top_k` − 1 have the name that is searched for; more of them would displace a passage that has that
        name only in its text.
        """
        known = [other for other in RELATIONS[entity.kind] if other != relation]
        others = self._random.sample(known, len(known))
        drafts = []
        for number in range(count):
            name = entity.spoken if number < self._top_k - 1 else entity.name
            draw = self._other if number % 2 else self._similar
            drafts.append(draw(entity.kind, name, [relation, *others], number // 2))
        return drafts

    def _similar(self, kind: str, name: str, relations: Sequence[str], number: int) -> tuple[str, str]:
        """The fact that is asked for, of another entity."""
        similar = f"{name} {SIMILAR[kind]}" + " Junior" * number
        self._used[similar] = None
        return self._about(Entity(kind, similar), relations[0])

    def _other(self, kind: str, name: str, relations: Sequence[str], number: int) -> tuple[str, str]:
        """Another fact of the entity."""
        relation = relations[1 + number]
        target = self._entity(RELATIONS[kind][relation], 0.0)
        return f"{relation.capitalize()} of {name}", f"The {relation} of {name} is {target.name}."

    def _about(self, entity: Entity, relation: str) -> tuple[str, str]:
        return _fact(entity, relation, self._entity(RELATIONS[entity.kind][relation], 0.0))


def _fact(entity: Entity, relation: str, target: Entity) -> tuple[str, str]:
    """Title and text of the passage of `entity`."""
    introduced = f"{entity.name} is called {entity.called}." if entity.called else f"{entity.name} is a {entity.kind}."
    return entity.name, f"{introduced} The {relation} of {entity.spoken} is {target.spoken}."


def _asked(chain: list[Entity], relations: list[str]) -> str:
    """The question, the last relation first."""
    which = "Who" if chain[-1].kind == "person" else "Which town"
    path = "".join(f" the {relation} of" for relation in reversed(relations))
    return f"{which} is{path} the {chain[0].kind} {chain[0].name}?"
