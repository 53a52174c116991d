// A QTest program has several subjects, each a class of tests in a file of its own: `PROGRAM SUBJECT [options of
// QTest]`.
#pragma once

#include <QApplication>
#include <QCoreApplication>
#include <QTest>

namespace foxscope::gui::test {

/// A class of tests by the name that the command line gives it.
struct Subject {
  Subject(const char* called, int (*runner)(int argc, char** argv));

  const char* name;
  int (*run)(int argc, char** argv);
  const Subject* next;  ///< null: the last
};

/// Runs the tests of a class in an application of their own, as QTEST_MAIN does.
template <typename Test, typename Application>
int runTests(int argc, char** argv) {
  Application application(argc, argv);
  QCoreApplication::setAttribute(Qt::AA_Use96Dpi, true);
  Test test;
  return QTest::qExec(&test, argc, argv);
}

}  // namespace foxscope::gui::test

/// A class of tests that show widgets, and one that needs no display.
#define FOXSCOPE_GUI_SUBJECT(subject, Test)                            \
  static const foxscope::gui::test::Subject subject##Subject(#subject, \
                                                             foxscope::gui::test::runTests<Test, QApplication>);
#define FOXSCOPE_GUILESS_SUBJECT(subject, Test)                        \
  static const foxscope::gui::test::Subject subject##Subject(#subject, \
                                                             foxscope::gui::test::runTests<Test, QCoreApplication>);
