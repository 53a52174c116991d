"""The losses of two models on one text."""

import html
import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison"]


class Comparison:
    """The losses of one model minus those of another, as `foxscope compare --json` has them (docs/evaluation.md).

    difference: mean difference, nats a token; below 0 the first model predicts better. difference_error: its standard
    error over blocks of the text, p_value: of no difference; NaN where the text is too short. perplexity_ratio: exp of
    the difference.
    """

    def __init__(self, output: bytes) -> None:
        self.report: dict[str, Any] = json.loads(output)
        """Everything that the program says."""

    def _number(self, name: str) -> float:
        value = self.report[name]
        return float("nan") if value is None else float(value)

    @property
    def difference(self) -> float:
        """Mean of the first model's loss minus the second's, nats a token."""
        return self._number("difference")

    @property
    def difference_error(self) -> float:
        """Its standard error, nats."""
        return self._number("difference_error")

    @property
    def p_value(self) -> float:
        """The probability of as large a difference by chance."""
        return self._number("p_value")

    @property
    def perplexity_ratio(self) -> float:
        """exp(difference)."""
        return self._number("perplexity_ratio")

    def _table(self, name: str) -> "pd.DataFrame":
        from foxscope.tables import import_pandas

        table: pd.DataFrame = import_pandas().json_normalize(self.report[name])
        # JSON has null for a number that there is none of, and a column of nulls alone would not be one of numbers.
        return table.astype({column: np.float64 for column in table if table[column].isna().all()})

    @property
    def octaves(self) -> "pd.DataFrame":
        """The difference by octave of position."""
        return self._table("octaves")

    @property
    def better(self) -> "pd.DataFrame":
        """Tokens that the first model predicts better by most."""
        return self._table("better")

    @property
    def worse(self) -> "pd.DataFrame":
        """Tokens that it predicts worse by most."""
        return self._table("worse")

    def __repr__(self) -> str:
        names = f"{self.report['model']} minus {self.report['minus']}"
        return f"<{names}: {self.difference:+.4f} +- {self.difference_error:.4f} nats a token>"

    def _repr_html_(self) -> str:
        words = html.escape(f"{self.report['model']} minus {self.report['minus']}")
        summary = (
            f"<p>{words}: {self.difference:+.4f} &plusmn; {self.difference_error:.4f} nats a token "
            f"(p = {self.p_value:.2g}), perplexity times {self.perplexity_ratio:.4f}</p>"
        )
        return summary + str(self.octaves.to_html(index=False))
