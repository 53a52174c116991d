// The folder of a training: where one can begin, and what a checkpoint tells of its training.
#include "backend/train/training_folder.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "tests/text/helpers.h"

namespace foxscope {
namespace {

namespace fs = std::filesystem;

std::string error_of_begin(const fs::path& path) {
  TrainingFolder folder(path);
  return test::error_of<Error>([&] { folder.create({}); });
}

TEST(TrainingFolder, BeginsWhereNoMoreIsThanAKillLeaves) {
  const test::TemporaryFolder folder;
  const fs::path out = folder / "out";
  EXPECT_TRUE(TrainingFolder::is_free(out));
  fs::create_directories(out / "checkpoints");
  test::write_bytes(out / "lock", "");
  test::write_bytes(out / ".recipe.json.0a1b2c3d", "{");
  EXPECT_TRUE(TrainingFolder::is_free(out));
  {
    TrainingFolder training(out);
    training.create({});
    EXPECT_TRUE(TrainingFolder::is(out));
    EXPECT_TRUE(training.lock());
  }
  EXPECT_EQ(error_of_begin(out), out.string() + ": exists: go on with --resume, or choose another folder");
}

TEST(TrainingFolder, DoesNotBeginAmongOtherFiles) {
  const test::TemporaryFolder folder;
  const std::string taken = folder.path().string() + ": exists: choose another folder";
  test::write_bytes(folder / "book.txt", "mine");
  EXPECT_EQ(error_of_begin(folder.path()), taken);
  fs::remove(folder / "book.txt");
  fs::create_directories(folder.path() / "checkpoints/step-000010");
  EXPECT_EQ(error_of_begin(folder.path()), taken);
  test::write_bytes(folder / "file", "mine");
  EXPECT_EQ(error_of_begin(folder / "file"), (folder / "file").string() + ": exists: choose another folder");
}

TEST(TrainingFolder, SaysWhatAFolderLacks) {
  const test::TemporaryFolder folder;
  const std::string name = folder.path().string();
  const auto refusal = [](const fs::path& path) {
    return test::error_of<Error>([&] { TrainingFolder::require(path); });
  };
  EXPECT_EQ(refusal(folder / "none"), name + "/none: there is no such folder");
  const std::string none = ": is no training: name the folder that `foxscope train` wrote, with recipe.json in it";
  EXPECT_EQ(refusal(folder.path()), name + none);
  fs::create_directories(folder.path() / "checkpoints");
  EXPECT_EQ(refusal(folder.path()), name + none);
  test::write_bytes(folder / "recipe.json", "{}");
  EXPECT_EQ(refusal(folder / "recipe.json"),
            name + "/recipe.json: is a file: name the folder that `foxscope train` wrote");
  EXPECT_EQ(refusal(folder.path()), "");
  fs::remove(folder.path() / "checkpoints");
  EXPECT_EQ(refusal(folder.path()), name +
                                        ": holds a training's recipe.json, and no folder checkpoints: copy that one "
                                        "too, or make an empty one to see the curves alone");
}

TEST(TrainingFolder, HasOneWriter) {
  const test::TemporaryFolder folder;
  const fs::path out = folder / "out";
  fs::create_directory(out);
  const FolderLock other(out);
  TrainingFolder training(out);
  for (const auto& said : {error_of_begin(out), test::error_of<Error>([&] { training.lock(); })}) {
    EXPECT_NE(said.find("trains there"), std::string::npos) << said;
  }
  EXPECT_FALSE(TrainingFolder::is(out));
}

/// Who begins at the same time, and comes second, is not told to go on in a folder that is held.
TEST(TrainingFolder, NamesWhoHasJustBegunThere) {
  const test::TemporaryFolder folder;
  const fs::path out = folder / "out";
  {
    TrainingFolder first(out);
    first.create({});
    const std::string said = error_of_begin(out);
    EXPECT_TRUE(said.starts_with(out.string() + ": process ")) << said;
    EXPECT_NE(said.find("trains there"), std::string::npos) << said;
    EXPECT_EQ(said.find("--resume"), std::string::npos) << said;
  }
  EXPECT_EQ(error_of_begin(out), out.string() + ": exists: go on with --resume, or choose another folder");
}

TEST(TrainingState, ThatIsDamaged) {
  const test::TemporaryFolder folder;
  const std::string whole = R"({"step": 3, "tokens": 6, "data": "d", "recipe": "r")";
  for (const std::string& text :
       {std::string("{"), whole, whole + R"(, "curves": [1]})", whole + R"(, "curves": [{"sequences": 1, "loss": 2}]})",
        whole + R"(, "micro_batch_tokens": "all"})", std::string("{}")}) {
    test::write_bytes(folder / "training.json", text);
    EXPECT_NE(
        test::error_of<Error>([&] { read_training_state(folder.path()); }).find("training.json: is damaged: delete"),
        std::string::npos);
  }
}

TEST(TrainingState, OfCheckpointsWithoutCurves) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "training.json", R"({"step": 3, "tokens": 6, "data": "d", "recipe": "r"})");
  const TrainingState state = read_training_state(folder.path());
  EXPECT_EQ(state.step, 3);
  EXPECT_EQ(state.micro_batch_tokens, 0);
  EXPECT_TRUE(state.curves.empty());
}

}  // namespace
}  // namespace foxscope
