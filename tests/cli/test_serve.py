"""`foxscope serve`: the completions protocol, field by field, and what is refused."""

import concurrent.futures
import csv
import http.client
import io
import json
import os
import resource
import shutil
import signal
import socket
import time
import unittest

import h5py
import numpy
import tokenizers
from serve_support import POST, Server, read_all
from support import DATA, FOX, MAMBA2, TEXT, TRANSFORMER, CommandLineTest, golden, set_config

BOS = 0
ERROR_TYPES = {400: "invalid_request_error", 401: "invalid_request_error", 403: "invalid_request_error",
               404: "not_found_error", 415: "invalid_request_error",
               405: "invalid_request_error", 411: "invalid_request_error", 413: "invalid_request_error",
               431: "invalid_request_error"}


def log_softmax(logits):
    logits = numpy.asarray(logits, numpy.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(-1, keepdims=True))


class ServeTest(CommandLineTest):
    """Tests of one server, which goes on from each to the next."""

    model = FOX
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.model, *cls.options)
        cls.addClassCleanup(cls.server.stop)
        cls.tokenizer = tokenizers.Tokenizer.from_file(str(FOX / "tokenizer.json"))

    def ids(self, text):
        return self.tokenizer.encode(text).ids

    def refused(self, status, code, words, answer):
        """An error as the protocol has it, whose message has all the words."""
        self.assertEqual(answer[0], status, answer[1])
        error = answer[1]["error"]
        self.assertEqual(set(error), {"message", "type", "code"})
        self.assertEqual(error["code"], code)
        self.assertEqual(error["type"], ERROR_TYPES[status])
        self.assertLessEqual(len(error["message"].encode()), 400)
        for word in [words] if isinstance(words, str) else words:
            self.assertIn(word, error["message"])
        self.assertEqual(self.server.headers["Content-Type"], "application/json")

    def asks(self, **fields):
        body = {"model": self.server.model(), "prompt": "It was", **fields}
        return self.server.ask("POST", "/v1/completions", {k: v for k, v in body.items() if v is not ...})

    def alive(self):
        self.assertEqual(self.server.ask("GET", "/health"), (200, {"status": "ok"}))


class Scores(ServeTest):
    def predicted(self, ids):
        """log p of all tokens at each place of a text after BOS, in float64 from the logits of a run."""
        file = self.write("ids.json", json.dumps({"input_ids": [BOS] + ids[:-1], "labels": ids}))
        run = self.folder / "run.h5"
        self.done("run", "--model", "m=" + str(self.model), "--ids", file, "-o", run, "--keep", "loss,logits", "--force")
        with h5py.File(run) as stored:
            return log_softmax(stored["models/m/logits"][()])

    def test_the_harness_request(self):
        ids = self.ids(TEXT)
        expected = self.predicted(ids + [5])
        answer = self.server.complete([ids], temperature=0, max_tokens=1, logprobs=1, seed=1234, echo=True)
        self.assertEqual(set(answer), {"id", "object", "created", "model", "choices", "usage"})
        self.assertEqual(answer["object"], "text_completion")
        self.assertEqual(answer["usage"],
                         {"prompt_tokens": len(ids), "completion_tokens": 1, "total_tokens": len(ids) + 1})
        (choice,) = answer["choices"]
        self.assertEqual((choice["index"], choice["finish_reason"]), (0, "length"))
        values = choice["logprobs"]
        best = int(expected[-1].argmax())
        all_ids = ids + [best]
        self.assertEqual(choice["text"], self.tokenizer.decode(all_ids))
        names = [self.tokenizer.decode([id]) for id in all_ids]
        self.assertEqual(values["tokens"], names)
        self.assertEqual(values["text_offset"], [len("".join(names[:n])) for n in range(len(names))])
        for n, id in enumerate(all_ids):
            self.assertLess(abs(values["token_logprobs"][n] - expected[n][id]), 1e-4)
            top = values["top_logprobs"][n]
            # The numbers are identical, or flags of greedy tokens are wrong.
            self.assertEqual(top[names[n]], values["token_logprobs"][n])
            likeliest = self.tokenizer.decode([int(expected[n].argmax())])
            self.assertEqual(max(top, key=top.get), likeliest)
            self.assertEqual(set(top), {likeliest, names[n]})

    def test_floats_read_back_as_the_same_double(self):
        connection = self.server.connection()
        body = {"model": self.server.model(), "prompt": TEXT, "max_tokens": 0, "echo": True, "logprobs": 0}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        text = connection.getresponse().read().decode()
        connection.close()
        numbers = text.split('"token_logprobs":[')[1].split("]")[0].split(",")
        for number in numbers:
            self.assertEqual(repr(float(number)), number)
            self.assertEqual(float(numpy.float32(float(number))), float(number))

    def test_scores_alone(self):
        ids = self.ids(TEXT)
        expected = self.predicted(ids)
        answer = self.server.complete(TEXT, max_tokens=0, echo=True, logprobs=20)
        values = answer["choices"][0]["logprobs"]
        self.assertEqual(answer["choices"][0]["text"], TEXT)
        self.assertEqual(answer["usage"]["completion_tokens"], 0)
        self.assertEqual(len(values["tokens"]), len(ids))
        for n, id in enumerate(ids):
            self.assertLess(abs(values["token_logprobs"][n] - expected[n][id]), 1e-4)
            best = sorted(values["top_logprobs"][n].values(), reverse=True)
            self.assertIn(len(best), [20, 21])
            numpy.testing.assert_allclose(best[:20], numpy.sort(expected[n])[::-1][:20], atol=1e-4)
        self.assertIsNone(self.server.complete(TEXT, max_tokens=0, echo=True)["choices"][0]["logprobs"])
        plain = self.server.complete(TEXT, max_tokens=0, echo=True, logprobs=0)["choices"][0]["logprobs"]
        self.assertEqual(plain["token_logprobs"], values["token_logprobs"])
        self.assertIsNone(plain["top_logprobs"])
        self.assertEqual(self.server.complete(TEXT, max_tokens=0)["choices"][0]["text"], "")

    def test_bos_is_read_but_not_told(self):
        ids = self.ids(TEXT)
        added = self.server.complete([ids], max_tokens=0, echo=True, logprobs=1)["choices"][0]["logprobs"]
        given = self.server.complete([[BOS] + ids], max_tokens=0, echo=True, logprobs=1)["choices"][0]["logprobs"]
        self.assertIsNone(given["token_logprobs"][0])
        self.assertIsNone(given["top_logprobs"][0])
        self.assertEqual(given["tokens"][0], "<|endoftext|>")
        self.assertEqual(given["token_logprobs"][1:], added["token_logprobs"])
        self.assertEqual(self.server.complete([[BOS] + ids], max_tokens=0)["usage"]["prompt_tokens"], len(ids) + 1)
        alone = self.server.complete("", max_tokens=1, temperature=0, echo=True, logprobs=1)
        self.assertEqual(alone["usage"], {"prompt_tokens": 0, "completion_tokens": 1, "total_tokens": 1})
        self.assertEqual(len(alone["choices"][0]["logprobs"]["tokens"]), 1)
        self.assertEqual(self.server.complete([[BOS]], max_tokens=1, temperature=0)["choices"][0]["text"],
                         alone["choices"][0]["text"])

    def test_several_prompts_keep_their_order(self):
        texts = [TEXT[:n] for n in range(1, len(TEXT), 7)]
        together = self.server.complete(texts, max_tokens=1, temperature=0, echo=True, logprobs=2)
        self.assertEqual([choice["index"] for choice in together["choices"]], list(range(len(texts))))
        for text, choice in zip(texts, together["choices"]):
            (alone,) = self.server.complete(text, max_tokens=1, temperature=0, echo=True, logprobs=2)["choices"]
            self.assertEqual(choice["text"], alone["text"])
            self.assertTrue(choice["text"].startswith(text))
            numpy.testing.assert_allclose(choice["logprobs"]["token_logprobs"], alone["logprobs"]["token_logprobs"],
                                          atol=2e-4)
        by_ids = self.server.complete([self.ids(text) for text in texts], max_tokens=1, temperature=0, echo=True,
                                      logprobs=2)
        self.assertEqual(by_ids["choices"], together["choices"])
        self.assertEqual(by_ids["usage"]["prompt_tokens"], sum(len(self.ids(text)) for text in texts))

    def test_the_same_request_has_the_same_digits(self):
        first = self.server.complete(TEXT, max_tokens=3, temperature=0, echo=True, logprobs=3)["choices"]
        self.server.complete(["Another text entirely", "and one more"], max_tokens=2)
        self.assertEqual(self.server.complete(TEXT, max_tokens=3, temperature=0, echo=True, logprobs=3)["choices"],
                         first)

    def test_names_of_tokens_that_are_no_characters(self):
        text = "caf\u00e9 \u2014 \u65e5\u672c \U0001f98a!"
        answer = self.server.complete(text, max_tokens=0, echo=True, logprobs=3)["choices"][0]
        values = answer["logprobs"]
        self.assertEqual(answer["text"], text)
        encoding = self.tokenizer.encode(text)
        self.assertEqual(len(values["tokens"]), len(encoding.ids))
        partial = 0
        content = b""
        for n, name in enumerate(values["tokens"]):
            # Characters that are whole before the token.
            whole = content.decode(errors="ignore")
            self.assertEqual(values["text_offset"][n], len(whole))
            if name.startswith("bytes:"):
                partial += 1
                piece = bytes.fromhex(name.removeprefix("bytes:").replace("\\x", ""))
                self.assertRaises(UnicodeDecodeError, piece.decode)
            else:
                piece = name.encode()
            content += piece
            self.assertEqual(values["top_logprobs"][n][name], values["token_logprobs"][n])
        self.assertEqual(content.decode(), text)
        self.assertGreater(partial, 0)

    def test_special_tokens_in_texts(self):
        status, answer = self.server.ask("POST", "/tokenize", {"prompt": "<|endoftext|>", "add_special_tokens": False})
        self.assertEqual((status, answer["tokens"]), (200, [BOS]))
        status, answer = self.server.ask("POST", "/tokenize", {"prompt": TEXT})
        self.assertEqual(answer, {"tokens": [BOS] + self.ids(TEXT), "count": len(self.ids(TEXT)) + 1,
                                  "max_model_len": 2048})
        self.assertEqual(self.server.ask("POST", "/detokenize", {"tokens": self.ids(TEXT)}), (200, {"prompt": TEXT}))
        half = self.tokenizer.encode("\u65e5").ids[:1]
        self.assertEqual(self.server.ask("POST", "/detokenize", {"tokens": half})[1], {"prompt": "\ufffd"})

    def test_models_and_tokenizer(self):
        self.assertEqual(self.server.ask("GET", "/v1/models"), (200, {"object": "list", "data": [
            {"id": "fox-pro-12m", "object": "model", "created": 0, "owned_by": "foxscope", "max_model_len": 2048}]}))
        self.assertEqual(self.server.ask("GET", "/tokenizer_info"), (200, {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>",
            "pad_token": None, "chat_template": None}))


