#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <utility>

#include <hdf5.h>

#include "backend/file/element.h"

namespace foxscope::hdf5 {

/// libhdf5 as Debian builds it must not be entered by two threads.
std::mutex& library_mutex();

/// A handle of libhdf5 with the function that closes it.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }

  herr_t reset() {
    const hid_t id = std::exchange(id_, -1);
    return id < 0 ? 0 : close_(id);
  }
  [[nodiscard]] hid_t get() const { return id_; }
  [[nodiscard]] bool valid() const { return id_ >= 0; }

 private:
  hid_t id_;
  Close close_;
};

/// One type for all strings: variable length, UTF-8.
Handle string_type();
Handle element_type(Element element);
/// Scalar where there are no dimensions.
Handle make_space(std::span<const std::uint64_t> dims);
/// How every dataset is created: nothing in it depends on the time, so that equal runs give equal files.
Handle dataset_properties();
/// Missing groups on the way are created.
Handle link_properties();

}  // namespace foxscope::hdf5
