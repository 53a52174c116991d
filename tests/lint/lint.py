"""Checks the sources: `lint.py format|includes|tidy --build FOLDER`. Prints what is wrong and exits with 1."""

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

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Which folder may include which (a folder may always include itself). The longest matching name counts.
ALLOWED = {
    "kernels": {"kernels"},
    "backend/base": {"kernels"},
    "backend/text": {"backend/base"},
    "backend/trace": {"backend/base", "backend/text", "kernels"},
    "backend/map": {"backend/base", "backend/trace", "kernels"},
    "backend/file": {"backend/base", "backend/text", "backend/trace", "backend/map", "kernels"},
    "backend/model": {"backend/base", "backend/text", "backend/trace", "kernels"},
    "backend/eval": {"backend/base", "backend/text", "backend/trace", "backend/map", "backend/file", "backend/model",
                     "kernels"},
    "app": {"app", "backend", "kernels"},
    "tests": {"tests", "app", "backend", "kernels"},
}
# Libraries that only some folders may see.
LIBRARIES = {
    r"<(torch|ATen|c10|caffe2)/": ("backend/model", "tests"),
    r"<(Q[A-Z]|qcustomplot)": ("app/figure", "app/gui", "tests"),
    r"<H5|<hdf5": ("backend/file", "tests"),
    r"<pcre2": ("backend/text",),
    r"<hwy/": ("kernels", "tests"),
    r"<CLI/": ("app/cli", "app"),
}
LIBTORCH_HEADER = re.compile(r"<(torch|ATen|c10)/")


def sources():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.cpp", "*.h"],
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
                continue
            for pattern, homes in LIBRARIES.items():
                if re.match(pattern, included) and not any(folder_of(name, {allowed}) for allowed in homes):
                    errors.append(f"{where}: only {', '.join(homes)} may include this library")
            if LIBTORCH_HEADER.match(included) and name.startswith("backend/") and name.endswith(".h") \
                    and not name.endswith("_torch.h"):
                errors.append(f"{where}: LibTorch may not be in a header that others include (name it *_torch.h)")
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
        elif word not in ("-c", "-MD", "-fopenmp", "-fpch-preprocess", "-Winvalid-pch", "-Werror", entry["file"]):
            arguments.append(word)
    start = next(n for n, word in enumerate(arguments) if word.startswith("-"))
    while not arguments[start - 1].endswith(("++", "cc", "gcc")):
        start = next(n for n in range(start + 1, len(arguments)) if arguments[n].startswith("-"))
    return arguments[start:]


def check_tidy(build):
    # Tests are left to the compilers' warnings: they would double the time.
    folders = tuple(f"{ROOT}/{folder}/" for folder in ("kernels", "backend", "app"))
    entries = [entry for entry in json.loads((build / "compile_commands.json").read_text())
               if entry["file"].startswith(folders)]
    entries = list({entry["file"]: entry for entry in entries}.values())
    headers = hashlib.sha256()
    for path in sorted(sources()) + [ROOT / ".clang-tidy"]:
        if path.suffix != ".cpp":
            headers.update(path.read_bytes())
    passed = build / "tidy-passed"
    passed.mkdir(exist_ok=True)

    def one(entry):
        arguments = tidy_arguments(entry)
        key = headers.copy()
        key.update(pathlib.Path(entry["file"]).read_bytes() + repr(arguments).encode())
        stamp = passed / key.hexdigest()
        if stamp.exists():
            return None
        result = subprocess.run(["clang-tidy", "--quiet", entry["file"], "--", *arguments, "-Wno-everything"],
                                capture_output=True, text=True, cwd=entry["directory"])
        if result.returncode == 0:
            stamp.touch()
            return None
        return result.stdout.strip() or result.stderr.strip()

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [found for found in pool.map(one, entries) if found]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=["format", "includes", "tidy"])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    errors = {"format": check_format, "includes": check_includes, "tidy": check_tidy}[arguments.check](arguments.build)
    print("\n".join(errors))
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
