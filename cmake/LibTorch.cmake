# LibTorch from an installed Python package `torch`, as imported targets of our own: the package's
# TorchConfig.cmake always demands a whole CUDA installation, which a CPU build does not need.
set(FOXSCOPE_TORCH_DIR "" CACHE PATH "Folder of the torch package (holds include/ and lib/)")
if(NOT FOXSCOPE_TORCH_DIR)
  find_program(FOXSCOPE_PYTHON NAMES python3 HINTS ${PROJECT_SOURCE_DIR}/.venv/bin NO_CMAKE_PATH)
  execute_process(
    COMMAND ${FOXSCOPE_PYTHON} -c
      "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE torch_status)
  if(NOT torch_status EQUAL 0)
    message(FATAL_ERROR "LibTorch not found: run `./dev setup`, set FOXSCOPE_TORCH_DIR, or -DFOXSCOPE_MODEL=OFF")
  endif()
  set_property(CACHE FOXSCOPE_TORCH_DIR PROPERTY VALUE ${torch_dir})
endif()
file(READ ${FOXSCOPE_TORCH_DIR}/version.py torch_version_text)
string(REGEX MATCH "__version__ = '([0-9]+\\.[0-9]+)" torch_version_match "${torch_version_text}")
if(NOT CMAKE_MATCH_1 VERSION_EQUAL 2.11)
  message(FATAL_ERROR "LibTorch ${CMAKE_MATCH_1} in ${FOXSCOPE_TORCH_DIR}: Foxscope needs 2.11")
endif()
message(STATUS "LibTorch ${CMAKE_MATCH_1}: ${FOXSCOPE_TORCH_DIR}")

function(foxscope_import_torch_library name)
  add_library(torch::${name} SHARED IMPORTED)
  set_target_properties(torch::${name} PROPERTIES
    IMPORTED_LOCATION ${FOXSCOPE_TORCH_DIR}/lib/lib${name}.so
    INTERFACE_INCLUDE_DIRECTORIES
      "${FOXSCOPE_TORCH_DIR}/include;${FOXSCOPE_TORCH_DIR}/include/torch/csrc/api/include"
    INTERFACE_COMPILE_DEFINITIONS _GLIBCXX_USE_CXX11_ABI=1)
endfunction()
foxscope_import_torch_library(c10)
foxscope_import_torch_library(torch_cpu)

add_library(foxscope_torch INTERFACE)
# at::parallel_for makes its team in the caller's own code, of one thread where that is compiled without OpenMP. The
# runtime is the one that comes with LibTorch: the compiler's has the same name.
target_compile_options(foxscope_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_libraries(foxscope_torch INTERFACE torch::torch_cpu torch::c10 ${FOXSCOPE_TORCH_DIR}/lib/libgomp.so.1)
# The libraries that libtorch_cpu itself needs are found by its own run path, not by the linker.
target_link_options(foxscope_torch INTERFACE -Wl,--allow-shlib-undefined)
if(FOXSCOPE_USE_CUDA)
  foxscope_import_torch_library(c10_cuda)
  foxscope_import_torch_library(torch_cuda)
  # The package of NCCL that comes with LibTorch holds its header.
  find_path(FOXSCOPE_NCCL_INCLUDE_DIR nccl.h HINTS ${FOXSCOPE_TORCH_DIR}/../nvidia/nccl/include
            DOC "Folder of nccl.h; without it several GPUs do not train together")
  # Nothing calls libtorch_cuda by name: it registers its operations when it is loaded.
  target_link_libraries(foxscope_torch INTERFACE
    -Wl,--push-state,--no-as-needed torch::torch_cuda torch::c10_cuda -Wl,--pop-state)
endif()
