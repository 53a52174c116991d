#include "tests/gui/text/text_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include <QGuiApplication>
#include <QTest>

#include "backend/base/index.h"
#include "backend/base/sha256.h"
#include "backend/file/run_file.h"
#include "backend/text/tokenizer.h"

namespace foxscope::gui::test {
namespace {

using Part = QueryKeyStore::Part;

constexpr int kHeads = 2;
constexpr int kHeadDim = 4;
constexpr std::int64_t kLongestNormalized = 2000;

std::shared_ptr<TokenTable> tableOf(const TextRun& run) {
  auto table = std::make_shared<TokenTable>();
  std::int32_t before = 0;
  for (const auto& [begin, end] : run.tokens) {
    const std::string bytes = run.text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    table->input_id.push_back(before);
    before = static_cast<std::int32_t>(std::hash<std::string>()(bytes) % 50'000) + 1;
    table->id.push_back(before);
    table->string.push_back(replace_invalid_utf8(bytes));
    if (!run.withText) continue;
    table->byte_start.push_back(begin);
    table->byte_end.push_back(end);
  }
  if (run.byIds) {
    table->string.clear();
    table->id.back() = -1;
  }
  return table;
}

std::vector<double> randomGates(std::int64_t length, bool gated, std::mt19937& random) {
  std::normal_distribution<double> normal(2.0, 2.0);
  std::vector<double> c(static_cast<std::size_t>(kHeads * length));
  for (int head = 0; head < kHeads; ++head) {
    double sum = 0;
    for (std::int64_t n = 0; n < length; ++n) {
      if (gated) sum -= std::log1p(std::exp(-normal(random)));
      c[index_of(head * length + n)] = sum;
    }
  }
  return c;
}

void fillNormalizers(Recorder& recorder, const HostQueryKeyStore& store, const std::vector<double>& gates) {
  const auto length = static_cast<std::int64_t>(gates.size()) / kHeads;
  std::vector<float> queryScratch;
  std::vector<float> keyScratch;
  for (int head = 0; head < kHeads; ++head) {
    const auto q = store.rows(Part::query, 0, head, 0, length, queryScratch);
    const auto k = store.rows(Part::key, 0, head, 0, length, keyScratch);
    const double* c = gates.data() + head * length;
    for (std::int64_t i = 0; i < length; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (int n = 0; n < kHeadDim; ++n)
          dot +=
              static_cast<double>(q[index_of(i * kHeadDim + n)]) * static_cast<double>(k[index_of(j * kHeadDim + n)]);
        sum += std::exp(dot / std::sqrt(static_cast<double>(kHeadDim)) + c[i] - c[j]);
      }
      recorder.log_normalizer(0)[index_of(head * length + i)] = static_cast<float>(std::log(sum));
    }
  }
}

}  // namespace

std::vector<std::pair<std::int64_t, std::int64_t>> cutEvery(const std::string& text, std::int64_t bytes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> tokens;
  const auto size = static_cast<std::int64_t>(text.size());
  for (std::int64_t begin = 0; begin < size; begin += bytes) tokens.emplace_back(begin, std::min(size, begin + bytes));
  return tokens;
}

std::vector<std::pair<std::int64_t, std::int64_t>> cutIntoWords(const std::string& text) {
  std::vector<std::pair<std::int64_t, std::int64_t>> tokens;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.size(), text.find_first_of(" \n", begin + 1));
    tokens.emplace_back(begin, end);
    begin = end;
  }
  return tokens;
}

std::string prose(int words) {
  static const char* const kWords[] = {"the",   "fox", "remembers", "what",    "it",      "read,", "and",
                                       "after", "a",   "while",     "forgets", "nearly",  "all",   "of",
                                       "it;",   "so",  "did",       "winter",  "quietly", "pass."};
  std::mt19937 random(7);
  std::string text = "Once";
  for (int word = 1; word < words; ++word) {
    text += random() % 60 == 0 ? '\n' : ' ';
    text += kWords[random() % std::size(kWords)];
  }
  return text;
}

