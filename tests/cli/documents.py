"""The README and the documents: the commands in them, and the page and the pictures that are made by the program.

    documents.py commands    writes docs/commands.md from the program's help
    documents.py pictures    draws the pictures of README.md and docs/guide.md anew, by the commands that stand there
"""

import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(os.environ["FOXSCOPE"]).resolve()
SOURCE = pathlib.Path(os.environ["FOXSCOPE_SOURCE_DIR"]).resolve()
PICTURES = SOURCE / "resources" / "readme"

# What a comment says of a command that is not run by the tests. A comment on a line of its own speaks of all commands up
# to the next empty line.
NOT_HERE = re.compile(r"on (a|two|several) GPUs?\b|needs (root|the network|a display|Apptainer|Podman|pandas|torch)|in a job of Slurm|"
                      r"takes? (a|an|\d+|some|a few) (minutes?|hours?|days?)|until Ctrl\+C|opens the window|while it answers")


@dataclasses.dataclass
class Example:
    """A command, a script in Python, or what the command before it prints."""
    kind: str  # sh, python, text
    text: str
    line: int
    comment: str = ""

    @property
    def runs(self):
        return self.kind != "text" and not NOT_HERE.search(self.comment)


def commands_of(block, line):
    """The commands of a block of the shell's, with what their comments say."""
    spoken = ""
    command = ""
    for number, text in enumerate(block.splitlines(), line):
        if not text.strip():
            spoken = ""
            continue
        if text.startswith("#"):
            spoken += " " + text
            continue
        text, comment = re.fullmatch(r"(.*?)(\s#\s.*)?", text).groups()
        first = number if not command else first
        if text.endswith("\\"):
            command += text[:-1] + " "
            continue
        yield Example("sh", command + text, first, spoken + (comment or ""))
        command = ""


def examples(path):
    """The commands of a document and what they print, in its order: blocks of code, and `build/foxscope ...` in a line."""
    lines = path.read_text().splitlines()
    number = 0
    while number < len(lines):
        fence = re.fullmatch(r"```(\w*)", lines[number])
        if not fence:
            for code in re.findall(r"`(build/foxscope [^`]+)`", lines[number]):
                yield Example("sh", code.replace("\\|", "|"), number + 1)
            number += 1
            continue
        end = lines.index("```", number + 1)
        block = "\n".join(lines[number + 1:end])
        if fence[1] == "sh":
            yield from commands_of(block, number + 2)
        elif fence[1] in ("python", "text"):
            comment = lines[number + 1] if lines[number + 1].startswith("#") else ""
            yield Example(fence[1], block, number + 2, comment)
        number = end + 1


def program(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True, cwd=SOURCE).stdout


def command_names(help_text):
    """The commands that a help lists."""
    listed = re.search(r"^Subcommands:\n((?:  .*\n)+)", help_text, re.MULTILINE)
    return re.findall(r"^  (\w+) ", listed[1], re.MULTILINE) if listed else []


def help_pages():
    """The help of the program and of every command: {words of the command: text}."""
    pages = {(): program("--help")}
    for name in command_names(pages[()]):
        pages[(name,)] = program(name, "--help")
        if name != "bench":  # what benchmarks there are says its own page
            for kind in command_names(pages[(name,)]):
                pages[(name, kind)] = program(name, kind, "--help")
    return pages


def commands_page():
    """The text of docs/commands.md."""
    parts = ["# Every command\n\nThis page is the program's own help, written by `./dev docs`. `foxscope COMMAND --help` prints the "
             "same.\nThe [README](../README.md) and the [guide](guide.md) show the commands at work.\n"]
    pages = help_pages()
    links = {"eval": [], "figure": [], "": []}
    for words in pages:
        if words and words[0] != "":
            group = words[0] if len(words) == 2 else ""
            links[group].append(f"[{' '.join(words)}](#foxscope-{'-'.join(words)})")
    parts.append("\n".join(f"- {', '.join(group)}" for group in (links[""], links["eval"], links["figure"])) + "\n")
    for words, text in pages.items():
        parts.append(f"{'#' * (2 + (len(words) > 1))} {' '.join(['foxscope', *words])}\n\n```text\n{text.rstrip()}\n```\n")
    return "\n".join(parts)


