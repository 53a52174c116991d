#pragma once

#include <hdf5.h>

#include "backend/base/atomic_file.h"

namespace foxscope {

/// Where libhdf5's bytes go: into an AtomicFile. A write that fails (the disk is full) is noted and reported to libhdf5
/// as done, because version 1.10 cannot close a file whose last writes fail; whoever owns the file asks for the note.
struct Hdf5DriverTarget {
  const AtomicFile* file = nullptr;
  int error_number = 0;  ///< the first failure of the system, 0 while there is none
};

/// Makes a file access list write to `target`, which must outlive every file opened with the list.
/// @returns a negative number on failure, like libhdf5's own functions
herr_t set_atomic_file_driver(hid_t access_list, Hdf5DriverTarget* target);

}  // namespace foxscope
