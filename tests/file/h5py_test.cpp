#include <nlohmann/json.hpp>

#include "backend/trace/token_strings.h"
#include "tests/file/support.h"

namespace foxscope::test {
namespace {

using H5pyTest = FolderTest;
using Json = nlohmann::json;

/// Says in a folder what h5py must find in a run file, from the traces that were written into it.
class Expectation {
 public:
  explicit Expectation(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directory(folder_);
    json_ = {{"attributes", Json::object()}, {"arrays", Json::object()},     {"strings", Json::object()},
             {"absent", Json::array()},      {"same_object", Json::array()}, {"signal", nullptr}};
  }

  template <typename T>
  void array(const std::string& path, const char* dtype, std::span<const T> values) {
    if (values.empty()) {
      json_["absent"].push_back(path);
      return;
    }
    std::string name = path.substr(1);
    std::replace(name.begin(), name.end(), '/', '.');
    dump(folder_ / name, values);
    json_["arrays"][path] = dtype;
  }

  void trace(const Trace& trace) {
    const TraceInfo& info = trace.info();
    const std::string root = "/models/" + info.name;
    json_["attributes"][root] = {{"NX_class", "NXentry"},
                                 {"model_type", info.model_type},
                                 {"config", info.config},
                                 {"weights_sha256", info.weights_sha256},
                                 {"dtype", to_string(info.dtype)},
                                 {"device", info.device},
                                 {"softmax_scale", info.softmax_scale},
                                 {"window_size", info.window_size},
                                 {"pruning_tolerance", info.pruning_tolerance},
                                 {"intervention", info.intervention}};
    if (!info.mixers.empty()) mixers(info, root);
    const TokenTable& tokens = *trace.tokens();
    array<std::int32_t>(root + "/tokens/id", "<i4", tokens.id);
    array<std::int32_t>(root + "/tokens/input_id", "<i4", tokens.input_id);
    array<std::int64_t>(root + "/tokens/byte_start", "<i8", tokens.byte_start);
    array<std::int64_t>(root + "/tokens/byte_end", "<i8", tokens.byte_end);
    json_["strings"][root + "/tokens/string"] = tokens.string;
    array<float>(root + "/loss/per_token_loss", "<f4", trace.per_token_loss());
    array<float>(root + "/logits", "<f4", trace.source().logits());
    const std::string gradient = root + "/gradients/log_forget";
    array<float>(gradient, "<f4", trace.source().copy<float>(TraceArray::log_forget_gradient));
    if (trace.has(TraceArray::log_forget_gradient)) {
      json_["attributes"][gradient] = {{"target", info.saliency_target}, {"units", "nats per nat"}};
    }
    array<std::uint16_t>(root + "/predictions/hidden_state", "<f2",
                         trace.source().copy<std::uint16_t>(TraceArray::prediction_state));
    array<std::int32_t>(root + "/experts/expert", "<i4", trace.source().copy<std::int32_t>(TraceArray::expert));
    array<float>(root + "/experts/weight", "<f4", trace.source().copy<float>(TraceArray::expert_weight));
    for (int layer = 0; layer < info.layers; ++layer) layer_arrays(trace, root, layer);
    for (int index = 0; index <= info.layers; ++index) {
      array<float>(fmt::format("{}/hidden_states/{:02}", root, index), "<f4", trace.source().hidden_states(index));
    }
    if (trace.text()) {
      json_["strings"]["/text/content"] = trace.text()->content;
      json_["attributes"]["/text/content"] = {{"sha256", trace.text()->sha256}};
    } else {
      json_["absent"].push_back("/text");
    }
  }

  void check(const std::filesystem::path& file) {
    json_["attributes"]["/"] = {{"foxscope_schema", schema_},
                                {"program", "foxscope"},
                                {"command_line", "foxscope run -o x.h5"},
                                {"created", "2026-11-21T12:00:00Z"},
                                {"NX_class", "NXroot"}};
    write_content(folder_ / "expected.json", json_.dump());
    run_python("check_run_file.py", {file.string(), folder_.string()});
  }

  Json& json() { return json_; }

 private:
  void mixers(const TraceInfo& info, const std::string& root) {
    schema_ = 2;
    for (int layer = 0; layer < info.layers; ++layer) {
      const LayerMixer mixer = info.mixer(layer);
      json_["attributes"][root]["mixers"].push_back(to_string(mixer.mixer));
      json_["attributes"][fmt::format("{}/layers/{:02}", root, layer)] = {
          {"mixer", to_string(mixer.mixer)},  {"decay", to_string(mixer.decay)}, {"heads", mixer.heads},
          {"query_heads", mixer.query_heads}, {"key_heads", mixer.key_heads},    {"value_heads", mixer.value_heads},
          {"head_dim", mixer.head_dim},       {"value_dim", mixer.value_dim}};
    }
  }

  void layer_arrays(const Trace& trace, const std::string& root, int layer) {
    const std::string group = fmt::format("{}/layers/{:02}", root, layer);
    const TraceSource& source = trace.source();
    array<double>(group + "/cumulative_log_gate", "<f8", source.copy<double>(TraceArray::cumulative_log_gate, layer));
    array<double>(group + "/cumulative_log_decay", "<f8", source.copy<double>(TraceArray::cumulative_log_decay, layer));
    array<double>(group + "/decay_rate", "<f8", source.copy<double>(TraceArray::decay_rate, layer));
    array<float>(group + "/beta", "<f4", source.copy<float>(TraceArray::beta, layer));
    array<float>(group + "/log_normalizer", "<f4", source.copy<float>(TraceArray::log_normalizer, layer));
    array<float>(group + "/log_normalizer_without_gate", "<f4",
                 source.copy<float>(TraceArray::log_normalizer_without_gate, layer));
    const char* dtype = trace.info().dtype == DType::float32 ? "<f4" : "bfloat16";
    array<std::byte>(group + "/query", dtype, stored(trace, TraceArray::query, layer));
    array<std::byte>(group + "/key", dtype, stored(trace, TraceArray::key, layer));
    array<std::byte>(group + "/value", dtype, stored(trace, TraceArray::value, layer));
  }

