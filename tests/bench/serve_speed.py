"""serve_speed.py FOXSCOPE: how fast `foxscope serve` answers on this machine, with the demo's FoX or another model.

Prints time from start to "listening"; time to answer a request for one token on an idle server; and prompts a second
of the harness's requests (scores of 20 to 120 tokens and the likeliest next one), one prompt at a time and 8 connections
with 16 prompts a request, in turns on one server; and tokens a second by which one text is continued, and 64 over 8
connections. Nothing else should run: the load is printed with each turn.
"""

import argparse
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

DEMO = pathlib.Path(__file__).resolve().parents[2] / "resources" / "models" / "fox-pro-12m"
CONNECTIONS = 8
PROMPTS_A_REQUEST = 16
CONTINUED = 64  # texts of 20 to 400 tokens
ADDED = 200  # tokens to each of them


class Server:
    def __init__(self, options):
        started = time.monotonic()
        self.process = subprocess.Popen(
            [options.program, "serve", "--model", f"m={options.model}", "--device", options.device, "--max-length", "4096",
             "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
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
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    if response.status != 200:
        sys.exit(f"{response.status}: {answer[:400]}")


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def told(name, values, unit):
    print(f"{name}: median {statistics.median(values):.4g} {unit}, 95 % within {quantile(values, 0.95):.4g} {unit}, "
          f"longest {max(values):.4g} {unit} of {len(values)}; load {os.getloadavg()[0]:.2f}", flush=True)


def measure_start(options):
    times = []
    for _ in range(options.starts):
        server = Server(options)
        times.append(server.start)
        server.stop()
    told("start to listening", times, "s")


def measure_latency(server):
    body = json.dumps({"model": "m", "prompt": [[928, 319, 261]], "max_tokens": 1, "temperature": 0})
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


def random_prompts(options, count, tokens):
    """As the harness sends them: the longest first."""
    draw = random.Random(1)
    vocabulary = json.loads((options.model / "config.json").read_text())["vocab_size"]
    prompts = [[draw.randrange(1, vocabulary) for _ in range(draw.randint(*tokens))] for _ in range(count)]
    return sorted(prompts, key=lambda ids: (-len(ids), ids))


def harness_requests(all_ids, together):
    return [json.dumps({"model": "m", "prompt": all_ids[n:n + together], "temperature": 0, "max_tokens": 1,
                        "logprobs": 1, "seed": 1234, "echo": True}) for n in range(0, len(all_ids), together)]


def measure_turn(server, bodies, connections, prompts):
    """Answers to all bodies of these prompts, over so many connections; prompts a second."""
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
    print(f"  {connections} connections: {len(prompts) / taken:.1f} prompts/s, "
          f"{sum(map(len, prompts)) / taken:.0f} tokens/s; cores: server "
          f"{(server.seconds() - of_server) / taken:.2f}, client {client_seconds / taken:.2f}; "
          f"load {os.getloadavg()[0]:.2f}", flush=True)
    return len(prompts) / taken


def measure_throughput(server, options):
    prompts = random_prompts(options, options.prompts, options.tokens)
    alone = harness_requests(prompts, 1)
    together = harness_requests(prompts, PROMPTS_A_REQUEST)
    measure_turn(server, alone[:200], 1, prompts[:200])  # warms it
    one, many = [], []
    for _ in range(options.turns):
        one.append(measure_turn(server, alone, 1, prompts))
        many.append(measure_turn(server, together, CONNECTIONS, prompts))
    ratio = statistics.median(many) / statistics.median(one)
    print(f"one prompt at a time {statistics.median(one):.1f} prompts/s, {CONNECTIONS} connections with "
          f"{PROMPTS_A_REQUEST} prompts a request {statistics.median(many):.1f}: {ratio:.2f} x")


def measure_continuation(server, options):
    texts = random_prompts(options, CONTINUED, [20, 400])
    together = CONTINUED // CONNECTIONS
    bodies = [json.dumps({"model": "m", "prompt": texts[n:n + together], "max_tokens": ADDED, "temperature": 0})
              for n in range(0, CONTINUED, together)]
    one = [json.dumps({"model": "m", "prompt": texts[CONTINUED // 2], "max_tokens": ADDED, "temperature": 0})]
    for connections, asked, count in [(1, one, 1), (CONNECTIONS, bodies, CONTINUED)]:
        rate = measure_turn(server, asked, connections, texts[:count]) * ADDED
        print(f"{count} texts continued by {ADDED} tokens over {connections} connections: {rate:.0f} tokens/s")


def parsed_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="FOXSCOPE")
    parser.add_argument("--model", type=pathlib.Path, default=DEMO, metavar="DIR")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--starts", type=int, default=20, help="of the server that are timed")
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--tokens", type=int, nargs=2, default=[20, 120], metavar=("FEWEST", "MOST"), help="of a prompt")
    parser.add_argument("--turns", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    chosen = parsed_options()
    measure_start(chosen)
    under_test = Server(chosen)
    measure_latency(under_test)
    measure_throughput(under_test, chosen)
    measure_continuation(under_test, chosen)
    under_test.stop()
