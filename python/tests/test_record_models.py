"""Models of transformers: `foxscope map` of the recorded file equals what the model says of its own attention."""

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from recording_support import DATA, assert_maps, check_file, map_of, program

torch = pytest.importorskip("torch", exc_type=ImportError)
transformers = pytest.importorskip("transformers", exc_type=ImportError)
safetensors = pytest.importorskip("safetensors.numpy")

from foxscope.recording import record  # noqa: E402

SMALL = {
    "vocab_size": 90,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "head_dim": 12,
}
SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "llama": SMALL,
    "qwen3": SMALL,
    "gemma2": {**SMALL, "sliding_window": 20, "attn_logit_softcapping": 1.5, "query_pre_attn_scalar": 20},
    "gemma3_text": {**SMALL, "num_hidden_layers": 3, "sliding_window": 20, "layer_types": SLIDING},
    "gpt2": {
        "vocab_size": 90,
        "n_embd": 48,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 128,
        "scale_attn_by_inverse_layer_idx": True,
    },
    "gpt_oss": {**SMALL, "sliding_window": 20, "num_local_experts": 2, "num_experts_per_tok": 1},
    "kimi_linear": {
        "vocab_size": 90,
        "hidden_size": 48,
        "intermediate_size": 64,
        "moe_intermediate_size": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "num_hidden_layers": 2,
        "num_experts": 2,
        "num_experts_per_tok": 1,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8,
        "v_head_dim": 10,
        "linear_head_dim": 12,
        "linear_num_heads": 4,
        "layer_types": ["linear_attention", "full_attention"],
        "mlp_layer_types": ["dense", "dense"],
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "qwen3_5_text": {
        **SMALL,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 16,
        "layer_types": ["linear_attention", "full_attention"],
    },
}


def model_of(kind: str, implementation: str) -> Any:
    """A small model with random weights, large enough that attention is uneven."""
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(kind, **CONFIGURATIONS[kind])
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation).eval()
    for name, weight in model.named_parameters():
        if weight.ndim > 1 or "sinks" in name:
            weight.data.mul_(6).add_(0.1 * torch.randn_like(weight) if "sinks" in name else 0)
    return model


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_maps_are_those_of_eager_attention(kind: str, tmp_path: Path) -> None:
    model, path = model_of(kind, "eager"), tmp_path / "run.h5"
    ids = torch.randint(0, 90, (1, 75))
    with warnings.catch_warnings(), record(path, name="mine", input_ids=ids) as rec, torch.no_grad():
        warnings.simplefilter("error", UserWarning)
        out = model(ids, output_attentions=True)
        rec.logits(out.logits)
    check_file(path)
    softmax = [line for line in rec.summary().splitlines() if ": attention" in line]
    own = [entries for entries in out.attentions if entries is not None]
    assert len(softmax) == len(own) > 0
    for line, entries in zip(softmax, own, strict=True):
        assert_maps(path, int(line.split(":")[0].split()[1]), entries[0].double().numpy())


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "gpt2", "qwen3_5_text"])
def test_sdpa_records_what_eager_records(kind: str, tmp_path: Path) -> None:
    ids = torch.randint(0, 90, (1, 75), generator=torch.Generator().manual_seed(2))
    maps = []
    for implementation in ("eager", "sdpa"):
        path = tmp_path / f"{implementation}.h5"
        with record(path, input_ids=ids) as rec, torch.no_grad():
            model_of(kind, implementation)(ids)
        assert implementation in rec.summary()
        maps.append(map_of(path, 1, 3))
    assert np.abs(maps[0] - maps[1]).max() < 1e-4


def test_losses_are_those_of_the_model(tmp_path: Path) -> None:
    model, path = model_of("llama", "sdpa"), tmp_path / "run.h5"
    ids = torch.randint(0, 90, (1, 75))
    with record(path, input_ids=ids, keep="loss") as rec, torch.no_grad():
        out = model(ids, labels=ids)
        rec.logits(out.logits)
    with h5py.File(path) as file:
        losses = file["models/model/loss/per_token_loss"][:]
        assert set(file["models/model/layers/00"]) == set()
    assert abs(losses[:-1].mean() - float(out.loss)) < 1e-5
    last = torch.distributions.Categorical(logits=out.logits[0, -1]).entropy()
    assert abs(losses[-1] - float(last)) < 1e-5


def test_kimi_delta_attention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M of the file times the values of the file is what the model's own function returned for all positions."""
    import transformers.models.kimi_linear.modeling_kimi_linear as kimi

    own, outputs = kimi.chunk_kimi_delta_attention, []

    def kept(*args: Any, **kwargs: Any) -> Any:
        outputs.append(own(*args, **kwargs)[0][0].transpose(0, 1).double().numpy())
        return own(*args, **kwargs)

    monkeypatch.setattr(kimi, "chunk_kimi_delta_attention", kept)
    model, path = model_of("kimi_linear", "eager"), tmp_path / "run.h5"
    ids = torch.randint(0, 90, (1, 75))
    with record(path, input_ids=ids) as rec, torch.no_grad():
        model(ids)
    check_file(path)
    assert "layer 0: delta rule, a gate a channel" in rec.summary() and "layer 1: attention" in rec.summary()
    with h5py.File(path) as file:
        values = file["models/model/layers/00/value"][:]
    for head, output in enumerate(outputs[0]):
        assert np.abs(map_of(path, 0, head, "mixing") @ values[head] - output).max() < 1e-4


def test_qwen3_5_of_the_fixture(tmp_path: Path) -> None:
    """Entries of M and A as transformers made them before (tests/data/README.md), and our own run of the checkpoint."""
    folder, path = DATA / "qwen3_5", tmp_path / "run.h5"
    golden = safetensors.load_file(folder / "golden.safetensors")
    maps = safetensors.load_file(folder / "golden_maps.safetensors")
    ids = torch.tensor(golden["input_ids"])
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with record(path, input_ids=ids) as rec, torch.no_grad():
        rec.logits(model(ids).logits)
    check_file(path)
    assert_maps(path, 0, maps["layers.0.mixing"], "mixing")
    assert_maps(path, 1, golden["layers.1.attention"][0])
    ours = tmp_path / "ours.h5"
    listed = tmp_path / "ids.json"
    listed.write_text(str([int(token) for token in golden["input_ids"][0]]))
    program("run", "--model", folder, "--ids", listed, "--keep", "loss,gates,rows,qk,values", "-o", ours)
    with h5py.File(path) as mine, h5py.File(ours) as theirs:
        of_mine, of_theirs = mine["models/model"], theirs["models/qwen3_5"]
        assert list(of_mine.attrs["mixers"]) == list(of_theirs.attrs["mixers"])
        for name in ("mixer", "decay", "heads", "query_heads", "key_heads", "value_heads", "head_dim", "value_dim"):
            for layer in ("00", "01"):
                assert of_mine[f"layers/{layer}"].attrs[name] == of_theirs[f"layers/{layer}"].attrs[name]
