"""`foxscope page`: the file by itself, and what a browser makes of it against `foxscope map` and numpy."""

import base64
import hashlib
import json
import re
import unittest
import zlib

import h5py
import numpy
from browser import PROGRAM as CHROMIUM
from browser import Browser
from support import DATA, FOX, SOURCE, TRANSFORMER, CommandLineTest
from test_mixers import write_run

BOOK = SOURCE / "resources" / "texts" / "up-from-slavery-1.txt"
HOSTILE = ('</script><script>window.hacked = 1</script><!-- <script> ]]> &lt;b&gt; {{title}} \u2028 \u202eright to left\u202c '
           'שלום עולם \U0001f98a\U0001f98a "\'`${1}\\u003c\n</style><style>*{display:none}</style>\n\n<img src=x onerror=hacked>\n')


def data_of(html):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.DOTALL)[1])


def block_of(html, number):
    text = re.search(rf'<script id="block-{number}" type="text/plain">([A-Za-z0-9+/=]*)</script>', html)[1]
    return zlib.decompress(base64.b64decode(text, validate=True), wbits=-15)


def numbers_of(html, number, dtype):
    """The numbers of a block, whose first bytes lie together, then the second ones and so on."""
    planes = numpy.frombuffer(block_of(html, number), numpy.uint8)
    return planes.reshape(numpy.dtype(dtype).itemsize, -1).T.copy().view(dtype).ravel()


