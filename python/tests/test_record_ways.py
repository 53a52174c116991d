"""Ways in which people run models: batches, generation, compiled, trained, in several processes, after exceptions."""

import gc
import json
import subprocess
import sys
import threading
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from recording_support import PROGRAM, arrays_of, assert_maps, check_file, nothing_left, program

torch = pytest.importorskip("torch", exc_type=ImportError)
transformers = pytest.importorskip("transformers", exc_type=ImportError)

from test_record_models import CONFIGURATIONS, model_of  # noqa: E402

from foxscope.errors import FoxscopeError  # noqa: E402
from foxscope.recording import operator_check, patches, record  # noqa: E402


def random_ids(*shape: int) -> Any:
    return torch.randint(0, 90, shape, generator=torch.Generator().manual_seed(4))


def same_arrays(one: Path, other: Path, tolerance: float = 1e-4) -> None:
    first, second = arrays_of(one), arrays_of(other)
    assert first.keys() == second.keys()
    for name, values in first.items():
        if np.issubdtype(values.dtype, np.number):
            assert values.shape == second[name].shape, name
            assert np.abs(values.astype(float) - second[name].astype(float)).max() < tolerance, name


def test_a_sequence_of_a_batch(tmp_path: Path) -> None:
    model, ids = model_of("llama", "sdpa"), random_ids(3, 70)
    with record(tmp_path / "batch.h5", input_ids=ids, sequence=2) as rec, torch.no_grad():
        rec.logits(model(ids).logits)
    with record(tmp_path / "alone.h5", input_ids=ids[2]) as rec, torch.no_grad():
        rec.logits(model(ids[2:]).logits)
    same_arrays(tmp_path / "batch.h5", tmp_path / "alone.h5")


def test_layers_that_are_not_seen(tmp_path: Path) -> None:
    """They stay layers of the model, a warning and the summary name them, and the program says that they are missing."""
    model, ids, path = model_of("gemma3_text", "sdpa"), random_ids(1, 40), tmp_path / "run.h5"
    for layer in (0, 2):
        model.model.layers[layer].self_attn.forward = lambda hidden_states, **_: (torch.zeros_like(hidden_states), None)
    warning = r"run.h5: layers 0, 2 of 3 were not recorded: no call of them was seen that could be: give what mixes"
    with pytest.warns(UserWarning, match=warning), record(path, input_ids=ids) as rec, torch.no_grad():
        model(ids)
    assert rec.summary().splitlines()[1:] == ["layers 0, 2 of 3: not recorded, as no call was seen that could be"]
    check_file(path)
    with h5py.File(path) as file:
        assert file["models/model"].attrs["layers"] == 3
        assert [file[f"models/model/layers/{n:02}"].attrs["source"] for n in (0, 2)] == ["not recorded"] * 2
    for recorded in (path, tmp_path / "again.h5"):
        if recorded != path:
            program("import", path, "-o", recorded)
        assert "layers 0 not recorded, 1 softmax attention, 2 not recorded\n" in program("info", recorded)
        assert json.loads(program("info", recorded, "--json"))["models"][0]["unrecorded_layers"] == [0, 2]
    for words in (
        ("map", "--head", "0:0", "--quantity", "forget", "-o", "out.npy"),
        ("page", "--heads", "0:0", "-o", "out.html"),
    ):
        done = subprocess.run([PROGRAM, *words, path], cwd=tmp_path, capture_output=True, check=False, text=True)
        assert done.returncode == 2 and "layer 0" in done.stderr and "was not recorded" in done.stderr


def test_layers_that_are_not_wanted(tmp_path: Path) -> None:
    """Layers that layers= leaves out are no reason to warn. One that it names and the model does not have is."""
    model, ids, path = model_of("gemma3_text", "sdpa"), random_ids(1, 40), tmp_path / "run.h5"
    with warnings.catch_warnings(action="error"), record(path, input_ids=ids, layers=[0]) as rec, torch.no_grad():
        model(ids)
    assert rec.summary().splitlines()[1:] == ["layers 1-2 of 3: not recorded, as layers= says"]
    assert "layers 0 attention, window of 20, 1-2 not recorded" in program("info", path)
    with (
        pytest.warns(UserWarning, match="layer 7 of 3 was not recorded: no call of it was seen"),
        record(path, input_ids=ids, layers=[0, 7], overwrite=True),
        torch.no_grad(),
    ):
        model(ids)


