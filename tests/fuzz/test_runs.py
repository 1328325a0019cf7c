"""What a run finds in its own directory, damaged: read as it was written, or refused in one line."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from fuzz.documents import as_json, broken, damaged, files, fuzz, read_or_refused
from hypothesis import given
from hypothesis import strategies as st
from test_train import same, tiny_config
from toy_student import make_toy

from pivotopd_jax.evaluation.mistakes import read_mistakes
from pivotopd_jax.learner.checkpoints import Checkpoints, ConfigurationChanged, UnreadableCheckpoint
from pivotopd_jax.learner.learner import Learner, make_mesh, make_optimizer
from pivotopd_jax.records import Row
from pivotopd_jax.rollout.pivots import load_pivots
from pivotopd_jax.rollout.replay import Replay

TOY = make_toy()