class PageFile(CommandLineTest):
    def page(self, run, *options):
        path = self.folder / "page.html"
        self.done("page", run, *options, "-o", path, "--force")
        return path

    def test_eight_heads_of_a_chapter_are_one_small_file(self):
        run = self.folder / "run.h5"
        self.done("run", "--model", f"fox={FOX}", "--text", BOOK, "--limit", 2048, "-o", run)
        path = self.page(run)
        html = path.read_text()
        self.assertLessEqual(path.stat().st_size, 5_000_000)
        data = data_of(html)
        [model] = data["models"]
        self.assertEqual(len(model["heads"]), 8)
        self.assertTrue(all("no_mixing" not in head and len(head["q"]["steps"]) == 64 for head in model["heads"]))
        times = [head["decay_time"] for head in model["heads"]]
        self.assertEqual(times, sorted(times))

        # Nothing is asked of a network: no element names an address, and the policy would not let it.
        scripts = re.compile(r"<script>.*?</script>|<script id=.*?</script>|<style>.*?</style>", re.DOTALL)
        markup = scripts.sub("", html)
        self.assertEqual(re.findall(r'\b(?:src|href|action|data|poster|srcset)="(?!data:image/svg\+xml;base64,)[^"]*"', markup), [])
        for name, content in [("script", re.search(r"<script>(.*?)</script>", html, re.DOTALL)[1]),
                              ("style", re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1])]:
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            self.assertIn(f"{name}-src 'sha256-{digest}'", html)
            self.assertNotRegex(content, r"https?://|url\(|@import|<!--|import\(|XMLHttpRequest|WebSocket|\bfetch\(|eval\(")
        self.assertIn("default-src 'none'", html)

        # Without folders, with hashes; the losses and c are the run's to the last digit.
        self.assertNotIn(str(self.folder), html)
        self.assertEqual(data["command"], "foxscope page run.h5 -o page.html --force")
        self.assertIn("foxscope run --model fox=fox-pro-12m --text up-from-slavery-1.txt", data["run_command"])
        with h5py.File(run) as file:
            group = file["models/fox"]
            self.assertEqual(model["weights_sha256"], group.attrs["weights_sha256"])
            self.assertEqual(data["text_sha256"], file["text/content"].attrs["sha256"])
            self.assertEqual("".join(data["tokens"][0]["pieces"]), file["text/content"][()].decode())
            numpy.testing.assert_array_equal(numbers_of(html, model["loss"], "<f4"), group["loss/per_token_loss"][:])
            for head in model["heads"]:
                c = group[f"layers/{head['layer']:02}/cumulative_log_gate"][head["head"]]
                numpy.testing.assert_array_equal(numbers_of(html, head["c"], "<f8"), c)
        self.assertEqual(self.page(run).read_text(), html)

    def test_heads_and_models_are_those_that_are_asked_for(self):
        run = self.folder / "two.h5"
        pair = ["--model", f"fox={DATA / 'fox-pro'}", "--model", f"base={DATA / 'transformer-pro'}"]
        self.done("run", *pair, "--ids", self.ids_file(), "-o", run)

        def models(*options):
            data = data_of(self.page(run, *options).read_text())
            return {model["name"]: [(head["layer"], head["head"]) for head in model["heads"]] for model in data["models"]}

        chosen = models()
        self.assertEqual(list(chosen), ["fox", "base"])
        self.assertTrue(all(chosen.values()))
        self.assertEqual(models("--heads", "1:0,0:1"), {"fox": [(1, 0), (0, 1)], "base": []})
        self.assertEqual(models("--heads", "1:0", "--heads", "base:0:1"), {"fox": [(1, 0)], "base": [(0, 1)]})
        self.assertEqual(list(models("--model", "base")), ["base", "fox"])
        self.assertEqual(list(models("--minus", "fox")), ["base", "fox"])
        self.assertEqual(self.done("page", run, "--title", "A & B", "-o", "-").count("<h1 id=\"title\" dir=\"auto\">A &amp; B</h1>"), 1)

    def test_what_cannot_be_made_says_why(self):
        run = self.run_fixture()
        path = self.folder / "page.html"
        self.done("page", run, "-o", path)
        self.fails(1, ["page.html", "exists", "--force"], "page", run, "-o", path)
        self.fails(2, ["-o page.pdf: a page is HTML: give the file the ending .html"], "page", run, "-o", "page.pdf")
        self.fails(2, ["--output"], "page", run)
        self.fails(2, ["--heads 1: write LAYER:HEAD"], "page", run, "--heads", "1", "-o", "-")
        self.fails(2, ["'fox-pro' has no head 9:0"], "page", run, "--heads", "9:0", "-o", "-")
        self.fails(2, ["--heads 0:0: stands there twice: leave one out"], "page", run, "--heads", "0:0,0:0", "-o", "-")
        self.fails(2, ["--heads fox-por:0:0: the run file holds no model 'fox-por', but fox-pro: did you mean fox-pro?"],
                   "page", run, "--heads", "fox-por:0:0", "-o", "-")
        self.fails(2, ["holds no model 'other'", "fox-pro"], "page", run, "--model", "other", "-o", "-")
        self.fails(2, ["--minus fox-pro: a model differs from itself in nothing"], "page", run, "--minus", "fox-pro", "-o", "-")
        self.fails(2, ["--head: ", "did you mean --heads?"], "page", run, "--head", "0:0", "-o", "-")
        two = self.folder / "two.h5"
        self.done("run", "--model", DATA / "fox-pro", "--model", DATA / "transformer-pro", "--ids", self.ids_file(), "-o", two)
        self.fails(2, ["--heads transformer-pro:0:0: name at least one head of 'fox-pro', which the page is about"],
                   "page", two, "--heads", "transformer-pro:0:0", "-o", "-")

    def test_what_is_too_large_says_how_large_it_would_be(self):
        run = self.folder / "long.h5"
        length, heads, dim = 16384, 24, 64
        with h5py.File(run, "w") as file:
            file.attrs["foxscope_schema"] = 1
            model = file.create_group("models/long")
            model.attrs.update({"dtype": "float32", "layers": 1, "heads": heads, "key_heads": heads, "head_dim": dim, "gated": 1,
                                "softmax_scale": 0.125})
            model["tokens/id"] = model["tokens/input_id"] = numpy.zeros(length, "<i4")
            layer = model.create_group("layers/00")
            layer["cumulative_log_gate"] = numpy.tile(-0.5 * numpy.arange(length), (heads, 1))
            layer["log_normalizer"] = numpy.zeros((heads, length), "<f4")
            for name in ["query", "key"]:
                layer[name] = numpy.zeros((heads, length, dim), "<f4")
        every = ",".join(f"0:{head}" for head in range(heads))
        self.fails(2, ["the page would have 1", " MB, and a page has at most 64 MB: choose fewer heads with --heads", "--limit"],
                   "page", run, "--unchecked", "--heads", every, "-o", "-")

    def test_arrays_that_were_not_kept_are_left_out(self):
        run = self.folder / "run.h5"
        for keep, decay, mixing in [("loss,gates", None, "--keep gates,rows,qk"), ("loss", "--keep gates", "--keep gates,rows,qk")]:
            self.done("run", "--model", DATA / "fox-pro", "--ids", self.ids_file(), "--keep", keep, "-o", run, "--force")
            [model] = data_of(self.page(run, "--heads", "0:0").read_text())["models"]
            [head] = model["heads"]
            self.assertIn(mixing, head["no_mixing"])
            if decay:
                self.assertIn(decay, head["no_decay"])
            else:
                self.assertNotIn("no_decay", head)


