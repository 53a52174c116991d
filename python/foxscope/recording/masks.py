"""What an attention mask or an additive bias [B, H, L_q, L_k] says, read from some of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .arrays import Tensor, torch_module
from .call import MOST_LOG_FORGET

#: Rows of a mask that are looked at.
_ROWS = 48

#: Distance of numbers of float32 at 1. Masks of wider formats may have been made of sums c in float32.
_FLOAT32 = 2.0**-23


#: Why attention without a causal mask is left out.
NOT_CAUSAL = "queries see keys behind them, and a run file holds causal attention alone (is_causal=True, or a mask)"
#: What to do about attention that is seen but not understood.
BY_HAND = "give it by hand (rec.attention, automatic=False)"


class NotRecordable(Exception):
    """Why a call is no causal attention of a text that a run file can hold. It is left out and listed."""


@dataclass
class MaskReading:
    """window: w where queries see the keys i - w < j <= i, 0 where they see all before them.
    log_decay: [H or 1, L_q] nats where the bias is a sum of log gates c_i - c_j (ALiBi, FoX by a mask); else None.
    """

    window: int = 0
    log_decay: Tensor | None = None


def _rows_of(count: int) -> list[int]:
    third = _ROWS // 3
    chosen = set(range(min(count, third))) | set(range(max(0, count - third), count))
    chosen |= {count * n // third for n in range(third)}
    return sorted(chosen)


def read_block_mask(mask: Any, sequence: int, queries: int, keys: int, device: Any) -> MaskReading:
    """Reads the mask of flex_attention, a function of places, as `read_mask` does."""
    torch = torch_module()
    index = torch.tensor(_rows_of(queries), device=device)
    places = torch.arange(keys, device=device)
    batch, head = torch.tensor(sequence, device=device), torch.tensor(0, device=device)
    seen = mask.mask_mod(batch, head, index[:, None] + (keys - queries), places[None])
    return MaskReading(_read_window(seen.expand(len(index), keys), index + (keys - queries)))


def read_mask(mask: Any, sequence: int, queries: int, keys: int) -> MaskReading:
    """Reads a mask of torch: bool (true: seen) or numbers that are added to the logits.

    The last query reads key keys - 1. Raises NotRecordable for what is not causal, has holes or padding, or adds to
    logits what no gate adds.
    """
    torch = torch_module()
    while mask.ndim > 3:
        mask = mask[min(sequence, mask.shape[0] - 1)]
    while mask.ndim < 3:
        mask = mask[None]
    mask = mask.expand(mask.shape[0], queries, keys) if mask.shape[1:] != (queries, keys) else mask
    offset = keys - queries
    if offset < 0:
        raise NotRecordable(f"{queries} queries have {keys} keys")
    index = torch.tensor(_rows_of(queries), device=mask.device)
    mask = mask.detach()
    rows = mask[:, index].cpu()
    index = index.cpu()
    is_bool = rows.dtype == torch.bool
    seen = rows if is_bool else rows.double() > _masked_below(rows)
    if not bool((seen == seen[:1]).all()):
        raise NotRecordable("heads have masks of their own")
    window = _read_window(seen[0], index + offset)
    if is_bool:
        return MaskReading(window)
    bias = torch.where(seen, rows.double(), 0.0)
    if not bool(bias.any()):
        return MaskReading(window)
    log_decay = _read_decay(mask, bias, seen, index, offset)
    return MaskReading(window, log_decay.float().to(mask.device))


def read_hidden(score_mod: Any, sequence: int, heads: int, queries: int, device: Any) -> int:
    """The window, 0 where there is none, of a score_mod that hides keys behind queries of a whole text by -infinity."""
    torch = torch_module()
    index, places = torch.tensor(_rows_of(queries), device=device), torch.arange(queries, device=device)
    seen = _modified(score_mod, sequence, heads, 0.0, index[:, None], places[None]) > -1e30
    if not bool((seen == seen[:1]).all()):
        raise NotRecordable("heads have masks of their own")
    return _read_window(seen[0], index.cpu())


def _modified(score_mod: Any, sequence: int, heads: int, score: float, query: Any, key: Any) -> Any:
    """What a score_mod makes of a score of every head at places that broadcast, [heads, ...] float64 of the CPU."""
    torch = torch_module()
    query, key = torch.broadcast_tensors(query, key)
    scores = torch.full((heads, *query.shape), score, device=query.device)
    batch = torch.tensor(sequence, device=query.device)
    head = torch.arange(heads, device=query.device)[:, None, None]
    return score_mod(scores, batch, head, query[None], key[None]).cpu().double()


def read_score_mod(score_mod: Any, sequence: int, heads: int, queries: int, window: int, device: Any) -> Tensor | None:
    """Gates that a score_mod of flex_attention adds to logits of a whole text, [heads, queries]; None where it adds nothing.

    Raises NotRecordable where it does anything else than adding a sum of log gates.
    """
    torch = torch_module()
    index = torch.tensor(_rows_of(queries), device=device)
    places = torch.arange(queries, device=device)

    def added(score: float, query: Any, key: Any) -> Any:
        return _modified(score_mod, sequence, heads, score, query, key)

    bias = added(0.0, index[:, None], places[None])
    distance = index.cpu()[:, None] - places.cpu()[None]
    seen = ((distance >= 0) & ((distance < window) if window else True))[None]
    twice = torch.where(seen, added(2.0, index[:, None], places[None]) - bias - 2, 0.0)
    if float(twice.abs().max()) > 1e-3 + 4 * _FLOAT32 * float(torch.where(seen, bias, 0.0).abs().max()):
        raise NotRecordable(f"its score_mod does not add to logits: {BY_HAND}")
    own = added(0.0, places[None], places[None])[:, 0]
    if not bool(torch.where(seen, bias, 0.0).any()):
        return None
    later = added(0.0, places[None, 1:], places[None, :-1])[:, 0] - own[:, 1:]
    log_decay = torch.cat([later[:, :1], later], dim=1)
    return _gates(torch.where(seen, bias, 0.0), own, log_decay, seen, index.cpu(), _FLOAT32).float().to(device)


def _gates(bias: Any, own: Any, log_decay: Any, seen: Any, index: Any, rounding: float) -> Any:
    """Log gates [H, L] that are at most 0, where only the rounding of c put them above.

    rounding   of the format in which differences c_i - c_j were made
    Raises NotRecordable unless B_ij - B_ii = c_i - c_j in the rows [H, rows, L] that are looked at.
    """
    torch = torch_module()
    sums = log_decay.cumsum(1)
    expected = own[:, index, None] + sums[:, index, None] - sums[:, None, :]
    difference = float(torch.where(seen, bias - expected, 0.0).abs().max())
    size = rounding * max(float(bias.abs().max()), 1.0)
    if not difference <= 8 * size * len(sums[0]) ** 0.5:
        raise NotRecordable("what is added to logits is no sum of log gates, which a run file cannot hold")
    return at_most_1(log_decay, 2 * size)


def at_most_1(log_decay: Any, rounding: float) -> Any:
    """Log gates [H, L] without what rounding put above 0. Raises NotRecordable for gates above 1."""
    torch = torch_module()
    largest = float(log_decay.max())
    if not largest <= max(rounding, MOST_LOG_FORGET):
        raise NotRecordable(f"what is added to logits rises with distance, by {largest:.3g} a position, as no forget gate does")
    return torch.where((log_decay > 0) & (log_decay <= rounding), 0.0, log_decay)


def _masked_below(rows: Any) -> float:
    """A bound below which a number hides its key: half of what hides the future, or of the format's smallest."""
    torch = torch_module()
    smallest = float(torch.finfo(rows.dtype).min)
    future = float(rows[0, 0, -1]) if rows.shape[1] > 1 else smallest
    if future > -1e3:
        raise NotRecordable(NOT_CAUSAL)
    return max(future, smallest) / 2


