#include "backend/agent/remote.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "backend/agent/fields.h"
#include "backend/agent/remote_files.h"
#include "backend/base/error.h"
#include "tests/agent/peers.h"
#include "tests/temporary_folder.h"

namespace foxscope::test {
namespace {

using agent::Message;
using agent::Remote;
using agent::request_for;

std::string error_as(const std::string& role) {
  const Role playing(role);
  const auto remote = Remote::at({"ann", "box", 0});
  return error_of([&] { remote->ask(request_for("open"), {}); });
}

TEST(Remote, SaysWhyItCannotBeReached) {
  EXPECT_EQ(error_as("no program"),
            "ann@box: there is no program foxscope there (bash: line 1: foxscope: command not found): install foxscope "
            "there (./dev install ~/.local), or say where it is in FOXSCOPE_REMOTE_PROGRAM");
  EXPECT_EQ(
      error_as("no host"),
      "ann@box: cannot be reached: ssh: Could not resolve hostname box: Name or service not known: look whether `" +
          this_program() + " ann@box` works");
  EXPECT_EQ(error_as("banner alone"),
            "ann@box: what answers there is no foxscope agent: This account is currently not available.");
  EXPECT_EQ(error_as("endless"), "ann@box: what answers there is no foxscope agent: " + std::string(400, 'x') + " ...");
  EXPECT_EQ(error_as("other protocol").substr(0, 50), "ann@box: foxscope 9.9 there speaks protocol 77, an");
}

TEST(Remote, SaysThatThereIsNoSsh) {
  const Variable ssh("FOXSCOPE_SSH", "/nonexistent/ssh");
  EXPECT_EQ(error_of([] {
              Remote::at({"", "box", 0})->ask(request_for("open"), {});
            }),
            "/nonexistent/ssh: cannot be started (No such file or directory): install OpenSSH's client, or name "
            "another program in FOXSCOPE_SSH");
}

TEST(Remote, PassesOnTheWordsOfTheCommand) {
  const Variable program("FOXSCOPE_REMOTE_PROGRAM", "~/a b/foxscope");
  const Role role("arguments");
  const auto remote = Remote::at({"ann", "box", 2222});
  EXPECT_NE(error_of([&] { remote->ask(request_for("open"), {}); }).find("-p|2222|ann@box|~/a b/foxscope|agent"),
            std::string::npos);
}

TEST(Remote, GivesBannerAndErrorsToWhoListens) {
  std::vector<std::string> lines;
  Remote::listen([&](std::string_view line) { lines.emplace_back(line); });
  const Role role("banner");
  Message echo = request_for("echo");
  echo.header["word"] = "hello";
  const auto remote = Remote::at({"", "box", 0});
  EXPECT_EQ(remote->ask(echo, {})->header["answer"], "hello");
  Remote::listen({});
  // As it came: the console makes it fit for a terminal.
  EXPECT_EQ(lines, std::vector<std::string>{"Welcome to the cluster.\n\033[31mQuota: 90 %"});
}

std::size_t lines_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(stream), {}, '\n'));
}

TEST(Remote, AsksOnceMoreAfterTheConnectionEnded) {
  const TemporaryFolder folder;
  const Role role("serve");
  const Variable counter("FOXSCOPE_TEST_COUNTER", folder / "starts");
  const auto remote = Remote::at({"", "box", 0});
  EXPECT_EQ(remote->ask(request_for("end once"), {})->header["answer"], 2);
  EXPECT_EQ(lines_in(folder / "starts"), 2);
}

TEST(Remote, AsksNoMoreThanOnceMore) {
  const TemporaryFolder folder;
  const Role role("serve");
  const Variable counter("FOXSCOPE_TEST_COUNTER", folder / "starts");
  const auto remote = Remote::at({"", "box", 0});
  EXPECT_EQ(error_of([&] { remote->ask(request_for("end"), {}); }),
            "box: the connection has ended: look after the machine and the network, and try again");
  EXPECT_EQ(lines_in(folder / "starts"), 2);
}

TEST(Remote, RunsNothingTwice) {
  const TemporaryFolder folder;
  const Role role("serve");
  const Variable counter("FOXSCOPE_TEST_COUNTER", folder / "starts");
  const auto remote = Remote::at({"", "box", 0});
  EXPECT_EQ(error_of([&] { remote->ask(request_for("end once"), {}, agent::Again::never); }),
            "box: the connection has ended: what was going on there has ended with it: start it again");
  EXPECT_EQ(lines_in(folder / "starts"), 1);
}

