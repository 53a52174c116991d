#include "backend/model/weights/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/text/json_reading.h"

namespace foxscope {
namespace {

using nlohmann::json;

constexpr std::size_t kPrefixBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kMaxDimensions = 16;
constexpr const char* kRemedy = "the file is damaged or was cut short: copy or download it again";

struct DTypeName {
  TensorDType dtype;
  const char* name;
  std::size_t size;
};
constexpr std::array<DTypeName, 8> kDTypes = {{{TensorDType::f64, "F64", 8},
                                               {TensorDType::f32, "F32", 4},
                                               {TensorDType::f16, "F16", 2},
                                               {TensorDType::bf16, "BF16", 2},
                                               {TensorDType::i64, "I64", 8},
                                               {TensorDType::i32, "I32", 4},
                                               {TensorDType::u8, "U8", 1},
                                               {TensorDType::boolean, "BOOL", 1}}};

[[noreturn]] void fail(std::string_view file, const std::string& what) {
  throw Error(fmt::format("{}: {}; {}", file, what, kRemedy));
}

/// Tensor names come from the file: shortened, without line ends and control characters.
std::string printable(std::string_view name) {
  std::string result;
  for (const char c : name.substr(0, 80)) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return name.size() > 80 ? result + "..." : result;
}

json parse_header(std::string_view text, std::string_view file) {
  std::set<std::string> names;
  std::string repeated;
  const auto remember_names = [&](int depth, json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::key && depth == 1) {
      if (!names.insert(value.get<std::string>()).second) repeated = value.get<std::string>();
    }
    return true;
  };
  check_json_bounds(text, fmt::format("{}: the header", file));
  json header;
  try {
    header = json::parse(text, remember_names);
  } catch (const json::exception&) {
    fail(file, "the header is not JSON");
  }
  if (!header.is_object()) fail(file, "the header is not a JSON object");
  if (!repeated.empty()) fail(file, fmt::format("tensor {} is listed twice", printable(repeated)));
  return header;
}

/// An unsigned number that fits into an int64.
std::int64_t whole_number(const json& value, std::string_view file, const std::string& tensor, const char* what) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    fail(file, fmt::format("tensor {}: {} is not a whole number", tensor, what));
  }
  return value.get<std::int64_t>();
}

struct Placed {
  std::int64_t begin;
  std::int64_t end;
  std::string tensor;
};

std::int64_t element_count(const std::vector<std::int64_t>& shape, std::int64_t limit, std::string_view file,
                           const std::string& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count) || count > limit) {
      fail(file, fmt::format("tensor {}: shape {} needs more bytes than the file has", tensor, shape_text(shape)));
    }
  }
  return count;
}

TensorView read_entry(const json& entry, std::span<const std::byte> data, std::string_view file,
                      const std::string& tensor, Placed& placed) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets")) {
    fail(file, fmt::format("tensor {}: dtype, shape or data_offsets is missing", tensor));
  }
  TensorView view;
  const json& dtype = entry["dtype"];
  const auto* const known = std::find_if(kDTypes.begin(), kDTypes.end(), [&dtype](const DTypeName& candidate) {
    return dtype.is_string() && dtype.get_ref<const std::string&>() == candidate.name;
  });
  if (known == kDTypes.end()) {
    const std::string spelled =
        dtype.is_string() ? printable(dtype.get_ref<const std::string&>()) : "that is no string";
    throw Error(fmt::format("{}: tensor {}: dtype {} is not read; store it as F32, F16, BF16, I64 or I32", file, tensor,
                            spelled));
  }
  view.dtype = known->dtype;
  const json& shape = entry["shape"];
  if (!shape.is_array() || shape.size() > kMaxDimensions) {
    fail(file, fmt::format("tensor {}: shape is not a list of at most {} sizes", tensor, kMaxDimensions));
  }
  for (const json& extent : shape) view.shape.push_back(whole_number(extent, file, tensor, "a size in shape"));
  const json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) {
    fail(file, fmt::format("tensor {}: data_offsets is not a pair of numbers", tensor));
  }
  const std::int64_t begin = whole_number(offsets[0], file, tensor, "a data offset");
  const std::int64_t end = whole_number(offsets[1], file, tensor, "a data offset");
  const auto available = static_cast<std::int64_t>(data.size());
  if (begin > end) fail(file, fmt::format("tensor {}: data_offsets [{}, {}] are reversed", tensor, begin, end));
  if (end > available) {
    fail(file, fmt::format("tensor {}: data_offsets [{}, {}] reach beyond the file's {} bytes of data", tensor, begin,
                           end, available));
  }
  const auto size = static_cast<std::int64_t>(known->size);
  const std::int64_t count = element_count(view.shape, available / size, file, tensor);
  if (count * size != end - begin) {
    fail(file, fmt::format("tensor {}: shape {} of {} takes {} bytes, data_offsets [{}, {}] give {}", tensor,
                           shape_text(view.shape), known->name, count * size, begin, end, end - begin));
  }
  view.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  placed = {begin, end, tensor};
  return view;
}

/// The format wants the tensors to cover the data exactly.
void check_cover(std::vector<Placed>& placed, std::int64_t available, std::string_view file) {
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::int64_t covered = 0;
  const std::string* previous = nullptr;
  for (const Placed& tensor : placed) {
    if (tensor.begin < covered) {
      fail(file, fmt::format("tensors {} and {} overlap", *previous, tensor.tensor));
    }
    if (tensor.begin > covered) {
      fail(file, fmt::format("bytes {} to {} of the data, before tensor {}, belong to no tensor", covered, tensor.begin,
                             tensor.tensor));
    }
    covered = tensor.end;
    previous = &tensor.tensor;
  }
  if (covered != available) {
    fail(file, fmt::format("the last {} bytes of the data belong to no tensor", available - covered));
  }
}

}  // namespace

const char* to_string(TensorDType dtype) { return kDTypes[index_of(dtype)].name; }

bool is_floating(TensorDType dtype) {
  return dtype == TensorDType::f32 || dtype == TensorDType::f16 || dtype == TensorDType::bf16;
}

std::size_t size_of(TensorDType dtype) { return kDTypes[index_of(dtype)].size; }

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::int64_t TensorView::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::map<std::string, TensorView> parse_safetensors(std::span<const std::byte> file, std::string_view name) {
  if (file.size() < kPrefixBytes) {
    fail(name, fmt::format("{} bytes are too few for a safetensors file", file.size()));
  }
  std::uint64_t header_bytes = 0;
  for (std::size_t n = 0; n < kPrefixBytes; ++n) {
    header_bytes |= std::to_integer<std::uint64_t>(file[n]) << (8 * n);
  }
  if (header_bytes > kMaxHeaderBytes) {
    fail(name, fmt::format("a header of {} bytes is announced, 100 MB is the most", header_bytes));
  }
  if (header_bytes > file.size() - kPrefixBytes) {
    fail(name, fmt::format("a header of {} bytes is announced, the file has {}", header_bytes, file.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kPrefixBytes, header_bytes);
  const json header = parse_header(text, name);
  const std::span<const std::byte> data = file.subspan(kPrefixBytes + header_bytes);

  std::map<std::string, TensorView> tensors;
  std::vector<Placed> placed;
  for (const auto& [tensor, entry] : header.items()) {
    if (tensor == "__metadata__") continue;
    tensors[tensor] = read_entry(entry, data, name, printable(tensor), placed.emplace_back());
  }
  check_cover(placed, static_cast<std::int64_t>(data.size()), name);
  return tensors;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path, "safetensors"), tensors_(parse_safetensors(bytes(), path.string())) {}

}  // namespace foxscope
