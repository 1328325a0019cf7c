"""What is on each page, and how it reads: WebShop's two text observations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pivotopd_jax.envs.webshop.products import Product
from pivotopd_jax.envs.webshop.shop import Shop

PAGE_SIZE = 10
SEPARATOR = " [SEP] "
BACK, NEXT, PREVIOUS, BUY = "Back to Search", "Next >", "< Prev", "Buy Now"
SUB_PAGES = {"description": "Description", "features": "Features", "reviews": "Reviews", "attributes": "Attributes"}

Style = Literal["text", "text_rich"]
PageName = Literal["start", "results", "item", "description", "features", "reviews", "attributes", "done"]


class State(NamedTuple):
    """Where a customer is.

    Attributes:
        page: which page is shown.
        query: of the last search, lower case; empty before the first and after going back to the start.
        number: of the results page, from 1.
        product: position of the product whose page is or was shown; -1 for none.
        chosen: (name, value) of the options chosen on it, in the order in which the names were first chosen.
        visited: products opened since the start page, which `text_rich` marks.
        listed, read: products that result lists have shown, and those whose page was opened, in the whole episode.
    """

    page: PageName = "start"
    query: str = ""
    number: int = 1
    product: int = -1
    chosen: tuple[tuple[str, str], ...] = ()
    visited: frozenset[int] = frozenset()
    listed: frozenset[int] = frozenset()
    read: frozenset[int] = frozenset()


class Piece(NamedTuple):
    """One string on a page.

    Attributes:
        kind: words, a button, a link to a product or a value of an option.
        text: as shown.
        name: of the option.
    """

    kind: Literal["words", "button", "link", "option"]
    text: str
    name: str = ""


def hits_on_page(shop: Shop, query: str, number: int) -> tuple[int, ...]:
    """The products on a results page."""
    return shop.index.search(query)[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]


def pieces(shop: Shop, instruction: str, state: State, *, show_attributes: bool) -> list[Piece]:
    """Everything on the page of `state`, in reading order."""
    if state.page == "start":
        words = [Piece("words", text) for text in ("WebShop", "Instruction: ", instruction)]
        return [*words, Piece("button", "Search")]
    head = [Piece("words", "Instruction:"), Piece("words", instruction), Piece("button", BACK)]
    if state.page == "results":
        return head + _results(shop, state)
    product = shop.products[state.product]
    body = _item(product, show_attributes) if state.page == "item" else _sub_page(product, state.page)
    return [*head, Piece("button", PREVIOUS), *body]


def _results(shop: Shop, state: State) -> list[Piece]:
    count = len(shop.index.search(state.query))
    body = [Piece("words", f"Page {state.number} (Total results: {count})")]
    if state.number > 1:
        body.append(Piece("button", PREVIOUS))
    if state.number * PAGE_SIZE < count:
        body.append(Piece("button", NEXT))
    for position in hits_on_page(shop, state.query, state.number):
        product = shop.products[position]
        body += [Piece("link", product.asin), Piece("words", product.title), Piece("words", product.price_tag)]
    return body


def _item(product: Product, show_attributes: bool) -> list[Piece]:
    body = []
    for name, values in product.options.items():
        body += [Piece("words", name), *(Piece("option", value, name) for value in values)]
    body += [Piece("words", text) for text in (product.title, f"Price: {product.price_tag}", "Rating: N.A.")]
    sub_pages = [label for page, label in SUB_PAGES.items() if show_attributes or page != "attributes"]
    return body + [Piece("button", label) for label in (*sub_pages, BUY)]


def _sub_page(product: Product, page: str) -> list[Piece]:
    texts: Sequence[str] = {
        "description": (product.description,),
        "features": product.bullets,
        "reviews": ("No reviews found",),
        "attributes": (*product.attributes, product.category, product.query, product.product_category),
    }[page]
    return [Piece("words", text) for text in texts]


def thanks(reward: float) -> str:
    """The last page. WebShop's own also prints the goal's hidden parts, which no customer should learn from."""
    return SEPARATOR.join(["Thank you for shopping with us!", "Your score (min 0.0, max 1.0)", str(reward)])


def plain_text(shown: Sequence[Piece]) -> str:
    """The `text` observation: strings in reading order; chosen options cannot be told."""
    return SEPARATOR.join(piece.text.strip() for piece in shown if piece.text)


def rich_text(shop: Shop, state: State, shown: Sequence[Piece]) -> str:
    """The `text_rich` observation: buttons are marked, and so are chosen options and opened products."""
    # WebShop takes an option as chosen if the page's address quotes it, other names and the query included.
    address = "/".join(["+".join(state.query.split(" ")), json.dumps(dict(state.chosen))])
    visited = {shop.products[i].asin for i in state.visited}
    text = ""
    for piece in shown:
        chosen = piece.text in visited if piece.kind == "link" else f'"{piece.text}"' in address
        label = "clicked button" if piece.kind in ("link", "option") and chosen else "button"
        if piece.kind == "option" and chosen:
            text = f"You have clicked {piece.text}.\n{text}"
        lead = {"words": "", "button": "", "link": "\n", "option": "  "}[piece.kind]
        words = piece.text if piece.kind == "words" else f"[{label}] {piece.text} [{label}_]"
        text += f"{lead}{words}\n" if piece.text else ""
    return text