def test_chunked_attention_is_left_out_by_its_name(tmp_path: Path) -> None:
    """Llama 4: three layers of four are chunked. A text that fits into a chunk has all of them."""
    torch.manual_seed(1)
    sizes = {**CONFIGURATIONS["llama"], "num_hidden_layers": 4, "intermediate_size_mlp": 64, "num_local_experts": 2}
    config = transformers.Llama4TextConfig(**sizes, attention_chunk_size=16)
    model, path = transformers.Llama4ForCausalLM(config).eval(), tmp_path / "run.h5"
    with pytest.warns(UserWarning) as warned, record(path, input_ids=random_ids(1, 60)) as rec, torch.no_grad():
        model(random_ids(1, 60))
    said = [str(one.message) for one in warned if "run.h5" in str(one.message)]
    assert "or attention is chunked (attention_chunk_size), and queries see their own alone" in said[0]
    assert "or on a text that is no longer than a chunk" in said[0]
    assert "layers 0-2 of 4 were not recorded" in said[1]
    assert rec.summary().startswith("layer 3: attention, 4 heads (2 key heads) of 12, 60 positions")
    with record(path, input_ids=random_ids(1, 16), overwrite=True) as rec, torch.no_grad():
        model(random_ids(1, 16))
    assert "not recorded" not in rec.summary() and "layer 3" in rec.summary()


def test_padding_is_left_out_with_its_reason(tmp_path: Path) -> None:
    model, ids = model_of("llama", "sdpa"), random_ids(2, 70)
    mask = torch.ones(2, 70, dtype=torch.long)
    mask[1, :9] = 0
    with (
        pytest.raises(FoxscopeError, match=r"no call could be recorded: transformers' sdpa attention: .*padding"),
        record(tmp_path / "run.h5", input_ids=ids, sequence=1),
        torch.no_grad(),
    ):
        model(ids, attention_mask=mask)
    assert nothing_left(tmp_path)
    with record(tmp_path / "run.h5", input_ids=ids, sequence=0) as rec, torch.no_grad():
        model(ids, attention_mask=mask)
    assert "70 positions" in rec.summary()


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "qwen3_5_text", "gpt2"])
def test_generation_appends_positions(kind: str, tmp_path: Path) -> None:
    """Position by position with a cache, or all at once: one file. The last token is what the last position predicted."""
    model, ids = model_of(kind, "sdpa"), random_ids(1, 40)
    with record(tmp_path / "steps.h5", input_ids=ids) as rec, torch.no_grad():
        out = model.generate(ids, max_new_tokens=12, min_new_tokens=12, do_sample=False, attention_mask=torch.ones_like(ids))
        rec.tokens(out)
    assert out.shape == (1, 52) and "51 positions" in rec.summary()
    check_file(tmp_path / "steps.h5")
    with record(tmp_path / "once.h5", input_ids=out) as rec, torch.no_grad():
        model(out[:, :51])
    same_arrays(tmp_path / "steps.h5", tmp_path / "once.h5")


def test_beams_that_change_places(tmp_path: Path) -> None:
    model, ids = model_of("llama", "sdpa"), random_ids(1, 20)
    with (
        pytest.raises(FoxscopeError, match=r"layer 0: the cache of position \d+ holds other keys .* generate with one beam"),
        record(tmp_path / "run.h5", input_ids=ids),
        torch.no_grad(),
    ):
        model.generate(ids, max_new_tokens=12, num_beams=4, attention_mask=torch.ones_like(ids))
    assert nothing_left(tmp_path)


def test_generation_with_a_cache_of_fixed_size(tmp_path: Path) -> None:
    model, ids = model_of("llama", "sdpa"), random_ids(1, 40)
    with record(tmp_path / "steps.h5", input_ids=ids) as rec, torch.no_grad():
        out = model.generate(
            ids,
            max_new_tokens=6,
            min_new_tokens=6,
            do_sample=False,
            attention_mask=torch.ones_like(ids),
            cache_implementation="static",
        )
        rec.tokens(out)
    with record(tmp_path / "once.h5", input_ids=out), torch.no_grad():
        model(out[:, :45])
    same_arrays(tmp_path / "steps.h5", tmp_path / "once.h5")


