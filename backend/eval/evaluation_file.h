#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/base/error.h"
#include "backend/eval/loss/loss_file.h"
#include "backend/file/hdf5/hdf5_dataset.h"
#include "backend/file/hdf5/hdf5_writer.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// A file of losses, of heads or of a needle test while it is read: what these have in common.
class EvaluationFile {
 public:
  /// What such files hold, for messages.
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
  /// What is known of a model, by the name of its group; numbers that the file does not have are 0.
  TraceInfo read_info(const Hdf5Object& model);
  /// Documents, places and numbers of tokens of the windows; without length and token_id.
  /// @param documents  of the corpus; 0: each window is its own
  EvaluatedWindows read_windows(const Hdf5Object& group, std::size_t documents);

  /// @returns empty if it is not there
  std::string text(const Hdf5Object& object, const std::string& name);
  /// An attribute that is not negative; 0 if it is not there.
  std::int64_t count(const Hdf5Object& object, const std::string& name) const;

  template <typename T>
  std::vector<T> values(const Hdf5Object& group, const char* name, Element element,
                        const std::vector<std::uint64_t>& dims) {
    const Hdf5Dataset dataset(group.child(name));
    dataset.require(element, dims);
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

/// Writes what every file of windows of a corpus says of them: attributes of the root, and the documents' names and
/// hashes under /documents where there are any.
void write_corpus(Hdf5Writer& writer, const EvaluatedCorpus& corpus);

/// Writes a model's place on the command line and what is known of it, as attributes of its group.
void write_info(Hdf5Writer& writer, const std::string& group, std::size_t order, const TraceInfo& info);

/// Writes the columns that EvaluationFile::read_windows reads; what is empty is left out.
void write_windows(Hdf5Writer& writer, const std::string& group, const EvaluatedWindows& windows);

}  // namespace foxscope
