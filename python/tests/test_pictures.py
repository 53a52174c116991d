"""Pictures of maps have the colours of `foxscope map`, and figures are its own."""

import base64
import html
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.image
import matplotlib.pyplot as plt
import numpy as np
import pytest
from conftest import MODELS, PROGRAM, TEXT, foxscope_command
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

import foxscope
from foxscope import FoxscopeError, Run


@pytest.fixture(scope="module")
def run(run_path: Path) -> Iterator[Run]:
    with foxscope.open(run_path) as opened:
        yield opened


@pytest.fixture
def ax() -> Iterator[Axes]:
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def colours_of(image: Any) -> Any:
    """[rows, columns, 3] colours of 0 to 255 that matplotlib paints."""
    return np.rint(image.to_rgba(image.get_array(), norm=True)[..., :3] * 255)


def colours_of_program(picture: bytes, size: int) -> Any:
    """The colours of `size` x `size` pixels of the map in an SVG, which holds it and its colour bar as PNGs."""
    images = re.findall(rb'href="data:image/png;base64,([^"]+)"', picture)
    pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(max(images, key=len))), format="png")
    centres = (2 * np.arange(size) + 1) * len(pixels) // (2 * size)
    return np.rint(pixels[centres][:, centres, :3] * 255)


CASES: list[tuple[str, list[str], dict[str, Any]]] = [
    ("attention", [], {}),
    ("attention", ["--scale", "linear"], {"scale": "linear"}),
    ("attention", ["--limits", ":0.1", "--colours", "magma"], {"limits": (None, 0.1), "colours": "magma"}),
    ("forget", [], {}),
    ("forget", ["--scale", "log", "--limits", "1e-3:1"], {"scale": "log", "limits": (1e-3, 1)}),
    ("log_forget", ["--colours", "cividis"], {"colours": "cividis"}),
    ("logits", [], {}),
    ("gate_effect", [], {}),
    ("gate_effect", ["--limits", "-0.2:"], {"limits": (-0.2, None)}),
    ("mixing", ["--colours", "grey"], {"colours": "grey"}),
]


@pytest.mark.parametrize(("quantity", "words", "options"), CASES)
def test_a_map_has_the_programs_colours(
    run: Run, run_path: Path, ax: Axes, quantity: str, words: list[str], options: dict[str, Any]
) -> None:
    asked = ["map", run_path, "--model", "fox", "--head", "3:1", "--quantity", quantity, "--size", "24x24", *words]
    picture = foxscope_command(*asked, "--format", "svg", "-o", "-", "-q")
    image = run["fox"].head(3, 1).map(quantity).pooled(24).plot(ax, **options)
    wanted = colours_of_program(picture, 24)
    assert np.abs(colours_of(image) - wanted).max() <= 2
    assert (wanted[0, 5] == 240).all()  # above the diagonal


def test_a_difference_has_the_programs_colours(run: Run, run_path: Path, ax: Axes) -> None:
    asked = ["map", run_path, "--head", "3:1", "--minus", "transformer", "--quantity", "attention", "--size", "24x24"]
    picture = foxscope_command(*asked, "--model", "fox", "--format", "svg", "-o", "-", "-q")
    difference = run["fox"].head(3, 1).attention - run["transformer"].head(3, 1).attention
    image = difference.pooled(24).plot(ax)
    assert np.abs(colours_of(image) - colours_of_program(picture, 24)).max() <= 2
    assert image.norm.vmin == -(image.norm.vmax or 0)
    assert ax.get_title() == "fox, layer 3, head 1\n\N{MINUS SIGN} transformer, layer 3, head 1"


def test_axes_are_those_of_the_window(run: Run, ax: Axes) -> None:
    pooled = run["fox"].head(2, 0).forget.pooled(16, rows=(100, 200), columns=(50, 150))
    image = pooled.plot(ax, title="")
    assert image.get_extent() == [49.5, 149.5, 199.5, 99.5]  # queries downwards, keys across
    assert ax.get_ylabel() == "query position (token)"
    assert ax.get_xlabel() == "key position (token)"
    assert ax.get_title() == ""
    assert ax.child_axes[0].get_ylabel() == "$F$, share that is retained"


def test_what_is_below_a_threshold_is_white(run: Run, ax: Axes) -> None:
    pooled = run["fox"].head(2, 0).attention.pooled(20)
    pooled.plot(ax, threshold=0.01)
    white = ax.images[1].get_array()
    assert white is not None
    assert np.array_equal(white[..., 3] == 255, pooled.values < 0.01)
    assert (white[..., 3] > 0).any()


