"""A server for tests: started on a free port, asked over http.client or raw sockets, stopped with the test."""

import http.client
import json
import os
import resource
import signal
import socket
import subprocess

from support import PROGRAM

# Nobody stands between the tests and their server.
for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]:
    os.environ.pop(name, None)


# The head of a request as far as its type; a length has to follow.
POST = b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"


class Server:
    """`foxscope serve` of one model, or more by further --model among the options, in a process of its own.

    stack: the limit of its stacks in bytes, as of `ulimit -s`."""

    def __init__(self, model, *options, environment=None, stack=None):
        limit = None if stack is None else lambda: resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
        self.process = subprocess.Popen([PROGRAM, "serve", "--model", str(model), "--port", "0", *map(str, options)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, **(environment or {})}, preexec_fn=limit)
        line = self.process.stdout.readline().decode()
        if not line.startswith("listening on http://"):
            raise AssertionError(line + self.process.stderr.read().decode())
        self.url = line.removeprefix("listening on ").strip()
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        self.address = (host.strip("[]"), int(port))

    def stop(self, number=signal.SIGINT):
        """Ends it; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(timeout=30)
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def connection(self):
        return http.client.HTTPConnection(*self.address, timeout=60)

    def ask(self, method, path, body=None, headers=None, connection=None):
        """Status and answer; the connection is closed unless it is the caller's."""
        own = connection is None
        connection = connection or self.connection()
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            if isinstance(body, str):
                body = body.encode()
            typed = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, body, {**typed, **(headers or {})})
            response = connection.getresponse()
            content = response.read()
            self.headers = response.headers
            return response.status, json.loads(content) if content else None
        finally:
            if own:
                connection.close()

    def complete(self, prompt, **fields):
        """The answer to a request that must succeed, of the first model unless another is named."""
        status, answer = self.ask("POST", "/v1/completions", {"model": self.model(), "prompt": prompt, **fields})
        assert status == 200, answer
        return answer

    def model(self):
        if not hasattr(self, "name"):
            self.name = self.ask("GET", "/v1/models")[1]["data"][0]["id"]
        return self.name

    def raw(self, data=b"", timeout=60):
        """A socket that has sent some bytes."""
        connected = socket.create_connection(self.address, timeout=timeout)
        connected.sendall(data)
        return connected

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def memory(self, name="VmRSS"):
        """MiB of the process: VmRSS, resident now, or VmHWM, the most that was."""
        with open(f"/proc/{self.process.pid}/status") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) / 1024

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def read_all(connected):
    """What a socket still gives until its other end closes."""
    received = b""
    while True:
        try:
            piece = connected.recv(65536)
        except ConnectionResetError:
            return received
        if not piece:
            return received
        received += piece
