"""Tasks that are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from pivotopd_jax.records import Task


class DrawnTasks(Sequence[Task]):
    """The tasks of a split of generated ones, in a fixed order, without holding them."""

    def __init__(self, size: int, draw: Callable[[int], Task]) -> None:
        """`draw` makes task i of 0 .. `size` − 1, always the same one."""
        self._size, self._draw = size, draw

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | Sequence[Task]:
        if isinstance(index, slice):
            return [self._draw(i) for i in range(self._size)[index]]
        return self._draw(range(self._size)[index])
