"""Sentences of a document in Markdown, and how many words they have."""

import re

# What ends in a full stop and does not end a sentence.
ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|et al|cf|vs|Fig|eq|[A-Z]))\.$")
END = re.compile(r"(?<=[.!?])[\"'”’)*]*\s+(?=[\"'“‘(*]*[A-Z0-9])")


def blocks(text):
    """Running text: [(number of its first line, its text on one line)] of paragraphs and items of lists, without code, tables,
    headings and formulas."""
    found = []
    fenced = False
    open_block = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
            open_block = False
        elif fenced or re.match(r"\s*(?:\||#|<|>|$)", line) or (line.startswith("    ") and not open_block):
            open_block = False
        elif item := re.match(r"\s*(?:[-*]|\d+\.)\s+(.*)", line):
            found.append((number, item[1]))
            open_block = True
        elif open_block:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        else:
            found.append((number, line.strip()))
            open_block = True
    return found


def sentences(block):
    """The sentences of a block. Code is one word, a link its text."""
    block = re.sub(r"`[^`]*`", "Code", block)
    block = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", lambda link: link[1][:1].upper() + link[1][1:], block)
    parts = []
    for part in END.split(block):
        if parts and ABBREVIATION.search(parts[-1]):
            parts[-1] += " " + part
        else:
            parts.append(part)
    return parts


def words(sentence):
    return [word for word in sentence.split() if re.search(r"\w", word)]
