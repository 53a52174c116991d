"""What the command line's tests share: running the program, and checkpoints, ids and damaged copies to run it on."""

import csv
import ctypes
import errno
import json
import os
import pathlib
import platform
import pty
import re
import resource
import shutil
import socket
import stat
import struct
import subprocess
import tempfile
import time
import unittest
import zlib

import numpy
import safetensors.numpy

PROGRAM = os.environ["FOXSCOPE"]
DRAWS = os.environ["FOXSCOPE_GUI"] == "ON"
SOURCE = pathlib.Path(os.environ["FOXSCOPE_SOURCE_DIR"])
DATA = SOURCE / "tests" / "data"
FOX = SOURCE / "resources" / "models" / "fox-pro-12m"
TRANSFORMER = SOURCE / "resources" / "models" / "transformer-pro-12m"
DELTANET = SOURCE / "resources" / "models" / "gated-deltanet-1m"
MAMBA2 = SOURCE / "resources" / "models" / "mamba2-12m"
# Every program started here computes on the CPU, the same on every machine.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# The window's own settings go to a folder that does not exist, and no display is found.
NO_DISPLAY = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "QT_QPA_PLATFORM": "", "XDG_CONFIG_HOME": "/nonexistent"}
SYSTEM_CALLS = {"x86_64": {"openat": 257, "fcntl": 72, "fsync": 74, "seccomp": 317},
                "aarch64": {"openat": 56, "fcntl": 25, "fsync": 82, "seccomp": 277}}.get(platform.machine(), {})
TEXT = "The fox ran over the hill. The hill was green, and the fox was quick; nobody saw the fox.\n"


class Result(unittest.TextTestResult):
    """Says in the log which test was skipped, and why (tests/skipped.py)."""

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.stream.write(f"\nSKIPPED {test.id()}: {reason}\n")


unittest.TextTestRunner.resultclass = Result


def limited_memory(size):
    """What a program is started with that may have no more address space than that."""
    if os.environ["FOXSCOPE_SANITIZE"]:
        raise unittest.SkipTest("sanitizers reserve more address space than any limit")
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size))}


