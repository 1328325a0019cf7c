"""Fixtures of other folders that broken documents are made of."""

from envs.alfworld.conftest import kitchen as kitchen
