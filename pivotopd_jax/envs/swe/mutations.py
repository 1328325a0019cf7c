"""Small mistakes for Python programs: one expression in one function, changed so that it still reads well."""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
}  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """One changed expression.

    Attributes:
        path: of the file, below the repository's top.
        function: in which it is, with its class: "Cache.pop".
        line: 1-based.
        before, after: the expression.
        start, end: where `before` stands in the file's text, in characters.
    """

    path: str
    function: str
    line: int
    before: str
    after: str
    start: int
    end: int

    def apply(self, source: str) -> str:
        """The text of the file with the mistake."""
        return source[: self.start] + self.after + source[self.end :]


def mutations(path: str, source: str) -> list[Mutation]:
    """Every mistake that can be made in the functions of a file, in order of place; none if it is not Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    starts = _line_starts(source)
    found = []
    for function, node in _expressions(tree):
        for other in _variants(node):
            place = _place(node, source, starts)
            if place:
                before, after = source[slice(*place)], ast.unparse(other)
                if '"' in before and "'" not in before:
                    after = after.replace("'", '"')
                found.append(Mutation(path, function, node.lineno, before, after, *place))
    return sorted(set(found), key=lambda mutation: (mutation.start, mutation.after))


def as_patch(path: str, before: str, after: str) -> str:
    """The change of one file as `git diff` writes it.

    Raises:
        ValueError: one of the texts does not end with a new line.
    """
    if not before.endswith("\n") or not after.endswith("\n"):
        raise ValueError(f"{path}: expected a text that ends with a new line")
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")
    return f"diff --git a/{path} b/{path}\n" + "".join(lines)


def _expressions(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The expressions in bodies of functions, each with the name of its function; no annotations, no defaults."""

    def inside(node: ast.AST, name: str, in_function: bool) -> Iterator[tuple[str, ast.expr]]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
                continue
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST):
                    continue
                named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                if named and not in_function:
                    label = f"{name}.{child.name}" if name else child.name  # type: ignore[attr-defined]
                    yield from inside(child, label, not isinstance(child, ast.ClassDef))
                    continue
                if in_function and isinstance(child, ast.expr):
                    yield name, child
                yield from inside(child, name, in_function)

    yield from inside(tree, "", False)


def _variants(node: ast.expr) -> Iterator[ast.expr]:
    other = copy.deepcopy(node)
    if isinstance(other, ast.Compare) and len(other.ops) == 1 and type(other.ops[0]) in _COMPARISONS:
        other.ops = [_COMPARISONS[type(other.ops[0])]()]
        yield other
    elif isinstance(other, ast.BinOp) and type(other.op) in _ARITHMETIC and not _is_text(other):
        other.op = _ARITHMETIC[type(other.op)]()
        yield other
    elif isinstance(other, ast.BoolOp):
        other.op = ast.Or() if isinstance(other.op, ast.And) else ast.And()
        yield other
    elif isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.Not):
        yield other.operand
    elif isinstance(other, ast.Constant) and isinstance(other.value, bool):
        other.value = not other.value
        yield other
    elif isinstance(other, ast.Constant) and isinstance(other.value, int):
        other.value += 1
        yield other
    elif isinstance(other, ast.Call) and len(other.args) == 2 and not isinstance(other.args[1], ast.Starred):
        other.args.reverse()
        yield other
    elif isinstance(other, ast.IfExp):
        other.body, other.orelse = other.orelse, other.body
        yield other


def _is_text(node: ast.BinOp) -> bool:
    """Whether one side is a string that is written out: it cannot be subtracted, and everyone sees that."""
    return any(isinstance(side, ast.JoinedStr) or _is_string(side) for side in (node.left, node.right))


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _line_starts(source: str) -> list[int]:
    starts = [0]
    for line in source.splitlines(True):
        starts.append(starts[-1] + len(line))
    return starts


def _place(node: ast.expr, source: str, starts: list[int]) -> tuple[int, int] | None:
    """Where an expression stands, if it is on one line and written as `ast.unparse` would; else None."""
    if node.lineno != node.end_lineno or node.end_col_offset is None or node.lineno >= len(starts):
        return None
    line = source[starts[node.lineno - 1] : starts[node.lineno]]
    if not line.isascii():  # columns of the tree are bytes
        return None
    start, end = (starts[node.lineno - 1] + column for column in (node.col_offset, node.end_col_offset))
    return (start, end) if source[start:end].replace('"', "'") == ast.unparse(node).replace('"', "'") else None
