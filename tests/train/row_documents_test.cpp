// The documents of held-out rows, and the error of their losses over documents.
#include "backend/train/row_documents.h"

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "backend/eval/loss/loss_statistics.h"
#include "backend/train/training_data.h"
#include "tests/train/train_test_support.h"

namespace foxscope {
namespace {

using test::Ids;
namespace fs = std::filesystem;
constexpr std::int32_t kEndOfDocument = 256;

class RowDocuments : public testing::Test {
 protected:
  /// Arrays of rows of four tokens.
  std::unique_ptr<TokenRows> open(const std::string& shape, const Ids& ids, const char* name = "a.npy") {
    test::write_bytes(folder_ / name, test::npy_image("<i4", shape, test::bytes_of(ids)));
    TrainingDataOptions options;
    options.length = 4;
    options.vocabulary = 257;
    return open_training_data({folder_ / name}, options, {});
  }
  test::TemporaryFolder folder_;
};

const Ids kStream = {1,
                     2,
                     3,
                     4,
                     5,
                     6,
                     kEndOfDocument,
                     7,
                     8,
                     9,
                     10,
                     11,
                     12,
                     13,
                     14,
                     kEndOfDocument,
                     15,
                     kEndOfDocument,
                     16,
                     kEndOfDocument};

TEST_F(RowDocuments, AStreamIsCutAtItsBos) {
  const auto rows = open("(20,)", kStream);
  EXPECT_EQ(document_parts(*rows, std::vector<std::int64_t>{0, 1, 2, 3, 4}, kEndOfDocument),
            (std::vector<DocumentPart>{
                {0, 0, 4, 0}, {1, 0, 3, 0}, {1, 3, 4, 1}, {2, 0, 4, 1}, {3, 0, 4, 1}, {4, 0, 2, 2}, {4, 2, 4, 3}}));
  // A BOS in a row that is not chosen ends a document too; without one it goes on.
  EXPECT_EQ(document_parts(*rows, std::vector<std::int64_t>{0, 2, 3}, kEndOfDocument),
            (std::vector<DocumentPart>{{0, 0, 4, 0}, {1, 0, 4, 1}, {2, 0, 4, 1}}));
  const auto one = open("(16,)", Ids(16, 5));
  EXPECT_EQ(document_parts(*one, std::vector<std::int64_t>{0, 3}, kEndOfDocument),
            (std::vector<DocumentPart>{{0, 0, 4, 0}, {1, 0, 4, 0}}));
}

TEST_F(RowDocuments, RowsOfAnArrayAreDocumentsByThemselvesOrParts) {
  const auto rows = open("(5, 4)", Ids(20, 5));
  EXPECT_EQ(document_parts(*rows, std::vector<std::int64_t>{0, 2, 3}, kEndOfDocument),
            (std::vector<DocumentPart>{{0, 0, 4, 0}, {1, 0, 4, 1}, {2, 0, 4, 2}}));
  const auto columns = open("(2, 8)", Ids(16, 5));
  EXPECT_EQ(document_parts(*columns, std::vector<std::int64_t>{0, 1, 2, 3}, kEndOfDocument),
            (std::vector<DocumentPart>{{0, 0, 4, 0}, {1, 0, 4, 0}, {2, 0, 4, 1}, {3, 0, 4, 1}}));
}

TEST_F(RowDocuments, FilesThatFollowEachOtherAreOtherDocuments) {
  std::vector<std::unique_ptr<TokenRows>> parts;
  parts.push_back(open("(8,)", Ids(8, 5)));
  parts.push_back(open("(8,)", Ids(8, 6), "b.npy"));
  const auto rows = concatenate(std::move(parts));
  EXPECT_EQ(document_parts(*rows, std::vector<std::int64_t>{0, 1, 2, 3}, kEndOfDocument),
            (std::vector<DocumentPart>{{0, 0, 4, 0}, {1, 0, 4, 0}, {2, 0, 4, 1}, {3, 0, 4, 1}}));
}

// Rows of six documents, of which one has two rows and the last shares one with the one before it.
TEST_F(RowDocuments, TheErrorIsOverDocuments) {
  const std::vector<DocumentPart> parts = {{0, 0, 4, 0}, {1, 0, 4, 0}, {2, 0, 4, 1}, {3, 0, 4, 2},
                                           {4, 0, 4, 3}, {5, 0, 2, 4}, {5, 2, 4, 5}};
  const std::vector<double> sums = {12, 13, 8, 9, 15, 7, 6};
  const Estimate found = held_out_estimate(parts, sums);
  const std::vector<double> losses = {25, 8, 9, 15, 7, 6};
  const std::vector<double> tokens = {8, 4, 4, 4, 2, 2};
  const Estimate expected = clustered_ratio(losses, tokens, std::vector<std::int32_t>{0, 1, 2, 3, 4, 5});
  EXPECT_NEAR(found.value, 70.0 / 24, 1e-12);
  EXPECT_EQ(found.over, group_sizes(ErrorGroups::Kind::documents, tokens));
  EXPECT_EQ(found.over, expected.over);
  EXPECT_EQ(std::isnan(found.error), std::isnan(expected.error));
  EXPECT_TRUE(std::isnan(found.error) || std::abs(found.error - expected.error) < 1e-12);
}

// Of one text the rows are blocks: at least eight.
TEST_F(RowDocuments, OfOneDocumentTheErrorIsOverRows) {
  std::vector<DocumentPart> parts;
  std::vector<double> sums;
  for (std::int64_t row = 0; row < 7; ++row) {
    parts.push_back({row, 0, 4, 0});
    sums.push_back(10 + static_cast<double>(row * row));
  }
  EXPECT_TRUE(std::isnan(held_out_estimate(parts, sums).error));
  parts.push_back({7, 0, 4, 0});
  sums.push_back(3);
  const Estimate found = held_out_estimate(parts, sums);
  EXPECT_EQ(found.over.kind, ErrorGroups::Kind::blocks);
  EXPECT_EQ(found.over.count, 8);
  EXPECT_EQ(found.over.tokens, 4);
  double mean = 0;
  for (const double sum : sums) mean += sum / 4 / 8;
  double squares = 0;
  for (const double sum : sums) squares += std::pow(sum / 4 - mean, 2);
  EXPECT_NEAR(found.value, mean, 1e-12);
  EXPECT_NEAR(found.error, std::sqrt(squares / 7 / 8), 1e-12);
}

}  // namespace
}  // namespace foxscope
