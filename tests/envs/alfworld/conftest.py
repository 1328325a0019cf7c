"""What the tests of ALFWorld share: a hand-made kitchen with every oddity of the real problems."""

from __future__ import annotations

import pytest

from pivotopd_jax.envs.alfworld.games import Game, parse_game

# Ids in sorted order get falling numbers: Drawer_bar_1 is "drawer 2". The drawers share a place; only drawer 2 opens.
PROBLEM = """
(define (problem kitchen)
(:domain alfred)
(:objects
  agent1 - agent
  Mug_bar_1 - object
  Mug_bar_2 Spoon_bar_1 - object
  Apple_bar_1 - object
  Bread_bar_1 - object
  Knife_bar_1 - object
  DeskLamp_bar_1 - object
  Chair_bar_1 - object
  Plate_bar_1 - object
  Statue_bar_1 - object
  CounterTop_bar_1 - receptacle
  Drawer_bar_1 - receptacle
  Drawer_bar_2 - receptacle
  Fridge_bar_1 - receptacle
  Microwave_bar_1 - receptacle
  SideTable_bar_1 - receptacle
  Sink_bar_1_bar_SinkBasin - receptacle
  loc_bar_0 - location
  loc_bar_1 - location
  loc_bar_2 - location
  loc_bar_3 - location
  loc_bar_4 - location
  loc_bar_5 - location
  loc_bar_6 - location
  CounterTopType - rtype DrawerType - rtype FridgeType - rtype MicrowaveType - rtype SideTableType - rtype
  SinkType - rtype SinkBasinType - rtype
  AppleType - otype BreadType - otype ButterKnifeType - otype ChairType - otype DeskLampType - otype KnifeType - otype
  MugType - otype PlateType - otype SpoonType - otype StatueType - otype
)
(:init
  (atLocation agent1 loc_bar_0)
  (receptacleType CounterTop_bar_1 CounterTopType) (receptacleAtLocation CounterTop_bar_1 loc_bar_1)
  (receptacleType Drawer_bar_1 DrawerType) (receptacleAtLocation Drawer_bar_1 loc_bar_2) (openable Drawer_bar_1)
  (receptacleType Drawer_bar_2 DrawerType) (receptacleAtLocation Drawer_bar_2 loc_bar_2)
  (receptacleType Fridge_bar_1 FridgeType) (receptacleAtLocation Fridge_bar_1 loc_bar_3) (openable Fridge_bar_1)
  (receptacleType Microwave_bar_1 MicrowaveType) (receptacleAtLocation Microwave_bar_1 loc_bar_4)
  (openable Microwave_bar_1)
  (receptacleType SideTable_bar_1 SideTableType) (receptacleAtLocation SideTable_bar_1 loc_bar_5)
  (receptacleType Sink_bar_1_bar_SinkBasin SinkBasinType)
  (receptacleAtLocation Sink_bar_1_bar_SinkBasin loc_bar_6)
  (objectType Mug_bar_1 MugType) (objectType Mug_bar_2 MugType) (objectType Spoon_bar_1 SpoonType)
  (objectType Apple_bar_1 AppleType) (objectType Bread_bar_1 BreadType) (objectType Knife_bar_1 KnifeType)
  (objectType DeskLamp_bar_1 DeskLampType) (objectType Chair_bar_1 ChairType) (objectType Plate_bar_1 PlateType)
  (objectType Statue_bar_1 StatueType)
  (pickupable Mug_bar_1) (pickupable Mug_bar_2) (pickupable Spoon_bar_1) (pickupable Apple_bar_1)
  (pickupable Bread_bar_1) (pickupable Knife_bar_1) (pickupable Plate_bar_1) (pickupable Statue_bar_1)
  (isReceptacleObject Mug_bar_1) (isReceptacleObject Mug_bar_2) (inReceptacleObject Spoon_bar_1 Mug_bar_2)
  (cleanable Apple_bar_1) (heatable Apple_bar_1) (coolable Apple_bar_1) (sliceable Apple_bar_1)
  (heatable Mug_bar_1) (sliceable Bread_bar_1) (coolable Bread_bar_1) (toggleable DeskLamp_bar_1)
  (cleanable Spoon_bar_1) (isCool Bread_bar_1)
  (canContain CounterTopType AppleType) (canContain CounterTopType AppleType) (canContain CounterTopType MugType)
  (canContain CounterTopType KnifeType) (canContain DrawerType SpoonType) (canContain DrawerType KnifeType)
  (canContain FridgeType AppleType) (canContain MicrowaveType MugType) (canContain SideTableType AppleType)
  (canContain SideTableType PlateType) (canContain SinkBasinType AppleType)
  (inReceptacle Apple_bar_1 CounterTop_bar_1) (objectAtLocation Apple_bar_1 loc_bar_1)
  (inReceptacle Knife_bar_1 CounterTop_bar_1) (objectAtLocation Knife_bar_1 loc_bar_1)
  (inReceptacle Mug_bar_1 CounterTop_bar_1) (objectAtLocation Mug_bar_1 loc_bar_1)
  (inReceptacle Mug_bar_2 CounterTop_bar_1) (objectAtLocation Mug_bar_2 loc_bar_1)
  (objectAtLocation Chair_bar_1 loc_bar_1)
  (inReceptacle Spoon_bar_1 Drawer_bar_2) (objectAtLocation Spoon_bar_1 loc_bar_2)
  (inReceptacle Bread_bar_1 Fridge_bar_1) (objectAtLocation Bread_bar_1 loc_bar_3)
  (inReceptacle DeskLamp_bar_1 Drawer_bar_1) (objectAtLocation DeskLamp_bar_1 loc_bar_2)
  (inReceptacle Plate_bar_1 CounterTop_bar_1) (inReceptacle Plate_bar_1 SideTable_bar_1)
  (objectAtLocation Plate_bar_1 loc_bar_5)
  (inReceptacle Statue_bar_1 SideTable_bar_1) (objectAtLocation Statue_bar_1 loc_bar_5)
)
{goal}
)
"""

