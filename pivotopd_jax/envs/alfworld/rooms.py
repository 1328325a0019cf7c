"""What rooms hold and what is asked for in them: the frequencies from which generated games are drawn.

The numbers are rounded frequencies counted over the training games of ALFWorld (arXiv 2010.03768), so that generated
games resemble real ones in their words and in where things are found. Objects that are never seen in any real game
(light switches, chairs, ...) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from pivotopd_jax.envs.alfworld.affordances import read_table

NOWHERE = "nowhere"
"""In place of a receptacle: the object is in the problem file, but no player ever comes across it."""


@dataclass(frozen=True)
class Spread:
    """How one object type is spread over a kind of room.

    Attributes:
        share: percentage of rooms that have it.
        counts: weights of finding 1, 2, ... of them there.
        places: receptacle type -> weight of lying there, given that the room has such a receptacle.
    """

    share: int
    counts: tuple[int, ...]
    places: dict[str, int]


@dataclass(frozen=True)
class Room:
    """A kind of room.

    Attributes:
        scene: number written into task ids; ALFRED numbers its real scenes 1-30, 201-230, 301-330 and 401-430, so
            that 0, 200, 300 and 400 say "a room of this kind, but none of the real ones".
        receptacles: receptacle type -> {number of them: weight}.
        objects: object type -> how it is spread.
    """

    scene: int
    receptacles: dict[str, dict[int, int]]
    objects: dict[str, Spread]


@dataclass(frozen=True)
class Goals:
    """What one task type asks for in one kind of room.

    Attributes:
        share: how many of the 3,553 training games are of this sort.
        objects: object type -> weight.
        targets: receptacle type (or lamp type) the object belongs to -> weight. A pair of an object and a target is
            as likely as the product of their weights, where the target takes the object at all.
    """

    share: int
    objects: dict[str, int]
    targets: dict[str, int]


def _weights(words: list[str]) -> dict[str, int]:
    return {name: int(weight) for name, weight in (word.split("*") for word in words)}


def _room(scene: int, receptacles: str, objects: str) -> Room:
    counts = {
        name: {int(number): weight for number, weight in _weights(words).items()}
        for name, words in read_table(receptacles).items()
    }
    spreads = {
        name: Spread(int(share), tuple(map(int, numbers.split("/"))), _weights(places))
        for name, (share, numbers, *places) in read_table(objects).items()
    }
    return Room(scene, counts, spreads)


def _goals(text: str) -> dict[tuple[str, str], Goals]:
    goals = {}
    for name, (share, *words) in read_table(text).items():
        kind, room = name.split()
        arrow = words.index("->")
        goals[kind, room] = Goals(int(share), _weights(words[:arrow]), _weights(words[arrow + 1 :]))
    return goals


_KITCHEN = _room(
    0,
    """
Cabinet: 2*4 4*9 8*3 9*10 10*10 11*8 12*3 13*17 15*4 16*4 18*3 19*3 20*11 21*3 23*3 26*4 27*3
CoffeeMachine: 1*100
CounterTop: 1*20 2*40 3*30 4*10
DiningTable: 0*43 1*43 2*9 3*5
Drawer: 0*3 1*10 2*4 3*20 4*15 5*11 6*11 7*3 8*3 9*6 12*7 13*4 27*4
Fridge: 1*100
GarbageCan: 1*100
Microwave: 1*100
Safe: 0*96 1*4
Shelf: 0*80 3*20
SideTable: 0*89 1*11
SinkBasin: 1*100
StoveBurner: 4*96 6*4
Toaster: 1*100
""",
    """
Apple: 100 33/31/34/1 DiningTable*21 Fridge*19 CounterTop*19 SideTable*13 GarbageCan*10 Microwave*10 SinkBasin*7
    nowhere*1
Book: 11 60/27/13 CounterTop*52 Shelf*18 DiningTable*15 Cabinet*11 Drawer*4
Bowl: 100 35/34/30/1 Cabinet*29 DiningTable*22 CounterTop*17 Fridge*17 Shelf*7 SideTable*3 SinkBasin*3 Microwave*2
    nowhere*1
