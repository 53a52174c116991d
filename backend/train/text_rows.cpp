#include "backend/train/text_rows.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/base/plural.h"
#include "backend/base/regular_file.h"
#include "backend/base/sha256.h"
#include "backend/data/corpus.h"
#include "backend/model/weights/safetensors.h"
#include "backend/text/file_bytes.h"
#include "backend/text/json_reading.h"
#include "backend/text/tokenizer.h"
#include "backend/train/token_array.h"
#include "kernels/executor.h"

namespace foxscope {
namespace {

namespace fs = std::filesystem;

// The number is raised when a text has other tokens than before, or the file another form.
constexpr const char* kCacheFormat = "foxscope tokens 1";
constexpr const char* kTokensTensor = "tokens";
constexpr const char* kOriginTensor = "origin";
constexpr std::size_t kKeyDigits = 64;    // of a cache file's name
constexpr std::size_t kHeadBytes = 1024;  // of a cache file, before its tokens
constexpr std::size_t kReadBytes = std::size_t{1} << 20;
constexpr std::size_t kThreadTextBytes = std::size_t{8} << 20;
constexpr std::size_t kMostTextBytes = std::size_t{128} << 20;
constexpr const char* kReadStage = "reading the corpus";
constexpr const char* kTokenStage = "making tokens";

/// SHA-256 over the kind, size and content of each file of a corpus. Nothing if the job was stopped.
std::optional<std::string> hash_corpus(const fs::path& corpus, const Job& job) {
  const CorpusReader reader(corpus);
  Sha256 hash;
  std::vector<std::byte> bytes(kReadBytes);
  std::int64_t done = 0;
  for (const fs::path& file : reader.files()) {
    const RegularFile opened(file, "corpus");
    const std::string head = fmt::format("{} {}\n", file.extension().string(), opened.size());
    hash.update(std::as_bytes(std::span(head)));
    while (true) {
      if (job.stopped()) return std::nullopt;
      const ssize_t got = ::read(opened.descriptor(), bytes.data(), bytes.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        throw Error(fmt::format("{}: cannot read the corpus: {}; check the file and its disk", file.string(),
                                std::generic_category().message(errno)));
      }
      if (got == 0) break;
      hash.update(std::span(bytes).first(static_cast<std::size_t>(got)));
      done += got;
      job.tell({done, std::max(done, reader.total_bytes()), "bytes", kReadStage});
    }
  }
  return hash.finish();
}

std::string hash_tokenizer(const fs::path& folder) {
  std::string all;
  for (const char* file : kTokenizerFiles) {
    std::error_code failed;
    if (!fs::exists(folder / file, failed)) continue;
    const std::string bytes = read_file_bytes(folder / file, "tokenizer", largest_vocabulary_file);
    all += fmt::format("{} {}\n", file, sha256(bytes));
  }
  return sha256(all);
}

[[noreturn]] void throw_unfit(const fs::path& corpus, const TextOptions& options, std::int64_t id,
                              std::int64_t vocabulary) {
  throw Error(
      fmt::format("{}: the tokenizer in {} makes the token {}, outside the model's vocabulary of {} ids: use the "
                  "tokenizer that belongs to the model",
                  corpus.string(), options.tokenizer.string(), id, vocabulary));
}

/// The stream of tokens in a file of the cache.
struct TokenStream {
  IdArray tokens;  ///< [T] int32
  std::string sha256;
  std::int64_t documents = 0;
  std::int64_t largest = -1;  ///< id
};

/// Hashes a stream and finds its largest id. False if the job was stopped.
bool check_tokens(TokenStream& stream, const std::string& expected, const Job& job) {
  Sha256 hash;
  std::vector<std::int32_t> ids;
  for (std::size_t done = 0; done < stream.tokens.bytes.size();) {
    if (job.stopped()) return false;
    const auto bytes = stream.tokens.bytes.subspan(done, std::min(kReadBytes, stream.tokens.bytes.size() - done));
    hash.update(bytes);
    ids.resize(bytes.size() / sizeof(std::int32_t));
    take_ids(bytes, IdType::int32, std::int64_t{1} << 31U, ids);
    stream.largest = std::max<std::int64_t>(stream.largest, *std::max_element(ids.begin(), ids.end()));
    done += bytes.size();
  }
  stream.sha256 = hash.finish();
  if (stream.sha256 != expected) throw Error("the tokens are not those that were written");
  return true;
}

/// Opens a file of the cache.
/// @returns nothing if the job was stopped
/// @throws Error for a file that is damaged, or holds something else
std::optional<TokenStream> open_stream(const fs::path& file, const std::string& key, const Job& job) {
  const auto mapped = std::make_shared<const SafetensorsFile>(file);
  const auto tensor = [&](const char* name, TensorDType dtype) {
    const auto found = mapped->tensors().find(name);
    if (found == mapped->tensors().end() || found->second.dtype != dtype || found->second.shape.size() != 1) {
      throw Error("it is not a file of the cache");
    }
    return found->second;
  };
  const TensorView view = tensor(kOriginTensor, TensorDType::u8);
  const auto origin = parse_json({reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()}, file.string());
  const auto* documents = member(origin, "documents");
  if (text_member(origin, "key", file.string()) != key || documents == nullptr || !documents->is_number_integer()) {
    throw Error("it is not of this corpus and tokenizer");
  }
  TokenStream stream;
  const TensorView tokens = tensor(kTokensTensor, TensorDType::i32);
  stream.tokens = {file.string(), IdType::int32, tokens.shape, tokens.bytes, mapped};
  stream.documents = documents->get<std::int64_t>();
  if (!check_tokens(stream, text_member(origin, "tokens_sha256", file.string()), job)) return std::nullopt;
  return stream;
}

/// Writes a file of the cache: a .safetensors file, whose header comes last because it says how many tokens there are.
class StreamWriter {
 public:
  StreamWriter(const fs::path& file, std::int32_t bos) : file_(file, true), bos_(bos) {
    fchmod(file_.descriptor(), S_IRUSR | S_IWUSR);
  }

