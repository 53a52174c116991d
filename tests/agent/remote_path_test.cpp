#include "backend/agent/remote_path.h"

#include <gtest/gtest.h>

#include "backend/agent/shown_names.h"
#include "backend/base/error.h"
#include "tests/agent/peers.h"

namespace foxscope::test {
namespace {

using agent::agent_command;
using agent::parse_remote_path;
using agent::RemoteHost;
using agent::RemotePath;
using agent::shell_words;

TEST(RemotePath, IsReadFromAnUrl) {
  EXPECT_EQ(parse_remote_path("ssh://box/data/run.h5"), (RemotePath{{"", "box", 0}, "/data/run.h5"}));
  EXPECT_EQ(parse_remote_path("ssh://ann@box.example:2222/data/run.h5"),
            (RemotePath{{"ann", "box.example", 2222}, "/data/run.h5"}));
  EXPECT_EQ(parse_remote_path("ssh://box/~/run.h5"), (RemotePath{{"", "box", 0}, "~/run.h5"}));
  EXPECT_EQ(parse_remote_path("ssh://box/~"), (RemotePath{{"", "box", 0}, "~"}));
  EXPECT_EQ(parse_remote_path("ssh://box/~ann/run.h5").path, "/~ann/run.h5");
  EXPECT_EQ(parse_remote_path("ssh://[fe80::1]:22/run.h5"), (RemotePath{{"", "fe80::1", 22}, "/run.h5"}));
  EXPECT_EQ(parse_remote_path("ssh://box/a%20b%2fc").path, "/a b/c");
  EXPECT_EQ(parse_remote_path("ssh://box/").path, "/");
  EXPECT_TRUE(agent::is_remote("ssh://box/x"));
  EXPECT_FALSE(agent::is_remote("./ssh://box/x"));
}

TEST(RemotePath, IsWrittenAsItWasRead) {
  for (const char* url : {"ssh://box/data/run.h5", "ssh://ann@box:2222/x", "ssh://box/~/run.h5", "ssh://[fe80::1]/x",
                          "ssh://box/a b.h5", "ssh://box/50%25.h5", "ssh://box/a%2520b", "ssh://box/two%0Alines"}) {
    EXPECT_EQ(parse_remote_path(url).url(), url);
  }
  // A name that a folder there lists is opened by its URL.
  for (const char* path : {"/50%.h5", "/a%20b.h5", "/%25", "/q'\".h5", "/a\nb", "/a?b#c"}) {
    EXPECT_EQ(parse_remote_path(RemotePath{{"", "box", 0}, path}.url()).path, path);
  }
}

TEST(RemotePath, HasTheNameOfTheFileThere) {
  EXPECT_EQ(agent::name_without_folder("ssh://box/data/a%20b%25.h5"), "a b%.h5");
  EXPECT_EQ(agent::name_without_folder("ssh://box/~/run.h5"), "run.h5");
  EXPECT_EQ(agent::name_without_folder("data/a%20b.h5"), "a%20b.h5");
}

TEST(RemotePath, SaysWhatIsWrongWithAnUrl) {
  const auto error = [](const std::string& url) { return error_of([&] { parse_remote_path(url); }); };
  const std::string form = ": write ssh://[USER@]HOST[:PORT]/PATH, /~/ for the home folder";
  EXPECT_EQ(error("ssh://box"), "ssh://box: it names no file or folder" + form);
  EXPECT_EQ(error("ssh:///x"), "ssh:///x: it names no host" + form);
  EXPECT_EQ(error("ssh://@box/x"), "ssh://@box/x: there is no user before the @" + form);
  EXPECT_EQ(error("ssh://ann:secret@box/x"),
            "ssh://ann:...@box/x: passwords are ssh's own concern, and stand in no URL" + form);
  EXPECT_EQ(error("ssh://[::1]22/x"), "ssh://[::1]22/x: behind a ] comes : and a port, or the path" + form);
  EXPECT_EQ(error("ssh://[fe80::1/x"), "ssh://[fe80::1/x: a [ has no ] behind it" + form);
  const std::string percent = ": a % needs two hexadecimal digits behind it, and one of a name is written %25";
  EXPECT_EQ(error("ssh://box/%zz"), "ssh://box/%zz" + percent + form);
  EXPECT_EQ(error("ssh://box/%4"), "ssh://box/%4" + percent + form);
  for (const char* url : {"ssh://box/bad%ff.txt", "ssh://box/bad\xff.txt"}) {
    EXPECT_EQ(error(url), std::string(url) +
                              ": this name is not UTF-8, and no request can hold it: rename the file there, or make a "
                              "link to it");
  }
  EXPECT_EQ(error("ssh://box/%00"), "ssh://box/%00: no path has a byte of 0" + form);
  for (const char* port : {"0", "65536", "x", "", "-1", "22x"}) {
    const std::string url = std::string("ssh://box:") + port + "/x";
    EXPECT_EQ(error(url), url + ": a port is a number from 1 to 65535" + form);
  }
}

/// ssh would take it for an option, of which ProxyCommand starts a program.
TEST(RemotePath, RefusesWhatSshWouldTakeForAnOption) {
  for (const char* url : {"ssh://-oProxyCommand=reboot/x", "ssh://%2doProxyCommand=reboot/x", "ssh://-x@box/x",
                          "ssh://[-oProxyCommand=reboot]/x"}) {
    EXPECT_NE(error_of([&] { parse_remote_path(url); }).find("does not begin with a dash"), std::string::npos) << url;
  }
  for (const char* url : {"ssh://box%20x/x", "ssh://a%0ab@box/x"}) {
    EXPECT_NE(error_of([&] { parse_remote_path(url); }).find("has no blanks"), std::string::npos) << url;
  }
}

TEST(ShellWords, AreSplitAsAShellDoes) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(shell_words("ssh -o 'User Name=x y' \"a b\"c d\\ e", ""),
            (Words{"ssh", "-o", "User Name=x y", "a bc", "d e"}));
  EXPECT_EQ(shell_words("  a\t'' \"\\\"\\n\" '\\' ", ""), (Words{"a", "", "\"\\n", "\\"}));
  EXPECT_EQ(shell_words(" ", ""), Words{});
  EXPECT_EQ(error_of([] { shell_words("ssh 'x", "FOXSCOPE_SSH"); }), "FOXSCOPE_SSH: a ' is not closed: ssh 'x");
}

TEST(AgentCommand, IsSshUnlessTheEnvironmentSaysOtherwise) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(agent_command({"", "box", 0}), (Words{"ssh", "box", "foxscope", "agent"}));
  EXPECT_EQ(agent_command({"ann", "box", 22}), (Words{"ssh", "-p", "22", "ann@box", "foxscope", "agent"}));
  const Variable ssh("FOXSCOPE_SSH", "docker exec -i");
  const Variable remote_program("FOXSCOPE_REMOTE_PROGRAM", "~/bin/foxscope");
  EXPECT_EQ(agent_command({"", "box", 0}), (Words{"docker", "exec", "-i", "box", "~/bin/foxscope", "agent"}));
}

