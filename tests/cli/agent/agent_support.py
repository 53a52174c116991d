"""An sshd of the test's own on the loopback address, what foxscope needs to reach itself through it, and what its tests
share."""

import contextlib
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import time
import unittest

import h5py

from support import FOX, PROGRAM, TEXT, TRANSFORMER, CommandLineTest

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
SLOW_PIPE = pathlib.Path(__file__).with_name("slow_pipe.py")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def program_there(folder, before=""):
    """The program that FOXSCOPE_REMOTE_PROGRAM names, as the tests run it: it computes on the CPU."""
    script = folder / "foxscope-there"
    script.write_text(f"#!/bin/sh\n{before}\nexport FOXSCOPE_TEST_THERE={shlex.quote(str(folder))} CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1\nexec {shlex.quote(os.path.abspath(PROGRAM))} \"$@\"\n")
    script.chmod(0o755)
    return script


def processes_there(folder):
    """Processes that were started there for a test, and what they have started: their environment names its folder."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        try:
            variables = (process / "environ").read_bytes().split(b"\0") if process.name.isdigit() else []
        except OSError:
            continue
        if f"FOXSCOPE_TEST_THERE={folder}".encode() in variables:
            found.append(int(process.name))
    return found


def slow_pipe(folder, delay=25, rate=20, before=""):
    """The environment in which foxscope reaches itself through a pipe that delays and narrows."""
    program = program_there(folder, before)
    return {"FOXSCOPE_SSH": shlex.join([sys.executable, str(SLOW_PIPE), str(delay), str(rate)]),
            "FOXSCOPE_REMOTE_PROGRAM": str(program), "FOXSCOPE_TEST_THERE": str(folder),
            "FOXSCOPE_TEST_COUNTS": str(folder / "counts")}


class Sshd:
    """A server with a host key and a user's key that it made itself; nobody else can log in."""

    def __init__(self, folder):
        if SSHD is None or shutil.which("ssh") is None:
            raise unittest.SkipTest("openssh-server and openssh-client are not installed")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        self.port = free_port()
        for name in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
        (folder / "known_hosts").write_text(
            f"[127.0.0.1]:{self.port} {(folder / 'host_key.pub').read_text()}")
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host_key'}\n"
            f"AuthorizedKeysFile {folder / 'authorized_keys'}\nPidFile none\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
            "PrintMotd no\n")
        self.log = open(folder / "sshd.log", "w", encoding="utf-8")
        self.process = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=self.log)
        ssh = ["ssh", "-F", "none", "-i", folder / "user_key", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
               "-o", f"UserKnownHostsFile={folder / 'known_hosts'}", "-o", "StrictHostKeyChecking=yes"]
        self.environment = {"FOXSCOPE_SSH": shlex.join(map(str, ssh)),
                            "FOXSCOPE_REMOTE_PROGRAM": str(program_there(folder))}
        self.wait()

    def wait(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    if connection.recv(4) == b"SSH-":
                        return
            except OSError:
                time.sleep(0.02)
        raise AssertionError("sshd does not answer")

    def url(self, path):
        return f"ssh://127.0.0.1:{self.port}" + str(path).replace("%", "%25")

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.log.close()


def contents(path):
    """All attributes and arrays of an HDF5 file but the time of its making."""
    found = {}

    def take(name, item):
        for key, value in item.attrs.items():
            if key not in ("created", "DIMENSION_LIST", "REFERENCE_LIST"):
                found[f"{name}@{key}"] = str(value)
        if isinstance(item, h5py.Dataset):
            found[name] = item[()].tobytes() if item.dtype.kind != "O" else str(item[()])

    with h5py.File(path) as file:
        take("/", file)
        file.visititems(take)
    return found


class AgentTest(CommandLineTest):
    def wait_for_none(self, folder=None):
        """No agent of this test is left; what ends by itself has a few seconds."""
        deadline = time.monotonic() + 10
        while left := processes_there(folder or self.folder):
            self.assertLess(time.monotonic(), deadline, f"processes are left: {left}")
            time.sleep(0.05)

    def signal_agents(self, number):
        """Sends a signal to the agents of this test; one that ends meanwhile is none."""
        for process in processes_there(self.folder):
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{process}/cmdline").read_bytes().endswith(b"\0agent\0"):
                    os.kill(process, number)

    def two_runs(self):
        text = self.write("text.txt", TEXT * 3)
        run = self.folder / "run.h5"
        self.done("run", "--model", FOX, "--model", TRANSFORMER, "--text", text, "-o", run)
        return run
