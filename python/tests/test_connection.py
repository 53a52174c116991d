"""Programs, machines, and what can go wrong between."""

import gc
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import MODELS, PROGRAM, SOURCE

import foxscope
from foxscope import FoxscopeError
from foxscope.agents import agent_of
from foxscope.program import find_program
from foxscope.remote_path import Host, parse_remote_path


def script(path: Path, text: str) -> Path:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def hello(version: str, protocol: int) -> str:
    """A line of shell that says the first message of an agent."""
    header = f'{{"foxscope_agent":{protocol},"program":"foxscope","version":"{version}"}}'
    return f"printf '\\{len(header):03o}\\000\\000\\000{header}'; "


def one_line(words: str, action: Callable[[], object]) -> None:
    with pytest.raises(FoxscopeError, match=words) as error:
        action()
    assert "\n" not in str(error.value)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class TestProgram:
    def test_the_variable_comes_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        named = script(tmp_path / "mine", "exit 0\n")
        monkeypatch.setenv("FOXSCOPE_PROGRAM", str(named))
        assert find_program() == str(named)
        monkeypatch.setenv("FOXSCOPE_PROGRAM", str(tmp_path / "missing"))
        one_line("FOXSCOPE_PROGRAM=.*missing: there is no such program", find_program)

    def test_then_the_wheels_own_the_checkouts_and_that_of_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("FOXSCOPE_PROGRAM")
        monkeypatch.setattr("foxscope.program._PACKAGE", tmp_path / "site" / "foxscope")
        checkout = tmp_path / "checkout"
        for folder in ("backend", "build"):
            (checkout / folder).mkdir(parents=True)
        (checkout / "CMakeLists.txt").touch()
        (tmp_path / "site" / "foxscope").mkdir(parents=True)
        commands, programs = tmp_path / "commands", tmp_path / "programs"
        commands.mkdir()
        programs.mkdir()
        # The command that pip makes of this package is no program: it would start itself.
        (commands / "foxscope").write_text("#!/usr/bin/env python3\n")
        (commands / "foxscope").chmod(0o755)
        monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{programs}")
        one_line("the program foxscope is not found: install a wheel that holds it", find_program)
        on_path = script(programs / "foxscope", "exit 0\n")
        assert find_program() == str(on_path)
        (tmp_path / "site" / "foxscope" / "_checkout.txt").write_text(str(checkout))
        assert find_program() == str(on_path)
        built = script(checkout / "build" / "foxscope", "exit 0\n")
        assert find_program() == str(built)
        (tmp_path / "site" / "foxscope" / "_program" / "bin").mkdir(parents=True)
        own = script(tmp_path / "site" / "foxscope" / "_program" / "bin" / "foxscope", "exit 0\n")
        assert find_program() == str(own)

    def test_a_checkout_that_is_not_built_is_named(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        package = tmp_path / "python" / "foxscope"
        package.mkdir(parents=True)
        (tmp_path / "CMakeLists.txt").touch()
        (tmp_path / "backend").mkdir()
        monkeypatch.setattr("foxscope.program._PACKAGE", package)
        monkeypatch.delenv("FOXSCOPE_PROGRAM")
        monkeypatch.setenv("PATH", str(tmp_path))
        one_line(f"build it with ./dev build in {tmp_path}", find_program)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("exit 3\n", "is no program foxscope that has an agent: it ended with 3"),
            ("echo what is an agent >&2; exit 2\n", "is no program foxscope that has an agent: what is an agent"),
            ("head -c 100000 /dev/zero\n", "is no foxscope agent"),
            (hello("99.1.0", 4) + "cat >/dev/null\n", "the program is of version 99.1.0, and this package of version"),
            (hello("99.1.0", 7) + "cat >/dev/null\n", "speaks protocol 7, and this package speaks protocol 4"),
        ],
    )
    def test_another_program_or_version_is_one_line(
        self, tmp_path: Path, run_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
    ) -> None:
        monkeypatch.setenv("FOXSCOPE_PROGRAM", str(script(tmp_path / "other", text)))
        one_line(words, lambda: foxscope.open(run_path))

    @pytest.mark.parametrize("first", ["", "echo welcome; ", hello("0.1.0", 4)[:-20] + "'; "])
    def test_a_program_that_does_not_answer(
        self, tmp_path: Path, run_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
    ) -> None:
        """It is waited for for a time, and ended with what it started."""
        other = script(tmp_path / "other", f"{first}sleep 3600 & echo $! >{tmp_path}/sleeper; wait\n")
        monkeypatch.setenv("FOXSCOPE_PROGRAM", str(other))
        monkeypatch.setattr("foxscope.connection._GREETING_SECONDS", 2.0)
        one_line(
            f"^{other}: is no program foxscope that has an agent: it did not answer for 2 seconds$",
            lambda: foxscope.open(run_path),
        )
        assert not is_running(int((tmp_path / "sleeper").read_text()))

    def test_a_file_that_is_no_program(self, tmp_path: Path, run_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "other").write_bytes(b"\x7fELF nonsense")
        (tmp_path / "other").chmod(0o755)
        monkeypatch.setenv("FOXSCOPE_PROGRAM", str(tmp_path / "other"))
        one_line("cannot be started", lambda: foxscope.open(run_path))

    def test_the_command_becomes_the_program(self) -> None:
        words = [sys.executable, "-c", "from foxscope.command_line import main; main()", "--version"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout == f"foxscope {foxscope.__version__}\n"
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env={**os.environ, "FOXSCOPE_PROGRAM": "/nowhere"}
        )
        assert (done.returncode, done.stderr) == (1, "foxscope: FOXSCOPE_PROGRAM=/nowhere: there is no such program\n")

    def test_the_command_needs_no_numpy(self) -> None:
        code = "import sys, foxscope, foxscope.command_line; sys.exit('numpy' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True)