@pytest.mark.parametrize(
    ("words", "quantity", "options"),
    [
        ("use viridis", "forget", {"colours": "jet"}),
        ("use auto, linear or log", "forget", {"scale": "square"}),
        ("logits has entries below zero: use linear", "logits", {"scale": "log"}),
        ("the lower must be below the upper", "forget", {"limits": (1, 0)}),
        ("the lower must be below the upper", "forget", {"limits": (0, float("nan"))}),
        ("begins above 0", "attention", {"limits": (0, 1)}),
    ],
)
def test_colours_that_do_not_fit(run: Run, ax: Axes, words: str, quantity: str, options: dict[str, Any]) -> None:
    with pytest.raises(FoxscopeError, match=words):
        run["fox"].head(0, 0).map(quantity).pooled(8).plot(ax, **options)


def test_maps_without_entries_are_drawn(run: Run, ax: Axes) -> None:
    nothing = run["fox"].head(0, 0).attention.pooled(8, rows=(0, 20), columns=(100, 130))
    assert np.isnan(nothing.values).all()
    assert (colours_of(nothing.plot(ax)) == 240).all()


def test_a_notebook_shows_maps_runs_and_figures(run: Run) -> None:
    pooled = run["fox"].head(0, 0).forget.pooled(64)
    picture = pooled._repr_png_()
    assert picture is not None
    assert matplotlib.image.imread(io.BytesIO(picture), format="png").shape[:2] == (633, 792)
    table = run._repr_html_()
    assert "<td>transformer</td>" in table
    assert f"{np.mean(run['fox'].loss, dtype=float):.4f}" in table  # type: ignore[arg-type]
    assert "64 x 64 pixels by max" in repr(pooled)
    assert repr(run["fox"].head(1, 2)) == "<head 1:2 of fox>"


def test_a_figure_is_the_commands(run: Run, run_path: Path, tmp_path: Path) -> None:
    options = {"model": "fox", "heads": [(3, 0), (5, 1)], "rows": (0, 64), "cols": slice(64),
               "limits": {"attention": (0.01, 0.5)}, "width": "icml", "font_size": 8,
               "no_letters": True, "title": None}  # fmt: skip
    words = ["figure", "maps", run_path, "--model", "fox", "--heads", "3:0,5:1", "--rows", "0:64", "--cols", ":64"]
    words += ["--limits", "attention=0.01:0.5", "--width", "icml", "--font-size", "8", "--no-letters"]
    for format in ("svg", "pdf", "png", "csv"):
        output = tmp_path / f"program.{format}"
        foxscope_command(*words, "-o", output)
        figure = run.figure("maps", format=format, **options)
        figure.save(tmp_path / f"ours.{format}")
        # They differ by the name of the output in the command that makes them again.
        if format == "csv":
            assert (tmp_path / "ours.csv").read_bytes() == output.read_bytes()
        assert abs(len(figure.data) - output.stat().st_size) < 200
    figure = run.figure("maps", **options)
    assert figure._repr_svg_() == figure.data.decode()
    assert figure._repr_png_() is None
    assert run.figure("maps", format="png", **options)._repr_png_() is not None
    with pytest.raises(FoxscopeError, match=r"the figure is a \.svg: .* ask for format='pdf'"):
        figure.save(tmp_path / "figure.pdf")


def test_a_figure_replaces_a_file_whole_or_not_at_all(run: Run, tmp_path: Path) -> None:
    """Here the system lets the process write less than the figure is, as a full disk does."""
    figure = run.figure("loss", model="fox")
    path = tmp_path / "loss.svg"
    code = (
        "import resource, sys\n"
        "from foxscope.errors import FoxscopeError\n"
        "from foxscope.figures import Figure\n"
        "data = sys.stdin.buffer.read()\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (len(data) // 2, len(data) // 2))\n"
        "try:\n"
        "    Figure(data, 'svg', '').save(sys.argv[1])\n"
        "except FoxscopeError as error:\n"
        "    print(error)\n"
    )

    def save_on_a_full_disk() -> str:
        done = subprocess.run([sys.executable, "-c", code, path], input=figure.data, capture_output=True, check=True)
        return done.stdout.decode() + done.stderr.decode()

    error = f"{path}: could not be written (File too large): make room, or write elsewhere\n"
    assert save_on_a_full_disk() == error
    assert os.listdir(tmp_path) == []
    path.write_text("mine")
    path.chmod(0o640)
    assert save_on_a_full_disk() == error
    assert path.read_text() == "mine"
    figure.save(path)
    assert path.read_bytes() == figure.data and os.listdir(tmp_path) == ["loss.svg"]
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("words", "kind", "options"),
    [
        ("use svg, pdf, png, csv", "maps", {"format": "jpg"}),
        ("nothing", "nothing", {}),
        ("--heads 99:0|layer 99", "maps", {"heads": [(99, 0)]}),
        ("no_such_thing|no-such-thing", "maps", {"no_such_thing": 1}),
        ("^figure: expected a string, got 5$", 5, {}),
    ],
)
def test_figures_that_do_not_exist(run: Run, words: str, kind: Any, options: dict[str, Any]) -> None:
    with pytest.raises(FoxscopeError, match=words) as error:
        run.figure(kind, **options)
    assert "\n" not in str(error.value)


