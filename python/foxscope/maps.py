"""A map as values: pixels, what they cover, and how they are drawn."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from foxscope.colours import choose_colours
from foxscope.errors import FoxscopeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from foxscope.entries import Entries

__all__ = ["Map", "bin_edges"]

_LABELS = {
    "forget": "$F$, share that is retained",
    "log_forget": "log $F$ (nats)",
    "logits": r"logit $q$·$k$/$\sqrt{d}$ (nats)",
    "attention": "attention $A$",
    "attention_without_gate": "$A$ without the gate",
    "gate_effect": "$A$ \N{MINUS SIGN} $A$ without the gate",
    "mixing": "mixing $M$",
}
_DIFFERENCE_LABELS = {"forget": "$F$", "attention": "$A$", "mixing": "$M$"}


def bin_edges(begin: int, end: int, bins: int) -> NDArray[np.int64]:
    """Edges of so many bins of positions, [bins + 1]: bin n holds positions edges[n] up to, not including, edges[n + 1]."""
    return begin + np.arange(bins + 1, dtype=np.int64) * (end - begin) // bins


class Map:
    """A map of a head on pixels.

    values: [rows, columns] float32, NaN where a pixel has no entry. query_edges: [rows + 1] and key_edges:
    [columns + 1] int64; pixel [r, c] reduces the entries of queries query_edges[r] up to, not including,
    query_edges[r + 1], and of keys likewise.
    """

    def __init__(
        self,
        values: NDArray[np.float32],
        query_edges: NDArray[np.int64],
        key_edges: NDArray[np.int64],
        entries: "Entries",
        reduction: str,
    ) -> None:
        self.values = values
        self.query_edges = query_edges
        self.key_edges = key_edges
        self.entries = entries
        self.reduction = reduction

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of pixels."""
        return self.values.shape[0], self.values.shape[1]

    @property
    def exact(self) -> bool:
        """Whether every pixel is one entry."""
        return len(self.values) == self._span(self.query_edges) and self.values.shape[1] == self._span(self.key_edges)

    @staticmethod
    def _span(edges: NDArray[np.int64]) -> int:
        return int(edges[-1] - edges[0])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype, copy=copy)

    def __repr__(self) -> str:
        pooled = "exact" if self.exact else f"by {self.reduction}"
        return (
            f"<map of {self.entries.quantity} of {self.entries.title}: {self.shape[0]} x {self.shape[1]} pixels {pooled}, "
            f"queries {self.query_edges[0]}:{self.query_edges[-1]}, keys {self.key_edges[0]}:{self.key_edges[-1]}>"
        )

    @property
    def label(self) -> str:
        """The quantity and its unit, for a colour bar."""
        label = _LABELS[self.entries.quantity]
        if self.entries.minus is not None:
            label = "difference of " + _DIFFERENCE_LABELS.get(self.entries.quantity, label)
        return label + (", key 0 left out" if self.entries.without_first else "")

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        colours: str | None = None,
        scale: str = "auto",
        limits: tuple[float | None, float | None] | None = None,
        threshold: float | None = None,
        colour_bar: bool = True,
        title: str | None = None,
    ) -> "AxesImage":
        """Draws the map as the window does: queries downwards, keys across, entries that do not exist in light grey.

        ax: matplotlib's axes; None: new ones. colours: viridis, cividis, magma, grey or diverging. scale: auto, linear or
        log. limits: ends of the colours; None leaves one to the values. threshold: smaller entries stay white. title:
        None is the head's, "" is none.

        Returns matplotlib's image. Raises FoxscopeError for colours that do not exist or fit, and without matplotlib.
        """
        chosen = choose_colours(
            self.values,
            self.entries.quantity,
            self.entries.minus is not None,
            colours=colours,
            scale=scale,
            limits=limits,
        )
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError:
                raise FoxscopeError("plots need matplotlib: pip install 'foxscope[notebook]'") from None
            _, ax = plt.subplots(layout="constrained")
        # On a logarithmic scale what is not above 0 has the first colour, and matplotlib has no place for it.
        values = np.where(self.values <= 0, chosen.lower, self.values) if chosen.logarithmic else self.values
        extent = (
            self.key_edges[0] - 0.5,
            self.key_edges[-1] - 0.5,
            self.query_edges[-1] - 0.5,
            self.query_edges[0] - 0.5,
        )
        image = ax.imshow(
            values,
            cmap=chosen.colour_map(),
            norm=chosen.norm(),
            extent=extent,
            interpolation="nearest",
            aspect="equal" if 0.4 <= self._span(self.query_edges) / self._span(self.key_edges) <= 2.5 else "auto",
        )
        if threshold is not None:
            signed = chosen.name == "diverging" or self.entries.minus is not None
            small = (np.abs(self.values) if signed else self.values) < threshold
            white = np.zeros((*small.shape, 4), np.uint8)
            white[small] = 255
            ax.imshow(white, extent=extent, interpolation="nearest", aspect=ax.get_aspect())
        ax.set_xlabel("key position (token)")
        ax.set_ylabel("query position (token)")
        ax.set_title(self.entries.title.replace(" \N{MINUS SIGN} ", "\n\N{MINUS SIGN} ") if title is None else title)
        if colour_bar and ax.figure is not None:
            ax.figure.colorbar(image, cax=ax.inset_axes((1.03, 0, 0.05, 1)), label=self.label)
        return image

    def _repr_png_(self) -> bytes | None:
        """The picture that a notebook shows; None without matplotlib."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            return None

        figure = Figure(figsize=(5.5, 4.4), dpi=144, layout="constrained")
        FigureCanvasAgg(figure)
        self.plot(figure.add_subplot())
        file = io.BytesIO()
        figure.savefig(file, format="png")
        return file.getvalue()
