"""Reads the trajectories of a run in a browser: `view.py DIR [--port=8765] [--host=127.0.0.1]`; see docs/viewing.md."""

from __future__ import annotations

import time
from pathlib import Path

from absl import flags

from pivotopd_jax import command_line
from pivotopd_jax.viewing.log import TrajectoryLog
from pivotopd_jax.viewing.server import is_loopback, make_server

PORT = flags.DEFINE_integer("port", 8765, "Port to listen on; 0 takes a free one.", lower_bound=0, upper_bound=65535)
HOST = flags.DEFINE_string("host", "127.0.0.1", "Address to listen on; any other than this machine's own is a risk.")


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        raise ValueError(f"view.py was told {' '.join(arguments) or 'nothing'!r}; expected the directory of a run")
    start = time.monotonic()
    log = TrajectoryLog(Path(arguments[0]))
    files = log.files.values()
    lines, problems = sum(len(f.entries) for f in files), [p for f in files for p in f.problems]
    print(f"{lines} trajectories in {len(files)} files, indexed in {time.monotonic() - start:.1f} s")
    for problem in problems[:10]:
        print(f"cannot be read: {problem}")
    if len(problems) > 10:
        print(f"... and {len(problems) - 10} more lines")
    server = make_server(log, HOST.value, PORT.value)
    if not is_loopback(HOST.value):
        print(f"warning: whoever can reach {HOST.value} from elsewhere can read this run; there is no password")
    shown = f"[{HOST.value}]" if ":" in HOST.value else HOST.value
    print(f"http://{shown}:{server.server_address[1]}/  (Ctrl-C ends it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    command_line.run(main, positional=True)
