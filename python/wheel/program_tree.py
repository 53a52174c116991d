"""program_tree.py BUILD FOLDER: puts the program of a build, and all that it needs of this system, into a folder.

The folder has bin/foxscope, its libraries in lib/, Qt's plugins in plugins/, fonts, demo models and texts in share/, and
CONTENTS.md, which lists them with their sizes, packages and licences. It may lie anywhere: libraries find each other by
$ORIGIN. LibTorch is not in it. The forward library looks for the torch package beside the package foxscope.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

# Of every system that a manylinux wheel runs on (PEP 600), Python itself needs them.
SYSTEM = re.compile(r"(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil|libstdc\+\+|libgcc_s)\.so\.\d+$")
# None of them draws by OpenGL, for which the drivers of the system would be loaded beside these libraries.
PLUGINS = [
    "platforms/libqxcb.so", "platforms/libqoffscreen.so", "platforms/libqwayland-generic.so",
    "wayland-shell-integration/libxdg-shell.so", "wayland-decoration-client/libbradient.so",
    "platforminputcontexts/libcomposeplatforminputcontextplugin.so",
    "platforminputcontexts/libibusplatforminputcontextplugin.so",
    "iconengines/libqsvgicon.so", "imageformats/libqsvg.so", "imageformats/libqjpeg.so",
]  # fmt: skip
QT_PLUGINS = Path("/usr/lib/x86_64-linux-gnu/qt6/plugins")
FONT_FOLDER = Path("/usr/share/fonts")
FONTS = ["truetype/dejavu/DejaVuSans.ttf", "truetype/dejavu/DejaVuSans-Bold.ttf", "truetype/dejavu/DejaVuSansMono.ttf",
         "truetype/dejavu/DejaVuSansMono-Bold.ttf", "truetype/droid/DroidSansFallbackFull.ttf"]  # fmt: skip
MODELS = ["fox-pro-12m", "transformer-pro-12m", "gated-deltanet-1m"]
COMMON_LICENCES = Path("/usr/share/common-licenses")
WORDS = """Each package's copyright and licence are in licences/, and the licences that these name in licences/common-licenses/.

The program is linked with QCustomPlot, which is under the GPL, version 3 or later: whoever passes this folder on does so
under the GPL, offers the sources of the program and of all GPL and LGPL parts, and puts no library of NVIDIA's with it."""
FONTS_CONF = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir prefix="relative">.</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""


def said(*words: object) -> str:
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def needs(binary: Path) -> dict[str, Path]:
    """The libraries that a program or library needs, and those that they need, by the names that they are asked for."""
    found = {}
    for line in said("ldd", binary).splitlines():
        match = re.match(r"\s*(\S+) => (\S+) \(0x", line)
        if match:
            found[match[1]] = Path(match[2])
        elif "not found" in line:
            sys.exit(f"{binary}: {line.strip()}")
    return found


