"""Where things usually are: what someone who has seen many ALFWorld rooms would guess."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from pivotopd_jax.envs.alfworld.games import Game, indices_of


def estimate_places(games: Iterable[Game]) -> dict[str, tuple[str, ...]]:
    """Object type -> receptacle types, by the chance of finding one per turn spent on looking, best first.

    Counted are the objects and lamps that the goals of `games` ask for. Looking into a receptacle that opens takes two
    turns. Receptacle types in which none was found are left out; ties go by the alphabet.
    """
    found: Counter[tuple[str, str]] = Counter()
    turns: Counter[tuple[str, str]] = Counter()
    for game in games:
        for object_type in {game.object_types[o] for o in indices_of(game.goal.objects | game.goal.lamps)}:
            of_type = sum(1 << o for o, kind in enumerate(game.object_types) if kind == object_type)
            for r, kind in enumerate(game.receptacle_types):
                found[object_type, kind] += bool(game.initial.contents[r] & of_type)
                turns[object_type, kind] += 1 + (game.openable >> r & 1)
    chances = {pair: found[pair] / turns[pair] for pair in turns if found[pair]}
    ranked: dict[str, tuple[str, ...]] = {}
    for object_type, kind in sorted(chances, key=lambda pair: (-chances[pair], pair)):
        ranked[object_type] = (*ranked.get(object_type, ()), kind)
    return ranked


def _read(text: str) -> Mapping[str, tuple[str, ...]]:
    return {name: tuple(places.split()) for name, places in (line.split(":") for line in text.strip().splitlines())}


LIKELY_PLACES = _read("""
alarmclock: desk sidetable dresser diningtable shelf
apple: sidetable diningtable garbagecan countertop sinkbasin fridge microwave
book: bed desk coffeetable dresser diningtable armchair sidetable sofa cabinet shelf drawer
bowl: desk tvstand diningtable dresser countertop shelf sidetable fridge microwave sinkbasin cabinet
box: sofa coffeetable diningtable tvstand dresser sidetable cabinet armchair
bread: diningtable countertop garbagecan fridge microwave
butterknife: countertop diningtable sidetable sinkbasin drawer
candle: countertop toilet sidetable dresser shelf cabinet drawer
cd: diningtable desk dresser sidetable armchair garbagecan cabinet drawer shelf safe
cellphone: coffeetable desk bed diningtable dresser armchair sofa sidetable shelf safe cabinet drawer
cloth: bathtubbasin countertop dresser cart shelf cabinet toilet sinkbasin drawer
creditcard: dresser tvstand desk diningtable sidetable sofa coffeetable countertop armchair shelf drawer
cup: diningtable countertop sinkbasin sidetable fridge shelf microwave cabinet
desklamp: dresser sidetable desk coffeetable shelf
dishsponge: diningtable bathtubbasin countertop toilet cart garbagecan shelf sinkbasin drawer cabinet
egg: diningtable sidetable sinkbasin countertop garbagecan fridge microwave
fork: diningtable sidetable countertop drawer
glassbottle: diningtable countertop sinkbasin garbagecan shelf fridge cabinet
handtowel: handtowelholder countertop
kettle: diningtable stoveburner countertop sinkbasin cabinet
keychain: coffeetable diningtable dresser sidetable tvstand desk armchair ottoman safe sofa shelf drawer cabinet
knife: diningtable countertop sidetable drawer
ladle: diningtable countertop cabinet drawer
laptop: bed countertop sofa diningtable coffeetable desk dresser sidetable armchair
lettuce: diningtable sidetable countertop fridge garbagecan sinkbasin
mug: desk coffeemachine diningtable dresser countertop sidetable sinkbasin fridge shelf microwave cabinet
newspaper: diningtable dresser coffeetable sofa sidetable armchair shelf tvstand ottoman drawer
pan: stoveburner countertop fridge diningtable cabinet
pen: diningtable coffeetable countertop desk dresser sidetable shelf garbagecan drawer
pencil: diningtable dresser desk sidetable shelf garbagecan drawer
peppershaker: countertop diningtable shelf cabinet drawer
pillow: bed sofa armchair
plate: diningtable tvstand countertop dresser sidetable fridge sinkbasin coffeetable shelf cabinet microwave
pot: stoveburner diningtable countertop sinkbasin fridge shelf cabinet
potato: diningtable sidetable countertop sinkbasin garbagecan fridge microwave
remotecontrol: diningtable coffeetable dresser tvstand sofa countertop sidetable armchair shelf drawer
saltshaker: countertop sidetable diningtable shelf cabinet drawer
soapbar: sidetable countertop toilet bathtubbasin cart garbagecan shelf sinkbasin cabinet drawer
soapbottle: diningtable dresser countertop sidetable toilet shelf garbagecan cabinet
spatula: diningtable countertop sinkbasin drawer
spoon: diningtable countertop sidetable sinkbasin drawer
spraybottle: sidetable countertop toilet cart garbagecan shelf dresser cabinet
statue: desk diningtable sidetable coffeetable shelf dresser tvstand
tissuebox: countertop diningtable desk coffeetable tvstand dresser toilet shelf sidetable cabinet garbagecan drawer
toiletpaper: dresser countertop toilet sidetable shelf garbagecan toiletpaperhanger cart cabinet drawer
tomato: diningtable sidetable countertop garbagecan fridge sinkbasin
vase: dresser diningtable tvstand coffeetable desk shelf sidetable cabinet
watch: tvstand diningtable sidetable dresser coffeetable desk shelf drawer
wateringcan: coffeetable
winebottle: diningtable countertop garbagecan shelf fridge cabinet
""")
"""`estimate_places` of the 3,553 training games (ALFWorld, arXiv 2010.03768)."""
