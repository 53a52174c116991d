#include "backend/agent/shown_names.h"

#include <cctype>
#include <mutex>
#include <utility>

namespace foxscope::agent {
namespace {

bool is_of_a_name(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
         std::string_view("_-~/").find(letter) != std::string::npos;
}

struct NamesOfCopies {
  std::mutex mutex;
  ShownNames names;
};

NamesOfCopies& names_of_copies() {
  static NamesOfCopies* const all = new NamesOfCopies;  // outlives every thread
  return *all;
}

}  // namespace

std::string ShownNames::in_place(std::string_view text) const {
  if (names_.empty()) return std::string(text);
  std::string shown;
  for (std::size_t place = 0; place < text.size();) {
    const std::pair<const std::string, std::string>* longest = nullptr;
    for (const auto& name : names_) {
      const std::string& path = name.first;
      if (path.empty() || !text.substr(place).starts_with(path)) continue;
      if (longest == nullptr || path.size() > longest->first.size()) longest = &name;
    }
    const bool begins = place == 0 || !is_of_a_name(text[place - 1]);
    const std::size_t end = longest == nullptr ? place : place + longest->first.size();
    // A folder's name may go on as the name of what is in it.
    const bool ends = end == text.size() || text[end] == '/' || !is_of_a_name(text[end]);
    if (longest != nullptr && begins && ends) {
      shown += longest->second;
      place = end;
    } else {
      shown += text[place++];
    }
  }
  return shown;
}

void show_copy_as(std::string copy, std::string shown) {
  const std::lock_guard lock(names_of_copies().mutex);
  names_of_copies().names.add(std::move(copy), std::move(shown));
}

std::string with_names_of_copies(std::string_view text) {
  const std::lock_guard lock(names_of_copies().mutex);
  return names_of_copies().names.in_place(text);
}

}  // namespace foxscope::agent
