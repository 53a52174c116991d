"""A client of AT-SPI, as a screen reader is one: starts a window manager and the program, and writes what it is told as
JSON. Run by test_accessibility.py, in a session bus and an X server of its own, by the Python that has the bindings:
accessibility_client.py PROGRAM PATH..."""

import json
import os
import subprocess
import sys
import tempfile
import time

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, GLib

SECONDS = 120
DOWN = 0xFF54  # the key's symbol


def wait_for(look, what):
    """What `look` returns as soon as it returns something."""
    deadline = time.monotonic() + SECONDS
    context = GLib.MainContext.default()
    while time.monotonic() < deadline:
        while context.pending():
            context.iteration(False)
        try:
            found = look()
        except GLib.Error:  # what was asked about is gone, or not there yet
            found = None
        if found:
            return found
        time.sleep(0.05)
    sys.exit(f"{what} did not come within {SECONDS} s")


def descendants(accessible, depth=0):
    yield accessible
    # Cells of tables are asked for by row and column.
    if depth > 40 or accessible.get_role() == Atspi.Role.TABLE:
        return
    for index in range(accessible.get_child_count()):
        child = accessible.get_child_at_index(index)
        if child is not None:
            yield from descendants(child, depth + 1)


def table_named(name):
    desktop = Atspi.get_desktop(0)
    for index in range(desktop.get_child_count()):
        application = desktop.get_child_at_index(index)
        if application is None:
            continue
        for each in descendants(application):
            if each.get_role() == Atspi.Role.TABLE and each.get_name() == name:
                return each
    return None


def main():
    Atspi.init()
    begun = tempfile.mktemp()
    manager = subprocess.Popen(["openbox", "--startup", f"touch {begun}"], stderr=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(begun), "the window manager")
    window = subprocess.Popen([sys.argv[1], "open", *sys.argv[2:]], stderr=subprocess.DEVNULL)
    try:
        heads = wait_for(lambda: table_named("Heads"), "the table of heads")
        table = heads.get_table_iface()
        wait_for(lambda: table.get_n_rows() > 0, "a row of heads")

        def known():
            name = table.get_accessible_at(7, 2).get_name()
            return name if "not known" not in name else ""

        cell = wait_for(known, "the numbers of a head")
        said = []

        def listen(event):
            name = event.source.get_name() if event.source is not None else ""
            if event.detail1 and name.startswith("layer "):
                said.append(name)

        listener = Atspi.EventListener.new(listen)
        listener.register("object:state-changed:focused")

        def step():
            heads.get_component_iface().grab_focus()
            Atspi.generate_keyboard_event(DOWN, None, Atspi.KeySynthType.SYM)
            return said

        focused = wait_for(step, "the head that an arrow key chose")[-1]
        print(json.dumps({"heads": {"rows": table.get_n_rows(), "columns": table.get_n_columns(), "cell": cell},
                          "focused": focused}))
    finally:
        for process in [window, manager]:
            process.kill()
            process.wait()


main()