TEST(Remote, SaysItsState) {
  const TemporaryFolder folder;
  const Role role("serve");
  const Variable counter("FOXSCOPE_TEST_COUNTER", folder / "starts");
  const auto remote = Remote::at({"", "box", 0});
  EXPECT_FALSE(remote->state().was_connected);
  Message echo = request_for("echo");
  echo.header["word"] = "hello";
  remote->ask(echo, {});
  const agent::RemoteState first = remote->state();
  EXPECT_TRUE(first.connected && first.was_connected && first.lost.empty());
  EXPECT_EQ(first.asking, 0);
  EXPECT_GT(first.received, 0);
  // The bytes of a connection that ended count on.
  remote->ask(request_for("end once"), {});
  remote->ask(echo, {});
  EXPECT_GT(remote->state().received, first.received);
  Remote::close_all();
}

TEST(Remote, AnAgentThatIsEndedIsNoStopOfOurs) {
  const TemporaryFolder folder;
  const Variable counter("FOXSCOPE_TEST_COUNTER", folder / "starts");
  const Role role("serve");
  const auto remote = Remote::at({"ann", "box", 0});
  EXPECT_EQ(error_of([&] { remote->ask(request_for("stopped once"), {}, agent::Again::never); }),
            "ann@box: foxscope was ended there: what was going on there has ended with it: start it again");
  std::filesystem::remove(folder / "starts");
  Remote::close_all();
  EXPECT_EQ(Remote::at({"ann", "box", 0})->ask(request_for("stopped once"), {})->header["answer"], 2);
  Remote::close_all();
}

TEST(Remote, StaysLostUntilItIsToReconnect) {
  const TemporaryFolder folder;
  const Variable counter("FOXSCOPE_TEST_COUNTER", folder / "starts");
  const auto remote = Remote::at({"ann", "box", 0});
  Message echo = request_for("echo");
  echo.header["word"] = "hello";
  {
    const Role role("serve");
    remote->ask(echo, {});
  }
  Remote::stay_lost(true);
  {
    const Role role("no host");
    EXPECT_THROW(remote->ask(request_for("end"), {}), agent::ConnectionLost);
    EXPECT_NE(remote->state().lost.find("ann@box: cannot be reached: ssh: Could not resolve"), std::string::npos);
  }
  const Role role("serve");
  EXPECT_THROW(remote->ask(echo, {}), agent::ConnectionLost);
  EXPECT_EQ(lines_in(folder / "starts"), 1);
  remote->reconnect();
  EXPECT_EQ(remote->ask(echo, {})->header["answer"], "hello");
  EXPECT_TRUE(remote->state().lost.empty());
  Remote::stay_lost(false);
  Remote::close_all();
}

TEST(Remote, StopsRequestsOfAThreadThatNameNoJob) {
  const Role role("serve");
  const auto remote = Remote::at({"", "box", 0});
  Message echo = request_for("echo");
  echo.header["word"] = "hello";
  std::stop_source stop;
  const agent::AskingFor asking(stop.get_token());
  EXPECT_EQ(remote->ask(echo, {})->header["answer"], "hello");
  stop.request_stop();
  EXPECT_THROW(remote->ask(echo, {}), agent::AskingStopped);
  Remote::close_all();
}

TEST(Remote, IsOneForAllThatNameTheSameMachine) {
  const auto remote = Remote::at({"", "box", 0});
  EXPECT_EQ(Remote::at({"", "box", 0}), remote);
  EXPECT_NE(Remote::at({"", "box", 22}), remote);
  Remote::close_all();
  EXPECT_NE(Remote::at({"", "box", 0}), remote);
}

TEST(RemoteFiles, AreListedWithoutNamesThatNoPathHas) {
  const TemporaryFolder folder;
  const Role role("serve");
  folder.write("a.txt", "words");
  folder.write("inner/config.json", "{}");
  folder.write("no request can name it \xff.txt", "words");
  const auto list = agent::list_folder(agent::parse_remote_path("ssh://box" + folder.text()), {});
  ASSERT_TRUE(list);
  EXPECT_EQ(list->names, (std::vector<std::string>{"a.txt", "inner"}));
  EXPECT_EQ(list->holds, (std::vector<std::string>{"text", "checkpoint"}));
  EXPECT_EQ(list->resolved, folder.text());
}

TEST(RemoteFiles, NameTheDevicesTheCpuLast) {
  const Role role("serve");
  const auto devices = agent::list_devices({"", "box", 0}, {});
  ASSERT_TRUE(devices && !devices->empty());
  EXPECT_EQ(devices->back().name, "cpu");
  EXPECT_GT(devices->back().memory, 0);
  EXPECT_NE(devices->back().title.find(" threads"), std::string::npos);
}

