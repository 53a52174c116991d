"""Checks the sources: `lint.py format|includes|names|documents|tidy`. Prints what is wrong and exits with 1."""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

from sentences import blocks, sentences, words

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The rooms of backend/model, the lowest first: each may see those before it.
ROOMS = ("spec", "weights", "layer", "layer/cpu", "layer/torch", "layer/cuda", "backward", "session", "training")
# Which folder may include which (a folder may always include itself). The longest matching name counts.
ALLOWED = {
    "kernels": {"kernels"},
    "backend/base": {"kernels"},
    "backend/text": {"backend/base"},
    "backend/trace": {"backend/base", "backend/text", "kernels"},
    "backend/map": {"backend/base", "backend/trace", "kernels"},
    "backend/file": {"backend/base", "backend/text", "backend/trace", "backend/map", "kernels"},
    "backend/agent": {"backend/base", "backend/text", "backend/trace", "backend/map", "backend/file", "kernels"},
    # The door of the library that LibTorch is in: its rooms see it, and it opens the highest.
    "backend/model": {"backend/base", "backend/text", "backend/trace", "kernels"},
    "backend/data": {"backend/base", "backend/text", "backend/trace", "backend/file", "backend/model", "kernels"},
    "backend/generate": {"backend/base", "backend/text", "backend/trace", "backend/model", "backend/data"},
    "backend/eval": {"backend/base", "backend/text", "backend/trace", "backend/map", "backend/file", "backend/model",
                     "backend/data", "backend/generate", "kernels"},
    "backend/train": {"backend/base", "backend/text", "backend/trace", "backend/map", "backend/file", "backend/model",
                      "backend/data", "backend/generate", "backend/eval", "backend/agent", "kernels"},
    "backend/serve": {"backend/base", "backend/text", "backend/model", "backend/data", "backend/generate",
                      "backend/eval"},
    "app": {"app/cli"},
    "app/figure": {"backend", "kernels"},
    "app/page": {"app/figure", "backend", "kernels"},
    "app/description": {"backend", "kernels"},
    "app/cli": {"app/description", "app/figure", "app/gui", "app/page", "backend", "kernels"},
    "app/gui": {"app/gui", "app/figure", "backend", "kernels"},
    "app/gui/document": {"app/figure", "backend", "kernels"},
    "app/gui/views": {"app/figure", "backend", "kernels"},
    "app/gui/heads": {"app/gui/document", "app/gui/views", "app/figure", "backend", "kernels"},
    "app/gui/comparison": {"app/gui/document", "app/gui/views", "app/figure", "backend", "kernels"},
    "app/gui/predictions": {"app/gui/document", "app/gui/views", "app/figure", "backend", "kernels"},
    "app/gui/experts": {"app/gui/document", "app/gui/views", "app/figure", "backend", "kernels"},
    "app/gui/effects": {"app/gui/document", "app/gui/views", "app/figure", "backend", "kernels"},
    "app/gui/maps": {"app/gui/document", "app/gui/views", "app/figure", "backend", "kernels"},
    "app/gui/text": {"app/gui/document", "app/gui/views", "app/figure", "backend", "kernels"},
    "app/gui/words": {"app/gui/document", "app/gui/views", "app/figure", "backend", "kernels"},
    "app/gui/evaluations": {"app/gui/document", "app/gui/views", "app/gui/atlas", "app/figure", "backend", "kernels"},
    "app/gui/atlas": {"app/gui/document", "app/gui/views", "app/gui/text", "app/figure", "backend", "kernels"},
    "app/gui/training": {"app/gui/document", "app/gui/views", "app/figure", "backend", "kernels"},
    "app/gui/curves": {"app/gui/document", "app/gui/views", "app/figure", "backend", "kernels"},
    "app/gui/window": {"app/gui", "app/description", "app/figure", "app/page", "backend", "kernels"},
    "tests": {"tests", "app", "backend", "kernels"},
}
for room in ROOMS:
    ALLOWED[f"backend/model/{room}"] = {"backend/base", "backend/text", "backend/trace", "kernels", "backend/model"}
