"""Trains a small tokenizer of each published kind, and writes how the `tokenizers` package cuts and joins texts with it:
`tokenizer_kinds_peer.py TEXTS FOLDER`.

KIND.json is the tokenizer, with the pre-tokenizer, normalizer, decoder and post-processor that the published model has
(the patterns are facts) and a few hundred merges of the texts in the folder TEXTS. KIND.bin holds the cases as
tokenizer_peer.py writes them, each followed by what the package decodes its tokens to: size and UTF-8 bytes.
KIND.parts.bin holds runs of any ids and what they decode to. Exits with 77 where the package is missing.
"""

import json
import pathlib
import random
import re
import struct
import sys
import unicodedata

try:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError:
    sys.exit(77)

from tokenizer_peer import SNIPPETS, STRINGS, assigned, every_character, integers, random_text

GPT2_SPLIT = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
SPELL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOCK = "\u2581"


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def pretokenizers(*parts):
    return sequence("pretokenizers", *parts)


def replace(text, content):
    return {"type": "Replace", "pattern": {"String": text}, "content": content}


def special(content, id, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True, **flags}


def template(token, id):
    return {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": token, "type_id": 0}},
                                                     {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}}}


def trained(texts, pre_tokenizer, specials, alphabet, size, normalizer=None):
    """Vocabulary and merges of a BPE model."""
    tokenizer = Tokenizer(models.BPE())
    root = json.loads(tokenizer.to_str())
    root["pre_tokenizer"] = pre_tokenizer
    root["normalizer"] = normalizer
    tokenizer = Tokenizer.from_str(json.dumps(root))
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, initial_alphabet=alphabet,
                                  show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return json.loads(tokenizer.to_str())["model"]


def bytes_kind(texts, pre_tokenizer, added, **more):
    """A byte-level tokenizer: added tokens come behind the vocabulary, as the published ones have them."""
    model = trained(texts, pre_tokenizer, [], pre_tokenizers.ByteLevel.alphabet(), 1200)
    model["ignore_merges"] = more.pop("ignore_merges", False)
    first = len(model["vocab"])
    root = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None,
            "added_tokens": [special(content, first + n, **flags) for n, (content, flags) in enumerate(added)],
            "pre_tokenizer": pre_tokenizer, "post_processor": None,
            "decoder": BYTE_LEVEL, "model": model}
    return {**root, **more}


def sentence_piece_kind(texts, cut_at_blocks=True, unknown_only=False, **more):
    """Of characters: <unk>, <s>, </s>, the 256 bytes, then what was learnt, as a converted SentencePiece model has it."""
    metaspace = {"type": "Metaspace", "replacement": BLOCK, "prepend_scheme": "always", "split": cut_at_blocks}
    first = ["<unk>", "<s>", "</s>"] + ([] if unknown_only else [f"<0x{byte:02X}>" for byte in range(256)])
    lines = texts if cut_at_blocks else [line for text in texts for line in text.splitlines()]
    model = trained(lines, metaspace, first, [BLOCK], 1100)
    model.update(unk_token="<unk>", fuse_unk=True, byte_fallback=not unknown_only, ignore_merges=False, dropout=None)
    root = {"version": "1.0", "truncation": None, "padding": None, "post_processor": template("<s>", 1),
            "added_tokens": [special(content, id) for id, content in enumerate(first[:3])],
            "normalizer": sequence("normalizers", {"type": "Prepend", "prepend": BLOCK}, replace(" ", BLOCK)),
            "pre_tokenizer": None, "model": model,
            "decoder": sequence("decoders", replace(BLOCK, " "), {"type": "ByteFallback"}, {"type": "Fuse"},
                                {"type": "Strip", "content": " ", "start": 1, "stop": 0})}
    return {**root, **more}