  /// Appends a document, behind BOS where it is not the first.
  void add(const std::vector<std::int32_t>& ids) {
    if (ids.empty()) return;
    if (documents_++ > 0) write(std::as_bytes(std::span(&bos_, 1)));
    write(std::as_bytes(std::span(ids)));
  }

  void finish(const std::string& key) {
    const std::string origin =
        nlohmann::json{{"key", key}, {"tokens_sha256", hash_.finish()}, {"documents", documents_}}.dump();
    write_at(bytes_, std::as_bytes(std::span(origin)));
    const nlohmann::json header = {
        {"__metadata__", {{"format", kCacheFormat}}},
        {kTokensTensor,
         {{"dtype", "I32"}, {"shape", {bytes_ / sizeof(std::int32_t)}}, {"data_offsets", {std::uint64_t{0}, bytes_}}}},
        {kOriginTensor,
         {{"dtype", "U8"}, {"shape", {origin.size()}}, {"data_offsets", {bytes_, bytes_ + origin.size()}}}}};
    const std::uint64_t size = kHeadBytes - sizeof(std::uint64_t);
    std::string head(reinterpret_cast<const char*>(&size), sizeof(size));
    head += header.dump();
    head.resize(kHeadBytes, ' ');
    if (const int error = file_.try_write_at(0, head.data(), head.size()); error != 0) file_.throw_write_error(error);
    file_.commit();
  }

 private:
  void write(std::span<const std::byte> bytes) {
    hash_.update(bytes);
    write_at(bytes_, bytes);
    bytes_ += bytes.size();
  }
  /// @param offset  among the tensors
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    const int error = file_.try_write_at(kHeadBytes + offset, bytes.data(), bytes.size());
    if (error != 0) file_.throw_write_error(error);
  }