# Libraries that only some folders may see.
LIBRARIES = {
    r"<(torch|ATen|c10|caffe2)/": ("backend/model", "tests"),
    r"<(Q[A-Z]|qcustomplot)": ("app/figure", "app/gui", "tests"),
    r"<H5|<hdf5": ("backend/file", "tests"),
    r"<pcre2": ("backend/text",),
    r"<hwy/": ("kernels", "tests"),
    r"<blosc\.h>": ("backend/train", "tests"),
    r"<zstd\.h>": ("backend/agent", "backend/train", "tests"),
    r"<httplib": ("backend/serve",),
    r"<CLI/": ("app/cli", "app"),
}
# Headers that only some may see: a view of the window gets the parts of the document that it needs.
GUARDED = {"app/gui/document/document.h": ("app/gui/document/document.cpp", "app/gui/application.cpp", "app/gui/window",
                                           "tests")}
LIBTORCH_HEADER = re.compile(r"<(torch|ATen|c10)/")


def sources():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.cpp", "*.h", "*.cu",
                             "*.cuh"],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in listed.split() if (ROOT / name).exists()]


def check_format(_):
    files = [str(path) for path in sources()]
    result = subprocess.run(["clang-format", "--dry-run", "--Werror", *files], capture_output=True, text=True)
    wrong = sorted({line.split(":")[0] for line in result.stderr.splitlines() if "clang-format-violations" in line})
    return [f"{os.path.relpath(name, ROOT)}: not formatted: run ./dev format" for name in wrong]


def folder_of(path, names):
    fitting = [name for name in names if path == name or path.startswith(name + "/")]
    return max(fitting, key=len, default=None)


def floor_of(folder):
    """How high a room of backend/model lies; None for any other folder."""
    room = folder.removeprefix("backend/model/")
    return ROOMS.index(room) if room in ROOMS else None