def test_a_prompt_in_pieces(tmp_path: Path) -> None:
    model, ids = model_of("llama", "eager"), random_ids(1, 60)
    with record(tmp_path / "pieces.h5", input_ids=ids) as rec, torch.no_grad():
        cache = transformers.DynamicCache()
        for begin in range(0, 60, 20):
            rec.logits(model(ids[:, begin : begin + 20], past_key_values=cache).logits)
    with record(tmp_path / "once.h5", input_ids=ids) as rec, torch.no_grad():
        rec.logits(model(ids).logits)
    same_arrays(tmp_path / "pieces.h5", tmp_path / "once.h5")


def test_an_answer_whose_tokens_are_not_named(tmp_path: Path) -> None:
    model, ids = model_of("llama", "sdpa"), random_ids(1, 40)
    with (
        pytest.raises(FoxscopeError, match=r"layers have 44 positions, and input_ids 40: .*rec.tokens\(output_ids\)"),
        record(tmp_path / "run.h5", input_ids=ids),
        torch.no_grad(),
    ):
        model.generate(ids, max_new_tokens=5, min_new_tokens=5, attention_mask=torch.ones_like(ids))
    with (
        pytest.raises(FoxscopeError, match=r"what was read is not known: call rec.tokens\(input_ids\)"),
        record(tmp_path / "run.h5"),
        torch.no_grad(),
    ):
        model(ids)
    assert nothing_left(tmp_path)


def test_a_second_forward_pass_is_refused(tmp_path: Path) -> None:
    for kind in ("llama", "qwen3_5_text"):
        model, ids = model_of(kind, "sdpa"), random_ids(1, 40)
        with (
            pytest.raises(FoxscopeError, match=r"layer 0: was recorded already, 40 positions, and is called again without"),
            record(tmp_path / "run.h5", input_ids=ids),
            torch.no_grad(),
        ):
            model(ids)
            model(ids)
    assert nothing_left(tmp_path)


def test_a_recording_that_begins_within_a_generation(tmp_path: Path) -> None:
    model, ids = model_of("llama", "sdpa"), random_ids(1, 41)
    with torch.no_grad():
        cache = model(ids[:, :40], use_cache=True).past_key_values
    with (
        pytest.raises(FoxscopeError, match=r"41 keys for 1 queries, from before the recording"),
        record(tmp_path / "run.h5", input_ids=ids[:, 40:]),
        torch.no_grad(),
    ):
        model(ids[:, 40:], past_key_values=cache)


@pytest.mark.parametrize("before", [False, True])
def test_a_compiled_model_runs_as_it_was_written(before: bool, tmp_path: Path) -> None:
    """A graph that was compiled before would hide the calls."""
    model, ids = model_of("llama", "sdpa"), random_ids(1, 40)
    compiled = torch.compile(model, backend="eager")
    if before:
        with torch.no_grad():
            compiled(ids)
    with record(tmp_path / "compiled.h5", input_ids=ids) as rec, torch.no_grad():
        rec.logits(compiled(ids).logits)
    with record(tmp_path / "plain.h5", input_ids=ids) as rec, torch.no_grad():
        rec.logits(model(ids).logits)
    same_arrays(tmp_path / "compiled.h5", tmp_path / "plain.h5")