Bread: 100 55/32/12/1 CounterTop*43 DiningTable*42 Fridge*9 SideTable*5 GarbageCan*1
ButterKnife: 97 37/37/27 CounterTop*44 DiningTable*35 SideTable*9 Drawer*6 SinkBasin*4 nowhere*2
CellPhone: 11 37/34/29 Drawer*38 CounterTop*35 DiningTable*26 nowhere*1
CreditCard: 9 30/31/40 Shelf*49 CounterTop*27 Drawer*22 nowhere*2
Cup: 100 35/31/31/2 DiningTable*19 Cabinet*17 CounterTop*16 Fridge*15 SideTable*12 SinkBasin*7 Shelf*7 Microwave*5
    nowhere*2
DishSponge: 100 33/33/34 CounterTop*20 Cabinet*19 Drawer*17 DiningTable*17 Shelf*10 SinkBasin*6 SideTable*5
    GarbageCan*4 nowhere*2
Egg: 100 32/35/32/1 Fridge*20 CounterTop*19 DiningTable*17 SideTable*12 GarbageCan*10 SinkBasin*10 Microwave*10
    nowhere*2
Fork: 100 34/33/33 CounterTop*32 DiningTable*31 Drawer*17 SideTable*10 SinkBasin*6 nowhere*3
Glassbottle: 24 35/32/32 Cabinet*24 CounterTop*21 DiningTable*19 Shelf*14 Fridge*7 SinkBasin*7 GarbageCan*6 nowhere*1
HousePlant: 36 91/9 CounterTop*66 DiningTable*34
Kettle: 52 44/37/19 StoveBurner*38 CounterTop*24 Cabinet*22 DiningTable*11 SinkBasin*2 Shelf*2 nowhere*1
Knife: 100 35/34/31 CounterTop*36 DiningTable*34 Drawer*16 SideTable*6 nowhere*4 SinkBasin*4
Ladle: 35 31/38/29/1 CounterTop*36 Cabinet*22 DiningTable*21 Drawer*16 nowhere*3 SinkBasin*2
Lettuce: 100 42/35/23 DiningTable*37 CounterTop*30 Fridge*17 SideTable*10 SinkBasin*4 nowhere*2 GarbageCan*1
Mug: 100 36/35/27/2 CoffeeMachine*16 Cabinet*15 DiningTable*14 Fridge*13 CounterTop*12 SideTable*8 Microwave*7 Shelf*6
    SinkBasin*5 nowhere*4
Pan: 100 69/26/5 StoveBurner*49 CounterTop*28 DiningTable*10 Cabinet*9 Fridge*5
PaperTowelRoll: 35 100 CounterTop*34 Shelf*27 DiningTable*17 SideTable*12 GarbageCan*9
Pen: 6 33/31/35 DiningTable*48 CounterTop*31 Drawer*17 GarbageCan*4
Pencil: 7 42/40/17 Drawer*36 DiningTable*29 CounterTop*26 GarbageCan*9 nowhere*1
PepperShaker: 100 29/33/37 Cabinet*23 CounterTop*21 DiningTable*20 SideTable*15 Drawer*10 Shelf*10
Plate: 100 41/33/24/1 Cabinet*31 CounterTop*24 DiningTable*22 Fridge*7 Shelf*7 nowhere*6 SinkBasin*2 Microwave*1
    SideTable*1
Pot: 100 53/38/10 StoveBurner*67 CounterTop*14 DiningTable*8 Fridge*5 Cabinet*4 Shelf*2 SinkBasin*1
Potato: 100 36/32/30/1 CounterTop*23 DiningTable*23 Fridge*21 SideTable*10 SinkBasin*9 Microwave*8 GarbageCan*5
    nowhere*2
