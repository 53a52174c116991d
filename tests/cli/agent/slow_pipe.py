"""slow_pipe.py MILLISECONDS MBIT [SSH'S WORDS] HOST PROGRAM agent: in the place of ssh, starts PROGRAM here behind a pipe
that delays each way and lets no more than so many million bits a second pass. FOXSCOPE_TEST_COUNTS names a file that gets
the bytes to and from the program."""

import os
import queue
import subprocess
import sys
import threading
import time

PIECE = 16 * 1024


def relay(read, write, close, delay, rate, counts, place):
    """Reads as soon as something comes, and writes each piece when its last byte has come through the slow line."""
    pieces = queue.Queue(maxsize=256)

    def receive():
        free = 0.0  # when the line has passed on what came before
        while piece := read(PIECE):
            free = max(free, time.monotonic()) + len(piece) / rate
            pieces.put((free + delay, piece))
        pieces.put((0.0, b""))

    threading.Thread(target=receive, daemon=True).start()
    try:
        while True:
            due, piece = pieces.get()
            if not piece:
                break
            time.sleep(max(0.0, due - time.monotonic()))
            counts[place] += len(piece)
            write(piece)
    except OSError:
        pass
    close()


def main():
    delay, rate = float(sys.argv[1]) / 1000, float(sys.argv[2]) * 1e6 / 8
    process = subprocess.Popen(sys.argv[-2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    counts = [0, 0]
    there = threading.Thread(target=relay, daemon=True,
                             args=(lambda size: os.read(0, size), process.stdin.write, process.stdin.close, delay, rate,
                                   counts, 0))
    back = threading.Thread(target=relay, daemon=True,
                            args=(lambda size: os.read(process.stdout.fileno(), size), lambda piece: os.write(1, piece),
                                  lambda: os.close(1), delay, rate, counts, 1))
    there.start()
    back.start()
    back.join()
    if "FOXSCOPE_TEST_COUNTS" in os.environ:
        with open(os.environ["FOXSCOPE_TEST_COUNTS"], "w", encoding="utf-8") as file:
            file.write(f"{counts[0]} {counts[1]}\n")
    sys.exit(process.wait())


main()
