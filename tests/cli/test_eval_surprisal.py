"""`foxscope eval surprisal`: tokens, words, gates and pairs, against runs of the same texts and numpy."""

import csv
import json
import re
import shutil
import unittest

import h5py
import numpy
import tokenizers
from support import DATA, FOX, TRANSFORMER, CommandLineTest

TEXT = ("The fox ran over the hill. \u201cThe hill was green!\u201d he said, \"and the\tfox was quick\";  nobody saw\n"
        "the caf\u00e9\u2014or NA.\n\nAnother page begins  here ")
BOS = 0


class SurprisalTest(CommandLineTest):
    def rows(self, path):
        with open(path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def column(self, rows, name):
        return numpy.array([float(row[name]) for row in rows])

    def reference(self, model, ids, behind=False):
        """log p at each place of a text behind BOS (and behind its last token), and gates [layers, heads, tokens] where
        each token is read."""
        file = self.write("ids.json", json.dumps({"input_ids": [BOS] + ids, "labels": ids + [BOS]}))
        run = self.folder / "run.h5"
        self.done("run", "--model", "m=" + str(model), "--ids", file, "-o", run, "--keep", "loss,gates,logits", "--force")
        with h5py.File(run) as stored:
            logits = stored["models/m/logits"][:None if behind else -1].astype(numpy.float64)
            layers = stored["models/m/layers"]
            gates = numpy.stack([layers[name]["cumulative_log_gate"][()] for name in sorted(layers)])
        log_p = logits - logits.max(-1, keepdims=True)
        log_p -= numpy.log(numpy.exp(log_p).sum(-1, keepdims=True))
        return log_p, numpy.exp(numpy.diff(gates, axis=-1))

    def evaluate(self, name, *options, model=FOX, text=None):
        path = self.folder / name
        source = self.folder / "text.txt"
        if text is None:
            source.write_text(TEXT, encoding="utf-8", newline="")
        said = self.done("eval", "surprisal", "--model", model, "--text", text or source, "-o", path, "--force", *options)
        return path, said

    def test_tokens(self):
        encoding = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json")).encode(TEXT)
        log_p, gates = self.reference(FOX, encoding.ids)
        rows = self.rows(self.evaluate("tokens.csv")[0])
        self.assertEqual([int(row["id"]) for row in rows], encoding.ids)
        places = range(len(rows))
        numpy.testing.assert_allclose(self.column(rows, "surprisal"), -log_p[places, encoding.ids], atol=1e-4)
        numpy.testing.assert_allclose(self.column(rows, "entropy"), -(numpy.exp(log_p) * log_p).sum(-1), atol=1e-3)
        ranks = 1 + (log_p > log_p[places, encoding.ids][:, None]).sum(-1)
        self.assertLessEqual(numpy.abs(self.column(rows, "rank") - ranks).max(), 2)  # of near equals
        numpy.testing.assert_allclose(self.column(rows, "gate"), gates.mean((0, 1)), atol=1e-5)
        heads = self.rows(self.evaluate("heads.csv", "--gates", "heads")[0])
        for layer in range(gates.shape[0]):
            for head in range(gates.shape[1]):
                numpy.testing.assert_allclose(self.column(heads, f"gate_{layer}_{head}"), gates[layer, head], atol=1e-5)
        content = TEXT.encode()
        for row in rows:
            piece = content[int(row["byte_start"]):int(row["byte_end"])]
            self.assertEqual(row["string"], piece.decode(errors="replace"))

    def test_words(self):
        tokens = self.rows(self.evaluate("tokens.csv")[0])
        words = self.rows(self.evaluate("words.csv", "--words")[0])
        self.assertEqual([row["string"] for row in words], TEXT.split())
        content = TEXT.encode()
        for row in words:
            self.assertEqual(content[int(row["byte_start"]):int(row["byte_end"])].decode(), row["string"])
            own = [token for token in tokens if token["word"] == row["word"]]
            self.assertEqual(int(row["tokens"]), len(own))
            for name in ["surprisal", "entropy"]:
                self.assertAlmostEqual(float(row[name]), sum(float(token[name]) for token in own), places=4)
            self.assertEqual(int(row["rank"]), max(int(token["rank"]) for token in own))
            self.assertAlmostEqual(float(row["gate"]), numpy.mean([float(token["gate"]) for token in own]), places=6)
        sentences = {}
        for row in words:
            sentences.setdefault(row["sentence"], []).append(row["string"])
        self.assertEqual([" ".join(words) for words in sentences.values()],
                         ["The fox ran over the hill.", "\u201cThe hill was green!\u201d",
                          'he said, "and the fox was quick"; nobody saw the caf\u00e9\u2014or NA.',
                          "Another page begins here"])

    def whole_words(self, text, ids, offsets, log_p):
        """-log p of each word between white space by Pimentel & Meister (2024), in float64, by the tokens' own strings."""
        tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))
        strings = [tokenizer.decode([token], skip_special_tokens=False) for token in range(tokenizer.get_vocab_size())]
        begins = numpy.array([string[:1].isspace() for string in strings])
        begins[BOS] = True
        mass = numpy.exp(log_p)[:, :len(begins)] @ begins  # at each token's place, and behind the last
        words = []
        for match in re.finditer(r"\S+", text):
            own = [n for n, (start, end) in enumerate(offsets) if end > match.start() and start < match.end()]
            first, last = own[0], own[-1]
            while first > 0 and text[offsets[first - 1][0]:offsets[first - 1][1]].isspace():
                first -= 1  # white space of its own before the word
            surprisal = -sum(log_p[n, ids[n]] for n in range(first, last + 1))
            before = mass[first] if begins[ids[first]] else 1 - mass[0]
            words.append(surprisal + numpy.log(before) - numpy.log(mass[last + 1]))
        return numpy.array(words)

    def test_whole_words(self):
        for text in [TEXT, "Two  words\n\n and a sun-lit \thill", "one", " begins with a blank "]:
            with self.subTest(text):
                encoding = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json")).encode(text)
                log_p = self.reference(FOX, encoding.ids, behind=True)[0]
                expected = self.whole_words(text, encoding.ids, encoding.offsets, log_p)
                source = self.write("whole.txt", text)
                rows = self.rows(self.evaluate("words.csv", "--words", "--whole-words", text=source)[0])
                self.assertEqual([row["string"] for row in rows], text.split())
                numpy.testing.assert_allclose(self.column(rows, "whole_word_surprisal"), expected, atol=2e-4)
                plain = self.rows(self.evaluate("plain.csv", "--words", text=source)[0])
                for name, places in [("surprisal", 1e-5), ("entropy", 1e-5), ("rank", 0), ("tokens", 0), ("byte_end", 0)]:
                    numpy.testing.assert_allclose(self.column(plain, name), self.column(rows, name), atol=places, err_msg=name)
        with h5py.File(self.evaluate("whole.h5", "--whole-words")[0]) as file:
            rows = self.rows(self.evaluate("words.csv", "--words", "--whole-words")[0])
            numpy.testing.assert_allclose(file["words/whole_word_surprisal"][()], self.column(rows, "whole_word_surprisal"),
                                          rtol=1e-6)
            self.assertEqual(file["words/whole_word_surprisal"].attrs["units"], "nats")
            self.assertLessEqual(file["tokens/boundary"][()].max(), 0)

    def test_white_space_before_a_word_that_the_limit_leaves_out_is_of_no_word(self):
        source = self.write("lines.txt", "He came home.\n\n\n\nThen she left.")
        whole = self.rows(self.evaluate("lines.csv", "--words", text=source)[0])
        tokens = len(tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json")).encode("He came home.").ids)
        for limit in [tokens, tokens + 1, tokens + 2]:
            rows = self.rows(self.evaluate("part.csv", "--words", "--length", limit, text=source)[0])
            self.assertEqual([row["string"] for row in rows], ["He", "came", "home."])
            self.assertEqual(rows[-1]["tokens"], whole[2]["tokens"])
            numpy.testing.assert_allclose(self.column(rows, "surprisal"), self.column(whole[:3], "surprisal"), atol=1e-5)

    def test_a_word_that_the_limit_cuts_is_not_known(self):
        text = "The fox ran overwhelmingly far"
        encoding = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json")).encode(text)
        source = self.write("cut.txt", text)
        for limit, (_, end) in enumerate(encoding.offsets, 1):
            rows = self.rows(self.evaluate("cut.csv", "--words", "--whole-words", "--length", limit, text=source)[0])
            self.assertEqual([row["string"] for row in rows], text[:end].split())
            cut = end < len(text) and text[end] != " "
            for row in rows[:-1]:
                self.assertNotEqual(row["surprisal"], "")
            for name in ["surprisal", "entropy", "rank", "gate", "whole_word_surprisal"]:
                self.assertEqual(rows[-1][name] == "", cut, (limit, name))

    def test_whole_words_are_of_words_between_white_space(self):
        text = self.write("text.txt", TEXT)
        command = ["eval", "surprisal", "--model", FOX, "--whole-words"]
        self.fails(2, "add --words", *command, "--text", text, "-o", self.folder / "o.csv")
        self.fails(2, "--word-rule unicode", *command, "--text", text, "-o", self.folder / "o.h5", "--word-rule", "unicode")
        self.fails(2, "--pairs", *command, "--pairs", text, "-o", self.folder / "o.csv")

    def test_words_of_unicode(self):
        text = ("He can\u2019t pay $3,141.59 (or so). \u201cNa\u0308ive\u201d; e.g. x_1:y, don't\u2026\tU.S.A. 10:30\n"
                "\u65e5\u672c\u306e\u30ab\u30e1\u30e9 \U0001f468\u200d\U0001f469\u200d\U0001f466\U0001f1eb\U0001f1f7\U0001f1e9\U0001f1ea")
        source = self.write("words.txt", text)
        expected = ["He", "can\u2019t", "pay", "$", "3,141.59", "(", "or", "so", ")", ".", "\u201c", "Na\u0308ive", "\u201d",
                    ";", "e.g", ".", "x_1", ":", "y", ",", "don't", "\u2026", "U.S.A", ".", "10", ":", "30", "\u65e5", "\u672c",
                    "\u306e", "\u30ab\u30e1\u30e9", "\U0001f468\u200d\U0001f469\u200d\U0001f466", "\U0001f1eb\U0001f1f7",
                    "\U0001f1e9\U0001f1ea"]
        rows = self.rows(self.evaluate("words.csv", "--words", "--word-rule", "unicode", text=source)[0])
        self.assertEqual([row["string"] for row in rows], expected)
        content = text.encode()
        for row in rows:
            self.assertEqual(content[int(row["byte_start"]):int(row["byte_end"])].decode(), row["string"])
        spaces = self.rows(self.evaluate("spaces.csv", "--words", "--word-rule", "space", text=source)[0])
        self.assertEqual([row["string"] for row in spaces], text.split())
        numbers = ["surprisal", "entropy", "rank", "gate"]
        # Of a word that a token of the word before holds nothing is known.
        for row in rows:
            self.assertEqual({row[name] == "" for name in numbers}, {row["tokens"] == "0"}, row)
        own = [row for row in rows if row["tokens"] != "0"]
        self.assertLess(len(own), len(rows))
        self.assertAlmostEqual(self.column(own, "surprisal").sum(), self.column(spaces, "surprisal").sum(), places=3)
        with h5py.File(self.evaluate("words.h5", "--word-rule", "unicode", text=source)[0]) as file:
            for name in ["surprisal", "entropy", "gate"]:
                numpy.testing.assert_array_equal(numpy.isnan(file["words"][name][()].ravel()),
                                                 [row["tokens"] == "0" for row in rows])
        self.fails(2, "--word-rule letters: use space or unicode", "eval", "surprisal", "--model", FOX, "--text", source,
                   "-o", self.folder / "no.csv", "--word-rule", "letters")

    def test_hdf5(self):
        rows = self.rows(self.evaluate("tokens.csv")[0])
        words = self.rows(self.evaluate("words.csv", "--words")[0])
        with h5py.File(self.evaluate("all.h5")[0]) as file:
            self.assertEqual(file.attrs["content"], "eval_surprisal")
            for group, lines in [("tokens", rows), ("words", words)]:
                for name in ["surprisal", "entropy", "rank", "byte_start", "byte_end"]:
                    numpy.testing.assert_allclose(file[group][name][()], self.column(lines, name), rtol=1e-6)
                self.assertEqual(list(file[group]["string"].asstr()), [row["string"] for row in lines])
                numpy.testing.assert_allclose(file[group]["gate"][:, 0], self.column(lines, "gate"), rtol=1e-6)
            self.assertEqual(list(file["tokens/gate"].attrs["columns"]), ["gate"])

    def test_documents_are_read_by_themselves(self):
        folder = self.folder / "corpus"
        folder.mkdir()
        texts = {"a.txt": TEXT, "b.txt": "Short.", "c.txt": TEXT[:60]}
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")
        (folder / "empty.jsonl").write_text('{"text": ""}\n')
        rows = self.rows(self.evaluate("all.csv", text=folder)[0])
        for name in texts:
            alone = self.rows(self.evaluate("one.csv", text=folder / name)[0])
            own = [row for row in rows if row["document"] == name]
            self.assertEqual([row["string"] for row in own], [row["string"] for row in alone])
            numpy.testing.assert_allclose(self.column(own, "surprisal"), self.column(alone, "surprisal"), atol=1e-4)
            numpy.testing.assert_allclose(self.column(own, "gate"), self.column(alone, "gate"), atol=1e-5)
        short = self.rows(self.evaluate("short.csv", "--length", 3, text=folder)[0])
        self.assertEqual([len([row for row in short if row["document"] == name]) for name in ["a.txt", "c.txt"]], [3, 3])

    def test_decays_of_linear_mixers_and_hybrids(self):
        """Against the gates of `run`'s file, of channels their geometric mean."""
        for name, layers in [("gla", [0, 1]), ("hgrn2", [0, 1]), ("mamba2", [0, 1]), ("qwen3_5", [0])]:
            with self.subTest(model=name):
                model = self.folder / name
                shutil.copytree(DATA / name, model)
                vocabulary = json.loads((model / "config.json").read_text())["vocab_size"]
                # Every byte is a token, so that all ids are in the fixture's small vocabulary.
                tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(
                    {character: n for n, character in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))}, []))
                tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
                tokenizer.decoder = tokenizers.decoders.ByteLevel()
                tokenizer.save(str(model / "tokenizer.json"))
                self.assertGreaterEqual(vocabulary, 256)
                text = self.write("short.txt", TEXT[:40])
                ids = tokenizer.encode(TEXT[:40]).ids
                heads = self.rows(self.evaluate("heads.csv", "--gates", "heads", "--bos", 0, model=model, text=text)[0])
                mean = self.rows(self.evaluate("mean.csv", "--bos", 0, model=model, text=text)[0])
                file = self.write("ids.json", json.dumps({"input_ids": [0] + ids, "labels": ids + [0]}))
                run = self.folder / "run.h5"
                self.done("run", "--model", "m=" + str(model), "--ids", file, "-o", run, "--keep", "loss,gates", "--force")
                columns = {}
                with h5py.File(run) as stored:
                    for layer in layers:
                        group = stored[f"models/m/layers/{layer:02}"]
                        by_channel = "cumulative_log_decay" in group
                        sums = group["cumulative_log_decay" if by_channel else "cumulative_log_gate"][()]
                        sums = sums.mean(-1) if by_channel else sums
                        for head, c in enumerate(sums):
                            columns[f"gate_{layer}_{head}"] = numpy.exp(numpy.diff(c))
                self.assertEqual([column for column in heads[0] if column.startswith("gate_")], list(columns))
                for column, expected in columns.items():
                    numpy.testing.assert_allclose(self.column(heads, column), expected, atol=1e-5)
                numpy.testing.assert_allclose(self.column(mean, "gate"), numpy.mean(list(columns.values()), axis=0), atol=1e-5)

    def test_a_model_without_gates_has_no_column(self):
        rows = self.rows(self.evaluate("plain.csv", model=TRANSFORMER)[0])
        self.assertNotIn("gate", rows[0])
        self.assertGreater(len(rows), 20)

    def test_gates_are_those_of_layers_that_forget(self):
        rows = self.rows(self.evaluate("changed.csv", "--gates", "heads", "--intervene", "1:*:constant=0.9",
                                       model=TRANSFORMER)[0])
        columns = [column for column in rows[0] if column.startswith("gate_")]
        self.assertEqual(columns, [f"gate_1_{head}" for head in range(4)])
        for column in columns:
            numpy.testing.assert_allclose(self.column(rows, column), 0.9, rtol=1e-6)

    def test_pairs(self):
        pairs = [{"sentence_good": "The fox was quick.", "sentence_bad": "The fox were quick.", "UID": "agreement"},
                 {"sentence_good": "Was the fox quick?", "sentence_bad": "Quick fox the was?", "UID": "order"},
                 {"sentence_good": "zq zq", "sentence_bad": "It was the", "UID": "order", "pairID": "7"}]
        file = self.write("pairs.jsonl", "\n".join(json.dumps(pair) for pair in pairs) + "\n\n")
        output = self.folder / "pairs.csv"
        said = self.done("eval", "surprisal", "--model", FOX, "--pairs", file, "-o", output)
        tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))
        rows = self.rows(output)
        self.assertEqual([row["name"] for row in rows], ["agreement", "order", "order"])
        for row, pair in zip(rows, pairs):
            for side in ["good", "bad"]:
                ids = tokenizer.encode(pair["sentence_" + side]).ids
                log_p, _ = self.reference(FOX, ids)
                self.assertLess(abs(float(row[side]) - log_p[range(len(ids)), ids].sum()), 1e-3)
                self.assertEqual(int(row[side + "_tokens"]), len(ids))
            self.assertEqual(int(row["right"]), int(float(row["good"]) > float(row["bad"])))
        right = sum(int(row["right"]) for row in rows)
        self.assertRegex(said, rf"(?m)^all pairs +{right} +3 ")
        self.assertRegex(said, r"(?m)^order +\d +2 ")
        # What a pair tests may be called as the sum of all is.
        pairs[0]["UID"] = "all"
        file = self.write("all.jsonl", "\n".join(json.dumps(pair) for pair in pairs))
        said = self.done("eval", "surprisal", "--model", FOX, "--pairs", file, "-o", self.folder / "all.csv")
        self.assertRegex(said, rf"(?m)^all pairs +{right} +3 ")
        self.assertEqual([line.split()[2] for line in said.splitlines() if line.startswith("all  ")], ["1"])

    def test_white_space_alone_is_no_word(self):
        corpus = self.write("corpus.jsonl", json.dumps({"text": " \n \n"}) + "\n" + json.dumps({"text": "The fox"}) + "\n")
        path, said = self.evaluate("words.csv", "--words", text=corpus)
        self.assertEqual([row["string"] for row in self.rows(path)], ["The", "fox"])
        self.assertIn("2 documents, 2 words, ", said)
        tokens = self.rows(self.evaluate("tokens.csv", text=corpus)[0])
        self.assertEqual({row["word"] for row in tokens if row["document"] == tokens[0]["document"]}, {""})
        blank = self.write("blank.txt", "\n")
        path, said = self.evaluate("words.csv", "--words", text=blank)
        self.assertEqual(self.rows(path), [])
        self.assertRegex(said, r"\A1 document, 0 words, 1 token; mean surprisal \S+ nats a token\n")

    def test_what_is_refused(self):
        text = self.write("text.txt", TEXT)
        out = self.folder / "out.csv"
        command = ["eval", "surprisal", "--model", FOX, "-o", out]
        self.fails(2, ["--text", "--pairs"], *command)
        self.fails(2, ["--text", "--pairs"], *command, "--text", text, "--pairs", text)
        self.fails(2, ["--gates", "all"], *command, "--text", text, "--gates", "all")
        self.fails(2, [".csv", ".h5"], "eval", "surprisal", "--model", FOX, "--text", text, "-o", self.folder / "out.txt")
        self.fails(2, "--words", "eval", "surprisal", "--model", FOX, "--text", text, "--words", "-o", self.folder / "o.h5")
        self.fails(2, "--pairs", "eval", "surprisal", "--model", FOX, "--pairs", text, "-o", self.folder / "o.h5")
        self.fails(2, "one model", *command, "--model", TRANSFORMER, "--text", text)
        self.fails(1, "no tokens", *command, "--text", self.write("empty.txt", ""), output=out)
        self.fails(1, "tokenizer", "eval", "surprisal", "--model", DATA / "fox-pro", "--text", text, "-o", out, output=out)
        self.fails(1, ["line 1", "JSON"], *command, "--pairs", text, output=out)
        self.fails(1, ["line 2", "sentence_bad"], *command, "--pairs",
                   self.write("half.jsonl", '\n{"sentence_good": "a"}\n'), output=out)
        self.fails(1, "no pairs", *command, "--pairs", self.write("none.jsonl", "\n"), output=out)
        self.fails(1, ["pair 0", "holds no tokens"], *command, "--pairs",
                   self.write("gap.jsonl", '{"sentence_good": "", "sentence_bad": "a"}'), output=out)
        self.evaluate("out.csv")
        self.assertIn("--force", self.foxscope(*command, "--text", text).stderr.decode())


if __name__ == "__main__":
    unittest.main()
