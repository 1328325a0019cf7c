"""Words on their way to token ids."""

from __future__ import annotations

import numpy as np
from toy_student import make_toy


def test_half_of_a_character_is_no_error():
    """JSON can hold it, a tokenizer cannot."""
    chat = make_toy().prompter.chat
    np.testing.assert_array_equal(chat.encode("a\ud800b"), chat.encode("a?b"))
    np.testing.assert_array_equal(chat.opening("\udfff"), chat.opening("?"))
