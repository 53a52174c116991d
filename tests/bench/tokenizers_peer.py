"""Times the `tokenizers` package on one thread: `tokenizers_peer.py TOKENIZER_JSON TEXT IDS SECONDS`.

Prints one JSON object: the least processor seconds of each way in which the package can be asked. Writes the ids of the whole
text as 32-bit integers into IDS. Exits with 77 where the package is missing.
"""

import json
import os
import pathlib
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

try:
    import numpy
    from tokenizers import Tokenizer
except ImportError:
    sys.exit(77)


def main():
    tokenizer = Tokenizer.from_file(sys.argv[1])
    text = pathlib.Path(sys.argv[2]).read_bytes().decode()
    lines = text.splitlines(keepends=True)
    ways = {
        "encode, whole text": lambda: tokenizer.encode(text),
        "encode_batch, lines": lambda: tokenizer.encode_batch(lines),
        "encode_batch_fast, lines, no offsets": lambda: tokenizer.encode_batch_fast(lines),
    }
    numpy.array(tokenizer.encode(text).ids, dtype=numpy.int32).tofile(sys.argv[3])
    least = {}
    until = time.perf_counter() + float(sys.argv[4])
    while True:
        for name, way in ways.items():
            start = time.process_time()
            result = way()
            seconds = time.process_time() - start
            del result
            least[name] = min(least.get(name, seconds), seconds)
        if time.perf_counter() > until:
            break
    print(json.dumps(least))


main()
