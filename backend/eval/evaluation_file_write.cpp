#include "backend/eval/evaluation_file.h"
#include "backend/file/layer_mixers.h"
#include "backend/file/model_writer.h"

namespace foxscope {
namespace {

constexpr const char* kEstimator =
    "jackknife over documents, each of G left out in turn: se^2 = (G-1)/G sum_g (estimate without g - estimate)^2; NaN "
    "below 4 effective documents (M^2 / sum m_g^2) or 3 degrees of freedom";

template <typename T>
void write_column(Hdf5Writer& writer, const std::string& path, Element element, const std::vector<T>& values) {
  if (!values.empty()) writer.array(path, element, {values.size()}, values.data(), nullptr);
}

}  // namespace

void write_corpus(Hdf5Writer& writer, const EvaluatedCorpus& corpus) {
  writer.attribute("/", "source", corpus.source);
  writer.attribute("/", "seed", static_cast<std::int64_t>(corpus.seed));
  writer.attribute("/", "corpus_documents", corpus.documents_read);
  writer.attribute("/", "corpus_tokens", corpus.tokens_read);
  writer.attribute("/", "error_estimator", kEstimator);
  if (corpus.documents.empty()) return;
  std::vector<std::string> names;
  std::vector<std::string> hashes;
  for (const WindowDocument& document : corpus.documents) {
    names.push_back(document.name);
    hashes.push_back(document.sha256);
  }
  writer.strings("/documents/name", names);
  writer.strings("/documents/sha256", hashes);
}

void write_info(Hdf5Writer& writer, const std::string& group, std::size_t order, const TraceInfo& info) {
  writer.attribute(group, "order", static_cast<std::int64_t>(order));
  // Of a file that was imported nothing but the name is known.
  if (info.layers == 0) return;
  write_run_attributes(writer, group, info);
  writer.attribute(group, "length", info.length);
  if (info.mixers.empty()) return;
  for (int layer = 0; layer < info.layers; ++layer) writer.group(fmt::format("{}/layers/{:02}", group, layer));
  write_mixers(writer, group, info);
}

void write_windows(Hdf5Writer& writer, const std::string& group, const EvaluatedWindows& windows) {
  write_column(writer, group + "/document", Element::int32, windows.document);
  write_column(writer, group + "/tokens", Element::int64, windows.tokens);
  write_column(writer, group + "/token_start", Element::int64, windows.token_start);
  write_column(writer, group + "/byte_start", Element::int64, windows.byte_start);
  write_column(writer, group + "/byte_end", Element::int64, windows.byte_end);
}

}  // namespace foxscope