TEST(RemoteFiles, KeepRunsUntilTheyAreForgotten) {
  const TemporaryFolder folder;
  const Variable cache("XDG_CACHE_HOME", folder.text());
  const Role role("serve");
  const agent::RemoteHost host{"", "box", 0};
  const auto first = agent::place_for_run(host, "fox", {});
  const auto second = agent::place_for_run(host, "fox", {});
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->path, second->path);
  EXPECT_TRUE(first->path.starts_with(folder.text() + "/foxscope/runs/fox-"));
  std::ofstream(first->path) << "a run";
  folder.write("other.h5", "not there");
  agent::forget_run({host, folder.text() + "/other.h5"}, {});
  agent::forget_run(*first, {});
  EXPECT_TRUE(std::filesystem::exists(folder / "other.h5"));
  EXPECT_FALSE(std::filesystem::exists(first->path));
  // What nobody has read for a week goes when the next run is made.
  std::ofstream(second->path) << "a run";
  const timespec old[] = {{1, 0}, {1, 0}};
  utimensat(AT_FDCWD, second->path.c_str(), old, 0);
  agent::place_for_run(host, "fox", {});
  EXPECT_FALSE(std::filesystem::exists(second->path));
  const auto picture = agent::place_for_run(host, "fox", {}, ".png");
  EXPECT_TRUE(picture && picture->path.ends_with(".png"));
  EXPECT_EQ(error_of([&] { agent::place_for_run(host, "fox", {}, "/../x"); }),
            "box: a file's ending has letters and digits, at most 12, not /../x");
  EXPECT_EQ(error_of([&] { agent::place_for_run(host, "../fox", {}); }),
            "box: ../fox: a run's name has letters, digits, '.', '_' and '-', at most 100");
}

TEST(RemoteFiles, WhatWasLeftIsForgottenAlsoByAnotherAgent) {
  const TemporaryFolder folder;
  const Variable place("TMPDIR", folder.text());
  const Role role("serve");
  const agent::RemoteHost host{"", "box", 0};
  const auto made = [&] {
    const auto remote = agent::Remote::at(host);
    const auto answer = remote->ask(agent::request_for("folder"), {});
    agent::RemotePath file{host, agent::take<std::string>(*answer, "answer") + "/run.h5"};
    std::ofstream(file.path) << "a run";
    return file;
  };
  const agent::RemotePath left = made();
  const agent::RemotePath lost = made();
  const auto leave = [&](const std::vector<std::string>& files, const char* word) {
    agent::Message request = agent::request_for("command");
    agent::put(request, "arguments", std::vector<std::string>{word});
    agent::put(request, "leave", files);
    return agent::take<bool>(*agent::Remote::at(host)->ask(request, {}), "left", false);
  };
  EXPECT_FALSE(leave({lost.path}, "fail"));
  EXPECT_FALSE(leave({folder.text() + "/other/run.h5"}, "succeed"));
  EXPECT_TRUE(leave({left.path}, "succeed"));
  agent::Remote::close_all();  // the agent ends
  EXPECT_TRUE(std::filesystem::exists(left.path));
  EXPECT_FALSE(std::filesystem::exists(lost.path));
  folder.write("other/run.h5", "not left");
  agent::forget_run({host, folder.text() + "/other/run.h5"}, {});
  EXPECT_TRUE(std::filesystem::exists(folder / "other/run.h5"));
  agent::forget_run(left, {});
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(left.path).parent_path()));
}

TEST(RemoteFiles, AreCopiedBothWays) {
  const TemporaryFolder folder;
  const Role role("serve");
  std::string content;
  for (int n = 0; n < 300'000; ++n) content += std::to_string(n) + ' ';  // in several pieces
  folder.write("here/a.txt", content);
  const agent::RemotePath there = agent::parse_remote_path("ssh://box" + folder.text() + "/there.txt");
  ASSERT_TRUE(agent::send_file(folder / "here/a.txt", there, false, {}));
  ASSERT_TRUE(agent::fetch_file(there, folder / "back.txt", false, {}));
  std::ifstream back(folder / "back.txt");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(back), {}), content);
  EXPECT_NE(error_of([&] { agent::send_file(folder / "here/a.txt", there, false, {}); }).find("exists"),
            std::string::npos);
  ASSERT_TRUE(agent::copy_there(there, folder.text() + "/second.txt", false, {}));
  std::ifstream second(folder / "second.txt");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(second), {}), content);
  EXPECT_NE(error_of([&] { agent::copy_there(there, folder.text() + "/second.txt", false, {}); }).find("exists"),
            std::string::npos);
  EXPECT_NE(error_of([&] { agent::copy_there(there, "second.txt", false, {}); }).find("from ~/ on"), std::string::npos);
  EXPECT_NE(error_of([&] { agent::copy_there(there, folder.text() + "/none/second.txt", false, {}); }).find("none"),
            std::string::npos);
  folder.write("here/empty.txt", "");
  const agent::RemotePath empty = agent::parse_remote_path("ssh://box" + folder.text() + "/empty.txt");
  ASSERT_TRUE(agent::send_file(folder / "here/empty.txt", empty, false, {}));
  EXPECT_EQ(std::filesystem::file_size(folder / "empty.txt"), 0);
}

}  // namespace
}  // namespace foxscope::test
