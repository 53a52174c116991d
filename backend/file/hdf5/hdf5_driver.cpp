#include "backend/file/hdf5/hdf5_driver.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>

// From 1.14 on, a driver's parts have a header of their own.
#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>
#endif

namespace foxscope {
namespace {

/// libhdf5 sees the first member only.
struct DriverFile {
  H5FD_t base;
  Hdf5DriverTarget* target;
  haddr_t end_of_allocation;
  haddr_t end_of_file;
};

DriverFile* as_file(H5FD_t* file) { return reinterpret_cast<DriverFile*>(file); }
const DriverFile* as_file(const H5FD_t* file) { return reinterpret_cast<const DriverFile*>(file); }

void note(DriverFile& file, int error_number) {
  if (file.target->error_number == 0) file.target->error_number = error_number;
}

H5FD_t* open_file(const char* /*name*/, unsigned /*flags*/, hid_t access_list, haddr_t /*largest_address*/) {
  const auto* target = static_cast<Hdf5DriverTarget* const*>(H5Pget_driver_info(access_list));
  if (target == nullptr) return nullptr;
  auto file = std::make_unique<DriverFile>();
  file->target = *target;
  return &file.release()->base;
}

herr_t close_file(H5FD_t* file) {
  const std::unique_ptr<DriverFile> owned(as_file(file));
  return 0;
}

int compare_files(const H5FD_t* left, const H5FD_t* right) {
  const auto* a = as_file(left)->target;
  const auto* b = as_file(right)->target;
  return a == b ? 0 : (std::less<>{}(a, b) ? -1 : 1);
}

herr_t query_features(const H5FD_t* /*file*/, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t get_end_of_allocation(const H5FD_t* file, H5FD_mem_t /*type*/) { return as_file(file)->end_of_allocation; }

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t address) {
  as_file(file)->end_of_allocation = address;
  return 0;
}

haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t /*type*/) { return as_file(file)->end_of_file; }

/// Bytes that were never written read as zeros.
herr_t read_bytes(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer_list*/, haddr_t address, std::size_t size,
                  void* buffer) {
  auto* next = static_cast<char*>(buffer);
  while (size > 0) {
    const ssize_t got = pread(as_file(file)->target->file->descriptor(), next, size, static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      note(*as_file(file), errno);
      return -1;
    }
    if (got == 0) break;
    next += got;
    address += static_cast<haddr_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  std::memset(next, 0, size);
  return 0;
}

herr_t write_bytes(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer_list*/, haddr_t address, std::size_t size,
                   const void* buffer) {
  DriverFile& into = *as_file(file);
  const int error = into.target->file->try_write_at(address, buffer, size);
  if (error != 0) note(into, error);
  into.end_of_file = std::max(into.end_of_file, address + size);
  return 0;
}

herr_t set_length(H5FD_t* file, hid_t /*transfer_list*/, hbool_t /*closing*/) {
  DriverFile& into = *as_file(file);
  if (into.end_of_allocation == into.end_of_file) return 0;
  if (ftruncate(into.target->file->descriptor(), static_cast<off_t>(into.end_of_allocation)) != 0) note(into, errno);
  into.end_of_file = into.end_of_allocation;
  return 0;
}

H5FD_class_t make_driver() {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(600);  // the range 512 and above is free for everyone
#endif
  driver.name = "foxscope_atomic_file";
  driver.maxaddr = static_cast<haddr_t>(std::numeric_limits<off_t>::max());
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(void*);  // the target's address
  driver.open = open_file;
  driver.close = close_file;
  driver.cmp = compare_files;
  driver.query = query_features;
  driver.get_eoa = get_end_of_allocation;
  driver.set_eoa = set_end_of_allocation;
  driver.get_eof = get_end_of_file;
  driver.read = read_bytes;
  driver.write = write_bytes;
  driver.truncate = set_length;
  const H5FD_mem_t free_lists[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(free_lists), std::end(free_lists), std::begin(driver.fl_map));
  return driver;
}

}  // namespace

herr_t set_atomic_file_driver(hid_t access_list, Hdf5DriverTarget* target) {
  static const H5FD_class_t driver = make_driver();
  static const hid_t id = H5FDregister(&driver);
  return id < 0 ? -1 : H5Pset_driver(access_list, id, static_cast<const void*>(&target));
}

}  // namespace foxscope
