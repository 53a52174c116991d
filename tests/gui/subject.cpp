#include "tests/gui/subject.h"

#include <cstdio>
#include <string_view>

namespace foxscope::gui::test {
namespace {

const Subject*& firstSubject() {
  static const Subject* first = nullptr;
  return first;
}

}  // namespace

Subject::Subject(const char* called, int (*runner)(int argc, char** argv))
    : name(called), run(runner), next(firstSubject()) {
  firstSubject() = this;
}

}  // namespace foxscope::gui::test

int main(int argc, char** argv) {
  using foxscope::gui::test::Subject;
  const std::string_view asked = argc > 1 ? argv[1] : "";
  for (const Subject* subject = foxscope::gui::test::firstSubject(); subject != nullptr; subject = subject->next) {
    if (asked != subject->name) continue;
    argv[1] = argv[0];
    return subject->run(argc - 1, argv + 1);
  }
  std::fprintf(stderr, "usage: %s SUBJECT [options of QTest]; subjects:\n", argv[0]);
  for (const Subject* subject = foxscope::gui::test::firstSubject(); subject != nullptr; subject = subject->next) {
    std::fprintf(stderr, "  %s\n", subject->name);
  }
  return 2;
}
