#include "backend/map/maps_elsewhere.h"

#include <utility>

#include "backend/trace/query_key_store.h"
#include "backend/trace/row_source.h"

namespace foxscope {
namespace {

/// The arrays of a run that lies elsewhere, which is not asked for anything else.
class ArraysOfRun final : public RowSource {
 public:
  explicit ArraysOfRun(std::shared_ptr<const Trace> trace)
      : trace_(std::move(trace)), rows_(dynamic_cast<const RowSource*>(&trace_->source())) {}

  [[nodiscard]] bool has(TraceArray array, int index) const override { return source().has(array, index); }
  [[nodiscard]] bool is_zero(TraceArray array, int index) const override { return source().is_zero(array, index); }
  [[nodiscard]] std::shared_ptr<const ArrayValues> read(TraceArray array, int index) const override {
    return source().read(array, index);
  }
  [[nodiscard]] bool has_rows(TraceArray array, int index) const override {
    return rows_ != nullptr && rows_->has_rows(array, index);
  }
  [[nodiscard]] bool waits() const override { return true; }
  [[nodiscard]] const ArrayValues& row(TraceArray array, int index, std::int64_t row) const override {
    return rows_->row(array, index, row);
  }

 private:
  [[nodiscard]] const TraceSource& source() const { return trace_->source(); }

  std::shared_ptr<const Trace> trace_;
  const RowSource* rows_;
};

}  // namespace

const MapsElsewhere* elsewhere(const Trace& trace) { return dynamic_cast<const MapsElsewhere*>(&trace.source()); }

const MapsElsewhere* elsewhere(const HeadOf& head, const std::optional<HeadOf>& minus) {
  const MapsElsewhere* const there = elsewhere(*head.trace);
  return there != nullptr && (!minus || there->holds(*minus->trace)) ? there : nullptr;
}

std::shared_ptr<const Trace> computed_here(const std::shared_ptr<const Trace>& trace) {
  if (elsewhere(*trace) == nullptr) return trace;
  std::shared_ptr<const QueryKeyStore> store(trace, trace->query_key());
  return std::make_shared<const Trace>(trace->info(), trace->text(), trace->tokens(),
                                       std::make_unique<const ArraysOfRun>(trace), std::move(store));
}

}  // namespace foxscope
