#include "backend/text/token_ids.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "backend/base/error.h"
#include "backend/text/json_reading.h"
#include "backend/text/tokenizer.h"

namespace foxscope {

using nlohmann::json;

namespace {

constexpr const char* forms = R"(give an array of ids, or {"input_ids": [...], "labels": [...]})";

/// Takes the ids out of the JSON as it is parsed, so that neither size nor nesting costs memory.
class IdReader : public json::json_sax_t {
 public:
  IdReader(std::string name, std::int64_t vocabulary_size)
      : name_(std::move(name)),
        vocabulary_size_(std::min(vocabulary_size, std::int64_t{std::numeric_limits<std::int32_t>::max()})) {}

  TokenIds finish() {
    if (is_object_) {
      if (!input_ids_.seen || !labels_.seen) {
        throw Error(name_ + ": lacks " + (input_ids_.seen ? "labels" : "input_ids") + "; " + forms);
      }
      if (input_ids_.ids.size() != labels_.ids.size()) {
        throw Error(name_ + ": " + std::to_string(input_ids_.ids.size()) + " input_ids but " +
                    std::to_string(labels_.ids.size()) + " labels; give one label for each id");
      }
    }
    TokenIds result;
    result.ids = std::move((is_object_ ? input_ids_ : array_).ids);
    if (result.ids.empty()) throw Error(name_ + ": holds no token ids; " + forms);
    if (is_object_) result.labels = std::move(labels_.ids);
    return result;
  }

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool string(string_t& value) override { return other(in_quotes(value)); }
  bool binary(binary_t& /*value*/) override { return other("binary data"); }
  bool number_float(number_float_t /*value*/, const string_t& digits) override { return other(digits.substr(0, 40)); }
  bool number_integer(number_integer_t value) override { return id(std::to_string(value), value); }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto largest = static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    return id(std::to_string(value), static_cast<std::int64_t>(std::min(value, largest)));
  }

  bool start_array(std::size_t /*size*/) override {
    if (depth_ == 0) {
      list_ = &array_;
    } else if (list_ != nullptr) {
      return other("a list");
    } else if (depth_ == 1 && next_ != nullptr) {
      list_ = std::exchange(next_, nullptr);
    }
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    list_ = nullptr;
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    if (list_ != nullptr || next_ != nullptr) return other("an object");
    if (depth_ == 0) is_object_ = true;
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool key(string_t& key) override {
    if (depth_ != 1) return true;
    next_ = key == "input_ids" ? &input_ids_ : key == "labels" ? &labels_ : nullptr;
    if (next_ != nullptr && std::exchange(next_->seen, true)) {
      throw Error(name_ + ": gives " + key + " twice; give them once");
    }
    return true;
  }

  bool parse_error(std::size_t byte, const std::string& /*token*/, const json::exception& error) override {
    // Numbers beyond a double's range are the one error that has nothing to do with the grammar.
    if (error.id == 406)
      throw Error(name_ + ": holds a number that is too large for a token id (byte " + std::to_string(byte) + "); " +
                  forms);
    throw Error(not_json(name_, byte));
  }

 private:
  struct List {
    const char* where;
    std::vector<std::int32_t> ids{};
    bool seen = false;
  };

  [[nodiscard]] std::string place() const { return "position " + std::to_string(list_->ids.size()) + list_->where; }

  bool id(const std::string& digits, std::int64_t value) {
    if (list_ == nullptr) return other(digits);
    if (value < 0 || value >= vocabulary_size_) {
      throw_outside_vocabulary(name_, digits, place(), vocabulary_size_);
    }
    list_->ids.push_back(static_cast<std::int32_t>(value));
    return true;
  }

  /// A value that is no token id: an error where one is due, passed over inside other members of the object.
  bool other(const std::string& what) {
    if (list_ != nullptr) {
      throw Error(name_ + ": " + what + " at " + place() + " is not a token id; give one list of integers");
    }
    if (next_ != nullptr) throw Error(name_ + ": " + what + " is not a list of token ids; " + forms);
    if (depth_ == 0) throw Error(name_ + ": holds neither a list nor an object; " + forms);
    return true;
  }

  std::string name_;
  std::int64_t vocabulary_size_;
  List array_{""};
  List input_ids_{" of input_ids"};
  List labels_{" of labels"};
  List* list_ = nullptr;  ///< the list that ids go to at the moment
  List* next_ = nullptr;  ///< the list whose key was just read
  std::size_t depth_ = 0;
  bool is_object_ = false;
};

}  // namespace

TokenIds read_token_ids(std::string_view content, std::string_view name, std::int64_t vocabulary_size) {
  IdReader reader(std::string(name), vocabulary_size);
  json::sax_parse(content, &reader);
  return reader.finish();
}

void throw_outside_vocabulary(std::string_view where, std::string_view id, std::string_view place,
                              std::int64_t vocabulary_size) {
  throw Error(std::string(where) + ": the id " + std::string(id) + " at " + std::string(place) +
              " is outside the model's vocabulary (0 to " + std::to_string(vocabulary_size - 1) +
              "); use the ids of this model's tokenizer");
}

}  // namespace foxscope
