# The CUDA compiler and CUTLASS's headers (the PyPI package nvidia-cutlass), for kernels/cuda. Sets FOXSCOPE_CUDA_KERNELS.
file(GLOB cuda_site_packages ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages)
list(TRANSFORM cuda_site_packages APPEND /cutlass_library/source/include OUTPUT_VARIABLE cutlass_hints)
find_path(FOXSCOPE_CUTLASS_INCLUDE_DIR cute/tensor.hpp HINTS ${cutlass_hints})
list(TRANSFORM cuda_site_packages APPEND /nvidia/cu13/bin OUTPUT_VARIABLE nvcc_hints)
find_program(FOXSCOPE_NVCC nvcc PATHS /usr/local/cuda/bin ${nvcc_hints})

set(FOXSCOPE_CUDA_KERNELS ON)
if(NOT FOXSCOPE_CUTLASS_INCLUDE_DIR OR NOT FOXSCOPE_NVCC)
  set(FOXSCOPE_CUDA_KERNELS OFF)
  message(WARNING "Building without Foxscope's own CUDA kernels: needs nvcc (${FOXSCOPE_NVCC}) and the headers of "
                  "nvidia-cutlass (${FOXSCOPE_CUTLASS_INCLUDE_DIR}); see requirements-cutlass.txt")
  return()
endif()

# The compiler of PyPI's packages looks for its libraries in lib64; they are in lib.
cmake_path(GET FOXSCOPE_NVCC PARENT_PATH nvcc_dir)
cmake_path(GET nvcc_dir PARENT_PATH cuda_dir)
if(cuda_dir MATCHES "site-packages/nvidia" AND NOT EXISTS ${cuda_dir}/lib64)
  file(CREATE_LINK lib ${cuda_dir}/lib64 SYMBOLIC)
endif()

# Architectures are options of each file: Hopper's instructions need one of their own.
set(CMAKE_CUDA_ARCHITECTURES OFF)
set(CMAKE_CUDA_COMPILER ${FOXSCOPE_NVCC} CACHE FILEPATH "nvcc")
enable_language(CUDA)
set(FOXSCOPE_CUDA_HOPPER "-gencode=arch=compute_90a,code=sm_90a")
# Machine code for A100 to H200; newer cards compile the last entry's PTX.
set(FOXSCOPE_CUDA_PORTABLE
    "-gencode=arch=compute_80,code=sm_80;-gencode=arch=compute_90,code=sm_90;-gencode=arch=compute_90,code=compute_90")

function(foxscope_cuda_options target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${target} SYSTEM PRIVATE ${FOXSCOPE_CUTLASS_INCLUDE_DIR})
  target_compile_options(${target} PRIVATE --expt-relaxed-constexpr)
  set_target_properties(${target} PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static POSITION_INDEPENDENT_CODE ON)
endfunction()
