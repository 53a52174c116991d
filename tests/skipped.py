"""skipped.py LOG: whether each test that ctest's log says was skipped had to be.

In continuous integration everything that a test needs can be installed: a test that is skipped for want of a package
tests nothing, and nobody notices. Only what an installation cannot give is a reason: a GPU, instructions of the
processor, rights over the system, a build of another kind. Prints the others, and ends with 1 if there are any.
"""

import re
import sys

REASONS = [
    # A GPU, or none where the test is of a machine without.
    r"no CUDA device", r"no GPU, or a build without CUDA", r"no CUDA device, or a build without CUDA",
    r"fewer than two CUDA devices", r"one CUDA device", r"there is a (GPU|CUDA device)", r"this machine has a CUDA device",
    r"no AVX-4096 with VNNI",
    # What a container may not let a program do.
    r"cannot (become another user|mount a small file system|change the root folder|filter system calls|give files away) "
    r"here.*", r"needs a right or a file system that is not there", r"numbers of system calls are not known here",
    # The other kinds of build have these.
    r"sanitizers? .*", r"a sanitizer .*", r"a build without asserts", r"built with Qt",
]


def skipped(log):
    """(test, reason) of each skipped test: GoogleTest says the reason before the test's name; of Python's tests
    support.py says both in one line."""
    reason = ""
    lines = iter(log.splitlines())
    for line in lines:
        if re.search(r": Skipped$", line):
            reason = next(lines, "").strip()
        elif found := re.match(r"\[  SKIPPED \] (\S+) \(\d+ ms\)", line):
            yield found[1], reason
            reason = ""
        elif found := re.match(r"SKIPPED (.*?): (.*)", line):
            yield found[1], found[2]


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        found = sorted(set(skipped(file.read())))
    wrong = [(test, reason) for test, reason in found if not re.fullmatch("|".join(REASONS), reason)]
    for test, reason in wrong:
        print(f"{test} was skipped: {reason or 'it does not say why'}")
    print(f"{len(found)} tests were skipped, {len(wrong)} of them for want of something that can be installed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
