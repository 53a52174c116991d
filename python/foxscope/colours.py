"""Colour maps and limits of maps, as the window and `foxscope map` have them (docs/maps.md)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foxscope.errors import FoxscopeError

if TYPE_CHECKING:
    from matplotlib.colors import Colormap, Normalize

__all__ = ["ABSENT", "COLOUR_MAPS", "Colours", "choose_colours"]

ABSENT = "#f0f0f0"
"""Entries that do not exist, which are not white: that is a difference of 0."""

COLOUR_MAPS: dict[str, tuple[str, ...]] = {
    "viridis": ("#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"),
    "cividis": ("#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"),
    "magma": ("#000004", "#180f3d", "#440f76", "#721f81", "#9e2f7f", "#cd4071", "#f1605d", "#fd9668", "#feca8d", "#fcfdbf"),
    "grey": ("#000000", "#ffffff"),
    "diverging": (
        "#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#ffffff", "#fddbc7", "#f4a582", "#d6604d", "#b2182b",
        "#67001f",
    ),
}  # fmt: skip
"""Evenly spaced colours from one end of a scale to the other, interpolated in between; diverging is for what has signs."""

_DECADES = 4
# A few extreme entries must not turn a whole difference white, or all other attention dark.
_SIGNED_SHARE = 0.995
_LOGARITHMIC_SHARE = 0.999


@dataclass(frozen=True)
class Colours:
    """How values become colours: from `lower` at the map's first colour to `upper` at its last."""

    name: str
    logarithmic: bool
    lower: float
    upper: float

    def colour_map(self) -> "Colormap":
        """The map for matplotlib."""
        from matplotlib.colors import LinearSegmentedColormap

        steps = 2048  # finer than the 256 levels of a colour
        colours = LinearSegmentedColormap.from_list(f"foxscope {self.name}", COLOUR_MAPS[self.name], steps)
        return colours.with_extremes(bad=ABSENT)

    def norm(self) -> "Normalize":
        """The scale for matplotlib."""
        from matplotlib.colors import LogNorm, Normalize

        return (LogNorm if self.logarithmic else Normalize)(self.lower, self.upper)


def _size_of_most(values: NDArray[np.float32], share: float) -> float:
    """The size that this share of the values stay within; 0 where there are none."""
    sizes = np.abs(values)
    if not sizes.size:
        return 0.0
    place = int(share * (sizes.size - 1))
    return float(np.partition(sizes, place)[place])


def _rounded_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... that is not below the value."""
    decade = 10.0 ** np.floor(np.log10(value))
    return float(next(step * decade for step in (1.0, 2.0, 5.0, 10.0) if value <= step * decade * (1 + 1e-9) or step == 10))


def _limits(values: NDArray[np.float32], quantity: str, signed: bool, logarithmic: bool) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return (10.0**-_DECADES, 1.0) if logarithmic else (0.0, 1.0)
    if signed:
        limit = _size_of_most(finite, _SIGNED_SHARE) or float(np.abs(finite).max()) or 1.0
        return -limit, limit
    if logarithmic:
        most = _size_of_most(finite, _LOGARITHMIC_SHARE)
        upper = _rounded_up(most) if most > 0 else 1.0
        return upper * 10.0**-_DECADES, upper
    from_zero = quantity in ("forget", "attention", "attention_without_gate")
    lower = 0.0 if from_zero else float(finite.min())
    upper = 1.0 if quantity == "forget" else float(finite.max())
    return lower, upper if upper > lower else lower + 1


def _asked_limits(limits: Any) -> tuple[float | None, float | None]:
    if limits is None:
        return None, None
    try:
        lower, upper = (None if limit is None else float(limit) for limit in limits)
    except (TypeError, ValueError):
        raise FoxscopeError(
            f"limits {limits!r:.80}: take two numbers, as in (0, 1), or None for one that the values give"
        ) from None
    return lower, upper


def choose_colours(
    values: NDArray[np.float32],
    quantity: str,
    difference: bool,
    *,
    colours: str | None = None,
    scale: str = "auto",
    limits: tuple[float | None, float | None] | None = None,
) -> Colours:
    """The colours of a map, as `foxscope map` chooses them.

    Attention is on a logarithmic scale of four decades, all else on a linear one. What has signs is diverging and
    centred at 0, logits and log F are magma, the rest is viridis.

    Raises FoxscopeError for a name or a scale that does not exist or fit, and limits that are not in order.
    """
    if colours is not None and colours not in COLOUR_MAPS:
        raise FoxscopeError(f"colours {colours!r}: use {', '.join(COLOUR_MAPS)}")
    if scale not in ("auto", "linear", "log"):
        raise FoxscopeError(f"scale {scale!r}: use auto, linear or log")
    positive = not difference and quantity in ("forget", "attention", "attention_without_gate")
    if scale == "log" and not positive:
        raise FoxscopeError(
            f"scale 'log': {'a difference of ' if difference else ''}{quantity} has entries below zero: use linear"
        )
    logarithmic = scale == "log" or (scale == "auto" and positive and quantity != "forget")
    signed = difference or quantity in ("gate_effect", "mixing")
    lower, upper = _limits(values, quantity, signed, logarithmic)
    asked_lower, asked_upper = _asked_limits(limits)
    if asked_upper is not None:
        upper = asked_upper
        lower = -upper if signed else upper * 10.0**-_DECADES if logarithmic else lower
    if asked_lower is not None:
        lower = asked_lower
        upper = -lower if signed and asked_upper is None else upper
    if not (np.isfinite(lower) and np.isfinite(upper) and lower < upper):
        raise FoxscopeError(f"limits {lower:g} to {upper:g}: the lower must be below the upper")
    if logarithmic and lower <= 0:
        raise FoxscopeError(f"limits {lower:g} to {upper:g}: a logarithmic scale begins above 0")
    name = colours or ("diverging" if signed else "viridis" if positive or difference else "magma")
    return Colours(name, logarithmic, lower, upper)
