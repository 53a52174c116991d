"""serve_soak.py FOXSCOPE [SECONDS [CLIENTS]]: `foxscope serve` under clients of which one in ten is hostile.

Prints what went wrong for the others, and memory, threads and files of the server before and after; ends with 1 if
anything went wrong, memory was ever more than 5 % above what a tenth of the time had made of it, or a thread or file is
left.
"""

import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time

MODEL = pathlib.Path(__file__).resolve().parents[2] / "resources" / "models" / "fox-pro-12m"
VOCABULARY = 8192


class Soak:
    def __init__(self, program, seconds, clients):
        self.process = subprocess.Popen([program, "serve", "--model", str(MODEL), "--port", "0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = self.process.stdout.readline().decode()
        self.address = ("127.0.0.1", int(line.rsplit(":", 1)[1]))
        self.end = time.monotonic() + seconds
        self.clients = clients
        self.lock = threading.Lock()
        self.wrong = []
        self.answered = 0
        self.attacks = 0
        self.fixed = {}

    def measure(self):
        """MiB that are resident, threads, files."""
        process = pathlib.Path(f"/proc/{self.process.pid}")
        pages = int((process / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir(process / "task")), len(os.listdir(process / "fd"))

    def good(self, seed):
        """Requests as a harness and as writers send them, on a connection that goes on."""
        try:
            self.ask(seed)
        except (OSError, http.client.HTTPException, ValueError) as error:
            with self.lock:
                self.wrong.append(repr(error))

    def ask(self, seed):
        draw = random.Random(seed)
        connection = http.client.HTTPConnection(*self.address, timeout=300)
        while time.monotonic() < self.end:
            kind = draw.randrange(4)
            lengths = [draw.randint(1, 120) for _ in range(draw.choice([1, 1, 4, 16]))]
            body = {"model": MODEL.name, "prompt": [[draw.randrange(1, VOCABULARY) for _ in range(n)] for n in lengths]}
            if kind == 0:
                body.update(max_tokens=1, temperature=0, logprobs=1, echo=True)
            elif kind == 1:
                body.update(max_tokens=draw.randint(2, 40), temperature=1, seed=draw.randrange(100))
            elif kind == 2:
                body.update(max_tokens=0, echo=True, logprobs=5)
            else:  # one that all clients send: its digits are always the same
                name = draw.randrange(5)
                body.update(prompt=[[name + 1] * 7], max_tokens=12, temperature=0.5, seed=name, logprobs=2)
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = json.loads(response.read())
            with self.lock:
                self.answered += 1
                if response.status != 200:
                    self.wrong.append((response.status, answer))
                elif kind == 3 and self.fixed.setdefault(name, answer["choices"]) != answer["choices"]:
                    self.wrong.append("another answer to the same request")
        connection.close()

    def hostile(self, seed):
        """What is half sent, too much, nonsense, or not waited for."""
        draw = random.Random(seed)
        long = json.dumps({"model": MODEL.name, "prompt": ["It was"] * 16, "max_tokens": 1500}).encode()
        while time.monotonic() < self.end:
            head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            sent = draw.choice([
                b"", b"GET", head, head + b"Content-Length: 100\r\n\r\n{", head + b"Content-Length: 2\r\n\r\n[[",
                head + b"Content-Length: 100000\r\n\r\n" + b"[" * 100_000, head + b"X: " + b"x" * 100_000,
                head + b"Content-Length: 20000000\r\n\r\n" + b" " * 20_000_000, head + b"Transfer-Encoding: chunked\r\n\r\n",
                b"\x16\x03\x01" + draw.randbytes(300), b"DELETE /v1/models HTTP/1.1\r\n\r\n" * 50,
                head + b"Content-Length: %d\r\n\r\n" % len(long) + long, head + b"Content-Length: 5\r\n\r\n1e999"])
            try:
                with socket.create_connection(self.address, timeout=20) as connected:
                    if draw.random() < 0.2:
                        for byte in sent[:30]:  # slowly
                            connected.sendall(bytes([byte]))
                            time.sleep(0.1)
                    else:
                        connected.sendall(sent)
                    if draw.random() < 0.5:
                        connected.settimeout(draw.random() * 2)
                        connected.recv(65536)
            except OSError:
                pass  # as it may end
            with self.lock:
                self.attacks += 1

    def run(self, seconds):
        warm = http.client.HTTPConnection(*self.address, timeout=60)
        warm.request("GET", "/health")
        warm.getresponse().read()
        warm.close()
        time.sleep(1)
        before = self.measure()
        threads = [threading.Thread(target=self.hostile if n % 10 == 9 else self.good, args=[n])
                   for n in range(self.clients)]
        for thread in threads:
            thread.start()
        during = []
        for _ in range(10):
            time.sleep(seconds / 10)
            during.append(self.measure())
        for thread in threads:
            thread.join()
        after = self.measure()
        limit = time.monotonic() + 90  # in which the server notices who has left
        while time.monotonic() < limit and after[2] > before[2]:
            time.sleep(1)
            after = self.measure()
        print(f"{self.answered} answers, {self.attacks} hostile connections, {len(self.wrong)} wrong {self.wrong[:3]}")
        print("MiB at each tenth of the time:", *(f"{memory:.1f}" for memory, _, _ in during))
        for name, (memory, count, files) in [("before", before), ("after", after)]:
            print(f"{name}: {memory:.1f} MiB, {count} threads, {files} files")
        self.process.send_signal(signal.SIGINT)
        ended = self.process.wait(timeout=10)
        most = max(memory for memory, _, _ in [*during, after])
        print(f"most: {most:.1f} MiB, {100 * (most / during[0][0] - 1):+.1f} % of the first tenth's")
        grown = most > 1.05 * during[0][0]
        # Threads that compute are made with the first request.
        left = after[2] > before[2] or after[1] > before[1] + os.cpu_count()
        return 1 if self.wrong or grown or left or ended != 130 else 0


if __name__ == "__main__":
    duration = float(sys.argv[2]) if len(sys.argv) > 2 else 600
    sys.exit(Soak(sys.argv[1], duration, int(sys.argv[3]) if len(sys.argv) > 3 else 64).run(duration))