def test_a_graph_that_hides_its_calls(tmp_path: Path) -> None:
    class Plain(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    x = torch.randn(1, 2, 10, 8)
    traced = torch.jit.trace(Plain(), x)
    with (
        pytest.raises(
            FoxscopeError,
            match=r"a compiled graph .torch.jit, torch.export, CUDA graphs. hides the call: run it within the block",
        ),
        record(tmp_path / "run.h5", input_ids=list(range(10))),
    ):
        traced(x)


def test_everything_is_put_back(tmp_path: Path) -> None:
    """Behind the block, and behind an exception in it."""
    import transformers.modeling_utils as modeling
    import transformers.models.qwen3_5.modeling_qwen3_5 as qwen

    interface = modeling.AttentionInterface
    look = lambda: (  # noqa: E731
        torch.nn.functional.scaled_dot_product_attention,
        qwen.torch_chunk_gated_delta_rule,
        vars(interface).get("__getitem__"),
        vars(interface)["get_interface"],
        torch.backends.mha.get_fastpath_enabled(),
    )
    before, model, ids = look(), model_of("llama", "sdpa"), random_ids(1, 20)
    with record(tmp_path / "run.h5", input_ids=ids), torch.no_grad():
        assert look() != before
        model(ids)
    assert look() == before
    with pytest.raises(ZeroDivisionError), record(tmp_path / "other.h5", input_ids=ids), torch.no_grad():
        model(ids)
        raise ZeroDivisionError
    assert look() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5"]


def test_a_recording_that_nobody_closes_sees_no_more_when_it_is_gone(tmp_path: Path) -> None:
    """While it is known by a name it is open, and its error in the block of another names its file."""
    model, ids = model_of("llama", "sdpa"), random_ids(40)
    attention = torch.nn.functional.scaled_dot_product_attention
    forgotten = record(tmp_path / "forgotten.h5", input_ids=ids)
    forgotten.__enter__()
    with torch.no_grad():
        model(ids[None])
        with (
            pytest.raises(FoxscopeError, match=r"^\S*forgotten.h5, which is being recorded: layer 0: was recorded already"),
            record(tmp_path / "run.h5", input_ids=ids),
        ):
            model(ids[None])
        assert torch.nn.functional.scaled_dot_product_attention is not attention
        with pytest.warns(UserWarning, match=r"forgotten.h5: the recording was never closed, and nothing is written"):
            del forgotten
            gc.collect()
        assert torch.nn.functional.scaled_dot_product_attention is attention
        assert nothing_left(tmp_path)
        model(ids[None])
        with record(tmp_path / "run.h5", input_ids=ids):
            model(ids[None])
    check_file(tmp_path / "run.h5")


def test_recordings_that_overlap(tmp_path: Path) -> None:
    """The one that opened first closes first: both have the pass, and behind them everything is as it was."""
    model, ids = model_of("llama", "sdpa"), random_ids(1, 20)
    function = torch.nn.functional.scaled_dot_product_attention
    one, other = (record(tmp_path / name, input_ids=ids) for name in ("one.h5", "other.h5"))
    with torch.no_grad():
        one.__enter__()
        other.__enter__()
        model(ids)
        one.__exit__(None, None, None)
        assert torch.nn.functional.scaled_dot_product_attention is not function
        other.__exit__(None, None, None)
        assert torch.nn.functional.scaled_dot_product_attention is function
        model(ids)
        with record(tmp_path / "third.h5", input_ids=ids):
            model(ids)
    same_arrays(tmp_path / "one.h5", tmp_path / "other.h5", 1e-6)
    same_arrays(tmp_path / "one.h5", tmp_path / "third.h5", 1e-6)


def test_threads_see_their_own_calls(tmp_path: Path) -> None:
    """Two threads record two texts at once, and a third runs the model unseen."""
    model, texts = model_of("llama", "sdpa"), [random_ids(1, 20), random_ids(1, 30)]
    meeting = threading.Barrier(3)

    def work(n: int) -> None:
        with torch.no_grad():
            if n == 2:
                meeting.wait()
                model(texts[0])
                meeting.wait()
                return
            with record(tmp_path / f"{n}.h5", input_ids=texts[n]):
                meeting.wait()
                model(texts[n])
                meeting.wait()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    for n, ids in enumerate(texts):
        with record(tmp_path / f"{n}-alone.h5", input_ids=ids), torch.no_grad():
            model(ids)
        same_arrays(tmp_path / f"{n}.h5", tmp_path / f"{n}-alone.h5", 1e-6)
    with (
        pytest.raises(
            FoxscopeError, match=r"no attention was seen in the thread of the block, and calls of other threads were"
        ),
        record(tmp_path / "none.h5", input_ids=texts[0]),
        ThreadPoolExecutor(1) as pool,
    ):
        pool.submit(model, texts[0]).result()


def test_flex_attention_of_transformers_again(tmp_path: Path) -> None:
    """transformers keeps a compiled flex_attention: it may be made in a block, and is called before, in and behind others."""
    ids = random_ids(1, 40)
    for n in range(3):
        model = model_of("llama", "flex_attention")
        with record(tmp_path / f"{n}.h5", input_ids=ids), torch.no_grad():
            inside = model(ids).logits
        with torch.no_grad():
            assert torch.allclose(model(ids).logits, inside, atol=1e-5)
        same_arrays(tmp_path / "0.h5", tmp_path / f"{n}.h5")


def test_training_with_checkpoints(tmp_path: Path) -> None:
    """What the backward pass calls again is not recorded again; the gradients are those without a recording."""
    model, ids = model_of("llama", "sdpa"), random_ids(1, 40)
    model.gradient_checkpointing_enable()
    model.train()
    gradients = []
    for recorded in (False, True):
        model.zero_grad()
        if recorded:
            with record(tmp_path / "run.h5", input_ids=ids) as rec:
                out = model(ids, labels=ids)
                rec.logits(out.logits)
                out.loss.backward()
        else:
            model(ids, labels=ids).loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    check_file(tmp_path / "run.h5")


def test_dropout_is_named(tmp_path: Path) -> None:
    q = torch.randn(1, 2, 30, 8)
    with (
        pytest.raises(FoxscopeError, match=r"layer 0 .*likely cause: dropout of 0.5 in the attention: call model.eval"),
        record(tmp_path / "run.h5", input_ids=list(range(30))),
    ):
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True, dropout_p=0.5)


