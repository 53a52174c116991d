#include "backend/eval/atlas/atlas_strings.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "backend/base/index.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

std::string hexadecimal(const std::string& bytes) {
  std::string digits;
  for (const char byte : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

/// Bytes of two digits each; nothing where there is something else.
std::string bytes_of(const std::string& digits) {
  if (digits.size() % 2 != 0) return {};
  std::string bytes;
  for (std::size_t n = 0; n < digits.size(); n += 2) {
    unsigned byte = 0;
    const char* const end = digits.data() + n + 2;
    if (std::from_chars(digits.data() + n, end, byte, 16).ptr != end) return {};
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

/// NUL ends a string of the file.
std::vector<std::string> without_nul(std::vector<std::string> strings) {
  for (std::string& one : strings) {
    for (std::size_t at = one.find('\0'); at != std::string::npos; at = one.find('\0', at)) one.replace(at, 1, "\\0");
  }
  return strings;
}

}  // namespace

void write_atlas_strings(EvaluationWriter& file, const std::string& group, const std::vector<std::int32_t>& ids,
                         const std::vector<std::string>& bytes) {
  if (bytes.empty()) return;
  file.hdf5().strings(group + "/string", without_nul(bytes));
  std::vector<std::int32_t> part_ids;
  std::vector<std::string> parts;
  for (std::size_t n = 0; n < ids.size(); ++n) {
    if (!find_invalid_utf8(bytes[n])) continue;
    part_ids.push_back(ids[n]);
    parts.push_back(hexadecimal(bytes[n]));
  }
  if (parts.empty()) return;
  file.column(group + "/part_id", part_ids);
  file.hdf5().strings(group + "/part_bytes", parts);
}

std::vector<std::string> read_atlas_strings(EvaluationFile& file, const Hdf5Object& tokens,
                                            const std::vector<std::int32_t>& ids) {
  const auto object = tokens.find("string");
  if (!object) return {};
  std::vector<std::string> strings = Hdf5Dataset(*object).texts(file.heap());
  if (strings.size() != ids.size()) file.fail(tokens, "does not have one string for each token");
  if (!tokens.find("part_id")) return strings;
  const std::vector<std::string> parts = Hdf5Dataset(tokens.child("part_bytes")).texts(file.heap());
  const auto part_ids = file.values<std::int32_t>(tokens, "part_id", {parts.size()});
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const auto found = std::ranges::lower_bound(ids, part_ids[n]);
    std::string bytes = bytes_of(parts[n]);
    if (found == ids.end() || *found != part_ids[n] || bytes.empty()) {
      file.fail(tokens, fmt::format("names token {} with the bytes \"{}\"", part_ids[n], parts[n]));
    }
    strings[index_of(found - ids.begin())] = std::move(bytes);
  }
  return strings;
}

}  // namespace foxscope
