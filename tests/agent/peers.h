#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backend/agent/agent.h"
#include "backend/agent/connection.h"

namespace foxscope::test {

/// A pipe whose ends are closed with the object, or before.
class Pipe {
 public:
  Pipe();
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read = -1;
  int write = -1;
  void close_read();
  void close_write();
};

/// Writes all of it, as far as the other side reads.
void write_bytes(int descriptor, const std::vector<std::byte>& bytes);
void write_text(int descriptor, const std::string& text);
/// A message's bytes with this header, as it is written, and no parts.
std::vector<std::byte> frame(const std::string& header);
std::vector<std::byte> operator+(std::vector<std::byte> a, const std::vector<std::byte>& b);

/// The hello of an agent of this protocol.
std::vector<std::byte> hello_of_agent(int protocol = agent::kProtocol);

/// An agent in a thread of its own, and the pipes that lead to it.
class AgentThread {
 public:
  explicit AgentThread(const std::function<void(agent::Agent&)>& answers);
  /// Ends it, by ending its input.
  ~AgentThread();
  AgentThread(const AgentThread&) = delete;
  AgentThread& operator=(const AgentThread&) = delete;

  [[nodiscard]] int in() const { return m_answers.read; }     ///< what it answers
  [[nodiscard]] int out() const { return m_requests.write; }  ///< to it
  void end_input() { m_requests.close_write(); }
  /// Waits for its end. @returns the message of what it threw, else empty
  std::string finish();

 private:
  Pipe m_requests;
  Pipe m_answers;
  agent::Agent m_agent;
  std::string m_error;
  std::thread m_thread;
};

/// The message of an error, else empty.
std::string error_of(const std::function<void()>& action);

/// Sets a variable of the environment while the object lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value);
  ~Variable();
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

/// Lets this program stand in the place of ssh: FOXSCOPE_SSH names it, and FOXSCOPE_TEST_ROLE its part (main.cpp).
class Role {
 public:
  explicit Role(const std::string& role);
  ~Role();
  Role(const Role&) = delete;
  Role& operator=(const Role&) = delete;

 private:
  Variable ssh_;
  Variable role_;
};
/// Set by main.
const std::string& this_program();
void set_this_program(std::string path);

}  // namespace foxscope::test