SaltShaker: 100 35/33/31/1 CounterTop*22 Cabinet*22 DiningTable*21 SideTable*15 Drawer*10 Shelf*10
Sink: 100 100 nowhere*89 CounterTop*11
SoapBottle: 100 35/34/31 DiningTable*25 CounterTop*23 Cabinet*21 Shelf*12 SideTable*9 GarbageCan*7 nowhere*2 Drawer*1
Spatula: 100 35/35/29 CounterTop*35 DiningTable*34 Drawer*17 SinkBasin*7 SideTable*4 nowhere*2
Spoon: 100 32/34/33 DiningTable*29 CounterTop*28 Drawer*21 SideTable*12 SinkBasin*8 nowhere*3
SprayBottle: 7 35/41/24 DiningTable*33 CounterTop*28 Cabinet*28 GarbageCan*10
Statue: 15 37/49/14 Shelf*79 CounterTop*18 DiningTable*3
Tomato: 100 34/32/33/1 DiningTable*27 Fridge*26 CounterTop*23 SideTable*11 GarbageCan*7 SinkBasin*5 nowhere*1
Vase: 15 0/48/52 Shelf*69 CounterTop*15 Cabinet*14 DiningTable*2
Window: 89 67/29/4 nowhere*94 CounterTop*6
WineBottle: 42 36/32/32/1 DiningTable*32 CounterTop*28 Cabinet*19 Shelf*12 GarbageCan*7 Fridge*1 SideTable*1
""",
)

_LIVING_ROOM = _room(
    200,
    """
ArmChair: 0*8 1*56 2*34 3*2
Cabinet: 0*84 1*4 4*8 8*4
CoffeeTable: 0*17 1*65 2*18
Desk: 0*99 1*1
DiningTable: 0*52 1*39 2*8
Drawer: 0*22 1*15 2*4 4*34 6*3 7*13 8*2 12*2 21*4
Dresser: 0*62 1*36 2*2
GarbageCan: 1*100
Ottoman: 0*88 1*12
Safe: 0*99 1*1
Shelf: 0*63 1*7 2*6 3*1 4*3 5*1 6*3 8*8 13*4 14*3
SideTable: 0*18 1*32 2*23 3*23 5*4
Sofa: 1*80 2*20
TVStand: 0*65 1*29 2*6
""",
    """
Book: 26 46/30/21/2 Dresser*39 CoffeeTable*22 DiningTable*12 Sofa*10 ArmChair*8 SideTable*6 TVStand*2 Drawer*1
Bowl: 11 41/39/18/2 DiningTable*39 TVStand*28 CoffeeTable*17 Shelf*10 SideTable*5
Box: 100 69/25/5 DiningTable*24 Cabinet*13 Desk*13 CoffeeTable*12 Sofa*11 nowhere*7 Shelf*5 SideTable*4 TVStand*4
    Dresser*4 Ottoman*2 ArmChair*1
Candle: 9 18/20/62 SideTable*33 DiningTable*28 CoffeeTable*22 TVStand*12 Dresser*3 Drawer*2
CellPhone: 21 37/32/31/1 Desk*31 Dresser*19 Ottoman*11 CoffeeTable*8 SideTable*8 DiningTable*7 Drawer*6 Sofa*5 Shelf*2
    TVStand*2 ArmChair*1
CreditCard: 100 27/33/37/3 DiningTable*11 Sofa*11 TVStand*11 Dresser*10 CoffeeTable*10 Drawer*9 Desk*9 Shelf*8
    ArmChair*8 SideTable*7 Ottoman*5
Curtains: 35 77/7/17 nowhere*90 SideTable*10
DeskLamp: 25 100 SideTable*91 CoffeeTable*9
HousePlant: 100 94/6 SideTable*30 nowhere*29 CoffeeTable*15 Dresser*14 DiningTable*6 TVStand*6
KeyChain: 100 33/33/32/2 nowhere*12 CoffeeTable*11 TVStand*10 SideTable*9 Drawer*9 Desk*9 DiningTable*7 Dresser*7
    Shelf*6 Sofa*5 Ottoman*5 Safe*5 ArmChair*4
Laptop: 100 66/27/6 DiningTable*23 CoffeeTable*16 Sofa*15 Desk*13 Dresser*11 TVStand*8 Ottoman*7 SideTable*5
    ArmChair*3
