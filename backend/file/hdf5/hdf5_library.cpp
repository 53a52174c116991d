#include "backend/file/hdf5/hdf5_library.h"

#include <vector>

namespace foxscope::hdf5 {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

Handle string_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

Handle element_type(Element element) {
  switch (element) {
    case Element::int32:
      return {H5Tcopy(H5T_STD_I32LE), H5Tclose};
    case Element::int64:
      return {H5Tcopy(H5T_STD_I64LE), H5Tclose};
    case Element::float32:
      return {H5Tcopy(H5T_IEEE_F32LE), H5Tclose};
    case Element::float64:
      return {H5Tcopy(H5T_IEEE_F64LE), H5Tclose};
    case Element::bfloat16:
    case Element::float16:
      break;
  }
  Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  if (element == Element::bfloat16) {
    // Sign in bit 15, exponent in bits 7 to 14 with bias 127, mantissa in bits 0 to 6.
    H5Tset_fields(type.get(), 15, 7, 8, 0, 7);
  } else {
    // Exponent in bits 10 to 14 with bias 15, mantissa in bits 0 to 9.
    H5Tset_fields(type.get(), 15, 10, 5, 0, 10);
  }
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), element == Element::bfloat16 ? 127 : 15);
  return type;
}

Handle make_space(std::span<const std::uint64_t> dims) {
  const std::vector<hsize_t> extent(dims.begin(), dims.end());
  return {extent.empty() ? H5Screate(H5S_SCALAR)
                         : H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr),
          H5Sclose};
}

Handle dataset_properties() {
  Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(list.get(), false);
  return list;
}

Handle link_properties() {
  Handle list(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(list.get(), 1);
  return list;
}

}  // namespace foxscope::hdf5
