// Token arrays that other people's packages wrote, row by row: arrays_peer.py says which.
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/train/training_data.h"
#include "backend/train/zarr_rows.h"
#include "tests/train/train_test_support.h"

namespace foxscope {
namespace {

using test::Ids;

constexpr std::int64_t kPeerVocabulary = 30'000;

class ArraysPeer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<test::TemporaryFolder>();
    const std::string command = std::string(FOXSCOPE_TEST_PYTHON) + " " + FOXSCOPE_SOURCE_DIR +
                                "/tests/train/arrays_peer.py " + folder_->path().string();
    status_ = WEXITSTATUS(std::system(command.c_str()));
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override {
    if (status_ == 77) GTEST_SKIP() << "a package of requirements-test.txt is missing: ./dev test installs it";
    ASSERT_EQ(status_, 0);
    cases_ = nlohmann::json::parse(test::read_bytes(*folder_ / "cases.json"));
  }

  /// Rows of a case as the script says them, [N, L].
  static Ids expected(const nlohmann::json& one) {
    const std::string name = one["path"].get<std::string>() + "." + one["length"].dump() + ".rows";
    const std::string bytes = test::read_bytes(*folder_ / name.c_str());
    Ids ids(bytes.size() / sizeof(std::int32_t));
    std::memcpy(ids.data(), bytes.data(), bytes.size());
    return ids;
  }
  static std::unique_ptr<TokenRows> open(const nlohmann::json& one) {
    TrainingDataOptions options;
    options.length = one["length"];
    options.vocabulary = kPeerVocabulary;
    return open_training_data({path_of(one)}, options, {});
  }
  static std::filesystem::path path_of(const nlohmann::json& one) {
    return *folder_ / one["path"].get<std::string>().c_str();
  }

  static inline std::unique_ptr<test::TemporaryFolder> folder_;
  static inline int status_ = -1;
  nlohmann::json cases_;
};

TEST_F(ArraysPeer, EveryRowIsTheirs) {
  for (const nlohmann::json& one : cases_) {
    SCOPED_TRACE(one.dump());
    const auto rows = open(one);
    EXPECT_EQ(rows->rows(), one["rows"]);
    EXPECT_EQ(rows->columns(), one["columns"]);
    EXPECT_EQ(test::all_tokens(*rows), expected(one));
  }
  EXPECT_GT(cases_.size(), 140);
}

TEST_F(ArraysPeer, FewChunksInMemoryAndManyThreads) {
  for (const nlohmann::json& one : cases_) {
    if (!one["path"].get<std::string>().ends_with(".zarr")) continue;
    SCOPED_TRACE(one.dump());
    const auto rows = rows_of(std::make_unique<const ZarrArray>(path_of(one)), one["length"], kPeerVocabulary, 1);
    const Ids whole = expected(one);
    const auto length = static_cast<std::size_t>(rows->length());
    std::atomic<int> wrong = 0;
    std::vector<std::jthread> threads;
    for (std::int64_t first = 0; first < 3; ++first) {
      threads.emplace_back([&, first] {
        Ids tokens(length);
        for (std::int64_t row = first; row < rows->rows(); row += 2) {
          rows->read(row, tokens);
          const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(row * rows->length());
          if (!std::equal(tokens.begin(), tokens.end(), begin)) ++wrong;
        }
      });
    }
    threads.clear();
    EXPECT_EQ(wrong, 0);
  }
}

TEST_F(ArraysPeer, FingerprintsTellDataApartAndNothingElse) {
  std::map<std::string, std::string> by_path;
  std::set<std::string> fingerprints;
  for (const nlohmann::json& one : cases_) {
    const auto rows = open(one);
    const auto [known, is_new] = by_path.emplace(one["path"], rows->fingerprint());
    EXPECT_EQ(known->second, rows->fingerprint()) << "depends on the length: " << one;
    EXPECT_EQ(fingerprints.insert(rows->fingerprint()).second, is_new) << one;
    EXPECT_EQ(rows->fingerprint().size(), 64);
  }
  const std::filesystem::path chunk = *folder_ / "none-u2.zarr/1.2";
  std::string bytes = test::read_bytes(chunk);
  bytes[5] = static_cast<char>(bytes[5] ^ 1);
  test::write_bytes(chunk, bytes);
  const auto rows = rows_of(std::make_unique<const ZarrArray>(*folder_ / "none-u2.zarr"), 60, kPeerVocabulary);
  EXPECT_NE(rows->fingerprint(), by_path["none-u2.zarr"]);
  bytes[5] = static_cast<char>(bytes[5] ^ 1);
  test::write_bytes(chunk, bytes);
}

}  // namespace
}  // namespace foxscope