def kinds(texts):
    nfc = {"type": "NFC"}
    of_llama3 = pretokenizers(split(LLAMA3), SPELL)
    yield "llama3", bytes_kind(texts, of_llama3, [("<|begin_of_text|>", {}), ("<|end_of_text|>", {})],
                               ignore_merges=True,
                               post_processor=sequence("processors", BYTE_LEVEL, template("<|begin_of_text|>", 1200)))
    yield "qwen2", bytes_kind(texts, pretokenizers(split(QWEN2), SPELL),
                              [("<|endoftext|>", {}), ("<|im_start|>", {}), ("<think>", {"special": False})],
                              normalizer=nfc, post_processor=BYTE_LEVEL)
    spaces = [(" " * n, {"normalized": True, "special": False}) for n in range(24, 1, -1)]
    yield "gpt-neox", bytes_kind(texts, GPT2_SPLIT, [("<|endoftext|>", {}), ("<|padding|>", {})] + spaces,
                                 normalizer=nfc, post_processor=BYTE_LEVEL)
    yield "llama2", sentence_piece_kind(texts)
    metaspace = {"type": "Metaspace", "replacement": BLOCK, "prepend_scheme": "first", "split": False}
    yield "mistral", sentence_piece_kind(texts, normalizer=None, pre_tokenizer=metaspace)

    # Not of one model, but of what those are made of.
    yield "few:starcoder", bytes_kind(texts, pretokenizers({"type": "Digits", "individual_digits": True}, GPT2_SPLIT),
                                      [("<fim>", {})])
    yield "few:o200k", bytes_kind(texts, pretokenizers(split(O200K), SPELL), [])
    yield "few:three-splits", bytes_kind(
        texts, pretokenizers(split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"),
                             split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
                                   "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), SPELL), [])
    for behavior in ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in [False, True]:
            steps = [split(r"[aeiou]|\d|\s\S?", behavior, invert), {"type": "Digits", "individual_digits": False}, SPELL]
            yield f"few:{behavior}-{invert}", bytes_kind(texts, pretokenizers(*steps), [])
    yield "few:literal-prefix", bytes_kind(
        texts, pretokenizers(split(".", "MergedWithPrevious", kind="String"), {**GPT2_SPLIT, "add_prefix_space": True}),
        [("<x>", {"lstrip": True, "rstrip": True})])
    yield "few:empty-matches", bytes_kind(texts, pretokenizers(split(r"\p{Lu}?(?=[a-z])|\p{Han}"), SPELL), [])
    yield "few:look", bytes_kind(texts, pretokenizers(
        split(r"(?<=[a-z])(?=\P{L})|(?<!\p{Greek})\u0041+?|\p{^L}{2,}+".replace("}+", "}")), SPELL), [])
    yield "few:nfc-added", bytes_kind(texts, of_llama3, [("e\u0323", {"normalized": True}), ("A\u030a", {})],
                                      normalizer=sequence("normalizers", nfc, replace("b", "xyz"),
                                                          {"type": "Replace", "pattern": {"Regex": r"[\tx](?!y)|\p{N}"},
                                                           "content": "\u00e9 "}))
    for scheme in ["always", "first", "never"]:
        for cut in [True, False]:
            metaspace = {"type": "Metaspace", "replacement": BLOCK, "prepend_scheme": scheme, "split": cut}
            yield f"few:metaspace-{scheme}-{cut}", sentence_piece_kind(
                texts, normalizer=None, pre_tokenizer=metaspace, decoder=metaspace)
    yield "few:crossing", sentence_piece_kind(texts, cut_at_blocks=False)
    yield "few:unknown", sentence_piece_kind(texts, unknown_only=True)
    apart = sentence_piece_kind(texts, unknown_only=True)
    apart["model"]["fuse_unk"] = False
    yield "few:unknown-apart", apart
    older = sentence_piece_kind(texts)
    for token in older["added_tokens"]:
        token["normalized"] = True
    yield "few:normalized-specials", older
    yield "few:nfc-blocks", sentence_piece_kind(
        texts, normalizer=sequence("normalizers", nfc, {"type": "Prepend", "prepend": BLOCK}, replace(" ", BLOCK)))


def newer_marks():
    """Characters that this Python knows to order or compose, and the package's older Unicode does not."""
    form = normalizers.NFC()
    characters = [c for c in assigned(0x300, 0x10FFFF) if unicodedata.combining(c) or unicodedata.decomposition(c)]
    probes = [(c, unicodedata.normalize("NFD", c) + "\u0345" + c) for c in characters]
    return {c for c, probe in probes if form.normalize_str(probe) != unicodedata.normalize("NFC", probe)}


def joins(character):
    code = ord(character)
    return unicodedata.category(character)[0] == "M" or 0x1161 <= code <= 0x1175 or 0x11A8 <= code <= 0x11C2


def changed_runs(text, breaks):
    """Runs of a character and what joins it that NFC changes: for each character of them the run. None goes over a break."""
    runs = {}
    begin = 0
    for end in range(1, len(text) + 1):
        if end < len(text) and joins(text[end]) and end not in breaks:
            continue
        run = text[begin:end]
        if unicodedata.normalize("NFC", run) != run:
            runs.update((n, (begin, end)) for n in range(begin, end))
        begin = end
    return runs


def widened(text, encoding, added):
    """The package leaves out the marks of what it composes; the program's places hold the whole run."""
    if unicodedata.is_normalized("NFC", text):
        return encoding.offsets
    ids, offsets = encoding.ids, encoding.offsets
    runs = changed_runs(text, {last for id, (_, last) in zip(ids, offsets) if id in added})
    result = []
    for id, (first, last) in zip(ids, offsets):
        if first < last and id not in added:
            first, last = (min(first, runs.get(first, (first, 0))[0]),
                           max(last, runs.get(last - 1, (0, last))[1]))
        result.append((first, last))
    return result


def marks_text(source):
    """Letters with marks in any order, Hangul by parts, spaces of both kinds, digits."""
    marks = "\u0301\u0323\u0302\u0308\u0327\u0345\u093c\u3099\u0338"
    parts = ["a", "e", "i", "o", "u", "A", "\u1112", "\u1161", "\u11ab", "\uac00", "\u00e9", "\u1e69", "\u2126", "\u0915",
             "\u304b", "=", " ", "  ", BLOCK, "1", "12", "\u212b", "\u0344", "\ufb1d", "\u09c7\u09be", "<x>", " <x> ", "ab"]
    return "".join(source.choice(parts) + "".join(source.choices(marks, k=source.choice([0, 0, 0, 1, 1, 2, 3])))
                   for _ in range(source.randrange(1, 9)))


def passages(texts, source, count):
    for _ in range(count):
        text = source.choice(texts)
        begin = source.randrange(len(text))
        yield text[begin:begin + source.randrange(1, 400)]


def write_text(file, text):
    content = text.encode()
    file.write(struct.pack("<I", len(content)) + content)


def write(folder, name, root, cases, source):
    (folder / f"{name}.json").write_text(json.dumps(root))
    # Places that cover the text, as the program's do.
    trimmed = json.loads(re.sub(r'"trim_offsets": true', '"trim_offsets": false', json.dumps(root)))
    tokenizer = Tokenizer.from_str(json.dumps(trimmed))
    normalizes = "NFC" in json.dumps(root["normalizer"])
    added = {token["id"] for token in root["added_tokens"] if not token["normalized"]}
    with open(folder / f"{name}.bin", "wb") as file:
        encodings = tokenizer.encode_batch(cases, add_special_tokens=False)
        decoded = tokenizer.decode_batch([e.ids for e in encodings], skip_special_tokens=False)
        for text, e, back in zip(cases, encodings, decoded):
            spans = widened(text, e, added) if normalizes else e.offsets
            write_text(file, text)
            file.write(integers(e.ids, spans))
            write_text(file, back)
    size = tokenizer.get_vocab_size()
    with open(folder / f"{name}.parts.bin", "wb") as file:
        for _ in range(len(cases) // 10):
            ids = source.choices(range(size), k=source.randrange(1, 9))
            file.write(struct.pack(f"<{len(ids) + 1}i", len(ids), *ids))
            write_text(file, tokenizer.decode(ids, skip_special_tokens=False))


def main():
    texts = [path.read_text() for path in sorted(pathlib.Path(sys.argv[1]).glob("*.txt"))]
    folder = pathlib.Path(sys.argv[2])
    source = random.Random(20260102)
    snippets = SNIPPETS + ["<s>", "</s>", "<unk>", "<0x41>", BLOCK, "  " + BLOCK, "<|begin_of_text|>", "<|im_start|>", "'S", "'RE"]
    cases = ["", " ", "a", BLOCK] + [random_text(source) for _ in range(STRINGS - 30_000)]
    cases += [random_text(source) + source.choice(snippets) + random_text(source) for _ in range(10_000)]
    cases += [marks_text(source) for _ in range(20_000)] + list(passages(texts, source, 1000)) + texts[:1]
    newer = newer_marks()
    cases = [text for text in cases if newer.isdisjoint(text)]
    fewer = cases[::10]
    for name, root in kinds(texts):
        write(folder, name.removeprefix("few:"), root, fewer if name.startswith("few:") else cases, source)
        if name == "qwen2" or name == "llama2":
            known = [c for c in every_character() if newer.isdisjoint(c)]
            write(folder, f"{name}.characters", root, known, source)


if __name__ == "__main__":
    main()
