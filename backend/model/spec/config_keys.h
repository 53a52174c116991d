#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "backend/model/spec/model_config.h"

namespace foxscope {

/// The keys of one config.json; a key that is absent or null has its default. All throw Error naming the file, the key,
/// its value and what is allowed.
class ConfigKeys {
 public:
  /// @param object  must outlive the keys
  /// @param file    as messages name it; likewise
  /// @param parent  key that the object stands under, for messages; empty for the whole file
  ConfigKeys(const nlohmann::json& object, std::string_view file, std::string parent = {},
             UnknownKeys unknown = UnknownKeys::refused_unless_no);

  [[nodiscard]] bool has(const char* key) const;
  /// Whether the key is there and null: a choice, where the default of an absent key is something else.
  [[nodiscard]] bool is_null(const char* key) const;
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t lowest, std::int64_t highest) const;
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t lowest, std::int64_t highest,
                                     std::int64_t otherwise) const;
  [[nodiscard]] double number(const char* key, double lowest, double highest) const;
  [[nodiscard]] double number(const char* key, double lowest, double highest, double otherwise) const;
  [[nodiscard]] bool flag(const char* key, bool otherwise) const;
  /// The same, where null says no: what the library does with a null that it asks for the truth of.
  [[nodiscard]] bool flag_or_null(const char* key, bool otherwise) const;
  [[nodiscard]] std::string word(const char* key, const std::string& otherwise) const;
  [[nodiscard]] const nlohmann::json& value(const char* key) const;
  /// The keys of an object under a key.
  [[nodiscard]] ConfigKeys under(const char* key) const;
  /// Which of two names of one key the file has; the first if it has neither.
  /// @throws Error where it has both, and they differ
  [[nodiscard]] const char* either(const char* key, const char* other) const;

  /// Refuses keys that no reader asked for, and names the nearest known key, because such a key may change what the
  /// model computes. Keys that change nothing or say no are allowed, but for switches that are on where a file does not
  /// have them. A misspelling of a key that a reader asks for is
  /// refused whatever it says: that key may have another default. Where all unknown keys are refused, only keys of
  /// Hugging Face's configurations may say no.
  /// @param harmless  names; one that ends in * stands for all that begin so
  void refuse_others(std::span<const std::string_view> harmless) const;
  /// Refuses a value that means something, which Foxscope does not compute.
  /// @param runs  what it does
  [[noreturn]] void refuse(const char* key, const std::string& runs) const;

  /// Keys that nobody asked for, separated by commas.
  [[nodiscard]] std::string ignored() const;
  [[noreturn]] void fail(const char* key, const std::string& allowed) const;
  [[nodiscard]] std::string_view file() const { return file_; }

 private:
  [[nodiscard]] std::string name_of(const std::string& key) const;
  /// Whether a key is one that somebody asked for, misspelt.
  [[nodiscard]] bool is_misspelt(const std::string& key) const;
  [[nodiscard]] std::string nearest_to(const std::string& key, std::span<const std::string_view> harmless) const;

  const nlohmann::json& object_;
  std::string_view file_;
  std::string parent_;
  UnknownKeys unknown_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace foxscope
