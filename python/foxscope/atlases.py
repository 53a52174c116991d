"""Atlases of heads: what every head forgets over a corpus, as tables."""

import csv
import html
import io
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from foxscope.agents import Agent
from foxscope.errors import FoxscopeError
from foxscope.figures import Figure, option_words
from foxscope.integers import as_integer
from foxscope.opened import OpenedModels
from foxscope.tables import import_pandas

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Atlas", "AtlasModel"]

Head: TypeAlias = tuple[SupportsIndex, SupportsIndex] | str
"""Layer and head, from 0: (6, 1), or "6:1" as the program writes them."""

_TEXTS = ("model", "string", "name", "kind", "profile", "token_class", "first")
"""Columns of text, some of which may look like numbers."""

_WHOLE = {
    "distances": ("distance", "distance_end"),
    "tokens": ("id", "count", "discovered", "few"),
    "classes": ("tokens",),
    "resets": ("resets", "discovered"),
    "gaps": ("gap_begin", "gap_end", "count"),
    "histogram": ("positions",),
    "passages": ("rank", "window", "document", "position", "id"),
    "similarity": ("order", "other_layer", "other_head", "other_order"),
    "first_similarity": ("first_layer", "first_head"),
}
"""Columns of each table that are whole numbers, beside `layer` and `head`."""


def _head_word(head: Head) -> str:
    """A head as the program writes it, "6:1". Raises FoxscopeError for what is none."""
    wrong = f'head {head!r:.80}: take a layer and a head, as in (6, 1) or "6:1"'
    if isinstance(head, str):
        if not re.fullmatch("[0-9]+:[0-9]+", head):
            raise FoxscopeError(wrong)
        return head
    try:
        layer, number = head
    except (TypeError, ValueError):
        raise FoxscopeError(wrong) from None
    return f"{as_integer(layer, 'head')}:{as_integer(number, 'head')}"


def _column(table: str, name: str, values: Sequence[str]) -> Any:
    """A column by what it is, whatever its values are: text, int64, or float64, in which an empty number is NaN."""
    if name in _TEXTS:
        return list(values)
    whole = name in ("layer", "head", *_WHOLE.get(table, ()))
    return np.array(values if whole else [value or "nan" for value in values], np.str_).astype(
        np.int64 if whole else np.float64
    )


def _table(name: str, output: bytes) -> "pd.DataFrame":
    """A table of an atlas of what the program writes of it; the index is layer and head."""
    pandas = import_pandas()
    names, *rows = csv.reader(io.StringIO(output.decode(), newline=""))
    columns = {column: _column(name, column, [row[place] for row in rows]) for place, column in enumerate(names)}
    table: pd.DataFrame = pandas.DataFrame(columns, columns=names).drop(columns="model")
    return table.set_index(["layer", "head"])


class Atlas(OpenedModels["AtlasModel"]):
    """A file of `foxscope eval atlas`: what the heads of models do over a corpus. The program computes every number.

    `atlas["fox"]` is a model of it, and so is `atlas[0]`. It is closed by `close()` or at the end of a `with` block.
    """

    def __init__(self, agent: Agent, path: str, there: str) -> None:
        super().__init__(agent, path, there)
        try:
            self.info: dict[str, Any] = json.loads(self.command("info", there, "--json"))
        except BaseException:
            self.close()
            raise
        self.command_line: str = self.info["command_line"]
        """The command that made it."""
        self.created: str = self.info["created"]
        """When it was made, UTC."""
        self.models = tuple(AtlasModel(self, facts) for facts in self.info["models"])

    @property
    def tables(self) -> list[str]:
        """Names of the tables, as `model.table` takes them."""
        return list(self.info["tables"])

    @property
    def documents(self) -> "pd.DataFrame":
        """The documents that hold windows: `name`, `sha256` and the number of `windows`. None of an atlas of token ids."""
        pandas = import_pandas()
        table: pd.DataFrame = pandas.DataFrame(self.info["documents"], columns=["name", "sha256", "windows"])
        table = table.astype({"windows": np.int64})
        table.index.name = "document"
        return table

    def figure(self, kind: str, *, format: str = "svg", **options: Any) -> Figure:
        """A figure of this atlas that the program draws: scatter, tokens, passages, resets, similarity, gates or decay.

        format: svg, pdf, png or csv. options are those of `foxscope figure KIND`: head=(6, 1), model="fox", width="icml".
        """
        return self._draw(kind, format, option_words(options))

    def __repr__(self) -> str:
        return f"<atlas {self.path}: {', '.join(self.names)}>"

    def _repr_html_(self) -> str:
        words = ("layers", "heads", "windows", "positions", "tokens")
        rows = "".join(
            f"<tr><td>{html.escape(model.name)}</td>" + "".join(f"<td>{model.info[word]:,}</td>" for word in words) + "</tr>"
            for model in self.models
        )
        heading = "".join(f"<th>{word}</th>" for word in ("model", *words))
        return f"<p>{html.escape(self.path)}</p><table><tr>{heading}</tr>{rows}</table>"


