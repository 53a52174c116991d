"""Functions that stand in for others while a model is recorded, and how they go away again."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Mapping
from typing import Any

Function = Callable[..., Any]


class Patches:
    """Replaced names, in order; `restore` puts back what was there, the last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set_item(self, names: dict[str, Any], name: str, value: Any) -> None:
        """Replaces a name of a module's or an object's dictionary."""
        before = names[name]
        names[name] = value
        self._undo.append(lambda: names.__setitem__(name, before))

    def set_attribute(self, owner: type, name: str, value: Any) -> None:
        """Replaces an attribute of a class, its own or an inherited one."""
        own = name in vars(owner)
        before = vars(owner).get(name)
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, before) if own else delattr(owner, name))

    def replace(self, functions: Mapping[int, tuple[Function, Function]], places: list[Place]) -> None:
        """Replaces functions, by id, in places that `find_places` found."""
        for holder, name in places:
            if isinstance(holder, dict):
                self.set_item(holder, name, functions[id(holder[name])][1])
                continue
            value = vars(holder)[name]
            is_static = isinstance(value, staticmethod)
            stand_in = functions[id(value.__func__ if is_static else value)][1]
            self.set_attribute(holder, name, staticmethod(stand_in) if is_static else stand_in)

    def on_restore(self, work: Callable[[], None]) -> None:
        """Adds work to do when everything is put back."""
        self._undo.append(work)

    def restore(self) -> None:
        """Puts back what was replaced."""
        while self._undo:
            self._undo.pop()()


#: A dictionary of names, or a class, that holds a function, and the name.
Place = tuple[Any, str]


class KnownPlaces:
    """Where functions were found last. A search looks at all objects of the program, and is left out where nothing new
    refers to the functions: as many references to each as before, and all places hold them still.
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._places: list[tuple[str, str, Function]] = []

    def find(self, functions: list[Function], search: Callable[[], list[Place]]) -> list[Place]:
        """The places of functions, known ones or those of a search."""
        counts = {id(function): sys.getrefcount(function) for function in functions}
        found = [
            (vars(sys.modules[module]), name)
            for module, name, function in self._places
            if module in sys.modules and vars(sys.modules[module]).get(name) is function
        ]
        if counts == self._counts and len(found) == len(self._places):
            return found
        self._counts, self._places = {}, []
        found = search()
        names = {id(vars(module)): name for name, module in list(sys.modules.items()) if hasattr(module, "__dict__")}
        if all(id(holder) in names for holder, _ in found):  # what else holds functions may go away
            self._places = [(names[id(holder)], name, holder[name]) for holder, name in found]
            # The list of places refers to functions too.
            self._counts = {id(function): sys.getrefcount(function) for function in functions}
        return found


def find_places(functions: Mapping[int, Any]) -> list[Place]:
    """Where modules, classes and torch modules hold functions, which are known by id, under a name.

    Names that other modules imported, and functions that a layer keeps as an attribute, are found by the garbage
    collector. What only a closure, a partial or a compiled graph holds is not found.
    """
    places: list[Place] = []
    modules = {id(vars(module)): name for name, module in list(sys.modules.items()) if hasattr(module, "__dict__")}
    for holder in gc.get_referrers(*(original for original, *_ in functions.values())):
        names = holder if isinstance(holder, dict) else None
        if isinstance(holder, type):
            for name, value in list(vars(holder).items()):
                if id(value.__func__ if isinstance(value, staticmethod) else value) in functions:
                    places.append((holder, name))
            continue
        if names is None and _is_torch_module(holder):
            names = vars(holder)
        if names is None:
            continue
        module = modules.get(id(names))
        if module is None and "_parameters" not in names:
            continue
        if module is not None and _is_internal(module):
            continue
        places += [(names, name) for name, value in list(names.items()) if id(value) in functions]
    return places


def compiled_forms(function: Function) -> list[Function]:
    """What torch.compile made of a function: functions that know it as the one that they were made of."""
    attributes = [
        names
        for names in gc.get_referrers(function)
        if isinstance(names, dict) and names.get("_torchdynamo_orig_callable") is function
    ]
    holders = [holder for names in attributes for holder in gc.get_referrers(names) if callable(holder)]
    return [holder for holder in holders if any(vars(holder) is names for names in attributes)]


def _is_torch_module(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def _is_internal(module: str) -> bool:
    """Whether a module's own names serve torch and this package, not models."""
    return module.startswith(("torch._", "torch.overrides", "torch.fx", __package__ or "foxscope.recording"))


def stand_in(original: Function, seen: Callable[[Function, tuple[Any, ...], dict[str, Any]], Any]) -> Function:
    """A function that calls seen(original, args, kwargs) and looks like the original.

    Where torch compiles a function that calls it, the graph has the original.
    """
    is_compiling = sys.modules["torch"].compiler.is_compiling

    @functools.wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        return seen(original, args, kwargs)

    replaced._foxscope = True  # type: ignore[attr-defined]
    return replaced


def is_stand_in(function: object) -> bool:
    """Whether `stand_in` made a function."""
    return getattr(function, "_foxscope", False) is True