def test_bfloat16(tmp_path: Path) -> None:
    """The file has the model's own bits, and its maps are those of the same numbers in float64."""
    model, ids = model_of("llama", "sdpa").to(torch.bfloat16), random_ids(1, 70)
    with record(tmp_path / "run.h5", input_ids=ids) as rec, torch.no_grad():
        model(ids)
    check_file(tmp_path / "run.h5")
    from recording_support import dense_attention

    with h5py.File(tmp_path / "run.h5") as file:
        run = file["models/model"]
        assert run.attrs["dtype"] == "bfloat16"
        q, k = (run[f"layers/01/{name}"][:].astype(float) for name in ("query", "key"))
    assert_maps(tmp_path / "run.h5", 1, dense_attention(q, k))
    assert "68 rows checked" in rec.summary()


def test_autocast_and_mixed_numbers(tmp_path: Path) -> None:
    model, ids = model_of("qwen3_5_text", "sdpa"), random_ids(1, 70)
    with record(tmp_path / "run.h5", input_ids=ids) as rec, torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        model(ids)
    assert rec.summary().count("rows checked") == 2
    check_file(tmp_path / "run.h5")


def test_tokens_by_a_tokenizer(tmp_path: Path) -> None:
    """Of tokenizers and of transformers, with a token before the text and without."""
    tokenizers = pytest.importorskip("tokenizers")
    text = "the fox ran and the fox sat"
    words = {word: n for n, word in enumerate(["<s>", *dict.fromkeys(text.split())])}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<s>"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, bos_token="<s>")
    own = plain.encode(text).ids
    x = torch.randn(1, 2, 8, 4)
    for tokenizer in (plain, fast):
        for ids in ([0, *own], own):
            path = tmp_path / "run.h5"
            with record(path, input_ids=[ids], text=text, tokenizer=tokenizer, overwrite=True):
                q = x[:, :, : len(ids)]
                torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
            check_file(path)
            with h5py.File(path) as file:
                strings = [bytes(word).decode() for word in file["models/model/tokens/string"][:]]
                content = file["text/content"].asstr()[()]
            assert strings == [*(text.split() if ids[0] == 0 else text.split()[1:]), ""]
            assert content == text if ids[0] == 0 else content == text[4:]
    with (
        pytest.raises(
            FoxscopeError, match=r"text: the tokenizer cuts it into other tokens than input_ids, which have 0 at position 2"
        ),
        record(tmp_path / "other.h5", input_ids=[1, 2, 0], text=text, tokenizer=plain),
    ):
        pass
    with record(tmp_path / "words.h5", input_ids=own[:3], tokenizer=plain):
        q = x[:, :, :3]
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    with h5py.File(tmp_path / "words.h5") as file:
        assert [bytes(word).decode() for word in file["models/model/tokens/string"][:]] == ["fox", "ran", ""]