class WithoutTokenizer(ServeTest):
    model = DATA / "fox-pro"

    def test_scores_are_the_authors(self):
        values = golden("fox-pro")
        for inputs, labels, logits in zip(values["input_ids"], values["labels"], values["logits"]):
            # The fixture's first token takes the place of BOS, and nothing predicts it.
            server = Server(self.model, "--bos", inputs[0])
            self.addCleanup(server.stop)
            ids = [int(id) for id in inputs] + [int(labels[-1])]
            given = server.complete([ids], max_tokens=0, echo=True, logprobs=1)["choices"][0]["logprobs"]
            self.assertIsNone(given["token_logprobs"][0])
            expected = log_softmax(logits)
            numpy.testing.assert_allclose(given["token_logprobs"][1:], expected[range(len(labels)), labels], atol=1e-4)
            for n, top in enumerate(given["top_logprobs"][1:]):
                self.assertEqual(max(top, key=top.get), f"token_id:{expected[n].argmax()}")

    def test_without_a_tokenizer_ids_go_on_working(self):
        for method, path, body in [("GET", "/tokenizer_info", None), ("POST", "/tokenize", {"prompt": "a"}),
                                   ("POST", "/detokenize", {"tokens": [1]})]:
            self.refused(404, "not_found", "no tokenizer", self.server.ask(method, path, body))
        self.refused(400, "invalid_value", "no tokenizer", self.asks(prompt="text"))
        self.refused(400, "invalid_value", "stop", self.asks(prompt=[[1, 2]], stop="a"))
        answer = self.server.complete([[1, 2]], temperature=0, max_tokens=2, echo=True, logprobs=1)["choices"][0]
        self.assertEqual(answer["text"], "")
        self.assertEqual(answer["logprobs"]["tokens"][:2], ["token_id:1", "token_id:2"])
        self.assertEqual(answer["logprobs"]["text_offset"], [0] * len(answer["logprobs"]["tokens"]))


