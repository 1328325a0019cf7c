"""A small repository with a mistake in it."""

from __future__ import annotations

import io
import tarfile

FILES = {
    "adding.py": "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n",
    "tests/test_adding.py": (
        "from adding import add, double\n\n\ndef test_add():\n    assert add(2, 3) == 5\n\n\n"
        "def test_double():\n    assert double(2) == 4\n"
    ),
}
FIX = """diff --git a/adding.py b/adding.py
--- a/adding.py
+++ b/adding.py
@@ -1,5 +1,5 @@
 def add(a, b):
-    return a - b
+    return a + b
{blank}
{blank}
 def double(a):
""".format(blank=" ")


def archive(files: dict[str, str]) -> bytes:
    """A tar archive of `files`."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text.encode()), 0o644
            tar.addfile(member, io.BytesIO(text.encode()))
    return stream.getvalue()