def no_nameless_files(flushes=True):
    """What a program is started with whose file system knows no files without names (O_TMPFILE), and where files are
    never flushed to disk: whoever waits for that waits for ever."""
    load, equal, holds, end = 0x20, 0x15, 0x45, 0x06
    allow, refuse, wait = 0x7fff0000, 0x00050000 | errno.EOPNOTSUPP, 0x7fc00000
    if not SYSTEM_CALLS:
        raise unittest.SkipTest("numbers of system calls are not known here")
    openat, fsync, seccomp = (SYSTEM_CALLS[name] for name in ["openat", "fsync", "seccomp"])
    # One word decides each: the call's number, then the flags of openat.
    rules = [(load, 0, 0, 0), (equal, 0, 3, openat), (load, 0, 0, 32), (holds, 0, 3, os.O_TMPFILE & ~os.O_DIRECTORY),
             (end, 0, 0, refuse), (equal, 0, 1, fsync), (end, 0, 0, allow if flushes else wait), (end, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    libc = ctypes.CDLL(None, use_errno=True)

    def forbid():
        if libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
            raise OSError(ctypes.get_errno(), "prctl")
        program = struct.pack("=H6xQ", len(rules), ctypes.addressof(code))
        answers = libc.syscall(seccomp, 1, 0 if flushes else 8, program)  # SECCOMP_SET_MODE_FILTER, with a listener
        if answers < 0:
            raise OSError(ctypes.get_errno(), "seccomp")
        if not flushes:
            os.set_inheritable(answers, True)  # open, and nobody answers

    return {"preexec_fn": forbid, "close_fds": False}


def limited_threads(folder, threads):
    """What a program is started with as a user of its own, who owns the folder and may have so many threads in all."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("only root can become another user")
    if not all(path.stat().st_mode & stat.S_IXOTH for path in pathlib.Path(PROGRAM).resolve().parents):
        raise unittest.SkipTest("other users cannot enter the folders of the program")
    user = 100_000 + os.getpid()
    os.chown(folder, user, user)

    def become():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))

    return {"preexec_fn": become}


def through_terminal(*arguments, streams=("stdout", "stderr"), **environment):
    """What a terminal gets that is the program's standard output, standard error, or both; its exit status."""
    ours, theirs = pty.openpty()
    options = {name: theirs if name in streams else subprocess.DEVNULL for name in ("stdout", "stderr")}
    process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, **options,
                               env={**os.environ, "TERM": "xterm", **environment})
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    return said, process.wait(timeout=60)


def golden(fixture, file="golden"):
    return safetensors.numpy.load_file(DATA / fixture / f"{file}.safetensors")


def png_size(path):
    """Width and height of a PNG file."""
    head = pathlib.Path(path).read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n\x1a\n"), "not a PNG"
    return struct.unpack(">II", head[16:24])


def read_png(path):
    """Pixels [rows, columns, 3] and the texts of an 8-bit RGB file without interlacing."""
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    place, data, texts = 8, b"", {}
    while place < len(content):
        length, kind = struct.unpack(">I4s", content[place:place + 8])
        body = content[place + 8:place + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", body)
            assert (depth, colour, interlace) == (8, 2, 0)
        elif kind == b"IDAT":
            data += body
        elif kind == b"tEXt":
            key, value = body.split(b"\0", 1)
            texts[key.decode()] = value.decode("latin-1")
        elif kind == b"zTXt":
            key, value = body.split(b"\0", 1)
            texts[key.decode()] = zlib.decompress(value[1:]).decode("latin-1")
        place += 12 + length
    return unfilter(zlib.decompress(data), width, height), texts


def unfilter(data, width, height):
    """Undoes the prediction of each line from the bytes to the left, above, and above to the left."""
    size = 3 * width
    lines = []
    above = bytes(size)
    for start in range(0, height * (size + 1), size + 1):
        kind, line = data[start], bytearray(data[start + 1:start + 1 + size])
        if kind == 2:
            line = bytearray((value + up) & 255 for value, up in zip(line, above))
        elif kind != 0:
            for place in range(size):
                left = line[place - 3] if place >= 3 else 0
                up = above[place]
                guess = left if kind == 1 else (left + up) // 2
                if kind == 4:
                    corner = above[place - 3] if place >= 3 else 0
                    to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
                    guess = left if to_left <= to_up and to_left <= to_corner else up if to_up <= to_corner else corner
                line[place] = (line[place] + guess) & 255
        lines.append(bytes(line))
        above = lines[-1]
    return numpy.frombuffer(b"".join(lines), numpy.uint8).reshape(height, width, 3)


class CommandLineTest(unittest.TestCase):
    """A test with a folder of its own that goes away afterwards."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="foxscope-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def foxscope(self, *arguments, stdin=None, environment=None, **options):
        variables = {**os.environ, **(environment or {})}
        return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, env=variables,
                              timeout=300, **options)

    def done(self, *arguments, **options):
        """Runs what has to succeed; returns standard output as text."""
        result = self.foxscope(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result.stdout.decode()

    def fails(self, code, words, *arguments, output=None, **options):
        """Runs what has to fail: nothing on standard output, one line on standard error with all the words, no file."""
        result = self.foxscope(*arguments, **options)
        message = result.stderr.decode()
        self.assertEqual(result.returncode, code, message)
        self.assertEqual(result.stdout, b"")
        self.assertRegex(message, r"\Afoxscope: [^\n]+\n\Z")
        for word in [words] if isinstance(words, str) else words:
            self.assertIn(word, message)
        if output is not None:
            self.assertFalse(output.exists(), "a failed command left its output")
        return message

    def is_blocked(self, process, number):
        """Whether the program takes a signal itself; before, it would end by it as any program does."""
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
        blocked = int(next(line for line in status if line.startswith("SigBlk:")).split()[1], 16)
        return blocked >> (number - 1) & 1 == 1

    def wait_until_blocked(self, process, number):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.is_blocked(process, number):
                return
            time.sleep(0.01)
        self.fail("the signal was never blocked")

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def ids_file(self, fixture="fox-pro", length=None, name="ids.json"):
        """Inputs and labels of a fixture's first golden sequence, and their file."""
        values = golden(fixture)
        inputs = values["input_ids"][0][:length].tolist()
        labels = values["labels"][0][:length].tolist()
        return self.write(name, json.dumps({"input_ids": inputs, "labels": labels}))

    def run_fixture(self, fixture="fox-pro", name="run.h5", extra=()):
        """A run file of a fixture on its golden sequence."""
        path = self.folder / name
        self.done("run", "--model", DATA / fixture, "--ids", self.ids_file(fixture), "-o", path, *extra)
        return path

    def scores(self, texts):
        """Surprisals and ranks of the tokens of texts, each by itself after BOS, by the demo model."""
        file = self.write("texts.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in texts))
        table = self.folder / "tokens.csv"
        self.done("eval", "surprisal", "--model", FOX, "--text", file, "-o", table)
        by_document = {}
        with open(table, newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                by_document.setdefault(row["document"], []).append((float(row["surprisal"]), int(row["rank"])))
        self.assertEqual(len(by_document), len(texts))
        return list(by_document.values())

    def copy_of(self, fixture):
        target = self.folder / (fixture + "-copy")
        shutil.copytree(DATA / fixture, target)
        return target

    def samba_with_a_tokenizer(self):
        """A hybrid of 64 channels of Mamba and 4 heads of attention, its vocabulary made as long as a tokenizer's."""
        tokens, columns = 8192, 32
        folder = self.copy_of("samba")
        header, data = read_safetensors(folder / "model.safetensors")
        packed = b""
        for name, entry in header.items():
            if "data_offsets" not in entry:
                continue
            begin, end = entry["data_offsets"]
            values = data[begin:end]
            if name in ("backbone.embeddings.weight", "lm_head.weight"):
                entry["shape"] = [tokens, columns]
                size = 2 * tokens * columns
                values = (values * (size // len(values) + 1))[:size]
            entry["data_offsets"] = [len(packed), len(packed) + len(values)]
            packed += values
        write_safetensors(folder / "model.safetensors", header, packed)
        set_config(folder, vocab_size=tokens)
        shutil.copy(FOX / "tokenizer.json", folder)
        return folder


def read_safetensors(path):
    """The header as a dictionary, and the bytes after it."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8:8 + length]), content[8 + length:]


def write_safetensors(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def set_config(folder, **values):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.update(values)
    path.write_text(json.dumps(config))


def set_tensor(folder, name, function):
    """Puts function(tensor) in the place of a tensor."""
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    tensors[name] = numpy.ascontiguousarray(function(tensors[name]))
    safetensors.numpy.save_file(tensors, path)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def places_of(count):
    """What torchrun sets for each of so many processes."""
    port = str(free_port())
    return [{"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": port} for rank in range(count)]


WAITS = re.compile(r"foxscope: process \d+ of \d+ waits ")


class TogetherMixin:
    """Several processes that work together."""

    environment = {}

    def start_one(self, arguments, place):
        variables = {**os.environ, **self.environment, "OMP_NUM_THREADS": "1", **place}
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=variables)
        self.addCleanup(process.kill)
        return process

    def start(self, arguments, count=2, places=None):
        return [self.start_one(arguments, place) for place in places or places_of(count)]

    def ended(self, processes):
        """Output, errors and exit status of each. That one has waited for others is told on a busy machine."""
        said = []
        for process in processes:
            output, errors = process.communicate(timeout=120)
            lines = [line for line in errors.splitlines(keepends=True) if not WAITS.match(line)]
            said.append((output, "".join(lines), process.returncode))
        return said

    def done_together(self, arguments, count=2, places=None):
        """What the first says; the others say nothing."""
        said = self.ended(self.start(arguments, count, places))
        for output, errors, status in said:
            self.assertEqual((errors, status), ("", 0), output)
        for output, _, _ in said[1:]:
            self.assertEqual(output, "")
        return said[0][0]
