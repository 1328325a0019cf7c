"""Where a user keeps the real data of an environment."""

from __future__ import annotations

import os
from pathlib import Path


def named_directory(variable: str, expected: str) -> Path:
    """The directory that an environment variable names.

    Args:
        variable: its name.
        expected: what the directory should hold, for the message.

    Raises:
        FileNotFoundError: the variable is not set, or not to a directory.
    """
    value = os.environ.get(variable, "")
    if not value or not Path(value).is_dir():
        raise FileNotFoundError(
            f"{variable}={value!r} is not a directory; set it to the folder with {expected}, name that folder as the "
            "source, or use the source 'generated', which needs no data"
        )
    return Path(value)
