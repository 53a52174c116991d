"""Sees the calls of attention functions while a model runs."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import chain
from types import FrameType
from typing import Any

from .masks import NotRecordable
from .patches import Function, KnownPlaces, Patches, Place, compiled_forms, find_places, is_stand_in, stand_in
from .signatures import FLEX, INTERFACE, SDPA, SIGNATURES, Signature, arguments_of

#: Packages that have functions which are seen.
_PACKAGES = frozenset(package for packages, _ in SIGNATURES for package in packages)

#: seen(key of the module, number of its layer or None, words for the module, layers of its model or None, reader of the call).
Seen = Callable[[object, "int | None", str, "int | None", "CallReader"], None]


class CallReader:
    """Reads a call for one sequence of its batch; raises NotRecordable where a run file cannot hold it."""

    def __init__(self, signature: Signature, arguments: dict[str, Any], output: Any, source: str) -> None:
        self._signature, self._arguments, self._output = signature, arguments, output
        self.source = source

    def __call__(self, sequence: int) -> Any:
        """The call (`Call`) of a sequence."""
        try:
            return self._signature.read(self._arguments, sequence, self._output, self.source)
        except (KeyError, IndexError, AttributeError) as error:
            raise NotRecordable(f"its arguments are not those that are known ({error!r})") from error


class Capture:
    """What one recording sees: the calls of the thread that started it, from `start` to `stop`."""

    def __init__(self, seen: Seen) -> None:
        """`seen` is a method, whose object is not kept alive: a recording that nobody closes can go away."""
        self._seen = weakref.WeakMethod(seen)
        self._layers: dict[object, int] = {}
        self._modules: list[object] = []  # kept alive, so that no other takes over an id
        self.thread = 0
        self.count = 0
        self.elsewhere = False

    def start(self) -> None:
        """Sees calls of functions that exist in modules that the program has imported."""
        self.thread = threading.get_ident()
        _WATCH.start(self)

    def stop(self) -> None:
        """Sees no more calls. The last recording that ends puts everything back."""
        _WATCH.stop(self)

    def layer_of(self, key: object, wanted: int | None) -> int:
        """The number of a module's layer: its own, else the next one that is free, in the order of calls."""
        if key in self._layers:
            return self._layers[key]
        used = set(self._layers.values())
        layer = wanted if wanted is not None and wanted not in used else max(used, default=-1) + 1
        self._layers[key] = layer
        return layer

    def take(self, module: Any, of_model: int | None, read: CallReader) -> None:
        """Takes a call of a module, or of none, in a model that says how many layers it has, or does not."""
        self.count += 1
        number = getattr(module, "layer_idx", None)
        number = number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None
        key: object = ("call", self.count)
        if module is not None:
            key = id(module)
            if key not in self._layers:
                self._modules.append(module)
        seen = self._seen()
        if seen is not None:
            seen(key, number, type(module).__name__ if module is not None else "", of_model, read)