def test_without_matplotlib_a_plot_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = run["fox"].head(3, 0).forget.pooled(8)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(FoxscopeError, match=r"^plots need matplotlib: pip install 'foxscope\[notebook\]'$"):
        drawn.plot()


@pytest.mark.parametrize("limits", [5, (1,), (0, 1, 2), ("a", 1), "ab"])
def test_limits_that_are_no_two_numbers(run: Run, ax: Axes, limits: Any) -> None:
    with pytest.raises(FoxscopeError, match=r"^limits .*: take two numbers, as in"):
        run["fox"].head(3, 0).forget.pooled(8).plot(ax, limits=limits)


def test_absent_entries_have_one_colour() -> None:
    assert [round(255 * part) for part in to_rgb(foxscope.colours.ABSENT)] == [240, 240, 240]


def test_a_window_without_a_display_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    done = subprocess.run([PROGRAM, "open", run.path], capture_output=True, text=True, check=False)
    with pytest.raises(FoxscopeError) as error:
        run.view()
    assert str(error.value) == done.stderr.strip().removeprefix("foxscope: ")


def windows_on(path: Path) -> list[int]:
    """Processes whose command names a file."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_bytes().split(b"\0") if process.name.isdigit() else []
        except OSError:
            continue
        if str(path).encode() in words and b"open" in words:
            found.append(int(process.name))
    return found


def test_a_window_opens_on_the_run_and_goes_on(run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "run.h5"
    path.symlink_to(run_path)
    with foxscope.open(path) as run:
        run.view()
    (window,) = windows_on(path)
    os.kill(window, signal.SIGKILL)


def test_a_figure_of_several_files(run: Run) -> None:
    with foxscope.run({"delta": MODELS / "gated-deltanet-1m"}, TEXT) as second:
        for other in (second, second.path):
            figure = run.figure("loss", others=[other], format="csv").data.decode()
            assert {line.split(",")[2] for line in figure.splitlines()[1:]} >= {"fox", "transformer", "delta"}


def test_a_figure_has_the_notes_of_the_command(run: Run, run_path: Path, tmp_path: Path) -> None:
    words = [PROGRAM, "figure", "gates", str(run_path), "--rows", "0:64", "-o", str(tmp_path / "gates.svg")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    figure = run.figure("gates", rows=(0, 64))
    assert figure.notes == [line.removeprefix("foxscope: ") for line in done.stderr.splitlines()]
    assert any("of fox, transformer this is fox: --model chooses another" in note for note in figure.notes)
    page = figure._repr_html_()
    assert page is not None
    assert base64.b64encode(figure.data).decode() in page
    for note in figure.notes:
        assert note in repr(figure) and f"<p>{html.escape(note)}</p>" in page
    assert run.figure("gates", rows=(0, 64), format="csv")._repr_html_() is None
    chosen = run.figure("maps", heads=[("fox", 3, 0)], rows=(0, 64))
    assert chosen.notes == []
    assert repr(chosen).count("\n") == 0
    assert chosen._repr_html_() is None


def test_a_figure_of_one_model_does_not_leave_out_a_file(run: Run) -> None:
    with foxscope.run({"delta": MODELS / "gated-deltanet-1m"}, TEXT) as second:
        for kind in ("scatter", "gates"):
            with pytest.raises(
                FoxscopeError, match="one model is drawn, and there are fox, transformer, delta: --model names one"
            ):
                run.figure(kind, others=[second])
        alone = second.figure("scatter", format="csv").data
        assert run.figure("scatter", others=[second], model="delta", format="csv").data == alone