  static std::vector<std::byte> stored(const Trace& trace, TraceArray part, int layer) {
    std::vector<std::byte> all;
    std::vector<std::byte> scratch;
    const QueryKeyStore* const store = trace.store_of(part);
    for (int head = 0; store != nullptr && head < store->heads(part, layer); ++head) {
      const auto rows = store->raw_rows(part, layer, head, 0, trace.info().length, scratch);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }

  std::filesystem::path folder_;
  Json json_;
  int schema_ = 1;
};

TEST_F(H5pyTest, FindsWhatTheInterfacePromises) {
  const KeepSet everything = parse_keep(keep_words(","));
  const Traces traces = make_traces({{.name = "fox", .length = 700, .keep = everything},
                                     {.name = "transformer-b.16_x",
                                      .length = 700,
                                      .dtype = DType::bfloat16,
                                      .gated = false,
                                      .window_size = 9,
                                      .keep = {Keep::loss, Keep::rows, Keep::query_key, Keep::values}},
                                     {.name = "values", .length = 700, .keep = {Keep::values}}});
  write_run(file("run.h5"), traces);
  Expectation expectation(file("expected"));
  for (const auto& trace : traces) expectation.trace(*trace);
  for (const char* shared : {"/tokens", "/tokens/id", "/axes/position"}) {
    expectation.json()["same_object"].push_back(
        Json::array({std::string("/models/fox") + shared, std::string("/models/transformer-b.16_x") + shared}));
  }
  expectation.json()["signal"] = "/models/fox/loss/per_token_loss";
  expectation.check(file("run.h5"));
}

TEST_F(H5pyTest, FindsWhatLinearMixersHave) {
  const KeepSet keep = {Keep::loss, Keep::gates, Keep::query_key, Keep::values};
  const Traces traces = make_traces({{.name = "hybrid", .keep = keep, .mixers = all_mixers()}});
  write_run(file("run.h5"), traces);
  Expectation expectation(file("expected"));
  expectation.trace(*traces[0]);
  expectation.json()["shapes"] = {{"/models/hybrid/layers/00/query", {1, 37, 8}},
                                  {"/models/hybrid/layers/00/value", {4, 37, 6}},
                                  {"/models/hybrid/layers/02/cumulative_log_decay", {2, 37, 5}},
                                  {"/models/hybrid/layers/02/value", {2, 37, 7}},
                                  {"/models/hybrid/layers/03/cumulative_log_gate", {4, 37}},
                                  {"/models/hybrid/layers/04/beta", {2, 37}},
                                  {"/models/hybrid/layers/06/beta", {4, 37}},
                                  {"/models/hybrid/layers/06/cumulative_log_decay", {2, 37, 6}},
                                  {"/models/hybrid/layers/07/erase_read", {2, 37, 6}},
                                  {"/models/hybrid/layers/07/erase_write", {2, 37, 6}}};
  expectation.json()["absent"].push_back("/models/hybrid/layers/00/log_normalizer");
  expectation.check(file("run.h5"));
}

TEST_F(H5pyTest, FindsARunOnIds) {
  const Traces traces = make_traces({{.name = "ids", .length = 1, .with_text = false}});
  write_run(file("run.h5"), traces);
  Expectation expectation(file("expected"));
  expectation.trace(*traces[0]);
  expectation.json()["signal"] = "/models/ids/loss/per_token_loss";
  expectation.check(file("run.h5"));
}

TEST_F(H5pyTest, FindsAPlotWithoutALoss) {
  const Traces traces = make_traces({{.name = "gates", .keep = {Keep::gates}}});
  write_run(file("run.h5"), traces);
  Expectation expectation(file("expected"));
  expectation.trace(*traces[0]);
  expectation.json()["signal"] = "/models/gates/layers/00/cumulative_log_gate";
  expectation.check(file("run.h5"));
}

TEST_F(H5pyTest, TokensThatStringsCannotHoldAreSpelledOut) {
  const auto source = make_trace({.with_text = false});
  auto tokens = std::make_shared<TokenTable>(*source->tokens());
  tokens->string[0] = std::string("a\0b", 3);
  tokens->string[1] = "\xff half";
  tokens->string[2] = "";
  EXPECT_EQ(read_string(*tokens, 0), "⟨BOS⟩");
  tokens->first_string = "Once";
  Recorder recorder(source->info(), {Keep::loss}, nullptr);
  write_run(file("run.h5"), {recorder.finish(nullptr, tokens)});
  tokens->string[0] = "a\\x00b";
  tokens->string[1] = "\xef\xbf\xbd half";
  const auto read = RunFile::open(file("run.h5")).trace({});
  EXPECT_EQ(*read->tokens(), *tokens);
  EXPECT_EQ(read_string(*read->tokens(), 0), "Once");
  Expectation expectation(file("expected"));
  expectation.json()["strings"]["/models/fox/tokens/string"] = tokens->string;
  expectation.check(file("run.h5"));
}

}  // namespace
}  // namespace foxscope::test