class LinearModels(ServeTest):
    """A model without keys, and a hybrid: what a text holds does not grow with it, or not in all layers."""

    model = MAMBA2
    options = ("--max-length", 2048, "--model", DATA / "qwen3_5")

    def test_scores_and_texts(self):
        answer = self.server.complete(TEXT, max_tokens=24, temperature=0, echo=True, logprobs=1)["choices"][0]
        text = self.done("generate", "--model", MAMBA2, "--prompt", TEXT, "--max-tokens", 24)[:-1]
        self.assertEqual(answer["text"].removeprefix(TEXT), text.removeprefix(TEXT).partition("<|endoftext|>")[0])
        table = self.folder / "tokens.csv"
        self.done("eval", "surprisal", "--model", MAMBA2, "--text", self.write("text.txt", TEXT), "-o", table)
        with table.open(newline="", encoding="utf-8") as lines:
            surprisals = numpy.array([float(row["surprisal"]) for row in csv.DictReader(lines)])
        scores = numpy.array(answer["logprobs"]["token_logprobs"])
        numpy.testing.assert_allclose(scores[:len(surprisals)], -surprisals, atol=1e-4)

    def test_a_hybrid_continues_as_it_scores(self):
        fields = {"model": "qwen3_5", "temperature": 0, "echo": True, "logprobs": 1}
        continued = self.server.complete([[5, 6, 7]], max_tokens=12, **fields)["choices"][0]["logprobs"]
        ids = [int(name.removeprefix("token_id:")) for name in continued["tokens"]]
        scored = self.server.complete([ids], max_tokens=0, **fields)["choices"][0]["logprobs"]
        numpy.testing.assert_allclose(scored["token_logprobs"], continued["token_logprobs"], atol=1e-4)


