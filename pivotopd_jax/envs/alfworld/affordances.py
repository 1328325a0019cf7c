"""What can be done with which thing in an ALFWorld household: properties of objects, what a receptacle takes.

The rules are those of the ALFRED planning domain (ALFWorld, arXiv 2010.03768); they hold in every room alike.
Type names are spelled as in the problem files ("CounterTop"); players see them in lower case.
"""

from __future__ import annotations


def read_table(text: str) -> dict[str, list[str]]:
    """Splits "Name: word word ..." entries; an indented line continues the entry above it."""
    table: dict[str, list[str]] = {}
    words: list[str] = []
    for line in text.strip().splitlines():
        if not line.startswith(" "):
            name, line = line.split(":", 1)
            words = table.setdefault(name, [])
        words += line.split()
    return table


def _sets(text: str) -> dict[str, frozenset[str]]:
    return {name: frozenset(words) for name, words in read_table(text).items()}


CAN_CONTAIN = _sets("""
ArmChair: Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl
BathtubBasin: Cloth DishSponge HandTowel SoapBar
Bed: BaseballBat BasketBall Book CellPhone Laptop Pillow TennisRacket
Cabinet: Book Bowl Box CD Candle Cloth Cup DishSponge Glassbottle HandTowel Kettle Ladle Mug Newspaper Pan
    PepperShaker Plate Plunger Pot SaltShaker SoapBar SoapBottle SprayBottle TissueBox ToiletPaper Vase WateringCan
    WineBottle
Cart: Candle Cloth DishSponge HandTowel Plunger SoapBar SoapBottle SprayBottle TissueBox ToiletPaper
CoffeeMachine: Mug
CoffeeTable: Book Bowl Box Candle CellPhone CreditCard KeyChain Laptop Newspaper Pen Pencil Plate RemoteControl
    Statue TissueBox Vase Watch WateringCan
CounterTop: AlarmClock Apple Book Bowl Bread ButterKnife CD Candle CellPhone Cloth CreditCard Cup DishSponge Egg
    Fork Glassbottle HandTowel Kettle KeyChain Knife Ladle Laptop Lettuce Mug Pan Pen Pencil PepperShaker Plate Pot
    Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle Statue TissueBox ToiletPaper Tomato
    Vase WineBottle
Desk: AlarmClock BasketBall Book Bowl Box CD CellPhone Cloth CreditCard KeyChain Laptop Mug Pen Pencil RemoteControl
    Statue TennisRacket TissueBox Vase Watch WateringCan
DiningTable: AlarmClock Apple BaseballBat BasketBall Book Bowl Box Bread ButterKnife CD Candle CellPhone Cloth
    CreditCard Cup DishSponge Egg Fork Glassbottle Kettle KeyChain Knife Ladle Laptop Lettuce Mug Newspaper Pan Pen
    Pencil PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBottle Spatula Spoon SprayBottle Statue
    TennisRacket TissueBox Tomato Vase Watch WateringCan WineBottle
Drawer: Book ButterKnife CD Candle CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain Knife Ladle
    Newspaper Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle
    TissueBox ToiletPaper Watch WateringCan
Dresser: AlarmClock BasketBall Book Bowl Box CD Candle CellPhone Cloth CreditCard KeyChain Laptop Mug Newspaper Pen
    Pencil Plate RemoteControl SprayBottle Statue TennisRacket TissueBox ToiletPaper Vase Watch WateringCan
Fridge: Apple Bowl Bread Cup Egg Glassbottle Lettuce Mug Pan Plate Pot Potato Tomato WineBottle
GarbageCan: Apple Bread CD Cloth DishSponge Egg HandTowel Lettuce Newspaper Pen Pencil Potato SoapBar SoapBottle
    SprayBottle TissueBox ToiletPaper Tomato WineBottle
HandTowelHolder: HandTowel
LaundryHamper: Cloth
Microwave: Apple Bowl Bread Cup Egg Glassbottle Mug Plate Potato Tomato
Ottoman: Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl
Safe: CD CellPhone CreditCard KeyChain Statue Vase Watch
Shelf: AlarmClock Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup DishSponge Glassbottle HandTowel Kettle
    KeyChain Mug Newspaper Pen Pencil PepperShaker Plate Pot RemoteControl SaltShaker SoapBar SoapBottle SprayBottle
    Statue TissueBox ToiletPaper Vase Watch WateringCan WineBottle
SideTable: AlarmClock Apple BaseballBat BasketBall Book Bowl Box Bread ButterKnife CD Candle CellPhone Cloth
    CreditCard Cup DishSponge Egg Fork HandTowel Kettle KeyChain Knife Laptop Lettuce Mug Newspaper Pan Pen Pencil
    PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle Statue
    TennisRacket TissueBox ToiletPaper Tomato Vase Watch WateringCan WineBottle
SinkBasin: Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Glassbottle HandTowel Kettle Knife Ladle Lettuce Mug
    Pan Plate Pot Potato SoapBar Spatula Spoon Tomato
Sofa: Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl
StoveBurner: Kettle Pan Pot
TVStand: TissueBox
Toilet: Candle Cloth DishSponge HandTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper
ToiletPaperHanger: ToiletPaper
TowelHolder: Towel
""")
"""Receptacle type -> object types that may be put there."""