def _read_window(seen: Any, positions: Any) -> int:
    torch = torch_module()
    keys = torch.arange(seen.shape[1], device=seen.device)
    if bool((seen & (keys[None] > positions[:, None])).any()):
        raise NotRecordable(NOT_CAUSAL)
    counts = seen.sum(1)
    if _has_documents(seen, positions):
        raise NotRecordable(
            "several documents lie in one sequence, or attention is chunked (attention_chunk_size), and queries see their own "
            "alone: run the model on one of them, without padding (sequence= picks one of a batch, or of packed ones that "
            "cu_seqlens names), or on a text that is no longer than a chunk"
        )
    begins = seen.to(torch.uint8).argmax(1)[-_ROWS // 3 :]
    if len(begins) > 1 and int(begins[0]) > 0 and bool((begins == begins[0]).all()):
        raise NotRecordable("the first keys are hidden (padding): record a sequence without padding")
    if not bool(seen[torch.arange(len(seen), device=seen.device), positions].all()):
        raise NotRecordable("positions do not see themselves (padding): record a sequence without padding")
    first = positions - counts + 1
    if not bool((seen == ((keys[None] >= first[:, None]) & (keys[None] <= positions[:, None]))).all()):
        raise NotRecordable("the keys of a query do not lie side by side")
    cut = first > 0
    if not bool(cut.any()):
        return 0
    widths = counts[cut]
    window = int(widths[0])
    whole = counts[~cut]
    if not bool((widths == window).all()) or (len(whole) > 0 and int(whole.max()) > window):
        raise NotRecordable("the keys that queries see are no window before them")
    return window


def _has_documents(seen: Any, positions: Any) -> bool:
    """Whether the first key that queries see stays, or is behind the query before: a document begins there.

    A document before the last one holds two positions that see each other, unlike padding. A window moves on.
    """
    torch = torch_module()
    keys = torch.arange(seen.shape[1], device=seen.device)
    first = seen.to(torch.uint8).argmax(1)
    whole = (keys[None] >= first[:, None]) & (keys[None] <= positions[:, None])
    if int(first[0]) > 0 or not bool((first[1:] > 0).any()) or not bool((seen == whole).all()):
        return False
    goes_on = (first[1:] == first[:-1]) | (first[1:] > positions[:-1])
    earlier = (first[1:] == first[:-1]) & (first[1:] < first[-1])
    return bool(goes_on.all()) and bool(earlier.any())


def _read_decay(mask: Any, bias: Any, seen: Any, index: Any, offset: int) -> Tensor:
    """Gates log f_i = B_(i,i-1) - B_(i,i), and B_ij - B_ii = c_i - c_j must hold in all rows that are looked at."""
    torch = torch_module()
    own = mask.diagonal(offset=offset, dim1=-2, dim2=-1).cpu().double()
    rounding = max(_FLOAT32, float(torch.finfo(mask.dtype).eps))
    if offset > 0:
        before = mask.diagonal(offset=offset - 1, dim1=-2, dim2=-1).cpu().double()
        return at_most_1(before - own, 2 * rounding * max(float(bias.abs().max()), 1.0))
    later = mask.diagonal(offset=-1, dim1=-2, dim2=-1).cpu().double() - own[:, 1:]
    # The gate of position 0 lies between no pair of positions, and a mask does not say it: that of position 1 is taken.
    log_decay = torch.cat([later[:, :1], later], dim=1)
    return _gates(bias, own, log_decay, seen, index, rounding)
