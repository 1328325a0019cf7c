"""The words of WebShop, in both prompt styles.

A transcript shows the instruction once, and each string of a page on a line of its own; the windowed style passes the
engine's text on as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from pivotopd_jax.prompts.actions import format_action, parse_action
from pivotopd_jax.records import Observation, Turn

SEPARATOR = " [SEP] "
MOVES = frozenset({"back to search", "next >", "< prev", "description", "features", "reviews", "attributes"})
"""What a click on only shows another page."""
SEARCH = "search[<your query>]"
FORMAT = (
    "Think about the next step between <think> and </think>, then give exactly one action between <action> and "
    f"</action>: {SEARCH}, or click[...] with something that is on the page."
)


def _instruction(observation: Observation) -> str:
    """What the customer wants, as the first or any other page says it; empty on the last page."""
    head, _, rest = observation.text.partition(f"Instruction:{SEPARATOR}")
    return rest.partition(SEPARATOR)[0] if rest and head in ("", f"WebShop{SEPARATOR}") else ""


def _page(observation: Observation) -> str:
    """A page without the instruction, a line a string."""
    wanted = _instruction(observation)
    text = (
        observation.text.replace(f"Instruction:{SEPARATOR}{wanted}{SEPARATOR}", "", 1) if wanted else observation.text
    )
    return text.replace(SEPARATOR, "\n")


class WebShopWording:
    """Implements `prompts.prompter.Wording`; reads observations of the style "text"."""

    phrases: Sequence[str] = (
        "WebShop\nSearch", "Back to Search\n", "< Prev\n", "Page 1 (Total results: ", ")\n", "\n$", ".0\n",
        "\nPrice: $", "search[", "click[", "]</action>",
        "Rating: N.A.\nDescription\nFeatures\nReviews\nBuy Now",
    )  # fmt: skip

    parse = staticmethod(parse_action)
    format = staticmethod(format_action)

    def opening(self, observation: Observation) -> str:
        wanted = _instruction(observation)
        return f"{wanted}\n{_page(observation)}" if wanted else _page(observation)

    def following(self, observation: Observation) -> str:
        return _page(observation)

    def admissible(self, actions: Sequence[str]) -> str:
        """Queries are free: however many are suggested, one line stands for all."""
        clicks = [action for action in actions if action.startswith("click[")]
        searches = [SEARCH] if len(clicks) < len(actions) else []
        return "\nAdmissible actions:" + "".join(f"\n{action}" for action in [*searches, *clicks])

    def task(self, first: Observation) -> str:
        return _instruction(first)

    def gist(self, action: str) -> str | None:
        """Products, queries and values are of one shop only; what is done with them is not. Going back has none."""
        verb, _, rest = action.partition("[")
        argument = rest.removesuffix("]")
        if verb == "search":
            return "search for what is asked for"
        if argument.lower() == "buy now":
            return "buy it"
        if argument.lower() in MOVES or verb != "click":
            return None
        product = argument != argument.lower() or argument.isdigit()  # options are shown in lower case
        return "open the product that fits" if product else "choose each option that is asked for"

    def windowed(self, first: Observation, history: Sequence[tuple[int, Turn]], observation: Observation) -> str:
        lines = ["You shop on a web site through text commands.", f"Task: {_instruction(first)}"]
        if history:
            lines.append("The latest steps:")
        for index, turn in history:
            lines += [f"[{index + 1}] saw: {turn.observation.text}", f"did: {turn.action}"]
        lines += [f"Now you see: {observation.text}", FORMAT]
        return "\n".join(lines)