PROPERTIES = _sets("""
cleanable: Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan Plate Pot Potato
    SoapBar Spatula Spoon Tomato
heatable: Apple Bread Cup Egg Mug Plate Potato Tomato
coolable: Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle
sliceable: Apple Bread Egg Lettuce Potato Tomato
isReceptacleObject: Bowl Box Cup Mug Pan Plate Pot
toggleable: DeskLamp FloorLamp
""")
"""Predicate -> object types that have it."""

FIXED = frozenset(
    [
        "Bathtub",
        "Curtains",
        "DeskLamp",
        "FloorLamp",
        "HousePlant",
        "Mirror",
        "ShowerGlass",
        "Sink",
        "Television",
        "Window",
    ]
)
"""Objects that are seen but cannot be picked up."""

OPENABLE = {"Cabinet": 0.83, "Drawer": 0.84, "Fridge": 1.0, "Microwave": 1.0, "Safe": 0.83}
"""Share of receptacles of a type that open; the others of that type are always accessible."""

HOLDS_ONE = frozenset(["CoffeeMachine", "HandTowelHolder", "StoveBurner", "ToiletPaperHanger", "TowelHolder"])
"""Receptacles with room for a single object when a room is furnished (players may still add more)."""

NEIGHBOURS = {
    "Cabinet": ("Cabinet", 0.09),
    "CounterTop": ("CoffeeMachine", 0.10),
    "Drawer": ("Drawer", 0.13),
    "Dresser": ("Drawer", 0.27),
    "GarbageCan": ("Cabinet", 0.04),
    "Shelf": ("Shelf", 0.09),
    "StoveBurner": ("StoveBurner", 0.42),
    "TVStand": ("Shelf", 0.35),
    "Toaster": ("CounterTop", 0.30),
    "TowelHolder": ("HandTowelHolder", 0.05),
}
"""Receptacle type -> a type, not later in the alphabet, that it shares a place with, and how often."""

ALSO_IN = {
    ("HandTowel", "HandTowelHolder"): (("CounterTop", 0.04),),
    ("KeyChain", "Safe"): (("Cabinet", 0.20), ("Dresser", 0.16)),
    ("CellPhone", "Safe"): (("Cabinet", 0.33), ("Dresser", 0.06)),
    ("Mug", "CoffeeMachine"): (("CounterTop", 0.84), ("DiningTable", 0.12)),
    ("Pan", "StoveBurner"): (("StoveBurner", 0.28), ("CounterTop", 0.30)),
    ("Pot", "StoveBurner"): (("StoveBurner", 0.20), ("CounterTop", 0.03)),
    ("Towel", "TowelHolder"): (("CounterTop", 0.03),),
}
"""(object, receptacle) -> further receptacles that count as holding that object at the same time, and how often.

Real problem files list such pairs where one receptacle stands on or touches another.
"""

SINK, MICROWAVE, FRIDGE = "SinkBasin", "Microwave", "Fridge"
APPLIANCE = {
    "pick_clean_then_place_in_recep": SINK,
    "pick_heat_then_place_in_recep": MICROWAVE,
    "pick_cool_then_place_in_recep": FRIDGE,
}
"""Task type -> the receptacle type that gives the object the property the goal asks for."""