Newspaper: 62 38/33/24/4 DiningTable*21 Shelf*17 Dresser*12 CoffeeTable*12 Sofa*11 SideTable*10 Ottoman*6 TVStand*5
    ArmChair*4 Drawer*1
Pen: 20 32/35/33/1 Dresser*34 CoffeeTable*24 SideTable*14 TVStand*10 Shelf*7 Drawer*4 DiningTable*4 GarbageCan*2
Pencil: 17 35/29/33/3 SideTable*25 CoffeeTable*21 Dresser*12 TVStand*12 Shelf*10 Drawer*8 DiningTable*6 GarbageCan*4
    nowhere*1
Pillow: 100 87/12 Sofa*78 ArmChair*21 Ottoman*1
Plate: 35 45/40/15 DiningTable*55 Shelf*18 CoffeeTable*15 SideTable*7 TVStand*3 Dresser*1
RemoteControl: 100 31/33/32/4 CoffeeTable*15 Dresser*12 DiningTable*12 TVStand*12 Sofa*10 Desk*9 SideTable*8 Ottoman*6
    ArmChair*5 Shelf*5 nowhere*4 Drawer*3
Statue: 96 24/39/32/5 Shelf*25 DiningTable*20 CoffeeTable*15 TVStand*12 SideTable*11 Dresser*10 Desk*7 nowhere*1
Television: 100 100 TVStand*43 Dresser*38 nowhere*14 CoffeeTable*4 SideTable*1
TissueBox: 34 27/35/35/2 CoffeeTable*26 DiningTable*24 Shelf*18 SideTable*13 TVStand*13 Dresser*4 Drawer*3
    GarbageCan*1
Vase: 56 17/26/32/25 Shelf*37 Desk*13 DiningTable*12 Dresser*11 CoffeeTable*9 TVStand*6 SideTable*5 Cabinet*5
    nowhere*3
Watch: 49 25/38/36/1 CoffeeTable*18 TVStand*17 Drawer*16 Dresser*16 SideTable*13 DiningTable*13 Shelf*6
WateringCan: 50 92/5/3 nowhere*62 Shelf*22 CoffeeTable*14 SideTable*2
""",
)

_BEDROOM = _room(
    300,
    """
ArmChair: 0*81 1*12 2*3 3*4
Bed: 1*84 2*16
Cabinet: 0*84 1*4 2*4 4*7
CounterTop: 0*97 1*3
Desk: 0*30 1*62 2*8
DiningTable: 0*87 1*13
Drawer: 0*4 2*24 3*13 4*8 5*13 6*7 8*4 10*8 11*8 13*4 16*2 17*4
Dresser: 0*54 1*39 2*7
GarbageCan: 1*100
LaundryHamper: 0*72 1*28
Safe: 0*84 1*16
Shelf: 0*32 1*24 2*11 5*12 6*4 7*4 8*2 9*4 12*3 14*3
SideTable: 0*34 1*47 2*19
""",
    """
AlarmClock: 100 48/33/17/2 DiningTable*23 Desk*20 CounterTop*17 Dresser*15 Shelf*13 SideTable*12
Book: 100 42/32/23/3 Bed*30 Desk*16 DiningTable*12 Cabinet*10 CounterTop*9 Drawer*7 Dresser*6 ArmChair*6 SideTable*4
    Shelf*1
Bowl: 45 59/28/11/2 CounterTop*28 Desk*23 DiningTable*19 Shelf*16 Dresser*12 SideTable*2
Box: 47 99/1 nowhere*75 Desk*14 Shelf*11
CD: 100 32/29/36/3 DiningTable*22 Drawer*14 Desk*14 Dresser*14 SideTable*9 nowhere*8 Shelf*5 Cabinet*5 GarbageCan*4
    ArmChair*4 Safe*2
CellPhone: 100 31/34/32/3 Bed*15 Desk*13 DiningTable*13 Dresser*11 CounterTop*10 Drawer*9 SideTable*8 ArmChair*8
    Safe*7 Shelf*6