class _Watch:
    """Stand-ins for the functions that models call. All recordings of the process share them: the first puts them there,
    the last takes them away, in whatever order they end.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._captures: list[Capture] = []
        self._patches = Patches()
        self._known = KnownPlaces()
        self._inside = threading.local()

    def start(self, capture: Capture) -> None:
        """Shows calls to a capture too. Functions of modules that were imported meanwhile are replaced too."""
        torch = sys.modules.get("torch")
        with self._lock:
            try:
                if torch is not None:
                    if not self._captures:
                        self._stop_compiling(torch)
                    self._replace(torch)
                    self._patch_interface()
                self._captures = [*self._captures, capture]
            except BaseException:
                self.stop(capture)
                raise

    def stop(self, capture: Capture) -> None:
        """Shows no calls to a capture any more, and puts everything back where no other is left."""
        with self._lock:
            self._captures = [other for other in self._captures if other is not capture]
            if not self._captures:
                self._patches.restore()

    def _replace(self, torch: Any) -> None:
        functions: dict[int, tuple[Function, Signature, str]] = {}

        def add(function: Function, signature: Signature, package: str) -> None:
            if not is_stand_in(function):
                functions.setdefault(id(function), (function, signature, package))

        add(torch.nn.functional.scaled_dot_product_attention, SDPA, "torch")
        flex = sys.modules.get("torch.nn.attention.flex_attention")
        if flex is not None:
            add(flex.flex_attention, FLEX, "torch")
        for module_name, module in list(sys.modules.items()):
            package = module_name.split(".")[0]
            if package not in _PACKAGES:
                continue
            for packages, signature in SIGNATURES:
                if package in packages:
                    function = vars(module).get(signature.name)
                    if callable(function) and not isinstance(function, type):
                        add(function, signature, package)

        def search() -> list[Place]:
            for function, signature, package in list(functions.values()):
                if signature is FLEX:
                    for compiled in compiled_forms(function):
                        add(compiled, FLEX, package)
            return find_places(functions)

        if functions:
            places = self._known.find([function for function, *_ in functions.values()], search)
            self._patches.replace({key: self._pair(*found) for key, found in functions.items()}, places)

    def _pair(self, original: Function, signature: Signature, package: str) -> tuple[Function, Function]:
        """A function and what stands in for it."""
        words = f"{package}'{'' if package.endswith('s') else 's'} {signature.name}"

        def seen(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return self._call(function, args, kwargs, signature, words, None)

        return original, stand_in(original, seen)

    def _stop_compiling(self, torch: Any) -> None:
        """A compiled graph would hide the calls that are in it: compiled modules run as they were written."""
        compile_module = torch.compile
        eager = functools.cache(self._run_eagerly)

        def compile_within(*args: Any, **kwargs: Any) -> Any:
            eager(torch)
            return compile_module(*args, **kwargs)

        if "torch._dynamo" in sys.modules:
            eager(torch)
        else:  # nothing is compiled so far, and torch takes seconds to load its compiler
            self._patches.set_item(vars(torch), "compile", functools.wraps(compile_module)(compile_within))
        heads = getattr(torch.backends, "mha", None)
        if heads is not None and heads.get_fastpath_enabled():
            heads.set_fastpath_enabled(False)  # torch.nn.TransformerEncoder in one call of C++
            self._patches.on_restore(lambda: heads.set_fastpath_enabled(True))

    def _run_eagerly(self, torch: Any) -> None:
        """Lets compiled modules run as they were written, until everything is put back."""
        set_stance = getattr(torch.compiler, "set_stance", None)
        if set_stance is not None:
            stance = set_stance("force_eager")
            stance.__enter__()
            self._patches.on_restore(lambda: stance.__exit__(None, None, None))

    def _patch_interface(self) -> None:
        """Models of transformers look their attention up in AttentionInterface, or call the eager one of their module."""
        modeling = sys.modules.get("transformers.modeling_utils")
        interface = getattr(modeling, "AttentionInterface", None)
        if interface is None or is_stand_in(interface.__getitem__):
            return
        look_up = interface.__getitem__

        def get_item(of: Any, key: str) -> Function:
            return self._interface(look_up(of, key), key)

        if hasattr(interface, "get_interface"):
            get_interface = interface.get_interface

            def get(of: Any, name: str, default: Function) -> Function:
                return self._interface(get_interface(of, name, default), name)

            self._patches.set_attribute(interface, "get_interface", get)
        else:
            for module_name, module in list(sys.modules.items()):
                eager = vars(module).get("eager_attention_forward") if module_name.startswith("transformers") else None
                if eager is not None:
                    self._patches.set_item(vars(module), "eager_attention_forward", self._interface(eager, "eager"))
        get_item._foxscope = True  # type: ignore[attr-defined]
        self._patches.set_attribute(interface, "__getitem__", get_item)

    def _interface(self, function: Function, name: str) -> Function:
        if is_stand_in(function):
            return function
        words = f"transformers' {name or 'eager'} attention"

        def seen(original: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            module = args[0] if args else kwargs.get("module")
            return self._call(original, args, kwargs, INTERFACE, words, module)

        return stand_in(function, seen)

    def _call(
        self,
        original: Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        signature: Signature,
        words: str,
        module: Any,
    ) -> Any:
        if getattr(self._inside, "busy", False) or self._is_backward():
            return original(*args, **kwargs)
        captures = self._of_this_thread()
        if not captures:
            return original(*args, **kwargs)
        self._inside.busy = True
        try:
            torch = sys.modules["torch"]
            if "flex" in words:  # without compiling it would hold [L, L]
                with torch.compiler.set_stance("default"):
                    output = original(*args, **kwargs)
            else:
                output = original(*args, **kwargs)
            with torch.no_grad():
                if module is None:
                    module = _calling_module(sys._getframe(2))
                of_model = _layers_of_model(module, sys._getframe(2))
                names = INTERFACE.positional if signature is INTERFACE else signature.positional
                arguments = (
                    {**dict(zip(names, args)), **kwargs}
                    if signature in (INTERFACE, SDPA, FLEX)
                    else arguments_of(original, names, args, kwargs)
                )
                for capture in captures:
                    capture.take(module, of_model, CallReader(signature, arguments, output, words))
            return output
        finally:
            self._inside.busy = False

    def _of_this_thread(self) -> list[Capture]:
        """The captures that the thread started. The others know that there was a call from elsewhere."""
        thread, own = threading.get_ident(), []
        for capture in self._captures:
            if capture.thread == thread:
                own.append(capture)
            else:
                capture.elsewhere = True
        return own

    @staticmethod
    def _is_backward() -> bool:
        """Whether autograd runs: a checkpoint then calls again what was seen in the forward pass."""
        torch = sys.modules["torch"]
        current = getattr(torch._C, "_current_graph_task_id", None)
        return current is not None and current() != -1


_WATCH = _Watch()


def _callers(frame: FrameType | None) -> Iterator[Any]:
    """The torch modules whose methods called a function, the nearest first."""
    module_type = sys.modules["torch"].nn.Module
    depth = 0
    while frame is not None and depth < 40:
        code = frame.f_code
        if code.co_argcount > 0:
            owner = frame.f_locals.get(code.co_varnames[0])
            if isinstance(owner, module_type):
                yield owner
        frame, depth = frame.f_back, depth + 1


def _calling_module(frame: FrameType | None) -> Any:
    """The torch module whose method called the function: the nearest with a layer_idx, else the nearest of all."""
    nearest = None
    for owner in _callers(frame):
        if isinstance(getattr(owner, "layer_idx", None), int):
            return owner
        nearest = owner if nearest is None else nearest
    return nearest


def _layers_of_model(module: Any, frame: FrameType | None) -> int | None:
    """num_hidden_layers of the nearest configuration that has it: that of the module, or of one that called it.

    None where there is none, or where it may be that of an encoder.
    """
    for owner in chain([module], _callers(frame)):
        config = getattr(owner, "config", None)
        count = getattr(config, "num_hidden_layers", None)
        if isinstance(count, int) and not isinstance(count, bool) and count > 0:
            return None if getattr(config, "is_encoder_decoder", False) else count
    return None
