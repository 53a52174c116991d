"""The README and the documents: every command in them runs as it is written, and prints what they say that it prints."""

import os
import re
import shlex
import unittest

import documents
from support import DRAWS, SOURCE, CommandLineTest, png_size

NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?%?")


def number(word):
    return float(word.rstrip("%").replace(",", ""))


def alike(expected, printed):
    """Whether two lines say the same, numbers to 2 % and one in the last digit that is shown."""
    ours, theirs = expected.split(), printed.split()
    if len(ours) != len(theirs):
        return False
    for left, right in zip(ours, theirs):
        if NUMBER.fullmatch(left) and NUMBER.fullmatch(right):
            digit = 10 ** -len(left.rstrip("%").partition(".")[2])
            if abs(number(left) - number(right)) > 0.02 * abs(number(left)) + 1.001 * digit:
                return False
        elif left != right:
            return False
    return True


def words_of(command):
    """What a command line gives foxscope; none where it starts something else."""
    words = shlex.split(command.replace("|", " | ").replace(">", " > "))
    places = [place for place, word in enumerate(words) if word in ("foxscope", "build/foxscope")]
    return words[places[-1] + 1:] if places else None


class DocumentsTest(CommandLineTest):
    maxDiff = None

    def try_all(self, path):
        """Runs what a document shows, in its order and in one folder."""
        if not DRAWS:
            self.skipTest("this build draws nothing")
        if os.environ["FOXSCOPE_SANITIZE"]:
            self.skipTest("sanitizers find the same in the tests of each command")
        documents.prepare(self.folder)
        printed = ""
        for example in documents.examples(path):
            where = f"{path.relative_to(SOURCE)}:{example.line}: {example.text}"
            if example.kind == "text":
                lines = printed.splitlines()
                for line in example.text.splitlines():
                    if line != "...":
                        self.assertTrue(any(alike(line, other) for other in lines), f"{where}\nnot printed: {line}\n{printed}")
            elif example.runs:
                with self.subTest(where):
                    done = documents.run(example, self.folder)
                    self.assertEqual(done.returncode, 0, done.stderr)
                printed = done.stdout

    def check_pictures(self, path):
        """Each picture that a document shows, windows apart, was drawn again by one of its commands, as large as it is."""
        pictures = [name for name in documents.shown_pictures(path) if not name.startswith("window-")]
        self.assertTrue(pictures)
        for name in pictures:
            self.assertTrue((self.folder / name).exists(), f"no command of {path.name} makes {name}")
            self.assertEqual(png_size(self.folder / name), png_size(documents.PICTURES / name), name)
            self.assertLess((documents.PICTURES / name).stat().st_size, 300_000, name)

    def test_commands_are_found_as_a_reader_finds_them(self):
        path = self.write("page.md", "A `build/foxscope info \\| x` here.\n\n```sh\nfirst --a \\\n  --b    # says why\n"
                          "# needs the network\nsecond\nthird # none\n\nfourth     # takes 3 minutes\nfifth '#6'\n```\n"
                          "```text\nseen\n```\n```json\n{}\n```\n")
        found = [(one.kind, one.text.split(), one.line, one.runs) for one in documents.examples(path)]
        self.assertEqual(found, [("sh", ["build/foxscope", "info", "|", "x"], 1, True),
                                 ("sh", ["first", "--a", "--b"], 4, True), ("sh", ["second"], 7, False),
                                 ("sh", ["third"], 8, False), ("sh", ["fourth"], 10, False),
                                 ("sh", ["fifth", "'#6'"], 11, True), ("text", ["seen"], 14, False)])

    def test_what_is_printed_may_differ_in_its_last_digits_alone(self):
        self.assertTrue(alike("7 2 894 x 0.5 %", "7  2  893 x 0.50 %"))
        for other in ["7 2 894 y 0.5 %", "7 2 894 x 0.5", "7 2 950 x 0.5 %", "7 2 894 x 0.7 %"]:
            self.assertFalse(alike("7 2 894 x 0.5 %", other), other)

    def test_the_readmes_commands_run_and_make_its_pictures(self):
        self.try_all(SOURCE / "README.md")
        self.check_pictures(SOURCE / "README.md")

    def test_the_guides_commands_run_and_make_its_pictures(self):
        self.try_all(SOURCE / "docs" / "guide.md")
        self.check_pictures(SOURCE / "docs" / "guide.md")

    def test_commands_of_the_other_documents_run(self):
        for path in sorted((SOURCE / "docs").glob("*.md")):
            if path.name not in ("guide.md", "commands.md") and any(one.runs for one in documents.examples(path)):
                with self.subTest(path.name):
                    self.setUp()
                    self.try_all(path)

    def test_commands_that_are_not_run_have_words_that_the_program_knows(self):
        pages = documents.help_pages()
        checked = 0
        for path in [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]:
            shown = [(one.text, one.line) for one in documents.examples(path) if one.kind == "sh"]
            lines = path.read_text().splitlines() if path.name != "commands.md" else []
            shown += [(code, place) for place, line in enumerate(lines, 1) for code in re.findall(r"`(foxscope [^`]+)`", line)]
            for command, line in shown:
                words = words_of(command.replace("\\|", "|"))
                if words is None:
                    continue
                page = ()
                while words and re.fullmatch(r"[a-z]+", words[0]) and (*page, words[0]) in pages:
                    page = (*page, words.pop(0))
                if page == ():  # the window's files, or a COMMAND in capitals
                    continue
                for option in (word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)):
                    self.assertRegex(pages[page], rf"(?<![\w-]){option}(?![\w-])", f"{path.name}:{line}: {command}")
                    checked += 1
        self.assertGreater(checked, 50)

    def test_the_page_of_commands_is_the_programs_help(self):
        if not DRAWS:
            self.skipTest("this build draws nothing")
        self.assertEqual((SOURCE / "docs" / "commands.md").read_text(), documents.commands_page(),
                         "docs/commands.md is old: run ./dev docs")


if __name__ == "__main__":
    unittest.main()