RANKS = """
import sys, torch, torch.distributed as distributed
from foxscope.recording import record
rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
q = torch.full((1, 2, 10, 8), float(rank + 1))
with record(sys.argv[3], input_ids=list(range(10))) as rec:
    out = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    rec.attention(7, *q.expand(3, 2, 10, 8)) if rank else None
    rec.logits(torch.zeros(10, 20))
assert (rec.summary() == "nothing was seen") == (rank == 1)
distributed.barrier()
"""


def test_rank_0_writes(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RANKS, str(rank), tmp_path / "meeting", tmp_path / "run.h5"], stderr=subprocess.PIPE
        )
        for rank in range(2)
    ]
    for process in processes:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said.decode()
    check_file(tmp_path / "run.h5")
    assert arrays_of(tmp_path / "run.h5")["models/model/layers/00/query"].max() == 1


def test_layers_of_a_model_that_are_kept(tmp_path: Path) -> None:
    model, ids = model_of("gemma3_text", "sdpa"), random_ids(1, 40)
    with record(tmp_path / "run.h5", input_ids=ids, layers=[1], heads=[2]) as rec, torch.no_grad():
        model(ids)
    assert rec.summary().startswith("layer 1: attention, 1 heads of 12") and "layer 0" not in rec.summary()
    check_file(tmp_path / "run.h5")
    with (
        pytest.raises(FoxscopeError, match=r"layers: none of \[7\] was seen"),
        record(tmp_path / "none.h5", input_ids=ids, layers=[7]),
        torch.no_grad(),
    ):
        model(ids)


def test_by_hand_beside_what_is_seen(tmp_path: Path) -> None:
    q = torch.randn(1, 2, 10, 8)
    with (
        pytest.raises(FoxscopeError, match=r"layer 0: was seen already .*pass automatic=False"),
        record(tmp_path / "run.h5", input_ids=list(range(10))) as rec,
    ):
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
        rec.attention(0, q, q)
    with record(tmp_path / "run.h5", input_ids=list(range(10)), automatic=False) as rec:
        out = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
        rec.attention(0, q, q, q, output=out)
    assert "rec.attention, 10 rows checked" in rec.summary()


def test_padding_before_positions_that_see_themselves_alone(tmp_path: Path) -> None:
    """As masks of transformers have it, so that no row is empty."""
    mask = torch.ones(70, 70, dtype=torch.bool).tril()
    mask[:, :9] = False
    mask |= torch.eye(70, dtype=torch.bool)
    q = torch.randn(1, 2, 70, 8)
    with (
        pytest.raises(FoxscopeError, match=r"the first keys are hidden \(padding\): record a sequence without padding"),
        record(tmp_path / "run.h5", input_ids=random_ids(1, 70)),
    ):
        torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


@pytest.mark.parametrize("lengths", [(40, 30), (2, 68), (3, 30, 237), (290, 10)])
def test_several_documents_in_one_sequence_are_named(lengths: tuple[int, ...], tmp_path: Path) -> None:
    length = sum(lengths)
    mask = torch.block_diag(*(torch.ones(n, n).tril() for n in lengths)).bool()
    q = torch.randn(1, 2, length, 8)
    with (
        pytest.raises(FoxscopeError, match=r"several documents lie in one sequence, .*: run the model on one of them"),
        record(tmp_path / "run.h5", input_ids=random_ids(1, length)),
    ):
        torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


@pytest.mark.parametrize("window", [1, 2, 5, 64, 299])
def test_a_window_is_no_number_of_documents(window: int, tmp_path: Path) -> None:
    mask = torch.ones(300, 300, dtype=torch.bool).tril().triu(1 - window)
    q = torch.randn(1, 2, 300, 8)
    with record(tmp_path / "run.h5", input_ids=random_ids(1, 300)) as rec:
        torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert f"window {window}," in rec.summary()