class AtlasModel:
    """A model of an atlas, as tables whose numbers are those of `foxscope info ATLAS.h5 --table NAME` (docs/files.md)."""

    def __init__(self, atlas: Atlas, info: dict[str, Any]) -> None:
        self.atlas = atlas
        self.info = info
        """Facts: `layers`, `heads`, `windows`, `positions`, `tokens` and others."""
        self.name: str = info["model"]
        self.forgets: bool = info["forgets"]
        """Whether it has gates; without them numbers of gates are NaN, and tables of them have no rows."""
        self._known: dict[tuple[str, str], pd.DataFrame] = {}

    def table(self, name: str, head: Head | None = None) -> "pd.DataFrame":
        """A table of the atlas by its name; the index is layer and head. head: of this head alone, (6, 1) or "6:1"."""
        if not isinstance(name, str):
            raise FoxscopeError(f"table {name!r:.80}: take one of {', '.join(self.atlas.tables)}")
        chosen = "" if head is None else _head_word(head)
        known = self._known.get((name, chosen))
        if known is None:
            words = ["info", self.atlas.path_there, "--table", name, "--csv", "--model", self.name]
            output = self.atlas.command(*words, *(["--head", chosen] if chosen else []))
            self.atlas.check_unchanged()
            known = self._known[name, chosen] = _table(name, output)
        return known.copy()

    @property
    def numbers(self) -> "pd.DataFrame":
        """All numbers of every head, a row each, with their errors over documents in `<name>_error`."""
        return self.table("heads")

    def tokens(self, head: Head) -> "pd.DataFrame":
        """What a head does at each token of the vocabulary that was read: `string`, `count`, `mean_log_gate` in nats, and
        others. The index is the token's `id`.
        """
        return self.table("tokens", head).reset_index(drop=True).set_index("id")

    @property
    def classes(self) -> "pd.DataFrame":
        """Gates of every head by class of the token that is read."""
        return self.table("classes")

    @property
    def resets(self) -> "pd.DataFrame":
        """How often the resets of every head fall on a class of tokens, and on shifted ones: `share`, `chance`, `p_value`."""
        return self.table("resets")

    def passages(self, head: Head | None = None) -> "pd.DataFrame":
        """The places that the atlas keeps, of all heads or of one."""
        return self.table("passages", head)

    def _square(self, column: str) -> "pd.DataFrame":
        table = self.table("similarity").reset_index()
        order = table.sort_values("order")[["layer", "head"]].drop_duplicates()
        places = list(order.itertuples(index=False, name=None))
        square: pd.DataFrame = table.set_index(["layer", "head", "other_layer", "other_head"])[column].unstack([2, 3])
        return square.reindex(index=places, columns=places)

    @property
    def similarity(self) -> "pd.DataFrame":
        """Correlation of log f of every two heads: rows and columns are (layer, head), alike heads side by side.

        Raises FoxscopeError for a model without gates.
        """
        if not self.forgets:
            raise FoxscopeError(
                f"{self.atlas.path}: model '{self.name}' has no gates that could be alike: take attention_similarity"
            )
        return self._square("correlation")

    @property
    def attention_similarity(self) -> "pd.DataFrame":
        """The same of the mass of attention by distance.

        Raises FoxscopeError for an atlas without attention.
        """
        square = self._square("attention_correlation")
        if square.isna().to_numpy().all():
            raise FoxscopeError(
                f"{self.atlas.path}: model '{self.name}': the atlas holds no attention: make it again without --rows 0"
            )
        return square

    def figure(self, kind: str, **options: Any) -> Figure:
        """A figure of this model, as `atlas.figure` draws it."""
        return self.atlas.figure(kind, model=self.name, **options)

    def __repr__(self) -> str:
        layers, heads = self.info["layers"], self.info["heads"]
        return f"<{self.name}, {layers} layers of {heads} heads, {self.info['positions']:,} positions>"

    def _repr_html_(self) -> str:
        shown = self.numbers
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{shown.to_html(max_rows=20, max_cols=8)}"