TextRun words(int count) {
  TextRun run;
  run.text = prose(count);
  run.tokens = cutIntoWords(run.text);
  return run;
}

std::shared_ptr<const Trace> makeTextRun(const TextRun& run) {
  const auto length = static_cast<std::int64_t>(run.tokens.size());
  TraceInfo info;
  info.name = run.name;
  info.model_type = "forgetting_transformer-project_fox";
  info.config = "{}";
  info.weights_sha256 = sha256(run.name);
  info.device = "cpu";
  info.attention_kernel = "cpu avx2";
  info.layers = 1;
  info.heads = kHeads;
  info.key_heads = kHeads;
  info.head_dim = kHeadDim;
  info.length = length;
  info.forgetting = {run.gated};
  if (run.experts != 0) info.chosen_experts = 2;
  info.softmax_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(kHeadDim)));

  std::mt19937 random(run.seed);
  std::shared_ptr<HostQueryKeyStore> store;
  if (run.keep.contains(Keep::query_key)) {
    store = std::make_shared<HostQueryKeyStore>(QueryKeyStore::Shape{1, kHeads, kHeads, length, kHeadDim},
                                                DType::float32, std::size_t{1} << 40U, "/tmp");
  }
  Recorder recorder(info, run.keep, store);
  const std::vector<double> gates = randomGates(length, run.gated, random);
  if (recorder.keeps(Keep::gates)) std::ranges::copy(gates, recorder.cumulative_log_gate(0).begin());
  std::normal_distribution<float> normal;
  for (const Part part : {Part::query, Part::key}) {
    const auto bytes = recorder.stored(part, 0);
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      const float value = normal(random);
      std::memcpy(bytes.data() + at, &value, sizeof value);
    }
  }
  if (store && recorder.keeps(Keep::rows) && length <= kLongestNormalized) fillNormalizers(recorder, *store, gates);
  for (float& loss : recorder.per_token_loss()) loss = std::abs(normal(random)) * 3;
  for (float& gradient : recorder.log_forget_gradient()) gradient = normal(random) / 1000;
  if (run.experts != 0 && recorder.keeps(Keep::experts)) {
    const Recorder::Experts into = recorder.experts(0);  // none before they are written
    for (std::size_t n = 0; run.experts > 0 && n < into.experts.size(); n += 2) {
      const auto expert = static_cast<std::int32_t>(random() % static_cast<unsigned>(run.experts));
      const float weight = 0.5F + static_cast<float>(random() % 1000) / 2000;
      into.experts[n] = expert;
      into.experts[n + 1] = (expert + 1) % run.experts;
      into.weights[n] = 1 - weight;
      into.weights[n + 1] = weight;
    }
  }
  if (recorder.keeps(Keep::saliency)) recorder.info().saliency_target = "mean of loss[7:8]";
  std::shared_ptr<const Text> text;
  if (run.withText) text = std::make_shared<const Text>(Text{run.text, sha256(run.text)});
  return recorder.finish(text, tableOf(run));
}

bool openRuns(Document& document, const Folder& folder, const std::vector<std::shared_ptr<const Trace>>& traces) {
  const QString path = folder.path("runs.h5");
  if (!write_run_file(path.toStdString(), traces, {"foxscope", ""}, Overwrite::force, {})) return false;
  document.open({path});
  if (!QTest::qWaitFor([&] { return document.runs().size() == traces.size(); }, 20'000)) return false;
  if (!traces.empty()) document.runs().selection().setHead({document.runs().front().id, 0, 0});
  return true;
}

std::shared_ptr<const TextShape> shapeOf(const Trace& trace) {
  auto shape = shapeText(std::make_shared<const TextCells>(cellsOf(trace)), QGuiApplication::font(), {});
  return std::make_shared<const TextShape>(std::move(*shape));
}

}  // namespace foxscope::gui::test
