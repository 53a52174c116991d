"""The tokens of a run: what each position reads and predicts, and where that lies in the text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FoxscopeError
from .arrays import is_torch

#: What the last position predicts, where nothing says it.
UNKNOWN = -1
#: The largest id that a file's int32 hold.
MOST_ID = 2**31 - 1
Ids = npt.NDArray[np.int32]


@dataclass
class TokenTable:
    """Columns of [L]: `id` is what position p predicts, and so are places and strings; `input_id` is what it reads.

    Places are bytes of `text`, which is the part that was read. `next_id` is the token behind the last input, if known.
    `first_string` is the token that position 0 reads; None where that is BOS.
    """

    input_id: Ids
    id: Ids
    byte_start: npt.NDArray[np.int64] | None = None
    byte_end: npt.NDArray[np.int64] | None = None
    string: list[str] | None = None
    first_string: str | None = None
    text: str | None = None
    text_attributes: dict[str, Any] = field(default_factory=dict)


def read_ids(ids: Any, sequence: int, name: str = "input_ids") -> Ids:
    """Token ids of one sequence: torch, numpy or a list, [L] or [B, L]."""
    if hasattr(ids, "sequences"):  # what generate returns with return_dict_in_generate
        ids = ids.sequences
    elif isinstance(ids, dict) or hasattr(ids, "input_ids"):
        if "input_ids" not in ids:
            raise FoxscopeError(f"{name}: got {type(ids).__name__} without input_ids: pass the token ids of it")
        ids = ids["input_ids"]
    if isinstance(ids, str):
        raise FoxscopeError(f"{name}: got a text: pass the ids that the tokenizer makes of it, and it as text=")
    try:
        array = ids.detach().cpu().numpy() if is_torch(ids) else np.asarray(ids)
    except ValueError as error:
        raise FoxscopeError(f"{name}: expected [L] or [B, L], got lists of several lengths") from error
    if array.ndim == 2:
        if array.shape[0] <= sequence:
            raise FoxscopeError(f"{name}: a batch of {array.shape[0]} has no sequence {sequence}")
        array = array[sequence]
    if array.ndim != 1 or len(array) == 0:
        raise FoxscopeError(f"{name}: expected [L] or [B, L], got {list(array.shape)}")
    if not np.issubdtype(array.dtype, np.integer):
        raise FoxscopeError(f"{name}: expected whole numbers, got {array.dtype}")
    if int(array.min()) < 0 or int(array.max()) > MOST_ID:
        raise FoxscopeError(f"{name}: expected token ids from 0 to {MOST_ID}, got {int(array.min())} to {int(array.max())}")
    return array.astype(np.int32)


def _encodings(tokenizer: Any, text: str) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """Ids and places, in characters, with and without special tokens."""
    found = []
    for special in (True, False):
        if hasattr(tokenizer, "encode_batch"):
            encoding = tokenizer.encode(text, add_special_tokens=special)
            found.append((list(encoding.ids), [tuple(place) for place in encoding.offsets]))
            continue
        try:
            encoding = tokenizer(text, add_special_tokens=special, return_offsets_mapping=True, return_attention_mask=False)
        except (NotImplementedError, ValueError) as error:
            raise FoxscopeError(
                "tokenizer: does not say where tokens lie in the text (it is no fast tokenizer): pass offsets=, the "
                "places of input_ids in characters"
            ) from error
        found.append((list(encoding["input_ids"]), [tuple(place) for place in encoding["offset_mapping"]]))
    return found


def _places_by_tokenizer(
    tokenizer: Any, text: str, ids: Sequence[int]
) -> tuple[list[tuple[int, int]], tuple[int, tuple[int, int]] | None]:
    """Places of ids in the text, and the token behind them with its place. A first token that is not of the text (BOS)
    has the place (0, 0).
    """
    best = 0
    for tokens, places in _encodings(tokenizer, text):
        for skipped in (0, 1):
            own = list(ids[skipped:])
            agree = next((n for n, (a, b) in enumerate(zip(own, tokens)) if a != b), min(len(own), len(tokens)))
            if agree == len(own):
                behind = agree < len(tokens) and places[agree][1] > places[agree][0]
                following = (tokens[agree], places[agree]) if behind else None
                return [(0, 0)] * skipped + places[: len(own)], following
            best = max(best, agree + skipped)
    raise FoxscopeError(
        f"text: the tokenizer cuts it into other tokens than input_ids, which have {int(ids[min(best, len(ids) - 1)])} "
        f"at position {best}: pass the text that was tokenized, or leave text= out"
    )


def _is_bos(tokenizer: Any, first: int) -> bool:
    """Whether a token is the one that begins a sequence: bos_token_id of transformers, or what a tokenizer of tokenizers
    puts before every text.
    """
    if hasattr(tokenizer, "encode_batch"):
        return bool(list(tokenizer.encode("", add_special_tokens=True).ids)[:1] == [first])
    return bool(getattr(tokenizer, "bos_token_id", None) == first)


def _name(tokenizer: Any, token: int) -> str:
    """The token as a string, as far as a tokenizer says it; else its id in brackets."""
    string = "" if tokenizer is None else str(tokenizer.decode([token]))
    return string or f"⟨{token}⟩"


def _byte_places(text: str) -> npt.NDArray[np.int64]:
    """Where each character begins in UTF-8; one number more than characters."""
    if text.isascii():
        return np.arange(len(text) + 1, dtype=np.int64)
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    sizes = 1 + (points > 0x7F).astype(np.int64) + (points > 0x7FF) + (points > 0xFFFF)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def make_tokens(ids: Ids, next_id: int | None, text: str | None, tokenizer: Any, offsets: Any) -> TokenTable:
    """The table of a run that read `ids`.

    text      with tokenizer (transformers or tokenizers) or with offsets
    offsets   [L, 2] or [L + 1, 2] places of input ids in characters of the text, as tokenizers give them
    Position 0 reads BOS where the tokenizer says so. Else it is the first token of the text, behind which the text of the
    run then begins.
    """
    if tokenizer is not None and not hasattr(tokenizer, "decode"):
        raise FoxscopeError(f"tokenizer: expected one of transformers or of tokenizers, got {type(tokenizer).__name__}")
    predicted = np.append(ids[1:], np.int32(UNKNOWN if next_id is None else next_id)).astype(np.int32)
    first = int(ids[0])
    table = TokenTable(ids, predicted, first_string=None if _is_bos(tokenizer, first) else _name(tokenizer, first))
    if text is None:
        if tokenizer is not None:
            table.string = [str(tokenizer.decode([int(token)])) if token >= 0 else "" for token in predicted]
        return table
    _check_text(text)
    following: tuple[int, tuple[int, int]] | None = None
    if offsets is not None:
        places = _given_places(offsets, len(ids), len(text))
        if len(places) > len(ids):
            following = (UNKNOWN, places.pop())
    elif tokenizer is not None:
        places, following = _places_by_tokenizer(tokenizer, text, [int(token) for token in ids])
    else:
        raise FoxscopeError("text: pass tokenizer= or offsets= too, to find the tokens in it")
    if following is not None and table.id[-1] == UNKNOWN and following[0] >= 0:
        table.id[-1] = following[0]
    _place(table, text, places, following)
    return table


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise FoxscopeError(f"text: expected a string, got {type(text).__name__}")
    if "\0" in text:
        raise FoxscopeError("text: holds a NUL character, which HDF5 strings cannot: remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FoxscopeError("text: holds half a character (a surrogate), which is no UTF-8: remove it") from error


def _given_places(offsets: Any, length: int, characters: int) -> list[tuple[int, int]]:
    array = offsets.detach().cpu().numpy() if is_torch(offsets) else np.asarray(offsets)
    if array.ndim == 3 and array.shape[0] == 1:
        array = array[0]
    if array.ndim != 2 or array.shape[1] != 2 or len(array) not in (length, length + 1):
        raise FoxscopeError(f"offsets: expected [{length}, 2], a place of each of input_ids, got {list(array.shape)}")
    if int(array.min()) < 0 or int(array.max()) > characters or bool((array[:, 1] < array[:, 0]).any()):
        raise FoxscopeError(f"offsets: expected places in the {characters} characters of the text")
    return [(int(begin), int(end)) for begin, end in array]


def _place(
    table: TokenTable,
    text: str,
    places: list[tuple[int, int]],
    following: tuple[int, tuple[int, int]] | None,
) -> None:
    behind_bos = places[0][0] == places[0][1]
    begins = [begin for begin, end in places if end > begin]
    cut = 0 if behind_bos else (places[1][0] if len(places) > 1 else (following[1][0] if following else places[0][1]))
    if behind_bos and not begins and following is None:
        cut = 0
    last = places[-1][1] if following is None else following[1][1]
    of_id = [*places[1:], following[1] if following is not None else (last, last)]
    ends = np.maximum.accumulate(np.array([max(end, cut) for _, end in of_id], np.int64))
    starts = np.array([max(begin, cut) for begin, _ in of_id], np.int64)
    # A special token within the text has no place of its own: it stands at the end of the one before it.
    empty = np.array([end <= begin for begin, end in of_id])
    starts = np.where(empty, ends, starts)
    starts = np.minimum(np.maximum.accumulate(starts), ends)
    read = int(ends[-1]) if len(ends) else cut
    content, unread = text[cut:read], text[read:]
    byte_of = _byte_places(text[cut:read])
    table.byte_start, table.byte_end = byte_of[starts - cut], byte_of[ends - cut]
    shared = [False] * len(of_id)
    for n in range(1, len(of_id)):
        if of_id[n] == of_id[n - 1] and of_id[n][1] > of_id[n][0]:
            shared[n] = shared[n - 1] = True
    table.string = ["\ufffd" if partial else text[int(start) : int(end)] for partial, start, end in zip(shared, starts, ends)]
    if table.first_string is not None and not behind_bos:
        table.first_string = text[places[0][0] : cut]
    table.text = content
    table.text_attributes = {"sha256": hashlib.sha256(content.encode()).hexdigest()}
    if unread:
        cut_word = bool(content) and content[-1].isalnum() and unread[0].isalnum()
        table.text_attributes["unread_bytes"] = np.int64(len(unread.encode()))
        table.text_attributes["cut_word"] = np.int64(cut_word)
