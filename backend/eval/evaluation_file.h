#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/eval/loss/loss_file.h"
#include "backend/file/hdf5/hdf5_dataset.h"
#include "backend/file/hdf5/hdf5_writer.h"
#include "backend/map/statistics/distance_bins.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Number format of a dataset of such numbers.
template <typename T>
inline constexpr Element kElementOf = Element::float64;
template <>
inline constexpr Element kElementOf<float> = Element::float32;
template <>
inline constexpr Element kElementOf<std::int32_t> = Element::int32;
template <>
inline constexpr Element kElementOf<std::int64_t> = Element::int64;

/// A file of losses, of heads or of a needle test while it is read: what these have in common.
class EvaluationFile {
 public:
  /// The contents of such files, for messages.
  struct Kind {
    std::vector<std::string> contents;  ///< what @content may be
    const char* holds;                  ///< "losses of windows"
    const char* made_by;                ///< "`foxscope eval loss`"
  };
  /// @throws Error naming the file and the remedy: not HDF5, another kind of file, newer schema, damaged
  EvaluationFile(const std::filesystem::path& path, const Kind& kind);

  [[nodiscard]] const Hdf5Object& root() const { return root_; }
  [[nodiscard]] const std::string& content() const { return content_; }
  Hdf5Heap& heap() { return heap_; }

  /// Program, command line and time into an evaluation's fields of these names.
  template <typename Evaluation>
  void read_origin(Evaluation& evaluation) {
    evaluation.program_version = text(root_, "program_version");
    evaluation.command_line = text(root_, "command_line");
    evaluation.created = text(root_, "created");
  }
  EvaluatedCorpus read_corpus();
  /// Groups of the models in the order of the command line, at least one.
  std::vector<Hdf5Object> models();
  /// The facts of a model, by the name of its group; numbers that the file does not have are 0.
  TraceInfo read_info(const Hdf5Object& model);
  /// Documents, places and numbers of tokens of the windows; without length and token_id.
  /// @param documents  of the corpus; 0: each window is its own
  EvaluatedWindows read_windows(const Hdf5Object& group, std::size_t documents);

  /// @returns empty if it is not there
  std::string text(const Hdf5Object& object, const std::string& name);
  /// An attribute that is not negative; 0 if it is not there.
  std::int64_t count(const Hdf5Object& object, const std::string& name) const;

  template <typename T>
  std::vector<T> values(const Hdf5Object& group, const std::string& name, const std::vector<std::uint64_t>& dims) {
    const Hdf5Dataset dataset(group.child(name));
    dataset.require(kElementOf<T>, dims);
    return values<T>(dataset);
  }
  /// Numbers of a dataset whose type was required before.
  /// @throws Error also when all that was read is too much for a file of this size
  template <typename T>
  std::vector<T> values(const Hdf5Dataset& dataset) {
    account_.take_values(dataset);
    return dataset.values<T>();
  }

  /// @throws Error "FILE: damaged: OBJECT WHAT"
  [[noreturn]] void fail(const std::string& object, const std::string& what) const {
    file_->fail_damaged(object, what);
  }
  [[noreturn]] void fail(const Hdf5Object& object, const std::string& what) const { fail(object.path(), what); }

 private:
  void check_content(const Kind& kind);

  std::shared_ptr<const Hdf5File> file_;
  Hdf5Heap heap_;
  Hdf5Account account_;
  Hdf5Object root_;
  std::string content_;
};

/// A file of losses, of heads, of a needle test or of a sweep while it is written; what these have in common. All
/// methods throw Error as AtomicFile and Hdf5Writer do.
class EvaluationWriter {
 public:
  /// Writes the attributes of the root.
  /// @param content  @content
  /// @param first    group that a viewer shows first
  EvaluationWriter(const std::filesystem::path& path, const Provenance& provenance, Overwrite overwrite,
                   const char* content, const std::string& first);
  /// Ends the file: no other call may follow.
  void finish();

  [[nodiscard]] Hdf5Writer& hdf5() { return writer_; }
  template <typename Value>
  void attribute(const std::string& path, const char* name, const Value& value) {
    writer_.attribute(path, name, value);
  }

  /// Writes the facts of the corpus that every file of windows has: attributes of the root, and the documents' names
  /// and hashes under /documents where there are any.
  void corpus(const EvaluatedCorpus& corpus);
  /// A model's place on the command line and what is known of it, as attributes of its group.
  void info(const std::string& group, std::size_t order, const TraceInfo& info);
  /// The columns that EvaluationFile::read_windows reads; what is empty is left out.
  void windows(const std::string& group, const EvaluatedWindows& windows);

  /// A dataset [n]; none where there are no values.
  template <typename T>
  void column(const std::string& path, const std::vector<T>& values) {
    if (!values.empty()) writer_.array(path, kElementOf<T>, {values.size()}, values.data(), nullptr);
  }
  /// The same, which gives the entries along the axis of its name their places.
  template <typename T>
  void scale(const std::string& path, const std::vector<T>& values) {
    column(path, values);
    writer_.make_scale(path, path.c_str() + path.rfind('/') + 1);
  }
  /// Writes distance and distance_end of bins, tokens.
  void distances(const std::string& group, const std::vector<DistanceBin>& bins);
  /// first, first + 1, ... as a scale.
  void index(const std::string& path, std::int64_t size, std::int64_t first = 0);
  /// A dataset of any axes in one piece: small, or of numbers that do not compress.
  template <typename T>
  void piece(const std::string& path, const std::vector<std::uint64_t>& dims, std::span<const T> values) {
    write_at(writer_.reserve(path, kElementOf<T>, dims), values);
  }
  /// @param offset  of a dataset that was reserved
  template <typename T>
  void write_at(std::uint64_t offset, std::span<const T> values) {
    const int error = file_.try_write_at(offset, values.data(), values.size_bytes());
    if (error != 0) file_.throw_write_error(error);
  }
  /// Says what a dataset is in, and which scales beside it belong to its axes.
  /// @param units  empty: of no unit
  /// @param axes   names of its scales; ".": none
  void describe(const std::string& path, const std::string& units, const std::vector<std::string>& axes);
  /// Makes a group what viewers plot: its signal against its axes.
  void plottable(const std::string& group, const std::string& signal, const std::vector<std::string>& axes);

 private:
  AtomicFile file_;
  Hdf5Writer writer_;
};

}  // namespace foxscope