CreditCard: 100 32/34/34/1 Drawer*15 Shelf*13 Dresser*13 DiningTable*13 CounterTop*13 Desk*12 SideTable*12 ArmChair*9
DeskLamp: 71 94/6 Dresser*33 Desk*31 SideTable*26 Shelf*10
HousePlant: 27 100 Shelf*44 Desk*33 Dresser*14 nowhere*9
KeyChain: 100 31/33/34/1 DiningTable*15 Dresser*14 Drawer*13 Desk*12 SideTable*12 Shelf*11 Safe*11 ArmChair*7
    nowhere*3 CounterTop*1
Laptop: 100 51/35/13 Bed*45 CounterTop*20 Desk*16 DiningTable*11 Dresser*5 ArmChair*4
Mirror: 100 100 CounterTop*50 nowhere*47 Dresser*3
Mug: 51 39/34/28 DiningTable*25 Desk*18 CounterTop*17 Dresser*12 Shelf*9 SideTable*9 Cabinet*8 nowhere*2
Pen: 100 28/35/36/1 DiningTable*23 Desk*18 Dresser*15 CounterTop*13 Shelf*10 SideTable*10 Drawer*9 GarbageCan*1
Pencil: 100 33/34/31/1 DiningTable*23 Desk*16 SideTable*13 CounterTop*13 Shelf*12 Dresser*12 Drawer*9 GarbageCan*2
Pillow: 100 42/47/10 Bed*96 ArmChair*4
RemoteControl: 12 32/37/31 CounterTop*61 Desk*9 Drawer*8 DiningTable*7 ArmChair*6 SideTable*5 nowhere*2 Dresser*1
Statue: 15 64/25/11 Shelf*37 Dresser*35 Desk*22 SideTable*4 nowhere*2
TeddyBear: 35 100 Bed*75 nowhere*25
Television: 12 100 nowhere*60 Dresser*40
TissueBox: 14 41/35/23/2 DiningTable*52 Desk*22 Drawer*11 Shelf*7 SideTable*6 Dresser*1
Vase: 6 19/48/29/5 Dresser*45 Shelf*38 Desk*9 SideTable*8
Watch: 7 23/46/27/4 DiningTable*53 Drawer*13 Shelf*12 Dresser*10 Desk*9 SideTable*4
Window: 100 60/31/4/4 nowhere*89 Shelf*7 Dresser*4
""",
)

_BATHROOM = _room(
    400,
    """
BathtubBasin: 0*33 1*67
Cabinet: 0*56 2*2 3*4 4*30 5*5 9*4
Cart: 0*92 1*8
CounterTop: 0*14 1*72 2*15
Drawer: 0*42 1*8 2*8 4*17 6*8 8*17
Dresser: 0*92 1*8
GarbageCan: 1*100
HandTowelHolder: 1*58 2*38 4*4
Shelf: 0*75 1*11 2*7 3*4 4*4
SideTable: 0*94 1*6
SinkBasin: 1*52 2*48
Toilet: 1*100
ToiletPaperHanger: 1*100
TowelHolder: 1*69 2*31
""",
    """
Bathtub: 71 100 nowhere*91 BathtubBasin*9
Candle: 100 33/32/33/3 SideTable*17 CounterTop*15 Toilet*13 Cabinet*13 Shelf*12 Drawer*10 Cart*9 Dresser*6 nowhere*5
Cloth: 100 37/33/29/2 Cabinet*22 BathtubBasin*22 Drawer*13 CounterTop*10 Cart*9 Shelf*9 Dresser*9 SinkBasin*4 Toilet*2
    SideTable*1
DishSponge: 24 25/35/33/8 Cart*28 Shelf*17 Drawer*15 BathtubBasin*12 CounterTop*10 SinkBasin*5 Cabinet*5 nowhere*3
    Toilet*3 GarbageCan*2
