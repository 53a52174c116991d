#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "backend/eval/evaluation_file.h"
#include "backend/eval/loss/loss_file.h"

namespace foxscope {
namespace {

class LossFileReader {
 public:
  explicit LossFileReader(const std::filesystem::path& path)
      : file_(path, {{kLossContent}, "losses of windows", "`foxscope eval loss`"}) {}

  LossEvaluation read() {
    LossEvaluation result;
    file_.read_origin(result);
    result.corpus = file_.read_corpus();
    documents_ = result.corpus.documents.size();
    for (const Hdf5Object& group : file_.models()) {
      EvaluatedModel model = read_model(group);
      if (!result.models.empty() && model.windows->document != result.models.front().windows->document) {
        file_.fail(group, "has other windows than the first model");
      }
      result.models.push_back(std::move(model));
    }
    return result;
  }

 private:
  std::shared_ptr<const EvaluatedWindows> read_windows(const Hdf5Object& model,
                                                       const std::vector<std::uint64_t>& dims) {
    const Hdf5Object group = model.child("windows");
    std::shared_ptr<const EvaluatedWindows>& known = windows_[group.address()];
    if (known) return known;
    auto windows = std::make_shared<EvaluatedWindows>(file_.read_windows(group, documents_));
    windows->length = static_cast<std::int64_t>(dims[1]);
    if (group.find("token_id")) {
      windows->token_id = file_.values<std::int32_t>(group, "token_id", Element::int32, dims);
    }
    check_windows(group, *windows);
    known = windows;
    return known;
  }

  void check_windows(const Hdf5Object& group, const EvaluatedWindows& windows) const {
    double bytes = 0;
    std::int64_t most = 0;
    for (std::size_t n = 0; n < windows.document.size(); ++n) {
      most = std::max(most, windows.tokens[n]);
      if (!windows.byte_start.empty()) bytes += static_cast<double>(windows.byte_end[n] - windows.byte_start[n]);
      if (windows.tokens[n] > windows.length) {
        file_.fail(group, fmt::format("window {} has more tokens than losses", n));
      }
    }
    if (most == 0) file_.fail(group, "holds no tokens");
    if (!windows.byte_start.empty() && bytes == 0) file_.fail(group, "holds no bytes");
  }

  /// Every loss of a window is a number, and nothing is behind its end.
  void check_losses(const Hdf5Object& object, const LossTable& losses) const {
    for (std::int64_t window = 0; window < losses.windows; ++window) {
      const auto row = losses.row(window);
      const std::int64_t tokens = losses.tokens[static_cast<std::size_t>(window)];
      for (std::int64_t p = 0; p < losses.length; ++p) {
        const float loss = row[static_cast<std::size_t>(p)];
        if (p < tokens ? std::isfinite(loss) : std::isnan(loss)) continue;
        file_.fail(object, fmt::format("the loss of window {} at position {} is {}", window, p, loss));
      }
    }
  }

  EvaluatedModel read_model(const Hdf5Object& group) {
    EvaluatedModel model;
    model.info = file_.read_info(group);
    model.averaged = group.integer_attribute("averaged").value_or(0) != 0;
    const Hdf5Object object = group.child("loss").child("per_token_loss");
    const Hdf5Dataset dataset(object);
    if (dataset.dims().size() != 2 || dataset.count() == 0) file_.fail(object, "holds no losses");
    dataset.require(Element::float32, dataset.dims());
    model.windows = read_windows(group, dataset.dims());
    if (model.windows->length != static_cast<std::int64_t>(dataset.dims()[1]) ||
        model.windows->document.size() != dataset.dims()[0]) {
      file_.fail(object, "has not the shape of the model's windows");
    }
    model.losses = {static_cast<std::int64_t>(dataset.dims()[0]), model.windows->length, file_.values<float>(dataset),
                    model.windows->tokens};
    check_losses(object, model.losses);
    return model;
  }

  EvaluationFile file_;
  std::size_t documents_ = 0;
  /// By the address of their group: models with equal tokens share one.
  std::map<std::uint64_t, std::shared_ptr<const EvaluatedWindows>> windows_;
};

}  // namespace

LossEvaluation LossEvaluation::open(const std::filesystem::path& path) { return LossFileReader(path).read(); }

}  // namespace foxscope