class SeveralModels(ServeTest):
    options = ("--model", "other=" + str(TRANSFORMER), "--model", DATA / "fox-llama")

    def test_each_answers_under_its_name(self):
        listed = self.server.ask("GET", "/v1/models")[1]["data"]
        self.assertEqual([model["id"] for model in listed], ["fox-pro-12m", "other", "fox-llama"])
        fields = {"max_tokens": 8, "temperature": 0, "echo": True, "logprobs": 2}
        for name, folder in [("fox-pro-12m", FOX), ("other", TRANSFORMER)]:
            alone = Server(name + "=" + str(folder))
            self.addCleanup(alone.stop)
            answer = self.server.complete(TEXT, model=name, **fields)
            self.assertEqual(answer["model"], name)
            self.assertEqual(answer["choices"], alone.complete(TEXT, **fields)["choices"])
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            names = ["fox-pro-12m", "other"] * 6
            texts = list(pool.map(lambda name: self.server.complete(TEXT, model=name, **fields)["choices"][0]["text"],
                                  names))
        self.assertEqual(len(set(texts)), 2)
        self.assertEqual(texts, texts[:2] * 6)
        self.refused(404, "model_not_found", ["'nobody'", "'fox-pro-12m', 'other', 'fox-llama' are"],
                     self.asks(model="nobody"))
        self.refused(400, "token_out_of_range", "vocabulary", self.asks(model="fox-llama", prompt=[[8000]]))
        self.assertEqual(self.asks(prompt=[[8000]], max_tokens=0)[0], 200)

    def test_tokenizer_routes_are_of_the_first_unless_one_is_named(self):
        expected = {"tokens": [BOS] + self.ids(TEXT), "count": len(self.ids(TEXT)) + 1, "max_model_len": 2048}
        for fields in [{}, {"model": "fox-pro-12m"}, {"model": "other"}]:
            self.assertEqual(self.server.ask("POST", "/tokenize", {"prompt": TEXT, **fields}), (200, expected))
        self.assertEqual(self.server.ask("GET", "/tokenizer_info")[0], 200)
        for path, body in [("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [1]})]:
            self.refused(404, "not_found", [path, "no tokenizer"],
                         self.server.ask("POST", path, {"model": "fox-llama", **body}))
            self.refused(404, "model_not_found", "nobody", self.server.ask("POST", path, {"model": "nobody", **body}))

    def test_ends_when_interrupted_with_work_for_both(self):
        server = Server(FOX, "--model", TRANSFORMER)
        for name in ["fox-pro-12m", "transformer-pro-12m"]:
            body = json.dumps({"model": name, "prompt": ["It was"] * 8, "max_tokens": 2000}).encode()
            self.addCleanup(server.raw(POST + b"Content-Length: %d\r\n\r\n"
                                       % len(body) + body).close)
        self.assertEqual(server.ask("GET", "/health")[0], 200)
        self.assertEqual(server.stop(), 130)


class SeveralDevices(ServeTest):
    """A copy of the model on each device, behind one port."""

    options = ("--devices", "cpu,cpu")

    def test_requests_at_once_have_the_numbers_of_each_alone(self):
        ids = [self.ids(text) for text in ["The fox ran over the hill", "It was", "Nobody saw the green hill"]]
        bodies = [{"prompt": ids, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1},
                  {"prompt": ids[0], "max_tokens": 30, "temperature": 0.7, "seed": 3, "logprobs": 2}]
        alone = [self.asks(**body) for body in bodies]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            model = self.server.model()
            asked = [(n % 2, pool.submit(self.once, {"model": model, **bodies[n % 2]})) for n in range(32)]
            for kind, answer in asked:
                status, content = answer.result()
                self.assertEqual(status, 200, content)
                for choice, expected in zip(content["choices"], alone[kind][1]["choices"], strict=True):
                    self.assertEqual(choice["text"], expected["text"])
                    numbers = [[value for value in one["logprobs"]["token_logprobs"] if value is not None]
                               for one in (choice, expected)]
                    numpy.testing.assert_allclose(*numbers, atol=1e-4)

    def once(self, body):
        connection = self.server.connection()
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def test_each_device_has_a_copy(self):
        server = Server(FOX, "--devices", "cpu,cpu", "-v")
        server.process.send_signal(signal.SIGINT)
        said = server.process.communicate(timeout=30)[1].decode()
        self.assertEqual(said.count("fox-pro-12m on cpu: texts of at most"), 2, said)
        self.assertEqual(server.process.returncode, 130)


class Continuations(ServeTest):
    def test_greedy_is_that_of_generate(self):
        summary = json.loads(self.done("generate", "--model", FOX, "--prompt", TEXT, "--max-tokens", 12, "--json"))
        answer = self.server.complete(TEXT, max_tokens=12, temperature=0, logprobs=1)["choices"][0]
        self.assertEqual(answer["text"], summary["text"])
        numpy.testing.assert_allclose(answer["logprobs"]["token_logprobs"], summary["log_probabilities"], atol=1e-6)
        self.assertTrue(all(len(top) == 1 for top in answer["logprobs"]["top_logprobs"]))
        echoed = self.server.complete(TEXT, max_tokens=12, temperature=0, logprobs=1, echo=True)["choices"][0]
        self.assertEqual(echoed["text"], TEXT + answer["text"])
        self.assertEqual(echoed["logprobs"]["token_logprobs"][-12:], answer["logprobs"]["token_logprobs"])
        self.assertEqual(echoed["logprobs"]["text_offset"][-12:],
                         [offset + len(TEXT) for offset in answer["logprobs"]["text_offset"]])

    def test_digits_do_not_depend_on_what_else_is_generated(self):
        fields = {"max_tokens": 24, "temperature": 0.8, "seed": 5, "logprobs": 2}
        alone = self.server.complete(TEXT, **fields)["choices"]
        others = [TEXT[: n + 1] for n in range(0, 60, 6)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            beside = [pool.submit(self.server.complete, others[n:], max_tokens=60, seed=n) for n in range(3)]
            again = [pool.submit(self.server.complete, TEXT, **fields) for _ in range(4)]
            self.assertEqual([answer.result()["choices"] for answer in again], [alone] * 4)
            for n, answer in enumerate(beside):
                self.assertEqual(len(answer.result()["choices"]), 10 - n)

    def test_seeds(self):
        def text(**fields):
            return self.server.complete("It was", max_tokens=20, **fields)["choices"][0]["text"]

        self.assertEqual(text(seed=3), text(seed=3, temperature=1, top_p=1))
        self.assertNotEqual(text(seed=3), text(seed=4))
        self.assertNotEqual(text(), text())
        self.assertEqual(text(seed=-1, temperature=1.5, top_p=0.9), text(seed=-1, temperature=1.5, top_p=0.9))
        # So small a share holds the likeliest token alone.
        self.assertEqual(text(seed=5, top_p=1e-6), text(temperature=0))
        both = self.server.complete(["It was", "It was"], max_tokens=20, seed=3)["choices"]
        self.assertEqual({choice["text"] for choice in both}, {text(seed=3)})

    def test_stop_strings_cut_before_the_earliest_match(self):
        whole = self.server.complete("It was the", max_tokens=40, temperature=0, logprobs=0)["choices"][0]
        text, tokens = whole["text"], whole["logprobs"]["tokens"]
        self.assertEqual("".join(tokens), text)
        # Across tokens: the end of one and the beginning of the next.
        across = tokens[4][-2:] + tokens[5][:3]
        self.assertNotIn(across, tokens)
        for stop in [across, [across], ["never there", across], [text[60:65], across, text[50:53]]]:
            cut = min(text.find(one) for one in ([stop] if isinstance(stop, str) else stop) if one in text)
            answer = self.server.complete("It was the", max_tokens=40, temperature=0, stop=stop,
                                          logprobs=1)["choices"][0]
            self.assertEqual(answer["text"], text[:cut])
            self.assertEqual(answer["finish_reason"], "stop")
            # The tokens of the stop string have their entries all the same.
            self.assertGreater(len("".join(answer["logprobs"]["tokens"])), cut)
            self.assertLessEqual(max(answer["logprobs"]["text_offset"]), cut)
        prompt = "It was the" + text[:20]
        echoed = self.server.complete(prompt, max_tokens=5, temperature=0, stop="It was", echo=True)["choices"][0]
        self.assertTrue(echoed["text"].startswith(prompt), "the prompt is not searched for stop strings")

    def test_the_end_token_has_an_entry_and_no_text(self):
        folder = self.folder / "ends"
        shutil.copytree(FOX, folder)
        whole = self.server.complete("It was the", max_tokens=8, temperature=0, logprobs=0)["choices"][0]
        ids = [self.tokenizer.token_to_id(name.replace(" ", "\u0120")) for name in whole["logprobs"]["tokens"]]
        # Another end than BOS, one of two.
        set_config(folder, eos_token_id=[ids[3], 1])
        server = Server(folder)
        self.addCleanup(server.stop)
        first = ids.index(ids[3])
        for fields in [{"max_tokens": 8}, {"max_tokens": first + 1}]:
            answer = server.complete("It was the", temperature=0, logprobs=0, **fields)["choices"][0]
            self.assertEqual(answer["finish_reason"], "stop")
            self.assertEqual(answer["logprobs"]["tokens"], whole["logprobs"]["tokens"][:first + 1])
            self.assertEqual(answer["text"], "".join(whole["logprobs"]["tokens"][:first]))
            self.assertEqual(answer["logprobs"]["text_offset"][-1], len(answer["text"]))

    def test_many_texts_are_continued_together(self):
        def one(n):
            return self.server.complete(TEXT[:10 + n], max_tokens=10, temperature=0)["choices"][0]["text"]

        alone = [one(n) for n in range(12)]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            self.assertEqual(list(pool.map(one, range(12))), alone)


class Refusals(ServeTest):
    def tearDown(self):
        self.alive()

    def longest(self):
        """The id of the token of the most bytes."""
        return max(range(self.tokenizer.get_vocab_size()), key=lambda id: len(self.tokenizer.decode([id]).encode()))

    def test_values(self):
        wrong = {"max_tokens": [-1, 1.5, "16", True, None, [], -2**63], "temperature": [-0.1, 2.1, "0", True, None],
                 "top_p": [0, -1, 1.01, "1", False, None], "seed": [1.5, "1", True, None, 2**64],
                 "stop": [1, [""], "", ["a", 1], {}, None, ["a", ""]], "echo": [1, "true", None],
                 "logprobs": [-1, 21, 1.5, "1", True], "n": [2, 0, 1.0, "1", True], "best_of": [2], "stream": [True, 0],
                 "presence_penalty": [0.5, "0"], "frequency_penalty": [-1], "logit_bias": [{"1": 1}, []],
                 "suffix": ["x", 1], "user": [1, ["somebody"]],
                 "stream_options": [{"include_usage": True}], "repetition_penalty": [1.1, "1"], "length_penalty": [0],
                 "top_k": [40, 1.5], "min_p": [0.1], "min_tokens": [1], "ignore_eos": [True, 0],
                 "use_beam_search": [True], "include_stop_str_in_output": [True], "stop_token_ids": [[1], {}],
                 "prompt": [[], 1, None, True, {}, [[]], [[1], []], [1, "a"], ["a", [1]], [[1], "a"], [[[1]]], [1.5],
                            [True], [None], [[1, None]], [[1.5]]]}
        for field, values in wrong.items():
            for value in values:
                with self.subTest(field=field, value=value):
                    self.refused(400, "invalid_value", field, self.asks(**{field: value}))
        neutral = {"n": 1, "best_of": 1, "stream": False, "presence_penalty": 0, "frequency_penalty": 0.0,
                   "logit_bias": {}, "suffix": "", "user": "somebody", "stream_options": {}, "repetition_penalty": 1.0,
                   "length_penalty": 1, "top_k": -1, "min_p": 0.0, "min_tokens": 0, "ignore_eos": False,
                   "use_beam_search": False, "include_stop_str_in_output": False, "stop_token_ids": []}
        self.assertEqual(self.asks(max_tokens=0, **neutral)[0], 200)
        self.assertEqual(self.asks(max_tokens=0, logprobs=None, **dict.fromkeys(neutral))[0], 200)

    def test_fields(self):
        self.refused(400, "missing_field", "model", self.asks(model=...))
        self.refused(400, "missing_field", "prompt", self.asks(prompt=...))
        self.refused(400, "invalid_value", "model", self.asks(model=1))
        self.refused(404, "model_not_found", ["nobody", "fox-pro-12m"], self.asks(model="nobody"))
        for name in ["messages", "guided_json", "prompt_logprobs", "Max_tokens", "x" * 1000,
                     "\u001b[31m", "\ud7ff\n"]:
            self.refused(400, "unknown_field", name[:5] if name.isprintable() else "?", self.asks(**{name: None}))
        for path in ["/tokenize", "/detokenize"]:
            self.refused(400, "missing_field", "", self.server.ask("POST", path, {}))
            self.refused(400, "unknown_field", "other", self.server.ask("POST", path, {"other": 1}))
            self.refused(404, "model_not_found", "nobody", self.server.ask("POST", path, {"model": "nobody"}))
        self.refused(400, "invalid_value", "prompt", self.server.ask("POST", "/tokenize", {"prompt": ["a"]}))
        self.refused(400, "invalid_value", "add_special_tokens",
                     self.server.ask("POST", "/tokenize", {"prompt": "a", "add_special_tokens": 0}))
        self.refused(400, "invalid_value", "tokens", self.server.ask("POST", "/detokenize", {"tokens": "a"}))

    def test_ids(self):
        for ids in [[8192], [-1], [2**31], [2**32], [2**63], [2**64 - 1], [-2**63]]:
            for prompt in [ids, [[1], ids]]:
                self.refused(400, "token_out_of_range", ["prompt", str(ids[0])], self.asks(prompt=prompt))
            self.refused(400, "token_out_of_range", "tokens[0]",
                         self.server.ask("POST", "/detokenize", {"tokens": ids}))

    def test_lengths(self):
        # BOS, n ids, and all added tokens but the last are read: N in all.
        fits = [[5] * 2047]
        self.assertEqual(self.asks(prompt=fits, max_tokens=1, temperature=0)[0], 200)
        self.assertEqual(self.asks(prompt=[[BOS] + [5] * 2047], max_tokens=0)[0], 200)
        self.refused(400, "context_length_exceeded", ["2047", "2049", "2048"], self.asks(prompt=fits, max_tokens=2))
        self.refused(400, "context_length_exceeded", "prompt[0]", self.asks(prompt=[[5] * 2048], max_tokens=0))
        self.refused(400, "context_length_exceeded", "prompt[1]", self.asks(prompt=["a", "fox " * 3000]))
        self.refused(400, "context_length_exceeded", "", self.asks(max_tokens=2**60))
        self.refused(400, "context_length_exceeded", ["prompt[0]", "more than 2048 ids"],
                     self.asks(prompt="fox " * 200_000))
        self.refused(400, "context_length_exceeded", ["prompt[1]", "2049 ids"], self.asks(prompt=[[1], [5] * 2049]))
        self.refused(400, "invalid_value", ["stop", "1024"], self.asks(stop=["a"] * 1025))
        self.refused(400, "invalid_value", ["tokens", "bytes"],
                     self.server.ask("POST", "/detokenize", {"tokens": [self.longest()] * 1_300_000}))
        self.refused(400, "invalid_value", "numbers",
                     self.asks(prompt=[[5] * 2000] * 400, echo=True, logprobs=20, max_tokens=0))
        self.refused(400, "invalid_value", "4097", self.asks(prompt=["a"] * 4097))

    def test_what_is_no_json(self):
        fields = '"model":"fox-pro-12m","prompt":"a"'
        for body in ["", "{", "[1,", "nul", "{'model':1}", "{" + fields + ",}", "{" + fields + '} {"a":1}',
                     "{" + fields + ',"temperature":NaN}', "{" + fields + ',"temperature":Infinity}',
                     "{" + fields + ',"temperature":1e999}', "{" + fields + ',"temperature":-1e999}',
                     "{" + fields + ',"temperature":01}', "{" + fields + ',"stop":"\\ud800"}',
                     "{" + fields + ',"stop":"\\udc00\\ud800"}', "{" + fields + ',"stop":"a\nb"}',
                     b"{" + fields.encode() + b',"stop":"\xff"}', b"{" + fields.encode() + b',"stop":"\xed\xa0\x80"}',
                     b"\xff\xfe{", b"\0", b"{" + fields.encode() + b"}\0garbage",
                     "[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000,
                     "{" + fields + ',"stop":' + "[" * 1000 + "]" * 1000 + "}"]:
            with self.subTest(body=body[:60]):
                self.refused(400, "not_json", "body", self.server.ask("POST", "/v1/completions", body))
        for body in ["[]", "1", '"a"', "null", "true"]:
            self.refused(400, "invalid_value", "object", self.server.ask("POST", "/v1/completions", body))
        self.refused(400, "invalid_value", ["prompt", "twice"],
                     self.server.ask("POST", "/v1/completions", "{" + fields + ',"prompt":"b"}'))
        self.refused(400, "invalid_value", "lists",
                     self.server.ask("POST", "/v1/completions", '{"prompt":[' + "[1]," * 100_000 + "[1]]}"))
        # A surrogate pair is a character, and NUL is one too.
        self.assertEqual(self.asks(prompt="\U0001f98a\0", max_tokens=0, echo=True)[1]["choices"][0]["text"],
                         "\U0001f98a\0")

    def test_paths_and_methods(self):
        for path in ["/", "/v1", "/v1/chat/completions", "/v1/completions/", "/v1/models/x", "/%2e%2e/etc/passwd",
                     "/../etc/passwd", "/health%00", "/%0a", "/" + "x" * 4000]:
            for method in ["GET", "POST"]:
                self.refused(404, "not_found", "path", self.server.ask(method, path, b"{}" if method == "POST" else None))
        for path, right in [("/v1/completions", "POST"), ("/v1/models", "GET"), ("/tokenize", "POST"),
                            ("/detokenize", "POST"), ("/tokenizer_info", "GET"), ("/health", "GET")]:
            for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} - {right}:
                body = b"{}" if method in ["POST", "PUT", "PATCH"] else None
                self.refused(405, "method_not_allowed", [method, path], self.server.ask(method, path, body))
                self.assertIn(right, self.server.headers["Allow"])
        connection = self.server.connection()
        self.assertEqual(self.server.ask("HEAD", "/health", connection=connection), (200, None))
        connection.close()

    def test_connections_go_on_after_errors(self):
        connection = self.server.connection()
        connection.connect()
        socket_before = connection.sock
        for _ in range(3):
            self.refused(400, "not_json", "", self.server.ask("POST", "/v1/completions", "{", connection=connection))
            self.refused(404, "not_found", "", self.server.ask("POST", "/nowhere", "{}", connection=connection))
            self.refused(405, "method_not_allowed", "", self.server.ask("PUT", "/health", "{}", connection=connection))
            self.assertEqual(self.server.ask("GET", "/health", connection=connection)[0], 200)
        self.assertIs(connection.sock, socket_before)
        connection.close()

    def answer_to(self, data):
        """Status and answer to bytes on a connection that the server then closes."""
        with self.server.raw(data) as connected:
            received = read_all(connected)
        head, _, body = received.partition(b"\r\n\r\n")
        self.server.headers = http.client.parse_headers(
            io.BytesIO(head.partition(b"\r\n")[2] + b"\r\n\r\n"))
        self.assertEqual(self.server.headers["Connection"], "close")
        return int(head.split()[1]), json.loads(body)

    def test_lengths_of_bodies(self):
        post = POST + b"Host: localhost\r\n"
        self.refused(411, "length_required", "Content-Length", self.answer_to(post + b"Connection: close\r\n\r\n"))
        self.refused(411, "length_required", "Content-Length",
                     self.answer_to(post + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"))
        self.refused(411, "length_required", "", self.answer_to(post + b"Content-Length: \r\n\r\n{}"))
        for length in [b"-1", b"a", b"1e3", b"0x10", b"1, 1"]:
            self.refused(400, "bad_request", "Content-Length",
                         self.answer_to(post + b"Content-Length: " + length + b"\r\n\r\n{}"))
        self.refused(400, "bad_request", "Content-Length",
                     self.answer_to(post + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"))
        self.refused(400, "bad_request", "Content-Encoding",
                     self.answer_to(post + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"))
        for identity in ["identity", "Identity"]:
            body = {"model": self.server.model(), "prompt": "It was", "max_tokens": 1}
            answer = self.server.ask("POST", "/v1/completions", body, {"Content-Encoding": identity})
            self.assertEqual(answer[0], 200, answer)
        self.refused(400, "bad_request", "no body",
                     self.answer_to(b"GET /health HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"))

    def test_large_bodies(self):
        body = json.dumps({"model": "fox-pro-12m", "prompt": "a", "max_tokens": 0}).encode()
        exactly = body + b" " * (8 * 2**20 - len(body))
        self.assertEqual(self.server.ask("POST", "/v1/completions", exactly)[0], 200)
        self.refused(413, "body_too_large", str(8 * 2**20), self.server.ask("POST", "/v1/completions", exactly + b" "))
        # All of it is taken in before the connection ends: the client reads its answer.
        self.refused(413, "body_too_large", "bytes",
                     self.server.ask("POST", "/v1/completions", b"x" * (60 * 2**20)))
        # A client that asks first is refused at once, without sending anything.
        head = POST + b"Content-Length: 9000000\r\nExpect: 100-continue\r\n\r\n"
        with self.server.raw(head) as connected:
            self.assertTrue(connected.recv(65536).startswith(b"HTTP/1.1 413 "))
        small = POST + b"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n" % len(body)
        with self.server.raw(small) as connected:
            self.assertTrue(connected.recv(65536).startswith(b"HTTP/1.1 100 "))
            connected.sendall(body)
            self.assertTrue(connected.recv(65536).startswith(b"HTTP/1.1 200 "))

    def test_heads(self):
        get = b"GET /health HTTP/1.1\r\n"
        self.refused(431, "header_too_long", "8192", self.answer_to(get + b"X: " + b"x" * 9000 + b"\r\n\r\n"))
        self.refused(431, "header_too_long", "65536",
                     self.answer_to(get + b"".join(b"X%d: y\r\n" % n for n in range(10_000)) + b"\r\n"))
        self.refused(431, "header_too_long", "", self.answer_to(b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"))
        self.refused(431, "header_too_long", "", self.answer_to(b"x" * 1_000_000))
        for data in [b"\r\n\r\n", b"nonsense\r\n\r\n", b"GET /health HTTP/3\r\n\r\n", b"FETCH /health HTTP/1.1\r\n\r\n",
                     b"GET /health HTTP/1.1\nHost: a\n\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
                     b"GET  HTTP/1.1\r\n\r\n"]:
            with self.subTest(data=data):
                self.refused(400, "bad_request", "", self.answer_to(data))
        # What httplib would act on by itself.
        for header in [b"Range: bytes=0-3,0-3", b"rANGE: bytes=0-3", b"Accept-Encoding: gzip"]:
            body = json.dumps({"model": "fox-pro-12m", "prompt": "a" * 9000, "max_tokens": 0}).encode()
            with self.server.raw(POST + b"Connection: close\r\nContent-Length: %d\r\n" % len(body) + header
                                 + b"\r\n\r\n" + body) as connected:
                received = read_all(connected)
            self.assertTrue(received.startswith(b"HTTP/1.1 400 ") or received.startswith(b"HTTP/1.1 200 "))
            json.loads(received.partition(b"\r\n\r\n")[2])


class Clients(ServeTest):
    def test_half_sent_requests_hold_nobody_up(self):
        self.asks(max_tokens=1, temperature=0)  # makes the threads that compute
        before = self.server.threads(), self.server.files()
        half = [b"", b"P", POST + b"Content-Le", POST + b'Content-Length: 100\r\n\r\n{"model":']
        slow = [self.server.raw(half[n % 4]) for n in range(40)]
        self.assertEqual(self.asks(max_tokens=1, temperature=0)[0], 200)
        for connected in slow:
            connected.close()
        self.settles(before)

    def settles(self, before):
        """Threads and files are again as many as they were; they go as soon as the server notices."""
        end = time.monotonic() + 20
        while (self.server.threads(), self.server.files()) > before and time.monotonic() < end:
            time.sleep(0.05)
        self.assertLessEqual((self.server.threads(), self.server.files()), before)

    def test_many_clients_are_queued(self):
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            answers = list(pool.map(lambda n: self.asks(prompt=TEXT[: n + 1], max_tokens=2, temperature=0), range(64)))
        self.assertEqual({status for status, _ in answers}, {200})

    def test_work_of_a_client_that_is_gone_stops(self):
        before = self.server.threads(), self.server.files()
        body = json.dumps({"model": "fox-pro-12m", "prompt": ["It was"] * 64, "max_tokens": 2000, "seed": 1}).encode()
        gone = [self.server.raw(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                for _ in range(4)]
        self.assertEqual(self.asks(max_tokens=1, temperature=0)[0], 200)
        for connected in gone:
            connected.close()
        # Half a million tokens would take far longer than the test has.
        self.settles(before)
        self.alive()


    def test_connections_that_wait_for_their_client_give_way(self):
        idle = [self.server.raw() for _ in range(300)]
        self.alive()
        half = [self.server.raw(POST + b"Content-Length: 100\r\n\r\n{") for _ in range(300)]
        self.alive()
        # The oldest have gone, the youngest are still served.
        self.assertEqual(idle[0].recv(1), b"")
        half[-1].sendall(b" " * 99)
        self.assertTrue(half[-1].recv(65536).startswith(b"HTTP/1.1 400 "))
        for connected in idle + half:
            connected.close()

    def test_a_client_that_has_only_closed_its_side_gets_its_answer(self):
        body = json.dumps({"model": "fox-pro-12m", "prompt": "It was", "max_tokens": 100, "temperature": 0}).encode()
        with self.server.raw(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body) as connected:
            connected.shutdown(socket.SHUT_WR)
            answer = http.client.HTTPResponse(connected)
            answer.begin()  # an interim answer is passed over
            self.assertEqual(answer.status, 200)
            self.assertEqual(json.loads(answer.read())["usage"]["completion_tokens"], 100)


class Stacks(CommandLineTest):
    """What depends on the size of a thread's stack, which follows from the system's limit."""

    def test_hostile_heads_and_bodies(self):
        ranges = [b"Range: bytes=" + b",".join([b"0-0"] * 2000), b"Range: bytes=" + b"1" * 8000 + b"-",
                  b"Range: bytes=0-0," + b" " * 8000 + b"0-0"]
        body = b"[" * 1_000_000
        for stack in [1 << 20, 2 << 20, 4 << 20, 8 << 20, resource.RLIM_INFINITY]:
            with self.subTest(stack=stack):
                server = Server(FOX, stack=stack)
                self.addCleanup(server.stop)
                for line in ranges:
                    with server.raw(b"GET /v1/models HTTP/1.1\r\n" + line + b"\r\n\r\n") as connected:
                        self.assertTrue(connected.recv(65536).startswith(b"HTTP/1.1 200 "))
                for path in [b"/" + b"a" * 8100, b"/" + b"%41" * 2700]:
                    with server.raw(b"GET " + path + b" HTTP/1.1\r\n\r\n") as connected:
                        self.assertTrue(connected.recv(65536).startswith(b"HTTP/1.1 404 "))
                    with server.raw(b"POST " + path + b" HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}") as connected:
                        self.assertTrue(connected.recv(65536).startswith(b"HTTP/1.1 404 "))
                with server.raw(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body) as connected:
                    self.assertTrue(connected.recv(65536).startswith(b"HTTP/1.1 400 "))
                server.complete(["fox " * 400, TEXT], max_tokens=4, echo=True, logprobs=20)
                self.assertEqual(server.ask("POST", "/tokenize", {"prompt": "a" * 100_000})[0], 200)
                self.assertEqual(server.stop(), 130)


@unittest.skipIf(os.environ.get("FOXSCOPE_SANITIZE"), "a sanitizer has memory of its own")
class Memory(ServeTest):
    def test_large_bodies_of_many_clients(self):
        small = {"model": "fox-pro-12m", "prompt": "It was", "max_tokens": 2, "temperature": 0}
        self.server.ask("POST", "/v1/completions", small)
        before = self.server.memory()
        ids = b'{"model":"fox-pro-12m","prompt":[' + b",".join([b"1"] * 4_000_000) + b"]}"
        stops = b'{"model":"fox-pro-12m","prompt":"It","stop":[' + b",".join([b'"~"'] * 2_000_000) + b"]}"
        text = json.dumps({"prompt": ("q7~|^" * 1_600_000)}).encode()
        requests = [("/v1/completions", ids)] * 56 + [("/v1/completions", stops)] * 6 + [("/tokenize", text)] * 2
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            answers = [pool.submit(self.once, path, body) for path, body in requests]
            # Others are answered meanwhile.
            self.assertEqual(self.server.ask("POST", "/v1/completions", small)[0], 200)
            statuses = [answer.result() for answer in answers]
        self.assertEqual(statuses, [400] * 62 + [200] * 2)
        self.assertLess(self.server.memory("VmHWM") - before, 900)

    def once(self, path, body):
        connection = http.client.HTTPConnection(*self.server.address, timeout=600)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()


class Pages(ServeTest):
    """Web pages that are open in a browser on this machine."""

    options = ("--allow-origin", "https://Page.example:8443")

    def test_names_of_the_server(self):
        port = self.server.address[1]
        for host in ["localhost", f"localhost:{port}", "LOCALHOST.:1", f"127.0.0.1:{port}", "127.8.9.1", "[::1]:80"]:
            self.assertEqual(self.server.ask("GET", "/health", None, {"Host": host})[0], 200, host)
        for host in ["evil.example", f"evil.example:{port}", "localhost.evil.example", "10.0.0.1", "0.0.0.0", "[::]",
                     "localhost:80:80", "localhost@evil.example", "[", "127.0.0.1.evil.example", "localhost, a"]:
            for path in ["/health", "/v1/models", "/nowhere"]:
                self.refused(403, "forbidden_host", ["Host", "--host"],
                             self.server.ask("GET", path, None, {"Host": host}))

    def test_pages_of_other_sites_are_refused(self):
        body = json.dumps({"model": "fox-pro-12m", "prompt": "a", "max_tokens": 0})
        for headers in [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:1"},
                        {"Origin": "https://page.example"}, {"Origin": "http://page.example:8443"},
                        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}]:
            for method, path in [("GET", "/v1/models"), ("POST", "/v1/completions"), ("OPTIONS", "/v1/completions")]:
                self.refused(403, "forbidden_origin", "pages",
                             self.server.ask(method, path, body if method == "POST" else None, headers))
                self.assertIsNone(self.server.headers["Access-Control-Allow-Origin"])
        own = "http://%s:%d" % self.server.address
        for headers in [{"Origin": own}, {"Origin": own, "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}]:
            self.assertEqual(self.server.ask("POST", "/v1/completions", body, headers)[0], 200)

    def test_pages_that_are_allowed_may_read_answers(self):
        page = {"Origin": "https://page.example:8443", "Sec-Fetch-Site": "cross-site"}
        body = json.dumps({"model": "fox-pro-12m", "prompt": "a", "max_tokens": 0})
        for status, method, path, sent in [(200, "OPTIONS", "/v1/completions", None), (200, "GET", "/v1/models", None),
                                           (200, "POST", "/v1/completions", body), (400, "POST", "/v1/completions", "{")]:
            self.assertEqual(self.server.ask(method, path, sent, page)[0], status)
            self.assertEqual(self.server.headers["Access-Control-Allow-Origin"], "https://page.example:8443")
            self.assertEqual(self.server.headers["Vary"], "Origin")
        self.assertIn("POST", self.server.headers["Access-Control-Allow-Methods"])
        self.assertIn("Authorization", self.server.headers["Access-Control-Allow-Headers"])

    def test_bodies_are_json(self):
        body = json.dumps({"model": "fox-pro-12m", "prompt": "a", "max_tokens": 0}).encode()
        for type in ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json ;a=b"]:
            self.assertEqual(self.server.ask("POST", "/v1/completions", body, {"Content-Type": type})[0], 200, type)
        for type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a",
                     "application/jsonp", "text/plain; application/json"]:
            for path in ["/v1/completions", "/tokenize", "/detokenize"]:
                self.refused(415, "unsupported_media_type", ["application/json", type.split(";")[0]],
                             self.server.ask("POST", path, body, {"Content-Type": type}))
        with self.server.raw(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
                             + body) as connected:
            self.assertTrue(connected.recv(65536).startswith(b"HTTP/1.1 415 "))


class AllNetworks(ServeTest):
    options = ("--host", "0.0.0.0", "--token", "s3cret")

    def test_addresses_and_the_name_of_the_machine(self):
        for host in ["10.1.2.3:80", "[fe80::1]", socket.gethostname(), socket.gethostname() + ".some.domain:80"]:
            self.assertEqual(self.server.ask("GET", "/health", None, {"Host": host})[0], 200, host)
        self.refused(403, "forbidden_host", "Host", self.server.ask("GET", "/health", None, {"Host": "evil.example"}))


class Tokens(ServeTest):
    options = ("--token", "s3cret")

    def test_only_those_who_know_it(self):
        body = {"model": "fox-pro-12m", "prompt": "a", "max_tokens": 0}
        for header in [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3cret"}, {"Authorization": "Bearer "},
                       {"Authorization": "Bearer s3cret2"}, {"Authorization": "Bearer s3cres3cret"}]:
            self.refused(401, "unauthorized", "token", self.server.ask("POST", "/v1/completions", body, header))
            self.refused(401, "unauthorized", "token", self.server.ask("GET", "/nowhere", None, header))
        for scheme in ["Bearer", "bearer", "BEARER"]:
            self.assertEqual(self.server.ask("POST", "/v1/completions", body, {"Authorization": scheme + " s3cret"})[0],
                             200)
        self.alive()

    def test_a_file_keeps_it_from_the_list_of_processes(self):
        file = self.write("token", "from-a-file\n")
        server = Server(FOX, "--token-file", file)
        self.addCleanup(server.stop)
        self.assertEqual(server.ask("GET", "/v1/models")[0], 401)
        self.assertEqual(server.ask("GET", "/v1/models", None, {"Authorization": "Bearer from-a-file"})[0], 200)
        with open(f"/proc/{server.process.pid}/cmdline", "rb") as command:
            self.assertNotIn(b"from-a-file", command.read())


class Starting(CommandLineTest):
    def test_what_is_refused(self):
        self.fails(2, "--model", "serve")
        self.fails(2, ["fox-pro-12m", "--model"], "serve", "--model", FOX, "--model", FOX)
        self.fails(1, "nowhere", "serve", "--model", FOX, "--model", "other=" + str(self.folder / "nowhere"))
        self.fails(2, ["--devices", "leave out --device"], "serve", "--model", FOX, "--devices", "cpu,cpu", "--device",
                   "cpu")
        self.fails(2, ["--devices tpu: did you mean cpu?", "cuda:N"], "serve", "--model", FOX, "--devices", "cpu,tpu")
        self.fails(1, "--device cuda:99", "serve", "--model", FOX, "--devices", "cpu,cuda:99")
        self.fails(2, ["--port", "70000"], "serve", "--model", FOX, "--port", 70000)
        self.fails(2, ["--max-length", "0"], "serve", "--model", FOX, "--max-length", 0)
        self.fails(2, ["--allow-origin", "example.org", "https://"], "serve", "--model", FOX, "--port", 0,
                   "--allow-origin", "example.org")
        self.fails(2, ["--allow-origin", "/a"], "serve", "--model", FOX, "--port", 0, "--allow-origin", "https://a.b/a")
        self.fails(2, ["--token-file", "--token"], "serve", "--model", FOX, "--token", "a", "--token-file", "b")
        self.fails(1, str(self.folder / "nothing"), "serve", "--model", FOX, "--token-file", self.folder / "nothing")
        self.fails(1, "the token is larger than 4096 bytes", "serve", "--model", FOX, "--token-file",
                   self.write("token", "x" * 4097))
        for content in ["", "\n", "two words", "two\nlines"]:
            self.fails(1, ["--token-file", "one line"], "serve", "--model", FOX, "--token-file",
                       self.write("token", content))
        self.fails(2, ["--host 0.0.0.0", "--token"], "serve", "--model", FOX, "--host", "0.0.0.0")
        self.fails(2, ["--host", "--token"], "serve", "--model", FOX, "--host", "no.such.host.invalid")
        self.fails(1, ["no.such.host.invalid", "address"], "serve", "--model", FOX, "--host", "no.such.host.invalid",
                   "--token", "a")
        self.fails(1, ["--max-length", "memory"], "serve", "--model", FOX, "--max-length", 10**10)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.fails(1, ["--port", str(port)], "serve", "--model", FOX, "--port", port)
        folder = self.folder / "unlimited"
        shutil.copytree(FOX, folder)
        set_config(folder, max_position_embeddings=None)
        self.fails(2, "--max-length", "serve", "--model", folder)
        short = Server(folder, "--max-length", 4)
        self.addCleanup(short.stop)
        self.assertEqual(short.ask("GET", "/v1/models")[1]["data"][0]["max_model_len"], 4)
        named = Server("other=" + str(FOX))
        self.addCleanup(named.stop)
        self.assertEqual(named.model(), "other")

    def test_ends_when_interrupted(self):
        for number in [signal.SIGINT, signal.SIGTERM]:
            server = Server(FOX)
            body = json.dumps({"model": "fox-pro-12m", "prompt": ["It was"] * 64, "max_tokens": 2000}).encode()
            connected = server.raw(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            idle = server.raw()
            self.assertEqual(server.ask("GET", "/health")[0], 200)
            started = time.monotonic()
            server.process.send_signal(number)
            _, said = server.process.communicate(timeout=30)
            self.assertEqual(server.process.returncode, 130)
            self.assertLess(time.monotonic() - started, 5)
            self.assertRegex(said.decode(), r"\Afoxscope: interrupted, [^\n]+\n\Z")
            connected.close()
            idle.close()


if __name__ == "__main__":
    unittest.main()