def prepare(folder):
    """A folder that looks to a document's commands like a checkout in which the program has been built, with what the
    documents call by these names: a text of your own, books, checkpoints."""
    (folder / "build").mkdir()
    (folder / "build" / "foxscope").symlink_to(PROGRAM)
    for name in ("resources", "tests", "docs", "dev"):
        (folder / name).symlink_to(SOURCE / name)
    texts = SOURCE / "resources" / "texts"
    for name in ("books", "other-books"):
        (folder / name).mkdir()
        for text in texts.glob("*.txt"):
            (folder / name / text.name).write_text(text.read_text()[:9000])
    for name in ("book.txt", "chapter.txt", "essays.txt"):
        shutil.copy(texts / "black-beauty-1-3.txt", folder / name)
    subprocess.run([PROGRAM, "train", "--recipe", SOURCE / "resources/recipes/fox-pro-1m.json", "--data", "book.txt",
                    "--batch-tokens", "512", "--max-tokens", "1024", "--warmup-tokens", "0", "--quiet", "-o", "first"],
                   check=True, cwd=folder, stdout=subprocess.DEVNULL)
    (folder / "path" / "to").mkdir(parents=True)
    for name in ("checkpoint", "fox", "transformer"):
        (folder / "path" / "to" / name).symlink_to(folder / "first" / "checkpoints" / "step-000002")


def environment(folder):
    return {**os.environ, "CUDA_VISIBLE_DEVICES": "", "DISPLAY": "", "WAYLAND_DISPLAY": "", "LC_ALL": "C.UTF-8",
            "XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache"),
            "PYTHONPATH": str(SOURCE / "python"), "FOXSCOPE_PROGRAM": str(PROGRAM),
            "PATH": f"{folder / 'build'}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}


# What the tests never start: documents have to say what such a command needs.
NEVER_STARTED = re.compile(r"\s*(sudo|apt|apt-get|pip|git|podman|docker|apptainer|srun|sbatch|torchrun|lm_eval|\./dev)\b")


def run(example, folder):
    """Runs one as it stands; standard output, standard error and exit status."""
    if NEVER_STARTED.match(example.text):
        raise AssertionError(f"{example.text}: a comment has to say what this needs: see NOT_HERE")
    words = [sys.executable, "-c"] if example.kind == "python" else ["bash", "-euc"]
    return subprocess.run([*words, example.text], cwd=folder, env=environment(folder), capture_output=True, text=True,
                          timeout=600, stdin=subprocess.DEVNULL)


def shown_pictures(path):
    """The pictures of resources/readme that a document shows."""
    return sorted(set(re.findall(r"resources/readme/([\w-]+\.png)", path.read_text())))


def draw_pictures():
    for document in (SOURCE / "README.md", SOURCE / "docs" / "guide.md"):
        with tempfile.TemporaryDirectory(prefix="foxscope-pictures-") as name:
            folder = pathlib.Path(name)
            prepare(folder)
            for example in examples(document):
                if example.runs:
                    done = run(example, folder)
                    if done.returncode != 0:
                        sys.exit(f"{document}:{example.line}: {example.text}\n{done.stderr}")
            for picture in shown_pictures(document):
                if (folder / picture).exists():
                    shutil.copy(folder / picture, PICTURES / picture)


if __name__ == "__main__":
    if sys.argv[1:] == ["commands"]:
        (SOURCE / "docs" / "commands.md").write_text(commands_page())
    elif sys.argv[1:] == ["pictures"]:
        draw_pictures()
    else:
        sys.exit(__doc__)