def check_includes(_):
    errors = []
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        home = folder_of(name, ALLOWED)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+(["<][^">]+[">])', line)
            if not match:
                continue
            included = match.group(1)
            where = f"{name}:{number}: {included}"
            if included.startswith('"'):
                target = included.strip('"')
                if target == path.stem + ".moc":  # made by Qt's moc beside the build
                    continue
                if not (ROOT / target).exists():
                    errors.append(f"{where}: write the path from the top of the checkout")
                elif not any(folder_of(target, {allowed}) for allowed in ALLOWED[home] | {home}):
                    errors.append(f"{where}: {home} may not include this folder")
                elif target in GUARDED and not any(folder_of(name, {allowed}) for allowed in GUARDED[target]):
                    errors.append(f"{where}: only {', '.join(GUARDED[target])} may include this header")
                elif floor_of(home) is not None and (floor_of(folder_of(target, ALLOWED)) or 0) > floor_of(home):
                    errors.append(f"{where}: this room of backend/model lies above {home}")
                continue
            for pattern, homes in LIBRARIES.items():
                if re.match(pattern, included) and not any(folder_of(name, {allowed}) for allowed in homes):
                    errors.append(f"{where}: only {', '.join(homes)} may include this library")
            if LIBTORCH_HEADER.match(included) and name.startswith("backend/") and name.endswith(".h") \
                    and not name.endswith("_torch.h"):
                errors.append(f"{where}: LibTorch may not be in a header that others include (name it *_torch.h)")
    return errors


def check_names(_):
    """A class that is defined twice under one name is undefined behaviour once both are linked, and no tool says so."""
    tokens = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[{};]|\bnamespace\b[\w: ]*(?={)|"
                        r"template\s*<[^{;]*?>\s|"
                        r"\b(?:class|struct|union|enum(?:\s+class)?)\s+[A-Z][\w:]*(?=\s*(?:final\s*)?(?::[^;{}]*)?{)",
                        re.DOTALL)
    places = {}
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("tests/"):  # every program of the tests is linked by itself
            continue
        scopes = []  # namespaces that are open; None for any other brace
        opened = None
        for match in tokens.finditer(re.sub(r"^\s*#[^\n]*(\\\n[^\n]*)*", "", path.read_text(), flags=re.MULTILINE)):
            token = match.group()
            if token == "{":
                scopes.append(opened)
                opened = None
            elif token == "}":
                if scopes:
                    scopes.pop()
            elif token.startswith("namespace"):
                opened = token.removeprefix("namespace").strip() or "(anonymous)"
            elif token[0] in "csue" and None not in scopes and "(anonymous)" not in scopes:
                places.setdefault("::".join([*scopes, token.split()[-1]]), []).append(name)
    # A class of the window stands in one .cpp, under a header of its name.
    alone = [path.relative_to(ROOT).as_posix() for path in sources()
             if path.is_relative_to(ROOT / "app/gui") and path.suffix == ".cpp" and not path.with_suffix(".h").exists()
             and not path.stem.endswith("_unavailable")]
    return [f"{name}: defined in {' and in '.join(where)}" for name, where in sorted(places.items())
            if len(where) > 1] + [f"{name}: has no header of its name" for name in alone]


# Where a comment begins, by the ending of the file's name; "" is ./dev.
COMMENTS = {".h": "//", ".cpp": "//", ".cu": "//", ".cuh": "//", ".py": "#", ".cmake": "#", ".txt": "#", "": "#"}
DOCUMENT = re.compile(r"(?<![\w./-])[\w./-]+\.md\b")
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
# How many words a sentence may have: where readers come first, and in the documents; and how many the README has in all.
LONGEST_SENTENCE = {"README.md": 25, "docs/guide.md": 25, "docs/commands.md": None}  # the last is the program's help
LONGEST_IN_DOCUMENTS = 30
LONGEST_README = 1200
QUOTED_PATH = re.compile(r"`((?:kernels|backend|app|tests|resources|cmake|docs)/[\w./*-]*)`")


def exists(path):
    """Whether a path from the top of the checkout, perhaps without its ending or with a star, names something."""
    path = re.sub(r"/\.\w+$", "", path.rstrip("/"))  # backend/map/map.h/.cpp
    return any(True for end in ("", ".*") for _ in ROOT.glob(path + end))


def anchors(path):
    """What links to the headings of a document end in, as GitHub makes it of them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_sentences(name, text):
    longest = LONGEST_SENTENCE.get(name, LONGEST_IN_DOCUMENTS)
    errors = [f"{name}:{line}: {len(words(one))} words in a sentence, more than {longest}: make two of it: {one}"
              for line, block in blocks(text) for one in sentences(block) if longest and len(words(one)) > longest]
    if name == "README.md" and len(text.split()) > LONGEST_README:
        errors.append(f"{name}: {len(text.split())} words, more than {LONGEST_README}: move some to docs/")
    return errors


def check_documents(_):
    """Documents that comments point to, links between documents, files that documents speak of, and long sentences."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout
    errors = []
    for name in listed.splitlines():
        path = ROOT / name
        mark = COMMENTS.get(path.suffix)
        if not path.is_file() or (mark is None and path.suffix != ".md") or name.startswith("resources/texts/"):
            continue
        if mark and (path.suffix or name == "dev") and not name.startswith("tests/data/"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for found in DOCUMENT.findall(line.partition(mark)[2]):
                    if not (ROOT / found).exists():
                        errors.append(f"{name}:{number}: {found}: no such document: write its path from the top")
        elif path.suffix == ".md":
            errors += check_sentences(name, path.read_text())
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for target, anchor in LINK.findall(line):
                    linked = path.parent / target if target else path
                    if not linked.exists() or (anchor and linked.suffix == ".md" and anchor not in anchors(linked)):
                        errors.append(f"{name}:{number}: {target}{'#' if anchor else ''}{anchor}: this link leads nowhere")
                for target in QUOTED_PATH.findall(line):
                    if "NAME" not in target and not exists(target):
                        errors.append(f"{name}:{number}: {target}: no such file or folder")
    return errors


def tidy_arguments(entry):
    """The compiler's arguments, without what only g++ knows and without precompiled headers."""
    arguments = []
    words = iter(shlex.split(entry["command"]))
    for word in words:
        if word == "-include":
            next(words)
        elif word in ("-o", "-MF", "-MT", "-MQ"):
            next(words)
        elif word == "-Xclang":
            next(words)
        elif word not in ("-c", "-MD", "-fopenmp", "-fpch-preprocess", "-Winvalid-pch", "-Werror", entry["file"]):
            arguments.append(word)
    start = next(n for n, word in enumerate(arguments) if word.startswith("-"))
    while not arguments[start - 1].endswith(("++", "cc", "gcc")):
        start = next(n for n in range(start + 1, len(arguments)) if arguments[n].startswith("-"))
    return arguments[start:]


def sources_of(entry):
    """Entries of the sources that one of a unity build includes; of another the entry itself."""
    unity = pathlib.Path(entry["directory"], entry["file"])
    if not re.fullmatch(r"unity_\d+_cxx\.cxx", unity.name):
        return [entry]
    sources = [str(ROOT / name) for name in re.findall(r'#include "([^"]+)"', unity.read_text())]
    return [{**entry, "file": source, "command": entry["command"].replace(entry["file"], source)} for source in sources]


def texts_included(path, known):
    """The project's own headers that a source includes, directly or not: {path}."""
    if path not in known:
        known[path] = set()
        found = {ROOT / name for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)}
        known[path] = set().union(*({header} | texts_included(header, known) for header in found if header.exists()))
    return known[path]


def check_tidy(options):
    """What has passed is remembered by the content of a source and of all that it includes, for every checkout and build of
    this user. Of the rest, the newest are looked at first, for as long as --minutes says."""
    # Tests are left to the compilers' warnings: they would double the time.
    folders = tuple(f"{ROOT}/{folder}/" for folder in ("kernels", "backend", "app"))
    entries = [source for entry in json.loads((options.build / "compile_commands.json").read_text())
               for source in sources_of(entry) if source["file"].startswith(folders)]
    entries = list({entry["file"]: entry for entry in entries}.values())
    passed = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "foxscope-lint"
    passed.mkdir(parents=True, exist_ok=True)
    if options.minutes and not any(passed.iterdir()):
        print("clang-tidy: this user has not swept the sources yet: ./dev lint does, and from then on what changes is looked at")
        return []
    rules = (ROOT / ".clang-tidy").read_bytes()
    known = {}

    def stamp_of(entry, arguments):
        source = pathlib.Path(entry["file"])
        key = hashlib.sha256(rules + repr(arguments).replace(str(ROOT), "").encode())
        for path in [source, *sorted(texts_included(source, known))]:
            key.update(path.read_bytes())
        return passed / key.hexdigest()

    work = []
    for entry in entries:
        arguments = tidy_arguments(entry)
        stamp = stamp_of(entry, arguments)
        if not stamp.exists():
            work.append((entry, arguments, stamp))
    work.sort(key=lambda one: pathlib.Path(one[0]["file"]).stat().st_mtime, reverse=True)
    end = time.monotonic() + options.minutes * 60 if options.minutes else None
    left = []

    def one(task):
        entry, arguments, stamp = task
        if end is not None and time.monotonic() > end:
            left.append(entry["file"])
            return None
        result = subprocess.run(["clang-tidy", "--quiet", entry["file"], "--", *arguments, "-Wno-everything"],
                                capture_output=True, text=True, cwd=entry["directory"])
        if result.returncode == 0:
            stamp.touch()
            return None
        print(result.stdout.strip() or result.stderr.strip(), flush=True)  # a whole sweep takes half an hour
        return f"clang-tidy: see what is said of {entry['file']}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [text for text in pool.map(one, work) if text]
    print(f"clang-tidy: {len(entries)} files, {len(entries) - len(work)} unchanged since they passed, "
          f"{len(work) - len(left)} looked at, {len(left)} left for ./dev lint")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=["format", "includes", "names", "documents", "tidy"])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--minutes", type=float, default=0, help="of tidy: start no file after these (0: no limit)")
    options = parser.parse_args()
    errors = {"format": check_format, "includes": check_includes, "names": check_names,
              "documents": check_documents, "tidy": check_tidy}[options.check](options)
    print("\n".join(errors))
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
