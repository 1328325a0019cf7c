"""Serves passages by BM25 on POST /retrieve: `retriever.py --corpus=corpus.jsonl.gz [--port=8000]`.

Speaks Search-R1's schema ("queries") and verl-agent's ("query"). The first start on a corpus builds its index, which
later ones map: up to 100,000 passages for bm25s, above for tantivy. It has no password: leave it on the loopback
address, or on a network of your own.
"""

from __future__ import annotations

from pathlib import Path

from absl import flags

from pivotopd_jax import command_line
from pivotopd_jax.envs.search_qa.serving import RetrievalServer
from pivotopd_jax.envs.search_qa.stored import load_bm25

CORPUS = flags.DEFINE_string("corpus", None, "Passages, one a line: {id, contents}; .jsonl or .jsonl.gz.")
HOST = flags.DEFINE_string("host", "127.0.0.1", "Address to listen on.")
PORT = flags.DEFINE_integer("port", 8000, "Port to listen on; 0 takes a free one.", lower_bound=0, upper_bound=65535)
CACHE = flags.DEFINE_string("cache", None, "Directory in which indices are kept; by default the user's cache.")


def main() -> None:
    index = load_bm25(Path(str(CORPUS.value)), Path(CACHE.value) if CACHE.value else None)
    try:
        server = RetrievalServer(index, HOST.value, PORT.value)
    except OSError as error:
        raise ValueError(f"cannot listen on {HOST.value}:{PORT.value} ({error}); choose another --port") from error
    print(f"retriever: {len(index):,} passages at {server.url}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("retriever: stopped", flush=True)
    finally:
        server.server_close()


if __name__ == "__main__":
    command_line.run(main, required=["corpus"])
