#include "backend/file/provenance.h"

#include <chrono>
#include <map>
#include <optional>

#include <fmt/chrono.h>

#include "backend/file/hdf5/hdf5_heap.h"
#include "backend/file/hdf5/hdf5_object.h"
#include "backend/file/hdf5/hdf5_writer.h"
#include "backend/text/tokenizer.h"

namespace foxscope {

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::string read_content(const std::filesystem::path& path) {
  const std::shared_ptr<const Hdf5File> file = Hdf5File::open(path);
  Hdf5Heap heap(file);
  return Hdf5Object(file, file->root(), "/").text_attribute("content", heap).value_or("");
}

std::string content_words(const std::string& content) {
  static const std::map<std::string, const char*> kWords = {
      {"eval_loss", "losses of windows (`foxscope eval loss`)"},
      {"eval_heads", "statistics of heads over a corpus (`foxscope eval heads`)"},
      {"heads", "statistics of heads (`foxscope heads -o`)"},
      {"eval_atlas", "an atlas of heads (`foxscope eval atlas`)"},
      {"eval_needle", "a needle test (`foxscope eval needle`)"},
      {"eval_sweep", "a sweep over heads (`foxscope eval sweep`)"},
      {"eval_surprisal", "surprisals of a text (`foxscope eval surprisal`)"}};
  const auto found = kWords.find(content);
  return found == kWords.end() ? fmt::format("an evaluation ({})", content) : found->second;
}

FileOrigin read_origin(const std::filesystem::path& path) {
  const std::shared_ptr<const Hdf5File> file = Hdf5File::open(path);
  Hdf5Heap heap(file);
  const Hdf5Object root(file, file->root(), "/");
  const auto text = [&](const char* name) {
    std::string value = root.text_attribute(name, heap).value_or("");
    if (find_invalid_utf8(value)) file->fail_damaged(std::string("/@") + name, "is not UTF-8");
    return value;
  };
  const auto names = [&](const char* group) {
    const std::optional<Hdf5Object> found = root.find(group);
    return found ? found->names() : std::vector<std::string>();
  };
  FileOrigin origin{text("content"), text("program_version"), text("command_line"),
                    text("created"), names("models"),         names("maps")};
  if (const std::string model = text("model"); origin.models.empty() && !model.empty()) origin.models = {model};
  return origin;
}

void write_root(Hdf5Writer& writer, const Provenance& provenance, std::int64_t schema) {
  writer.attribute("/", "foxscope_schema", schema);
  writer.attribute("/", "program", "foxscope");
  writer.attribute("/", "program_version", FOXSCOPE_VERSION);
  writer.attribute("/", "command_line", provenance.command_line);
  writer.attribute("/", "created", provenance.created.empty() ? utc_now() : provenance.created);
  writer.attribute("/", "NX_class", "NXroot");
}

}  // namespace foxscope
