"""A headless Chromium that tests drive over its DevTools pipe, with nothing but the standard library."""

import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

PROGRAM = shutil.which("chromium")
KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27, "Enter": 13, "Tab": 9}


class Browser:
    """One page of a browser with a profile of its own. What it asks a network for and says on its console is kept."""

    def __init__(self, width=1366, height=768):
        if PROGRAM is None:
            raise unittest.SkipTest("chromium is not installed")
        self.folder = tempfile.TemporaryDirectory(prefix="foxscope-browser-")
        ours, theirs = os.pipe(), os.pipe()  # what the browser reads, what it writes
        # The browser knows its pipes by the numbers 3 and 4, which may be taken here.
        command = ["sh", "-c", f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}', "sh", PROGRAM, "--headless=new", "--no-sandbox",
                   "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                   "--hide-scrollbars", "--force-color-profile=srgb", f"--user-data-dir={self.folder.name}",
                   f"--window-size={width},{height}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, pass_fds=[ours[0], theirs[1]], start_new_session=True)
        os.close(ours[0])
        os.close(theirs[1])
        self.to, self.from_ = ours[1], theirs[0]
        self.rest = b""
        self.number = 0
        self.session = None
        self.requests = []  # addresses
        self.said = []      # on the console, and exceptions
        self.events = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.to)
        os.close(self.from_)
        self.folder.cleanup()

    def receive(self):
        while b"\0" not in self.rest:
            piece = os.read(self.from_, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.take(answer)

    def take(self, event):
        name, parameters = event.get("method"), event.get("params", {})
        self.events.append(name)
        if name == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif name == "Runtime.consoleAPICalled":
            self.said.append(str(parameters["args"]))
        elif name == "Runtime.exceptionThrown":
            self.said.append(json.dumps(parameters["exceptionDetails"]))
        elif name == "Log.entryAdded":
            self.said.append(json.dumps(parameters["entry"]))

    def open(self, path, ready="foxscope.ready.then(() => true)"):
        self.events = []
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        while "Page.loadEventFired" not in self.events:
            self.take(self.receive())
        if ready:
            self.evaluate(ready)

    def evaluate(self, expression):
        """The value of JavaScript; a promise's is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "exception"))
        return answer["result"].get("value")

    def settle(self):
        """Two frames: what was asked for is drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def key(self, key, shift=False):
        code = KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        event = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        if len(key) == 1:
            event["text"] = key
        self.call("Input.dispatchKeyEvent", type="keyDown", **event)
        event.pop("text", None)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)
        self.settle()

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y, count=1, **more):
        self.mouse("mouseMoved", x, y)
        for number in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.mouse(kind, x, y, button="left", clickCount=number, **more)
        self.settle()

    def resize(self, width, height, mobile=False, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile)

    def media(self, **features):
        """As media(prefers_color_scheme="dark")."""
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()])
        self.settle()

    def screenshot(self, path, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
