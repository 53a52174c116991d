"""Classes of tokens by another way than the program's: kinds of characters as a string, and regular expressions on it.

token_class_peer.py FOLDER: reads text (UTF-8) and tokens (int64 pairs of byte offsets), writes classes (one byte each).
"""

import collections
import pathlib
import re
import struct
import sys
import unicodedata

BOS, NEWLINE, SPACE, PUNCTUATION, SENTENCE, FIRST, LATER, RARE = (1 << n for n in range(8))
TITLES = "Mr Mrs Ms Messrs Dr Prof Rev Hon St Capt Col Gen Lt Sgt Mme Mlle".split()
BREAKS = "\n\r\v\f\x85\u2028\u2029"


def kind(character):
    category = unicodedata.category(character)
    if category[0] in "LMN":
        return "l" if category == "Ll" else "w"
    if character in BREAKS:
        return "n"
    # Python's own white space has the separators of files, which Unicode's property has not.
    if character.isspace() and character not in "\x1c\x1d\x1e\x1f":
        return "s"
    return "'" if character in "'\u2019" else {**dict.fromkeys(".!?\u2026", "."), **dict.fromkeys("。！？", "o"),
                                               **dict.fromkeys(",;:", ",")}.get(character, "p")


def main():
    folder = pathlib.Path(sys.argv[1])
    text = (folder / "text").read_bytes().decode()
    kinds = "".join(map(kind, text))
    words = [match.span() for match in re.finditer("[lw]+(?:'[lw]+)*", kinds)]
    counts = collections.Counter(lower(text[begin:end]) for begin, end in words)
    limit = max(1, len(words) // 100000)

    within = [None] * len(text)  # (begin, sentence, rare) of the word that a character is in
    before = None
    for begin, end in words:
        word = text[begin:end]
        sentence = before is None or starts(text, kinds, before, begin)
        rare = counts[lower(word)] <= limit and not re.fullmatch("[0-9']+", word)
        for at in range(begin, end):
            within[at] = (begin, sentence, rare)
        before = (begin, end)

    character_of = []
    for index, character in enumerate(text):
        character_of += [index] * len(character.encode())
    offsets = (folder / "tokens").read_bytes()
    classes = bytearray()
    seen = None
    for start, end in struct.iter_unpack("<qq", offsets):
        covered = sorted(set(character_of[start:end]))
        inked = [at for at in covered if kinds[at] not in "ns"]
        if not inked:
            classes.append(NEWLINE if any(kinds[at] == "n" for at in covered) else SPACE)
            seen = None
            continue
        head = inked[0]
        if within[head] is None:
            classes.append(PUNCTUATION)
        else:
            begin, sentence, rare = within[head]
            whole = head == begin and seen != head and (start == 0 or character_of[start - 1] != head)
            classes.append((LATER if not whole else SENTENCE if sentence else FIRST) | (RARE if rare else 0))
        seen = head
    (folder / "classes").write_bytes(classes)


def lower(word):
    return "".join(c.lower() if c.isascii() else c for c in word)


def starts(text, kinds, before, begin):
    gap = kinds[before[1]:begin]
    breaks = re.sub("\r\n", "\n", text[before[1]:begin])
    if re.search(f"[{BREAKS}][^\\S{BREAKS}]*[{BREAKS}]", breaks):
        return True
    tail = gap[gap.rfind(",") + 1:]
    if not re.search(r"(o[^.o]*|\.[^.o]*[sn][^.o]*)$", tail) or kinds[begin] == "l":
        return False
    lone = gap[0] == "." and text[before[1]] == "." and len(re.findall("[.o]", gap)) == 1
    word = text[slice(*before)]
    initial = len(word) == 1 and unicodedata.category(word) == "Lu"
    return not (lone and (word in TITLES or initial))


main()