class Tree:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sources: dict[Path, Path] = {}  # a file of the system by its copy

    def copy(self, source: Path, place: str) -> Path:
        target = self.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source.resolve(), target)
        target.chmod(0o755 if ".so" in target.name else 0o644)
        self.sources[target] = source
        return target

    def install(self, build: Path) -> None:
        """The program with its own libraries, models and texts, as `cmake --install` gives them."""
        stage = self.folder / "stage"
        said("cmake", "--install", build, "--prefix", stage, "--strip")
        own = next(stage.rglob("libfoxscope_core.so")).parent
        (stage / "bin").rename(self.folder / "bin")
        (self.folder / "lib").mkdir()
        own.rename(self.folder / "lib" / "foxscope")
        (self.folder / "share").mkdir()
        (stage / "share" / "foxscope").rename(self.folder / "share" / "foxscope")
        shutil.rmtree(stage)
        for model in (self.folder / "share" / "foxscope" / "models").iterdir():
            if model.is_dir() and model.name not in MODELS:
                shutil.rmtree(model)

    def add_libraries(self, build: Path) -> None:
        """What the program and Qt's plugins need of the system, and the plugins."""
        wanted = needs(build / "foxscope")
        for plugin in PLUGINS:
            copy = self.copy(QT_PLUGINS / plugin, f"plugins/{plugin}")
            wanted |= needs(copy)
        for name, source in wanted.items():
            if not SYSTEM.match(name) and not name.startswith("libfoxscope_"):
                self.copy(source, f"lib/{name}")

    def set_paths(self) -> None:
        """Libraries find each other, whatever LD_LIBRARY_PATH says."""
        torch = "$ORIGIN/../../../../torch/lib"
        places = {"bin": "$ORIGIN/../lib:$ORIGIN/../lib/foxscope", "foxscope": "$ORIGIN:$ORIGIN/..", "lib": "$ORIGIN"}
        for file in [self.folder / "bin" / "foxscope", *self.folder.rglob("*.so*")]:
            path = places.get(file.parent.name, "$ORIGIN/../../lib")
            if file.name == "libfoxscope_forward.so":
                path += ":" + torch
            said("patchelf", "--force-rpath", "--set-rpath", path, file)

    def add_settings(self) -> None:
        for font in FONTS:
            self.copy(FONT_FOLDER / font, f"share/foxscope/fonts/{Path(font).name}")
        (self.folder / "share" / "foxscope" / "fonts" / "fonts.conf").write_text(FONTS_CONF)
        (self.folder / "bin" / "qt.conf").write_text("[Paths]\nPrefix=..\nPlugins=plugins\n")

    def list_contents(self, source: Path) -> None:
        """CONTENTS.md, and the licences that it names."""
        licences = self.folder / "licences"
        licences.mkdir()
        shutil.copy(source / "LICENSE", licences / "foxscope.txt")
        shutil.copy(source / "docs" / "licence.md", licences / "foxscope-parts.md")
        rows = []
        for file in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            if file.parent == licences:
                continue
            package, licence = "foxscope", "GPL-3.0-or-later"
            if file in self.sources:
                package, licence = package_of(self.sources[file], licences)
            rows.append((file.relative_to(self.folder).as_posix(), file.stat().st_size, package, licence))
        # Debian's copyright files name these texts by their place in the system.
        shutil.copytree(COMMON_LICENCES, licences / COMMON_LICENCES.name)
        text = f"# What is in this folder\n{WORDS}\n\n"
        text += f"{len(rows)} files, {sum(row[1] for row in rows):,} bytes\n\n"
        text += "| file | bytes | package | licences |\n|---|---|---|---|\n"
        text += "".join(f"| {name} | {size:,} | {package} | {licence} |\n" for name, size, package, licence in rows)
        (self.folder / "CONTENTS.md").write_text(text)


def package_of(source: Path, licences: Path) -> tuple[str, str]:
    """The Debian package of a file with its version, and the licences that its copyright file names."""
    places = [source, source.resolve(), Path("/usr") / source.resolve().relative_to("/")]
    for place in places:
        done = subprocess.run(["dpkg", "-S", place], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
    else:
        sys.exit(f"{source}: belongs to no Debian package, so its licence is not known")
    package = done.stdout.split(":")[0]
    version = said("dpkg-query", "-W", "-f", "${Version}", f"{package}:amd64" if "amd64" in done.stdout else package)
    file = Path("/usr/share/doc") / package / "copyright"
    if not file.exists():
        sys.exit(f"{file}: is missing: install {package} again with its documents")
    shutil.copy(file, licences / f"{package}.txt")
    names = re.findall(r"^License: *(\S.*)$", file.read_text(errors="replace"), re.MULTILINE)
    licence = ", ".join(dict.fromkeys(name.strip() for name in names)) or "see licences/" + package + ".txt"
    return f"{package} {version}", licence


def main() -> None:
    build, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    folder.mkdir(parents=True)
    tree = Tree(folder)
    tree.install(build)
    tree.add_libraries(build)
    tree.add_settings()
    tree.set_paths()
    tree.list_contents(Path(__file__).resolve().parents[2])


if __name__ == "__main__":
    main()