  AtomicFile file_;
  std::int32_t bos_;
  Sha256 hash_;
  std::uint64_t bytes_ = 0;  ///< of all tokens
  std::int64_t documents_ = 0;
};

/// Texts of the next documents, of so many bytes and the rest of a document; none at the end.
std::vector<std::string> read_texts(CorpusReader& reader, std::size_t bytes) {
  std::vector<std::string> texts;
  for (std::size_t size = 0; size < bytes;) {
    auto document = reader.next();
    if (!document) break;
    size += document->text.size() + 1;
    texts.push_back(std::move(document->text));
  }
  return texts;
}

/// Cuts texts into tokens, the longest first, while `beside` runs on one of the threads. Texts are freed.
/// @returns the ids of each; nothing if the job was stopped
/// @throws what `beside` or the tokenizer threw
std::optional<std::vector<std::vector<std::int32_t>>> encode_all(std::vector<std::string>& texts,
                                                                 const Tokenizer& tokenizer,
                                                                 const std::function<void()>& beside,
                                                                 kernels::Executor& executor, const Job& job) {
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return texts[a].size() > texts[b].size(); });
  std::vector<std::vector<std::int32_t>> ids(texts.size());
  std::vector<std::exception_ptr> errors(texts.size() + 1);
  executor.run(static_cast<std::int64_t>(texts.size()) + 1, [&](std::int64_t task, int) {
    const auto number = static_cast<std::size_t>(task);
    try {
      if (job.stopped()) return;
      if (number == 0) return beside();
      const std::size_t text = order[number - 1];
      ids[text] = tokenizer.encode(texts[text]).id;
      texts[text] = {};
    } catch (...) {
      errors[number] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  if (job.stopped()) return std::nullopt;
  return ids;
}

/// Cuts a corpus into tokens and writes a file of the cache. False if the job was stopped.
bool make_stream(const fs::path& corpus, const fs::path& file, const std::string& key, std::int64_t vocabulary,
                 const TextOptions& options, const Job& job) {
  const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
  std::optional<kernels::ThreadPool> own;
  if (job.executor == nullptr) own.emplace();
  kernels::Executor& executor = own ? *own : *job.executor;
  const std::size_t bytes =
      std::min(kMostTextBytes, (static_cast<std::size_t>(executor.threads()) + 1) * kThreadTextBytes);

  StreamWriter writer(file, options.bos);
  CorpusReader reader(corpus);
  std::vector<std::string> texts = read_texts(reader, bytes);
  while (!texts.empty()) {
    std::vector<std::string> next;
    const auto ids = encode_all(
        texts, tokenizer, [&] { next = read_texts(reader, bytes); }, executor, job);
    if (!ids) return false;
    for (const std::vector<std::int32_t>& document : *ids) {
      const auto largest = std::max_element(document.begin(), document.end());
      if (largest != document.end() && *largest >= vocabulary) throw_unfit(corpus, options, *largest, vocabulary);
      writer.add(document);
    }
    job.tell({reader.bytes_done(), reader.total_bytes(), "bytes", kTokenStage});
    if (job.stopped()) return false;
    texts = std::move(next);
  }
  writer.finish(key);
  return true;
}

void make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    throw Error(
        fmt::format("{}: cannot make the folder for tokens: {}: set XDG_CACHE_HOME to a folder that you may "
                    "write to",
                    folder.string(), failed.message()));
  }
  fs::permissions(folder, fs::perms::owner_all, failed);  // somebody else's stays as it is
}

/// A file of the cache.
struct CachedFile {
  fs::path path;
  std::uint64_t bytes = 0;
  fs::file_time_type used;  ///< last
};

/// The files of a cache, the one whose last use is longest ago first.
std::vector<CachedFile> cached_files(const fs::path& folder) {
  std::vector<CachedFile> files;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().stem().string();
    const bool own = entry.path().extension() == ".safetensors" && name.size() == kKeyDigits &&
                     name.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!own || !entry.is_regular_file(failed)) continue;
    std::error_code gone;
    CachedFile file{entry.path(), entry.file_size(gone), {}};
    if (!gone) file.used = entry.last_write_time(gone);
    if (!gone) files.push_back(std::move(file));
  }
  std::ranges::sort(files, {}, &CachedFile::used);
  return files;
}