GOALS = {
    "pick_and_place_simple": """(:goal (and (exists (?r - receptacle) (exists (?o - object)
        (and (inReceptacle ?o ?r) (objectType ?o AppleType) (receptacleType ?r SideTableType))))))""",
    "pick_clean_then_place_in_recep": """(:goal (and (exists (?r - receptacle) (exists (?o - object)
        (and (cleanable ?o) (objectType ?o AppleType) (receptacleType ?r SideTableType) (isClean ?o)
        (inReceptacle ?o ?r))))))""",
    "pick_heat_then_place_in_recep": """(:goal (and (exists (?r - receptacle) (exists (?o - object)
        (and (heatable ?o) (objectType ?o AppleType) (receptacleType ?r SideTableType) (isHot ?o)
        (inReceptacle ?o ?r))))))""",
    "pick_cool_then_place_in_recep": """(:goal (and (exists (?r - receptacle) (exists (?o - object)
        (and (coolable ?o) (objectType ?o AppleType) (receptacleType ?r SideTableType) (isCool ?o)
        (inReceptacle ?o ?r))))))""",
    "pick_two_obj_and_place": """(:goal (and (exists (?r - receptacle) (exists (?o1 - object)
        (and (objectType ?o1 MugType) (receptacleType ?r MicrowaveType) (inReceptacle ?o1 ?r)
        (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 MugType) (receptacleType ?r MicrowaveType)
        (inReceptacle ?o2 ?r))))))))""",
    "look_at_obj_in_light": """(:goal (and (exists (?ot - object ?r - receptacle ?a - agent ?l - location)
        (and (objectType ?ot DeskLampType) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l)
        (atLocation ?a ?l) (inReceptacle ?ot ?r)))
        (exists (?o - object ?a - agent) (and (objectType ?o SpoonType) (holds ?a ?o)))))""",
}


class Kitchen:
    """Makes games of the kitchen."""

    goals = GOALS

    def problem(self, kind: str = "pick_and_place_simple") -> str:
        return PROBLEM.replace("{goal}", GOALS[kind])

    def game(self, kind: str = "pick_and_place_simple", **options) -> Game:
        return parse_game(self.problem(kind), id="kitchen", kind=kind, description="tidy up.", **options)


@pytest.fixture(scope="session")
def kitchen() -> Kitchen:
    return Kitchen()