FloorLamp: 8 0/100 nowhere*59 SinkBasin*41
HandTowel: 100 82/18 HandTowelHolder*100
HousePlant: 4 100 SideTable*100
Mirror: 100 96/4 nowhere*89 CounterTop*11
PaperTowelRoll: 16 100 Cart*29 Shelf*27 CounterTop*17 Toilet*13 nowhere*10 GarbageCan*4
ShowerGlass: 42 100 nowhere*74 Shelf*26
Sink: 100 56/44 nowhere*82 SinkBasin*14 CounterTop*5
SoapBar: 100 34/29/32/5 SideTable*16 Cabinet*14 CounterTop*12 Drawer*10 BathtubBasin*9 Cart*9 Toilet*8 SinkBasin*8
    Shelf*8 nowhere*4 GarbageCan*3
SoapBottle: 100 34/36/28/3 Cabinet*20 Shelf*16 CounterTop*15 Dresser*12 Toilet*11 SideTable*9 Cart*6 nowhere*5
    GarbageCan*4 Drawer*2
SprayBottle: 100 36/30/32/2 Cart*18 SideTable*18 CounterTop*15 Cabinet*15 Toilet*11 Shelf*11 Dresser*8 GarbageCan*4
TissueBox: 25 44/30/22/4 Shelf*36 SideTable*19 Cart*16 CounterTop*13 Drawer*11 Cabinet*4 Toilet*1
ToiletPaper: 100 0/67/31/2 Cabinet*12 CounterTop*12 Toilet*11 Shelf*10 Dresser*10 nowhere*9 Cart*9 Drawer*9
    SideTable*9 ToiletPaperHanger*5 GarbageCan*4
Towel: 100 86/14 TowelHolder*100
""",
)

ROOMS = {"kitchen": _KITCHEN, "living": _LIVING_ROOM, "bedroom": _BEDROOM, "bathroom": _BATHROOM}
"""Kind of room -> what it holds."""

GOALS = _goals("""
pick_and_place_simple kitchen: 79
    PepperShaker*100 Kettle*85 ButterKnife*77 Tomato*55 Glassbottle*52 Pan*47 WineBottle*45 Lettuce*30 Egg*27 Fork*26
    SaltShaker*25 DishSponge*24 Bread*21 Potato*21 Bowl*16 Knife*13 SoapBottle*8
    -> Microwave*100 Drawer*47 Fridge*29 Shelf*29 StoveBurner*29 Cabinet*25 DiningTable*23 CounterTop*17 SideTable*12
    GarbageCan*6
pick_and_place_simple living: 210
    Statue*100 Vase*53 Watch*49 RemoteControl*31 KeyChain*26 TissueBox*21 Book*20 Box*20 Pillow*20 CreditCard*19
    Plate*17 Laptop*16 Newspaper*16 Bowl*11
    -> ArmChair*100 Sofa*95 Ottoman*36 CoffeeTable*32 GarbageCan*24 SideTable*9 Dresser*8 Drawer*8 Safe*5
    DiningTable*2 Shelf*2
pick_and_place_simple bedroom: 237
    CellPhone*100 CD*78 AlarmClock*76 Pencil*76 KeyChain*64 Pen*64 Book*59 CreditCard*34 Laptop*16 Pillow*13 Mug*10
    Statue*9 TissueBox*9 RemoteControl*8 Watch*7
    -> Bed*100 Desk*92 Shelf*67 SideTable*54 Dresser*52 Safe*52 ArmChair*50 DiningTable*21 Cabinet*19 Drawer*16
    GarbageCan*9
pick_and_place_simple bathroom: 264
    Candle*100 SoapBottle*76 SprayBottle*75 HandTowel*44 ToiletPaper*22 Cloth*15 TissueBox*10 DishSponge*9 SoapBar*9
    -> ToiletPaperHanger*772 Toilet*100 GarbageCan*73 CounterTop*29 Cabinet*25 Drawer*18 Cart*13 SideTable*7 Dresser*4
    Shelf*2
look_at_obj_in_light living: 51
    Newspaper*14 Box*9 Pillow*8 Statue*5 TissueBox*4 Laptop*3 Plate*3 Watch*3 Vase*2
    -> DeskLamp*1