def test_within_vmap_there_are_no_numbers(tmp_path: Path) -> None:
    def attention(q: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)

    q = torch.randn(3, 1, 2, 70, 8)
    with (
        pytest.raises(FoxscopeError, match=r"layer 0: q has no numbers of its own within torch.func \(vmap, grad\)"),
        record(tmp_path / "run.h5", input_ids=random_ids(1, 70)),
    ):
        torch.vmap(attention)(q)
    assert torch.vmap(attention)(q).shape == q.shape


def test_the_compiler_is_loaded_by_those_who_compile_alone(tmp_path: Path) -> None:
    """It takes seconds. What is compiled within the block runs as it was written all the same."""
    code = """
import sys, torch
from torch.nn import functional as F
from foxscope.recording import record

def attend(q):
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)

q = torch.randn(1, 2, 70, 8)
with record(sys.argv[1] + "/first.h5", input_ids=[0] * 70) as rec:
    attend(q)
assert "torch._dynamo" not in sys.modules
own = torch.compile
with record(sys.argv[1] + "/second.h5", input_ids=[0] * 70) as rec:
    torch.compile(attend, backend="eager")(q)
assert torch.compile is own
assert "68 rows checked" in rec.summary(), rec.summary()
assert torch.compile(attend, backend="eager")(q).shape == q.shape
assert torch._dynamo.utils.counters["frames"]["ok"] == 1
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_the_program_is_searched_again_where_something_new_calls_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = 0
    search = patches.gc.get_referrers

    def count(*objects: object) -> list[Any]:
        nonlocal searches
        searches += 1
        return search(*objects)

    monkeypatch.setattr(patches.gc, "get_referrers", count)

    class Holder(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.attend = torch.nn.functional.scaled_dot_product_attention

    def seen(holder: Any, name: str) -> tuple[bool, int]:
        nonlocal searches
        searches = 0
        q = torch.randn(1, 2, 70, 8)
        rec = record(tmp_path / "run.h5", input_ids=[0] * 70, overwrite=True)
        try:
            with rec:
                getattr(holder, name)(q, q, q, is_causal=True)
        except FoxscopeError:
            return False, searches
        return True, searches

    module = types.ModuleType("foxscope_test_of_places")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert seen(torch.nn.functional, "scaled_dot_product_attention")[0]
    again = seen(torch.nn.functional, "scaled_dot_product_attention")
    assert again == (True, 0)
    module.attend = torch.nn.functional.scaled_dot_product_attention  # type: ignore[attr-defined]
    in_module = seen(module, "attend")
    assert in_module[0] and in_module[1] > 0
    holder = Holder()
    of_layer = seen(holder, "attend")
    assert of_layer[0] and of_layer[1] > 0
    assert holder.attend is torch.nn.functional.scaled_dot_product_attention is module.attend  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_leaves_the_check_alone(dtype: Any, tmp_path: Path) -> None:
    """Attention in float32 within a model of mixed formats is held to float32."""
    random = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 2, 200, 16, generator=random).to(dtype)
    output = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    said = []
    for enabled in (False, True):
        path = tmp_path / f"{enabled}.h5"
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled), record(path, input_ids=list(range(200))) as rec:
            rec.attention(0, q, k, v, output=output)
        said.append(rec.summary())
    assert "68 rows checked" in said[0]
    assert said[0] == said[1]


@pytest.mark.parametrize("warns", [False, True])
def test_algorithms_that_are_not_deterministic_serve_the_check(
    warns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch refuses sums along an axis of a GPU where a program asks for deterministic algorithms alone."""
    asked, measure = [], operator_check._measure

    def ask(*given: Any) -> Any:
        asked.append(torch.are_deterministic_algorithms_enabled())
        return measure(*given)

    monkeypatch.setattr(operator_check, "_measure", ask)
    q, k, v = torch.randn(3, 2, 20, 16)
    output = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.use_deterministic_algorithms(True, warn_only=warns)
    try:
        with record(tmp_path / "run.h5", input_ids=list(range(20))) as rec:
            rec.attention(0, q, k, v, output=output)
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled() == warns
    finally:
        torch.use_deterministic_algorithms(False)
    assert asked == [False]
