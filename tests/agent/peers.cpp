#include "tests/agent/peers.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "backend/agent/remote.h"

namespace foxscope::test {
namespace {

std::string program;

}  // namespace

Pipe::Pipe() {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  read = ends[0];
  write = ends[1];
}

Pipe::~Pipe() {
  close_read();
  close_write();
}

void Pipe::close_read() {
  if (read >= 0) close(std::exchange(read, -1));
}

void Pipe::close_write() {
  if (write >= 0) close(std::exchange(write, -1));
}

void write_bytes(int descriptor, const std::vector<std::byte>& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (written <= 0) return;
    done += static_cast<std::size_t>(written);
  }
}

void write_text(int descriptor, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  write_bytes(descriptor, {bytes.begin(), bytes.end()});
}

std::vector<std::byte> frame(const std::string& header) {
  std::vector<std::byte> bytes(4 + header.size());
  const auto length = static_cast<std::uint32_t>(header.size());
  std::memcpy(bytes.data(), &length, sizeof length);
  std::memcpy(bytes.data() + 4, header.data(), header.size());
  return bytes;
}

std::vector<std::byte> operator+(std::vector<std::byte> a, const std::vector<std::byte>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::byte> hello_of_agent(int protocol) {
  return agent::encoded(agent::hello_message({protocol, "foxscope", "9.9", {"open"}, true}));
}

AgentThread::AgentThread(const std::function<void(agent::Agent&)>& answers)
    : m_agent(m_requests.read, m_answers.write) {
  answers(m_agent);
  m_thread = std::thread([this] {
    try {
      m_agent.serve();
    } catch (const std::exception& error) {
      m_error = error.what();
    }
    m_answers.close_write();
  });
}

AgentThread::~AgentThread() {
  end_input();
  m_answers.close_read();
  finish();
}

std::string AgentThread::finish() {
  if (m_thread.joinable()) m_thread.join();
  return m_error;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

Variable::Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
Variable::~Variable() { unsetenv(name_); }

Role::Role(const std::string& role) : ssh_("FOXSCOPE_SSH", "'" + program + "'"), role_("FOXSCOPE_TEST_ROLE", role) {}

Role::~Role() { agent::Remote::close_all(); }

const std::string& this_program() { return program; }
void set_this_program(std::string path) { program = std::move(path); }

}  // namespace foxscope::test