look_at_obj_in_light bedroom: 257
    AlarmClock*41 Pillow*39 CD*33 Book*30 Pencil*23 Pen*18 Bowl*17 Laptop*17 CellPhone*9 Statue*6 TissueBox*6
    CreditCard*5 KeyChain*4 Mug*4 Watch*3 Vase*2
    -> DeskLamp*1
pick_clean_then_place_in_recep kitchen: 501
    Knife*100 Ladle*91 Spatula*88 Lettuce*83 ButterKnife*79 Spoon*79 Fork*70 Kettle*50 Tomato*46 Apple*44 Potato*44
    Egg*40 Pan*34 Bowl*30 Plate*25 Cup*23 Pot*15 DishSponge*7 Mug*1
    -> CoffeeMachine*8562 StoveBurner*100 Shelf*55 Microwave*53 Cabinet*36 Drawer*29 DiningTable*28 Fridge*28
    CounterTop*19 SideTable*12 GarbageCan*12
pick_clean_then_place_in_recep bathroom: 149
    SoapBar*100 Cloth*54 DishSponge*21
    -> Toilet*100 CounterTop*88 Drawer*84 Cabinet*66 GarbageCan*59 Cart*34 Shelf*28 Dresser*20
pick_heat_then_place_in_recep kitchen: 459
    Egg*100 Potato*86 Tomato*76 Apple*74 Cup*55 Mug*36 Plate*30 Bread*17
    -> CoffeeMachine*260 Cabinet*100 Fridge*38 Shelf*28 GarbageCan*27 CounterTop*24 SideTable*16 DiningTable*15
pick_cool_then_place_in_recep kitchen: 533
    Lettuce*100 Apple*78 Potato*78 Bread*71 Tomato*60 Bowl*56 Pot*56 Pan*55 Cup*46 Egg*44 Mug*31 Plate*29
    WineBottle*23
    -> CoffeeMachine*432 StoveBurner*100 Cabinet*62 Microwave*56 Shelf*53 DiningTable*36 CounterTop*35 GarbageCan*29
    SideTable*5
pick_two_obj_and_place kitchen: 124
    SaltShaker*100 PepperShaker*88 Lettuce*68 Spatula*43 Cup*39 Kettle*37 Spoon*36 WineBottle*22 Ladle*20 Egg*15
    Potato*15 Knife*14 Pot*12 Bread*11 Tomato*11 Glassbottle*9 Pan*9 Apple*4
    -> Microwave*100 Fridge*84 Drawer*82 Cabinet*68 Shelf*37 GarbageCan*19 CounterTop*19 DiningTable*19 SideTable*13
pick_two_obj_and_place living: 216
    Vase*100 Statue*77 RemoteControl*66 TissueBox*65 Watch*56 CreditCard*55 Newspaper*52 Plate*41 Bowl*24 KeyChain*24
    WateringCan*21 CellPhone*17 Pen*16 Pencil*16 Pillow*10 Book*5 Box*5 Laptop*5
    -> ArmChair*100 Sofa*75 CoffeeTable*29 Ottoman*17 GarbageCan*15 Drawer*7 Dresser*6 DiningTable*4 SideTable*4
    Shelf*3 Safe*1 Desk*1
pick_two_obj_and_place bedroom: 240
    AlarmClock*100 CellPhone*87 Pen*80 Pencil*80 CD*75 Book*73 KeyChain*56 CreditCard*50 Bowl*27 Laptop*23 Mug*23
    TissueBox*19 Watch*18 Pillow*11 Vase*4
    -> Bed*100 Desk*46 Drawer*45 Dresser*30 SideTable*24 Shelf*22 GarbageCan*20 Safe*14 DiningTable*10 ArmChair*10
    Cabinet*6
pick_two_obj_and_place bathroom: 233
    SprayBottle*100 SoapBottle*77 ToiletPaper*74 Candle*73 HandTowel*28 SoapBar*28 TissueBox*14 DishSponge*12 Cloth*10
    -> Toilet*100 GarbageCan*72 Cabinet*69 Drawer*68 CounterTop*44 Cart*27 Shelf*19 Dresser*8 SideTable*3
""")
"""(task type, kind of room) -> what is asked for."""
