"""Writes tokenizers, texts, and how the `tokenizers` package cuts them: `tokenizer_peer.py FIXTURE FOLDER`.

For each kind of tokenizer, KIND.json is the tokenizer and KIND.bin the cases, in little-endian 32-bit integers:
size of the text, its UTF-8 bytes, number of tokens, their ids, then their first and their last-plus-one characters.
KIND.escaped.bin is the same for texts that went through json.dumps(text)[1:-1]; characters are those of the original.
Exits with 77 where the package is missing.
"""

import json
import pathlib
import random
import struct
import sys
import unicodedata

try:
    from tokenizers import Tokenizer
except ImportError:
    sys.exit(77)

STRINGS = 100_000


def assigned(first, last):
    """Characters of a range that this Python's Unicode knows; no surrogates, nothing for private use."""
    return [chr(c) for c in range(first, last + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]


SCRIPTS = [assigned(*span) for span in [
    (0x20, 0x7E), (0x20, 0x7E), (0x20, 0x7E), (0x00, 0x1F), (0x7F, 0xFF), (0x100, 0x24F), (0x300, 0x36F), (0x370, 0x3FF),
    (0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1680, 0x180F),
    (0x2000, 0x206F), (0x2070, 0x20CF), (0x2100, 0x218F), (0x2200, 0x22FF), (0x3000, 0x303F), (0x3040, 0x30FF),
    (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF), (0x1D400, 0x1D7FF), (0x1F300, 0x1F6FF),
    (0x1F900, 0x1F9FF), (0x20000, 0x2A6DF), (0xE0100, 0xE01EF)]]
SNIPPETS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", " '", "  ", "\n\n", "\r\n", "\t", " \u3000", "\x85", "\u180e", "\u200b",
            "\xa0", "\u2028", "<|endoftext|>", "<|endoftext", "<x>", "<xy>", "ww", "w", "\\n", "\\u0041", '"', "the ", " of",
            "👩\u200d👩\u200d👧\u200d👦", "🏳️\u200d🌈", "e\u0301", "1234", "ⅷ", "½", "٣", " aaaaaaaaaaaaaaaa", "-" * 80, " " * 70]


def random_text(source):
    parts = []
    for _ in range(source.randrange(1, 7)):
        kind = source.random()
        if kind < 0.4:
            parts.append(source.choice(SNIPPETS))
        else:
            script = source.choice(SCRIPTS)
            parts.append("".join(source.choices(script, k=source.randrange(1, 9))))
    return "".join(parts)


def every_character():
    """Each assigned character beside a letter, itself, a space and a digit, 64 characters a text."""
    characters = [c for c in assigned(0, 0x10FFFF)]
    return ["".join(f"a{c}{c} {c}1" for c in characters[i:i + 64]) for i in range(0, len(characters), 64)]


def kinds(fixture):
    """Tokenizers by name, each with the texts it is tried on."""
    source = random.Random(20260101)
    texts = ["", " ", "a"] + [random_text(source) for _ in range(STRINGS)]
    some = texts[: STRINGS // 10]

    def added(content, **flags):
        token = dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
        return {**token, **flags}

    def changed(tokens=(), **pre_tokenizer):
        new = json.loads(json.dumps(fixture))
        first = len(fixture["model"]["vocab"])
        for token in tokens:
            known = fixture["model"]["vocab"].get(token["content"])
            new["added_tokens"].append({"id": first if known is None else known, **token})
            first += known is None
        new["pre_tokenizer"].update(pre_tokenizer)
        return new

    yield "plain", changed(), texts
    yield "characters", changed(), every_character()
    yield "prefix", changed(add_prefix_space=True), some
    yield "whole", changed(use_regex=False), some
    yield "added", changed([added("<x>", rstrip=True), added("<xy>", lstrip=True), added("ww", single_word=True),
                            added("w", normalized=True, single_word=True), added("the", normalized=True),
                            added("  "), added("\u3000", lstrip=True, rstrip=True), added('"', special=True)]), some
    yield "added-prefix", changed([added("<x>", rstrip=True), added("1234")], add_prefix_space=True), some

    # Merges in an order that no training gives: a merge may make a pair of lower rank.
    shuffled = changed(use_regex=False)
    source.shuffle(shuffled["model"]["merges"])
    yield "shuffled", shuffled, some
    ignoring = changed()
    ignoring["model"]["ignore_merges"] = True
    ignoring["model"]["merges"] = ignoring["model"]["merges"][:2000]
    yield "ignore-merges", ignoring, some


def integers(ids, spans):
    """What is written of the tokens of a text."""
    first, last = zip(*spans) if spans else ((), ())
    return struct.pack(f"<{1 + 3 * len(ids)}i", len(ids), *ids, *first, *last)


def write(path, cases):
    with open(path, "wb") as file:
        for text, ids, spans in cases:
            content = text.encode()
            file.write(struct.pack("<I", len(content)) + content)
            file.write(integers(ids, spans))


def unescaped_spans(text, spans):
    """Spans over the escaped text as spans over the characters of the original."""
    owner = [i for i, character in enumerate(text) for _ in json.dumps(character)[1:-1]]
    return [(owner[first], owner[last - 1] + 1) for first, last in spans]


def main():
    fixture = json.loads(pathlib.Path(sys.argv[1]).read_text())
    folder = pathlib.Path(sys.argv[2])
    for name, content, texts in kinds(fixture):
        (folder / f"{name}.json").write_text(json.dumps(content))
        tokenizer = Tokenizer.from_str(json.dumps(content))
        encoded = tokenizer.encode_batch(texts)
        write(folder / f"{name}.bin", ((text, e.ids, e.offsets) for text, e in zip(texts, encoded)))
        if name == "plain":
            texts = texts[: STRINGS // 4]
            encoded = tokenizer.encode_batch([json.dumps(text)[1:-1] for text in texts])
            write(folder / f"{name}.escaped.bin",
                  ((text, e.ids, unescaped_spans(text, e.offsets)) for text, e in zip(texts, encoded)))


if __name__ == "__main__":
    main()
