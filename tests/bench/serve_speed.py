"""serve_speed.py FOXSCOPE [PROMPTS [TURNS]]: how fast `foxscope serve` answers on this machine, with the demo's FoX.

Prints time from start to "listening"; time to answer a request for one token on an idle server; and prompts a second
of the harness's requests (scores of 20 to 120 tokens and the likeliest next one), one prompt at a time and 8 connections
with 16 prompts a request, in turns on one server. Nothing else should run: the load is printed with each turn.
"""

import http.client
import json
import os
import pathlib
import random
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time

MODEL = pathlib.Path(__file__).resolve().parents[2] / "resources" / "models" / "fox-pro-12m"
VOCABULARY = 8192
CONNECTIONS = 8
PROMPTS_A_REQUEST = 16


class Server:
    def __init__(self, program):
        started = time.monotonic()
        self.process = subprocess.Popen([program, "serve", "--model", str(MODEL), "--port", "0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        line = self.process.stdout.readline().decode()
        self.start = time.monotonic() - started
        self.address = ("127.0.0.1", int(line.rsplit(":", 1)[1]))

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=10)

    def seconds(self):
        """Of all cores, that the server has computed."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(connection, body):
    connection.request("POST", "/v1/completions", body)
    response = connection.getresponse()
    answer = response.read()
    if response.status != 200:
        sys.exit(f"{response.status}: {answer[:400]}")


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def told(name, values, unit):
    print(f"{name}: median {statistics.median(values):.4g} {unit}, 95 % within {quantile(values, 0.95):.4g} {unit}, "
          f"longest {max(values):.4g} {unit} of {len(values)}; load {os.getloadavg()[0]:.2f}", flush=True)


def measure_start(program):
    times = []
    for _ in range(20):
        server = Server(program)
        times.append(server.start)
        server.stop()
    told("start to listening", times, "s")


def measure_latency(server):
    body = json.dumps({"model": MODEL.name, "prompt": [[928, 319, 261]], "max_tokens": 1, "temperature": 0})
    connection = http.client.HTTPConnection(*server.address)
    times = []
    for n in range(320):
        time.sleep(0.03)  # until the server is idle again
        started = time.monotonic()
        ask(connection, body)
        if n >= 20:
            times.append((time.monotonic() - started) * 1000)
    connection.close()
    told("one token of an idle server", times, "ms")


def harness_requests(prompts, together):
    """Bodies as the harness sends them: the longest prompts first."""
    draw = random.Random(1)
    all_ids = [[draw.randrange(1, VOCABULARY) for _ in range(draw.randint(20, 120))] for _ in range(prompts)]
    all_ids.sort(key=lambda ids: (-len(ids), ids))
    return [json.dumps({"model": MODEL.name, "prompt": all_ids[n:n + together], "temperature": 0, "max_tokens": 1,
                        "logprobs": 1, "seed": 1234, "echo": True}) for n in range(0, prompts, together)]


def measure_turn(server, bodies, connections, prompts):
    """Answers to all bodies, over so many connections; prompts a second."""
    left = iter(bodies)
    lock = threading.Lock()

    def client():
        connection = http.client.HTTPConnection(*server.address)
        while True:
            with lock:
                body = next(left, None)
            if body is None:
                break
            ask(connection, body)
        connection.close()

    own = resource.getrusage(resource.RUSAGE_SELF)
    of_server = server.seconds()
    started = time.monotonic()
    threads = [threading.Thread(target=client) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.monotonic() - started
    now = resource.getrusage(resource.RUSAGE_SELF)
    client_seconds = now.ru_utime + now.ru_stime - own.ru_utime - own.ru_stime
    print(f"  {connections} connections: {prompts / taken:.1f} prompts/s; cores: server "
          f"{(server.seconds() - of_server) / taken:.2f}, client {client_seconds / taken:.2f}; "
          f"load {os.getloadavg()[0]:.2f}", flush=True)
    return prompts / taken


def measure_throughput(server, prompts, turns):
    alone = harness_requests(prompts, 1)
    together = harness_requests(prompts, PROMPTS_A_REQUEST)
    measure_turn(server, alone[:200], 1, 200)  # warms it
    one, many = [], []
    for _ in range(turns):
        one.append(measure_turn(server, alone, 1, prompts))
        many.append(measure_turn(server, together, CONNECTIONS, prompts))
    ratio = statistics.median(many) / statistics.median(one)
    print(f"one prompt at a time {statistics.median(one):.1f} prompts/s, {CONNECTIONS} connections with "
          f"{PROMPTS_A_REQUEST} prompts a request {statistics.median(many):.1f}: {ratio:.2f} x")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    measure_start(sys.argv[1])
    under_test = Server(sys.argv[1])
    measure_latency(under_test)
    measure_throughput(under_test, int(sys.argv[2]) if len(sys.argv) > 2 else 2000,
                       int(sys.argv[3]) if len(sys.argv) > 3 else 3)
    under_test.stop()