TEST(SaidThere, NamesFilesByUrl) {
  EXPECT_EQ(agent::said_there("ann@box:22", "/data/run.h5: is damaged"), "ssh://ann@box:22/data/run.h5: is damaged");
  EXPECT_EQ(agent::said_there("box", "/data/50%.h5: 50% of it is damaged"),
            "ssh://box/data/50%25.h5: 50% of it is damaged");
  EXPECT_EQ(agent::said_there("box", "out of memory"), "box: out of memory");
}

TEST(ShownNames, StandInThePlaceOfWholePaths) {
  agent::ShownNames names;
  EXPECT_EQ(names.in_place("/data/fox: is no model"), "/data/fox: is no model");
  names.add("/data/fox", "ssh://box/data/fox");
  names.add("/data/fox/book.txt", "book.txt");
  EXPECT_EQ(names.in_place("/data/fox: is no model"), "ssh://box/data/fox: is no model");
  EXPECT_EQ(names.in_place("'/data/fox/config.json' and /data/fox/book.txt."),
            "'ssh://box/data/fox/config.json' and book.txt.");
  EXPECT_EQ(names.in_place("written to /data/fox/book.txt\n"), "written to book.txt\n");
  // Parts of longer names, and what is an URL already.
  for (const char* other : {"/data/foxes", "/old/data/fox", "ssh://box/data/fox", "/data/fox-2"}) {
    EXPECT_EQ(names.in_place(other), other);
  }
}

}  // namespace
}  // namespace foxscope::test
