"""The layers of a model that its run file does not have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Unrecorded:
    """The layers of a model that were not recorded.

    count     layers of the model
    unseen    those of which no call came that could be recorded
    unwanted  those that layers= leaves out
    """

    count: int
    unseen: list[int]
    unwanted: list[int]

    def lines(self) -> list[str]:
        """Words for the summary, a line for each reason."""
        reasons = ((self.unseen, "as no call was seen that could be"), (self.unwanted, "as layers= says"))
        return [f"{self._words(layers)}: not recorded, {reason}" for layers, reason in reasons if layers]

    def warning(self) -> str:
        """Words for layers that were to be recorded; empty where all were."""
        if not self.unseen:
            return ""
        verb, of = ("was", "it") if len(self.unseen) == 1 else ("were", "them")
        return (
            f"{self._words(self.unseen)} {verb} not recorded: no call of {of} was seen that could be: "
            "give what mixes positions by hand (rec.mixer, rec.attention)"
        )

    def _words(self, layers: list[int]) -> str:
        return f"layer{'' if len(layers) == 1 else 's'} {_ranges(layers)} of {self.count}"


def unrecorded(
    recorded: Iterable[int], unwanted: Iterable[int], wanted: Iterable[int] | None, of_model: int | None
) -> Unrecorded:
    """What is missing of a model.

    recorded, unwanted   layers that were seen, and kept or not
    wanted               those of layers=; None: all
    of_model             layers that the model says it has; None: it says nothing
    """
    kept, left = set(recorded), set(unwanted)
    beyond = max(wanted or (), default=-1) + 1 if of_model is None else of_model
    count = max(max(kept | left, default=-1) + 1, beyond)
    unseen = (set(range(count)) if wanted is None else set(wanted)) - kept
    return Unrecorded(count, sorted(unseen), sorted(set(range(count)) - kept - unseen))


def _ranges(numbers: list[int]) -> str:
    """Numbers that rise, in words: 0, 2-5."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), lambda at: at[1] - at[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
