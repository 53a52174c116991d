#include "backend/eval/corpus_write.h"

#include <string>
#include <vector>

namespace foxscope {
namespace {

constexpr const char* kEstimator =
    "cluster-robust over windows by document: se^2 = G/(G-1) sum_g (sum of residuals in g)^2 / M^2; NaN with G = 1";

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

}  // namespace foxscope