@unittest.skipIf(CHROMIUM is None, "chromium is not installed")
class PageInABrowser(CommandLineTest):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        super().setUp()
        self.browser.requests.clear()
        self.browser.said.clear()
        self.browser.resize(1366, 768)

    def open(self, run, *options):
        path = self.folder / "page.html"
        self.done("page", run, *options, "-o", path, "--force")
        self.browser.open(path)
        return path

    def assert_quiet(self, path):
        """The page asked for nothing but itself, and said nothing."""
        self.assertEqual([url for url in self.browser.requests if not url.startswith("data:")], [path.resolve().as_uri()])
        self.assertEqual(self.browser.said, [])

    def map(self, run, model, layer, head, quantity):
        path = self.folder / "map.npy"
        self.done("map", run, "--model", model, "--head", f"{layer}:{head}", "--quantity", quantity, "-o", path, "--force")
        return numpy.load(path).astype(float)

    def values(self, model, layer, head, quantity, pairs):
        of = f"foxscope.models.find((model) => model.name === {json.dumps(model)})"
        values = self.browser.evaluate(f"{json.dumps(pairs)}.map(([i, j]) => {of}.value('{quantity}', {layer}, {head}, i, j))"
                                       ".map((x) => Number.isNaN(x) ? null : x)")
        return numpy.array([numpy.nan if value is None else value for value in values], float)

    def assert_values(self, run, model, heads, quantities, absolute=1e-3):
        random = numpy.random.default_rng(35)
        for layer, head in heads:
            for quantity in quantities:
                expected = self.map(run, model, layer, head, quantity)
                length = len(expected)
                pairs = random.integers(0, length, (400, 2))
                near = random.integers(0, length, 100)
                pairs = numpy.concatenate([pairs, numpy.stack([near, numpy.maximum(near - random.integers(0, 4, 100), 0)], 1)])
                found = self.values(model, layer, head, quantity, pairs.tolist())
                wanted = expected[pairs[:, 0], pairs[:, 1]]
                scale = max(1, numpy.nanmax(numpy.abs(expected))) if quantity == "mixing" else 1
                # The program's exponentials of c_i - c_j are float32: to 6e-8 of an exponent of up to 85.
                tolerance = {"rtol": 5e-6, "atol": 1e-37} if quantity == "forget" else {"rtol": 0, "atol": absolute * scale}
                with self.subTest(model=model, layer=layer, head=head, quantity=quantity):
                    numpy.testing.assert_array_equal(numpy.isnan(found), numpy.isnan(wanted))
                    numpy.testing.assert_allclose(found, wanted, equal_nan=True, **tolerance)

    def test_values_are_the_programs(self):
        run = self.folder / "two.h5"
        self.done("run", "--model", f"fox={FOX}", "--model", f"base={TRANSFORMER}", "--text", BOOK, "--limit", 400, "-o", run)
        path = self.open(run)
        data = data_of(path.read_text())
        for model in data["models"]:
            heads = [(head["layer"], head["head"]) for head in model["heads"]]
            self.assertEqual(len(heads), 4)
            self.assert_values(run, model["name"], heads, ["forget", "attention"])
        first = data["models"][0]["heads"][0]
        at = f"{first['layer']}, {first['head']}"
        self.assertEqual(self.browser.evaluate(f"foxscope.value('forget', {at}, 200, 150) === foxscope.models.fox.value('forget', {at}, 200, 150)"),
                         True)
        expected = self.map(run, "fox", first["layer"], first["head"], "log_forget")
        self.assertAlmostEqual(self.browser.evaluate(f"foxscope.value('log_forget', {at}, 200, 150)"), expected[200, 150], delta=1e-4)
        for call, words in [("'forget', 0, 99, 1, 0", "head 0:99 is not in this page: it holds"),
                            (f"'forget', {at}, 400, 0", "positions are 0 to 399"),
                            (f"'logits', {at}, 1, 0", "a page has forget, log_forget, attention and mixing")]:
            with self.assertRaisesRegex(RuntimeError, words):
                self.browser.evaluate(f"foxscope.value({call})")
        self.browser.settle()
        self.assert_quiet(path)

    def test_windows_shared_keys_and_linear_mixers(self):
        for fixture, quantities in [("llama", ["forget", "attention"]), ("mistral", ["forget", "attention"]),
                                    ("fox-pro-shared-qknorm", ["forget", "attention"]), ("samba", ["attention", "mixing"]),
                                    ("mamba", ["forget", "attention", "mixing"]), ("qwen3_5", ["attention", "mixing"])]:
            run = self.run_fixture(fixture, f"{fixture}.h5")
            path = self.open(run)
            for model in data_of(path.read_text())["models"]:
                heads = [(head["layer"], head["head"]) for head in model["heads"]]
                self.assertTrue(heads)
                self.assert_values(run, fixture, heads, quantities)
            self.assert_quiet(path)
            self.browser.requests.clear()
        run = self.folder / "linear.h5"
        fixtures = ["mamba2", "hgrn2", "delta-net", "gla", "gated-deltanet"]
        write_run(run, fixtures)
        path = self.open(run, "--model", "mamba2", "--heads", ",".join(["0:0"] + [f"{name}:0:1" for name in fixtures]))
        for name in fixtures:
            decays = [] if name == "delta-net" else ["forget"]
            self.assert_values(run, name, [(0, 1)], ["mixing", "attention", *decays])
        with self.assertRaisesRegex(RuntimeError, "forgets only what it overwrites"):
            self.browser.evaluate("foxscope.models['delta-net'].value('forget', 0, 1, 3, 2)")
        self.assert_quiet(path)

    def test_texts_are_never_markup(self):
        text = self.write("hostile.txt", HOSTILE * 3)
        run = self.folder / "run.h5"
        self.done("run", "--model", f"fox={FOX}", "--text", text, "-o", run)
        with h5py.File(run, "r+") as file:
            strings = file["models/fox/tokens/string"]
            strings[3] = "\\x00</script>"
        path = self.open(run, "--title", "</title><script>hacked = 1</script>")
        browser = self.browser
        self.assertEqual(browser.evaluate("typeof window.hacked"), "undefined")
        self.assertEqual(browser.evaluate("document.getElementById('title').textContent"), "</title><script>hacked = 1</script>")
        self.assertEqual(browser.evaluate("document.title"), "</title><script>hacked = 1</script>")
        self.assertEqual(browser.evaluate("[...document.querySelectorAll('#words .block')].map((one) => one.textContent).join('')"), HOSTILE * 3)
        self.assertEqual(browser.evaluate("[...new Set([...document.querySelectorAll('#words *')].map((one) => one.tagName))].sort().join()"),
                         "DIV,SPAN")
        self.assertEqual(browser.evaluate("document.querySelectorAll('img').length"), 0)
        # What would turn or hide writing is seen where one token is named.
        positions = [p for p, piece in enumerate(data_of(path.read_text())["tokens"][0]["pieces"]) if "\u202e" in piece]
        browser.evaluate(f"document.querySelectorAll('#words .block span')[{positions[0]}].click()")
        browser.settle()
        said = browser.evaluate("document.getElementById('readout').textContent")
        self.assertNotIn("\u202e", said)
        self.assertRegex(said, "⟨202E⟩|\ufffd")  # a character of several tokens is none of theirs
        self.assert_quiet(path)

    def test_keys_mouse_and_text_move_one_cursor(self):
        run = self.folder / "two.h5"
        self.done("run", "--model", f"fox={FOX}", "--model", f"base={TRANSFORMER}", "--text", BOOK, "--limit", 300, "-o", run)
        path = self.open(run)
        browser = self.browser
        state = lambda what: browser.evaluate(f"JSON.stringify(foxscope.state.{what})")
        readout = lambda: browser.evaluate("document.getElementById('readout').textContent")
        selected = lambda: browser.evaluate("[...document.querySelectorAll('.head')].findIndex((one) => one.getAttribute('aria-selected') === 'true')")

        # Heads by number and by brackets.
        for key, place in [("4", 3), ("[", 2), ("]", 3), ("1", 0), ("8", 7)]:
            browser.key(key)
            self.assertEqual(selected(), place)
        browser.key("4")
        if state("axes") == '"distance"':
            browser.key("x")
        self.assertEqual(state("axes"), '"key"')

        # The pin by arrows, within the triangle.
        browser.evaluate("[...document.querySelectorAll('#words .block span')][99].click()")
        browser.settle()
        self.assertEqual(state("pin"), '{"query":100,"key":100}')
        browser.key("ArrowLeft", shift=True)
        browser.key("ArrowLeft")
        browser.key("ArrowDown")
        self.assertEqual(state("pin"), '{"query":101,"key":89}')
        self.assertIn("query 101", readout())
        self.assertIn("key 89", readout())
        shown = float(re.search(r"F ([0-9.]+)", readout())[1])
        value = browser.evaluate("(({ head, pin }) => head.forget(pin.query, pin.key))(foxscope.state)")
        self.assertAlmostEqual(shown, value, delta=1e-4 * max(value, 1e-3))
        self.assertIn("query 101", browser.evaluate("document.getElementById('spoken').textContent"))
        self.assertEqual(browser.evaluate("document.querySelector('#words .query').textContent"),
                         browser.evaluate("document.querySelectorAll('#words .block span')[100].textContent"))

        # The wheel zooms at the pointer, a drag moves, a double click fits, a click pins what is under it.
        box = browser.evaluate("(({ x, y, width, height }) => [x, y, width, height])"
                               "(document.querySelector('#map-decay > canvas').getBoundingClientRect())")
        side = min(box[2] - 50, box[3] - 24)
        x, y = box[0] + 46 + 0.25 * side, box[1] + 2 + 0.75 * side
        browser.mouse("mouseMoved", x, y)
        browser.settle()
        hovered = json.loads(state("hover"))
        self.assertAlmostEqual(hovered["query"], 225, delta=2)
        self.assertAlmostEqual(hovered["key"], 75, delta=2)
        browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
        browser.settle()
        rows, columns = json.loads(state("rows")), json.loads(state("columns"))
        self.assertLess(rows[1] - rows[0], 250)
        self.assertAlmostEqual(rows[0] + 0.75 * (rows[1] - rows[0]), 225, delta=2)
        self.assertAlmostEqual(columns[0] + 0.25 * (columns[1] - columns[0]), 75, delta=2)
        browser.mouse("mousePressed", x, y, button="left", clickCount=1)
        browser.mouse("mouseMoved", x, y - 40, button="left", buttons=1)
        browser.mouse("mouseReleased", x, y - 40, button="left", clickCount=1)
        browser.settle()
        self.assertGreater(json.loads(state("rows"))[0], rows[0])
        self.assertEqual(state("pin"), '{"query":101,"key":89}')
        browser.click(x, y, count=2)
        self.assertEqual(state("rows"), "[0,300]")
        pinned = json.loads(state("pin"))
        self.assertNotEqual(pinned, {"query": 101, "key": 89})
        for key in ("+", "+", "-"):
            browser.key(key)
        self.assertNotEqual(state("rows"), "[0,300]")
        browser.key("0")
        self.assertEqual(state("rows"), "[0,300]")

        # Tints, of which F of the pinned row is the entries of that row.
        tints = set()
        for _ in range(6):
            browser.key("t")
            tints.add(state("tint"))
        self.assertEqual(tints, {'"loss:0"', '"loss:1"', '"difference"', '"gate"', '"decay"', '"mixing"'})
        browser.evaluate("((box) => { box.value = 'decay'; box.onchange({ target: box }); })(document.getElementById('tint'))")
        browser.settle()
        near, far = (float(browser.evaluate(f"document.querySelectorAll('#words .block span')[{pinned['query'] - 1 - back}]"
                                            ".style.backgroundColor.split(',')[3]?.replace(')', '') ?? 0")) for back in (0, 40))
        self.assertGreater(near, far)

        theme = lambda: browser.evaluate("document.documentElement.dataset.theme")
        before = theme()
        browser.key("d")
        self.assertNotEqual(theme(), before)
        browser.key("?")
        self.assertTrue(browser.evaluate("document.getElementById('helping').open"))
        browser.key("Escape")
        self.assertFalse(browser.evaluate("document.getElementById('helping').open"))
        browser.key("Escape")
        self.assertEqual(state("pin"), "null")
        self.assert_quiet(path)

    def test_small_screens_and_dark_systems(self):
        run = self.folder / "run.h5"
        self.done("run", "--model", f"fox={FOX}", "--text", BOOK, "--limit", 200, "-o", run)
        browser = self.browser
        browser.media(prefers_color_scheme="dark")
        path = self.open(run)
        self.assertEqual(browser.evaluate("document.documentElement.dataset.theme"), "dark")
        browser.media(prefers_color_scheme="light")
        self.assertEqual(browser.evaluate("document.documentElement.dataset.theme"), "light")
        for width, height in [(360, 740), (844, 390), (1366, 768), (2560, 1600)]:
            browser.resize(width, height)
            browser.settle()
            self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), width)
            # A picture of one colour takes some hundred letters.
            letters = browser.evaluate("[...document.querySelectorAll('.map > canvas')].find((one) => one.offsetParent !== null).toDataURL().length")
            self.assertGreater(letters, 8000, f"{width} x {height}")
        self.assert_quiet(path)


if __name__ == "__main__":
    unittest.main()
