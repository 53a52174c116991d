#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include "backend/model/training/processes.h"
#include "backend/model/training/rendezvous_torch.h"

namespace c10d {
class Backend;
class Work;
}  // namespace c10d

namespace foxscope {

/// Processes that exchange tensors; what Processes::join makes.
class TorchProcesses final : public Processes {
 public:
  TorchProcesses(const DistributedConfig& distributed, const Device& device, const ProcessEvents& events);
  ~TorchProcesses() override;
  TorchProcesses(const TorchProcesses&) = delete;
  TorchProcesses& operator=(const TorchProcesses&) = delete;

  /// This process's part of a flat array, whose size is a multiple of the number of processes.
  [[nodiscard]] at::Tensor part(const at::Tensor& flat) const;

  /// Together: begins to sum `flat` over all processes into each one's part of it, behind what the device's current
  /// stream does. The other parts are of no use then.
  void begin_sum(const at::Tensor& flat);
  /// Together: begins to give every process the parts of all.
  void begin_share(const at::Tensor& flat);
  /// Work of the device from here on comes after all that was begun.
  void finish();
  /// Together: sums a whole tensor, for all processes.
  void add_up(at::Tensor& values);
  /// Together: gives all what process `rank` has.
  void send(at::Tensor& values, int rank);

  /// Together, of float32 numbers of which each process must have the same.  @throws Error where they differ
  void require_same_numbers(const at::Tensor& flat, const std::string& what);

  void add_up(std::span<double> values) override;
  std::vector<std::string> gather(const std::string& text) override;
  std::int64_t next_number(const std::string& name) override;
  void post(const std::string& text) override;
  std::optional<std::string> collect() override;
  void fail(const std::string& message) override;

 private:
  void watch(const std::stop_token& stop);
  /// Uses the store.  @throws Error where it is gone
  template <typename Action>
  auto in_store(const Action& action) const;
  /// If the first process is gone, the second one reports it.
  [[nodiscard]] bool speaks_without_first() const { return distributed().rank == 1; }
  /// The message for a store that has gone with the first process.
  [[nodiscard]] std::string without_first() const;
  [[nodiscard]] std::string key(const char* what, int rank) const;

  std::string remedy_;
  WorkLost lost_;
  Rendezvous rendezvous_;
  c10::intrusive_ptr<c10d::Store> store_;    ///< of the thread that works
  c10::intrusive_ptr<c10d::Store> watched_;  ///< of the watching thread
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::vector<c10::intrusive_ptr<c10d::Work>> begun_;
  std::int64_t gathered_ = 0;
  std::int64_t collected_ = 0;
  std::int64_t posted_ = 0;  ///< by this process
  std::mutex mutex_;
  bool failing_ = false;  ///< this process says itself why it ends
  std::jthread watch_;    ///< the last member: it ends before the others go
};

std::unique_ptr<Processes> join_processes(const DistributedConfig& distributed, const Device& device,
                                          const ProcessEvents& events);

}  // namespace foxscope
