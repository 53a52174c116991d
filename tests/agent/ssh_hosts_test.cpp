#include "backend/agent/ssh_hosts.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/temporary_folder.h"

namespace foxscope::test {
namespace {

using Hosts = std::vector<std::string>;

TEST(SshHosts, AreTheNamesOfHostLinesWithoutPatterns) {
  const TemporaryFolder folder;
  folder.write("config",
               "# Host commented\nHost cluster  login-1\n  HostName cluster.example.org\n\tUser ann\n"
               "host=box\r\nHOST = \"a box\" *.example.org gpu? !not -oProxyCommand=x\nHost cluster\n"
               "Match host inner\n  HostName inner.example.org\nHost \"open\n");
  EXPECT_EQ(agent::ssh_hosts(folder / "config"), (Hosts{"cluster", "login-1", "box", "a box"}));
}

TEST(SshHosts, AreReadFromIncludedFilesInTheirPlace) {
  const TemporaryFolder folder;
  folder.write("config", "Host first\nInclude conf.d/*.conf missing\nHost last\n");
  folder.write("conf.d/a.conf", "Host a\nInclude " + folder.text() + "/deep\n");
  folder.write("conf.d/b.conf", "Host b first\n");
  folder.write("deep", "Host deep\n");
  EXPECT_EQ(agent::ssh_hosts(folder / "config"), (Hosts{"first", "a", "deep", "b", "last"}));
}

TEST(SshHosts, EndWhereFilesIncludeThemselves) {
  const TemporaryFolder folder;
  folder.write("config", "Host one\nInclude config\n");
  EXPECT_EQ(agent::ssh_hosts(folder / "config"), Hosts{"one"});
  EXPECT_EQ(agent::ssh_hosts(folder / "nothing"), Hosts{});
}

TEST(SshHosts, ComeFromTheHomeFolder) {
  const char* const home = std::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  setenv("HOME", "/home/ann", 1);
  EXPECT_EQ(agent::ssh_configuration(), "/home/ann/.ssh/config");
  setenv("HOME", "", 1);
  EXPECT_TRUE(agent::ssh_configuration().empty());
  setenv("HOME", before.c_str(), 1);
}

}  // namespace
}  // namespace foxscope::test
