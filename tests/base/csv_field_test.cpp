#include "backend/base/csv_field.h"

#include <gtest/gtest.h>

namespace foxscope::test {
namespace {

TEST(CsvField, IsQuotedWhereItHasToBe) {
  EXPECT_EQ(csv_field("the"), "the");
  EXPECT_EQ(csv_field("the fox"), "the fox");
  EXPECT_EQ(csv_field(" the"), "\" the\"");
  EXPECT_EQ(csv_field("the\t"), "\"the\t\"");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("a\nb"), "\"a\nb\"");
  EXPECT_EQ(csv_field("\r"), "\"\r\"");
  EXPECT_EQ(csv_field("say \"a\""), "\"say \"\"a\"\"\"");
}

TEST(CsvField, WhatReadersTakeForMissingIsQuoted) {
  EXPECT_EQ(csv_field(""), "\"\"");
  EXPECT_EQ(csv_field("NA"), "\"NA\"");
  EXPECT_EQ(csv_field("NAN"), "NAN");
}

TEST(CsvField, NulIsWritten) { EXPECT_EQ(csv_field(std::string_view("a\0b", 3)), "\"a\\0b\""); }

}  // namespace
}  // namespace foxscope::test