/// Notes that a file is used now, and removes others until the cache is within its bound. A file that another process
/// has open stays readable for it.
void settle_cache(const fs::path& used, const TextOptions& options) {
  std::error_code failed;
  fs::last_write_time(used, fs::file_time_type::clock::now(), failed);
  const std::vector<CachedFile> files = cached_files(options.cache_folder);
  std::uint64_t bytes = 0;
  for (const CachedFile& file : files) {
    fs::permissions(file.path, fs::perms::owner_read | fs::perms::owner_write, failed);
    bytes += file.bytes;
  }
  for (const CachedFile& file : files) {
    if (bytes <= options.cache_bytes) return;
    if (file.path == used || !fs::remove(file.path, failed)) continue;
    bytes -= file.bytes;
    log_line(LogCategory::file, [&] {
      return fmt::format("{}: removed: the cache holds at most {} MiB", file.path.string(), options.cache_bytes >> 20);
    });
  }
}

/// The stream of a corpus, from the cache or into it. Nothing if the job was stopped.
/// @param file  that has it
std::optional<TokenStream> cached_stream(const fs::path& corpus, std::int64_t vocabulary, const TextOptions& options,
                                         const Job& job, fs::path& file) {
  const auto corpus_hash = hash_corpus(corpus, job);
  if (!corpus_hash) return std::nullopt;
  const std::string key = sha256(
      fmt::format("{}\n{}\n{}\n{}\n", kCacheFormat, *corpus_hash, hash_tokenizer(options.tokenizer), options.bos));
  file = options.cache_folder / (key + ".safetensors");
  std::error_code failed;
  if (fs::exists(file, failed)) {
    try {
      return open_stream(file, key, job);
    } catch (const Error& error) {
      log_line(LogCategory::file, [&] { return fmt::format("{}: made anew: {}", file.string(), error.what()); });
    }
  }
  make_folder(options.cache_folder);
  if (!make_stream(corpus, file, key, vocabulary, options, job)) return std::nullopt;
  const auto hash_again = hash_corpus(corpus, job);
  if (hash_again && *hash_again != *corpus_hash) {
    fs::remove(file, failed);
    throw Error(fmt::format("{}: the corpus changed while it was read: run again", corpus.string()));
  }
  return hash_again ? open_stream(file, key, job) : std::nullopt;
}

}  // namespace

fs::path token_cache_folder() {
  const auto environment = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  };
  const std::string cache = environment("XDG_CACHE_HOME");
  const std::string home = environment("HOME");
  const fs::path base = !cache.empty() ? fs::path(cache) : fs::path(home.empty() ? "." : home) / ".cache";
  return base / "foxscope" / "tokens";
}

std::unique_ptr<TokenRows> open_text_rows(const fs::path& corpus, std::int64_t length, std::int64_t vocabulary,
                                          const TextOptions& options, const Job& job) {
  if (options.bos < 0 || options.bos >= vocabulary) {
    throw UsageError(fmt::format("BOS {}: the model's vocabulary has ids 0 to {}: correct bos_token_id", options.bos,
                                 vocabulary - 1));
  }
  fs::path file;
  auto stream = cached_stream(corpus, vocabulary, options, job, file);
  if (!stream) return nullptr;
  settle_cache(file, options);
  if (stream->largest >= vocabulary) throw_unfit(corpus, options, stream->largest, vocabulary);
  stream->tokens.name = corpus.string();
  if (stream->tokens.shape[0] == 0) {
    throw Error(fmt::format("{}: holds no text: name a file or a folder that holds some", corpus.string()));
  }
  std::string description =
      fmt::format("{}: {} {}, {} {}", corpus.string(), stream->documents, plural(stream->documents, "document"),
                  stream->tokens.shape[0], plural(stream->tokens.shape[0], "token"));
  log_line(LogCategory::file, [&] { return fmt::format("{} in {}", description, options.cache_folder.string()); });
  return rows_of(std::move(stream->tokens), length, vocabulary, std::move(description), stream->sha256);
}

}  // namespace foxscope
