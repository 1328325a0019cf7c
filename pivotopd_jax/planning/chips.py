"""Accelerators by name, as their makers describe them."""

from __future__ import annotations

from typing import NamedTuple


class Chip(NamedTuple):
    """One accelerator.

    Attributes:
        flops: dense bfloat16 operations a second, at most.
        memory: bytes.
        bandwidth: of that memory, bytes a second.
        link: bytes a second that it sends to its neighbours; within a node, for GPUs.
    """

    flops: float
    memory: float
    bandwidth: float
    link: float


CHIPS = {
    "v5e": Chip(197e12, 16e9, 819e9, 200e9),
    "v5p": Chip(459e12, 95e9, 2765e9, 600e9),
    "v6e": Chip(918e12, 32e9, 1640e9, 448e9),
    "a100": Chip(312e12, 80e9, 2039e9, 300e9),
    "h100": Chip(989e12, 80e9, 3350e9, 450e9),
    "h200": Chip(989e12, 141e9, 4800e9, 450e9),
}
"""Data sheets: Cloud TPU documentation; NVIDIA A100 80GB, H100 and H200 SXM."""