class TestFiles:
    def test_errors_are_the_programs_lines(self, tmp_path: Path, run_path: Path) -> None:
        whole = run_path.read_bytes()
        (tmp_path / "cut.h5").write_bytes(whole[: len(whole) // 2])
        (tmp_path / "text.h5").write_text("no run")
        newer = tmp_path / "newer.h5"
        newer.write_bytes(whole)
        with h5py.File(newer, "a") as file:
            file.attrs["foxscope_schema"] = 9
        for name, words in [("missing.h5", ""), ("cut.h5", ""), ("text.h5", ""), ("newer.h5", "newer Foxscope")]:
            path = tmp_path / name
            done = subprocess.run([PROGRAM, "heads", path], capture_output=True, text=True, check=False)
            line = done.stderr.strip().removeprefix("foxscope: ")
            assert words in line
            with pytest.raises(FoxscopeError) as error:
                foxscope.open(path)
            assert str(error.value) == line

    def test_arrays_that_contradict_one_another(self, tmp_path: Path, run_path: Path) -> None:
        path = tmp_path / "wrong.h5"
        path.write_bytes(run_path.read_bytes())
        with h5py.File(path, "a") as file:
            file["models/fox/layers/02/log_normalizer"][...] += 1
        one_line("layer 2", lambda: foxscope.open(path))
        with foxscope.open(path, check=False) as run:
            assert run.unchecked
            assert "unchecked" in run.figure("maps", heads=[(2, 0)], svg_text=True).data.decode()

    def test_a_file_that_has_changed_is_not_read_on(self, tmp_path: Path, run_path: Path) -> None:
        path = tmp_path / "run.h5"
        path.write_bytes(run_path.read_bytes())
        with foxscope.open(path) as run:
            head = run["fox"].head(0, 0)
            assert np.isfinite(head.forget[3, 2])
            (tmp_path / "other").write_bytes(run_path.read_bytes())
            os.replace(tmp_path / "other", path)
            one_line("has changed since it was opened: open it again", lambda: head.forget[3, 2])
            one_line("has changed since it was opened: open it again", lambda: head.query)
            path.write_text("no run file")
            one_line("has changed since it was opened: open it again", lambda: head.query)
            one_line("has changed since it was opened: open it again", lambda: run["fox"].array("layers/03/key"))
            path.unlink()
            one_line("run.h5: is not there any more: it was moved or deleted", lambda: head.query)
            one_line("run.h5: is not there any more: it was moved or deleted", lambda: run["fox"].array("layers/03/key"))

    def test_a_file_that_goes_between_two_looks_at_it(
        self, tmp_path: Path, run_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "run.h5"
        path.write_bytes(run_path.read_bytes())
        with foxscope.open(path) as run:
            head, look = run["fox"].head(0, 0), run.check_unchanged
            for replace, words in [
                (lambda: h5py.File(path, "w").close(), "has changed since it was opened"),
                (path.unlink, "is not there any more"),
            ]:
                replace()
                looks = iter([lambda: None, look])  # the first was before
                monkeypatch.setattr(run, "check_unchanged", lambda looks=looks: next(looks)())
                one_line(words, lambda: head.query)

    def test_a_closed_run(self, run_path: Path) -> None:
        with foxscope.open(run_path) as run:
            head = run["fox"].head(0, 0)
        run.close()
        one_line("is closed: open it again", lambda: head.attention[1, 1])
        one_line("is closed: open it again", lambda: run.figure("maps"))


class TestAgent:
    def test_all_runs_share_one_which_ends_with_the_last(self, run_path: Path) -> None:
        first, second = foxscope.open(run_path), foxscope.open(run_path)
        process = agent_of(None).connection().pid
        first.close()
        assert is_running(process)
        assert np.isfinite(second["fox"].head(0, 0).forget[3, 2])
        second.close()
        assert not is_running(process)
        with foxscope.open(run_path) as third:
            assert np.isfinite(third["fox"].head(0, 0).forget[3, 2])

    def test_a_run_that_nobody_holds_is_closed(self, run_path: Path) -> None:
        run = foxscope.open(run_path)
        process = agent_of(None).connection().pid
        del run
        gc.collect()
        assert not is_running(process)

    def test_a_killed_agent_is_started_again(self, run_path: Path) -> None:
        with foxscope.open(run_path) as run:
            head = run["fox"].head(3, 1)
            before = head.attention[100:120, 50:90]
            os.kill(agent_of(None).connection().pid, signal.SIGKILL)
            assert np.array_equal(head.attention[100:120, 50:90], before, equal_nan=True)

    def test_threads_ask_at_once(self, run_path: Path) -> None:
        with foxscope.open(run_path) as run:
            wanted = [np.asarray(run["fox"].head(layer, 0).attention) for layer in range(8)]
            found: list[object] = [None] * 8

            def ask(layer: int) -> None:
                found[layer] = np.asarray(run["fox"].head(layer, 0).attention)

            threads = [threading.Thread(target=ask, args=(layer,)) for layer in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for one, other in zip(wanted, found):
                assert np.array_equal(one, other, equal_nan=True)  # type: ignore[arg-type]

    def test_a_forked_process_has_its_own(self, run_path: Path) -> None:
        code = f"""
import os, foxscope
run = foxscope.open({str(run_path)!r})
entry = run["fox"].head(0, 0).forget[3, 2]
child = os.fork()
if child == 0:
    with foxscope.open({str(run_path)!r}) as again:
        os._exit(0 if again["fox"].head(0, 0).forget[3, 2] == entry else 1)
assert os.waitpid(child, 0)[1] == 0
assert run["fox"].head(0, 0).forget[3, 2] == entry
"""
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)

    def test_a_forked_process_cannot_ask_by_its_parents_run(self, run_path: Path) -> None:
        """It says so and ends, by os._exit or as programs end, and the parent's run goes on."""
        code = f"""
import gc, os, foxscope
run = foxscope.open({str(run_path)!r})
head = run["fox"].head(0, 0)
entry = head.forget[3, 2]
child = os.fork()
if child == 0:
    for ask in (lambda: head.forget[3, 2], lambda: head.forget.row(3), lambda: run.compare(), lambda: run["fox"].heads()):
        try:
            ask()
        except foxscope.FoxscopeError as error:
            assert str(error) == {str(run_path)!r} + ": was opened by another process: open it again in this one"
        else:
            os._exit(1)
    run.close()
    del run, head, ask
    gc.collect()
    raise SystemExit(0)
assert os.waitpid(child, 0)[1] == 0
assert head.forget[3, 2] == entry
"""
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)

    def test_ctrl_c_stops_the_request_and_not_the_agent(self, tmp_path: Path) -> None:
        """Normalisers of 16,384 tokens in 32 heads take seconds; what is asked next waits for none of them."""
        random = np.random.default_rng(0)
        heads, length = 32, 16384
        path = tmp_path / "slow.h5"
        with h5py.File(path, "w") as file:
            group = file.create_group("models/slow")
            group.attrs["dtype"] = "float32"
            ids = np.arange(length + 1, dtype=np.int32)
            group["tokens/input_id"], group["tokens/id"] = ids[:-1], ids[1:]
            for name in ("query", "key"):
                group[f"layers/00/{name}"] = random.standard_normal((heads, length, 16)).astype(np.float32)
            group["layers/00/cumulative_log_gate"] = np.cumsum(np.full((heads, length), -0.01), axis=1)
        with foxscope.open(path) as run:
            head = run[0].head(0, 0)
            process = agent_of(None).connection().pid
            main = threading.main_thread().ident
            assert main is not None
            timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                head.attention.pooled(64)
            timer.join()
            assert np.isfinite(head.forget[5, 3])
            assert agent_of(None).connection().pid == process

    def test_output_of_an_agent_that_makes_no_sense(
        self, tmp_path: Path, run_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = hello(foxscope.__version__, 4) + "head -c 64 /dev/zero; cat >/dev/null\n"
        monkeypatch.setenv("FOXSCOPE_PROGRAM", str(script(tmp_path / "other", text)))
        # Which of the two depends on how much had come with the first message.
        one_line("the connection has ended|is no foxscope agent", lambda: foxscope.open(run_path))


class TestOtherMachines:
    @pytest.fixture
    def there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        """A command in the place of ssh, whose shell prints a banner before it starts the program here."""
        ssh = script(tmp_path / "ssh", f'echo "Welcome, $#"; echo "$@" >> {tmp_path}/asked; shift $(($# - 2)); exec "$@"\n')
        monkeypatch.setenv("FOXSCOPE_SSH", shlex.join([str(ssh), "-J", "gate"]))
        monkeypatch.setenv("FOXSCOPE_REMOTE_PROGRAM", PROGRAM)
        monkeypatch.delenv("FOXSCOPE_PROGRAM")
        monkeypatch.setattr("foxscope.program._PACKAGE", tmp_path)  # there is no program here
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        return str(tmp_path)

    def test_everything_is_read_as_here(self, run_path: Path, there: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with foxscope.open(f"ssh://ann@cluster:2222{run_path}") as run:
            asked = Path(there, "asked").read_text().split()
            assert asked[:5] == ["-J", "gate", "-p", "2222", "ann@cluster"]
            monkeypatch.setenv("FOXSCOPE_PROGRAM", PROGRAM)
            with foxscope.open(run_path) as here:
                assert run.names == here.names
                assert run.losses.equals(here.losses)
                head, same = run["fox"].head(4, 1), here["fox"].head(4, 1)
                for name in ("log_forget", "query", "key", "value"):
                    assert np.array_equal(getattr(head, name), getattr(same, name))
                assert np.array_equal(head.attention[:, :], same.attention[:, :], equal_nan=True)
                assert np.array_equal(run["fox"].array("hidden_states/03"), here["fox"].array("hidden_states/03"))
                assert np.array_equal(run["fox"].array("layers/01/value"), here["fox"].array("layers/01/value"))
                assert run["fox"].heads().equals(here["fox"].heads())
                assert run.compare().report == {**here.compare().report, "path": str(run_path)}
                figure = {"heads": [(3, 0)], "model": "fox", "rows": (0, 64), "cols": (0, 64)}
                assert run.figure("maps", **figure).data == here.figure("maps", **figure).data
                one_line("lie on two machines", lambda: head.forget - same.forget)

    def test_what_ssh_leaves_behind_is_not_waited_for(
        self, run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A connection that is kept for later (ControlPersist) holds on to standard error."""
        ssh = script(tmp_path / "ssh", f'cat {tmp_path}/pipe >/dev/null </dev/null & shift $(($# - 2)); exec "$@"\n')
        os.mkfifo(tmp_path / "pipe")
        monkeypatch.setenv("FOXSCOPE_SSH", str(ssh))
        monkeypatch.setenv("FOXSCOPE_REMOTE_PROGRAM", PROGRAM)
        with open(tmp_path / "pipe", "r+b", buffering=0):  # what was left waits for its end
            with foxscope.open(f"ssh://kept{run_path}") as run:
                assert run.names == ["fox", "transformer"]
            assert run.closed

    def test_home_folders_and_percent_signs_of_names(self, run_path: Path, there: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", there)
        Path(there, "fox").symlink_to(MODELS / "gated-deltanet-1m")
        with foxscope.run("ssh://cluster/~/fox", "The fox ran.", "ssh://cluster/~/50%25.h5") as run:
            assert run.names == ["fox"]
        assert Path(there, "50%.h5").is_file()
        with foxscope.open("ssh://cluster/~/50%25.h5") as run:
            assert run.names == ["fox"]
        one_line("/none%25.h5: cannot be opened", lambda: foxscope.open("ssh://cluster/none%25.h5"))
        one_line("one of a name is written %25", lambda: foxscope.open("ssh://cluster/50%.h5"))

    def test_a_model_is_run_there(self, there: str, tmp_path: Path) -> None:
        url = f"ssh://cluster{MODELS / 'gated-deltanet-1m'}"
        with foxscope.run(url, "The fox ran.") as run:
            assert run.path.startswith("ssh://cluster/")
            assert np.isfinite(run[0].head(0, 0).mixing[2, 1])
        one_line("the run is written where the models run", lambda: foxscope.run(url, "The fox.", tmp_path / "run.h5"))
        one_line("give models of one machine", lambda: foxscope.run([url, MODELS / "fox-pro-12m"], "The fox."))

    def test_errors_name_the_machine(self, run_path: Path, there: str, monkeypatch: pytest.MonkeyPatch) -> None:
        url = f"ssh://ann@cluster:22{there}"
        one_line("^ssh://cluster/nowhere/run.h5: cannot be opened", lambda: foxscope.open("ssh://cluster/nowhere/run.h5"))
        Path(there, "cut.h5").write_bytes(run_path.read_bytes()[:20_000])
        one_line(f"^{url}/cut.h5: is cut short, 20000 of", lambda: foxscope.open(f"{url}/cut.h5"))
        model = f"ssh://ann@cluster:22{MODELS / 'fox-pro-12m'}"
        one_line(f"^{url}/cut.h5: exists already", lambda: foxscope.run(model, "A fox.", f"{url}/cut.h5"))
        one_line(f"^{url}/no/run.h5: the folder {there}/no does not", lambda: foxscope.run(model, "A fox.", f"{url}/no/run.h5"))
        one_line("^cluster: ", lambda: foxscope.run(f"ssh://cluster{MODELS / 'fox-pro-12m'}", "A fox.", no_option=1))
        copy = Path(there, "copy.h5")
        copy.write_bytes(run_path.read_bytes())
        with foxscope.open(f"{url}/copy.h5") as run:
            head = run["fox"].head(0, 0)
            copy.write_bytes(Path(there, "cut.h5").read_bytes())
            one_line(f"^{url}/copy.h5: has changed since it was opened", lambda: head.attention[3, 2])
        monkeypatch.setenv("FOXSCOPE_REMOTE_PROGRAM", "no-such-program")
        one_line("^other: there is no program no-such-program there", lambda: foxscope.open(f"ssh://other{run_path}"))
        monkeypatch.setenv("FOXSCOPE_SSH", str(script(Path(there, "closed"), "echo Connection refused >&2; exit 255\n")))
        one_line("^third: cannot be reached: Connection refused: look whether `.*closed third` works",
                 lambda: foxscope.open(f"ssh://third{run_path}"))  # fmt: skip
        monkeypatch.setenv("FOXSCOPE_SSH", "no-such-ssh")
        one_line("no-such-ssh: cannot be started", lambda: foxscope.open(f"ssh://fourth{run_path}"))
        monkeypatch.setenv("FOXSCOPE_SSH", "ssh 'open")
        one_line("FOXSCOPE_SSH: a quote is not closed", lambda: foxscope.open(f"ssh://fifth{run_path}"))

    def test_names_that_are_not_utf8(self, there: str) -> None:
        for path in ("\udcff.h5", "ssh://cluster/\udcff.h5", "ssh://cluster/%ff.h5"):
            one_line(r"\\udcff.h5': the name is not UTF-8", lambda path=path: foxscope.open(path))  # type: ignore[misc]
        one_line("the name is not UTF-8", lambda: foxscope.run(MODELS / "fox-pro-12m", "A fox.", "\udcff.h5"))
        assert not Path(there, "asked").exists()

    def test_urls(self) -> None:
        for url, host, path in [
            ("ssh://cluster/data/run.h5", Host("", "cluster", 0), "/data/run.h5"),
            ("ssh://ann@cluster:2222/~/a%20b.h5", Host("ann", "cluster", 2222), "~/a b.h5"),
            ("ssh://[::1]:22/r", Host("", "::1", 22), "/r"),
            ("ssh://[fe80::1]/~", Host("", "fe80::1", 0), "~"),
        ]:
            assert parse_remote_path(url) == (host, path)
            assert parse_remote_path(f"ssh://{host.words()}/x")[0] == host
        for url in [
            "ssh://cluster", "ssh:///x", "ssh://-oProxyCommand=x/r", "ssh://-x@host/r", "ssh://a b/r", "ssh://h:0/r",
            "ssh://h:99999/r", "ssh://h:x/r", "ssh://h/%00", "ssh://h/%g1",
        ]:  # fmt: skip
            one_line(r"write ssh://\[USER@\]HOST", lambda url=url: parse_remote_path(url))  # type: ignore[misc]


def test_the_version_is_the_programs() -> None:
    project = (SOURCE / "CMakeLists.txt").read_text()
    assert f"project(foxscope VERSION {foxscope.__version__} " in project
    assert f'version = "{foxscope.__version__}"' in (SOURCE / "python" / "pyproject.toml").read_text()
