# What every target of the project compiles with. Targets of other projects never see it.
add_library(foxscope_options INTERFACE)
target_include_directories(foxscope_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(foxscope_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual
  $<$<BOOL:${FOXSCOPE_WERROR}>:-Werror>)
if(FOXSCOPE_UNITY)
  # A constant of one source is not shadowed by a local of the next: only compiling several at once makes it seem so.
  target_compile_options(foxscope_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=shadow>)
endif()
if(FOXSCOPE_WERROR AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # From a precompiled header GCC 12 takes the standard library's code for the project's, and warns of what it inlines.
  target_compile_options(foxscope_options INTERFACE
    -Wno-error=array-bounds -Wno-error=stringop-overread -Wno-error=stringop-overflow -Wno-error=restrict
    -Wno-error=invalid-pch)
endif()
if(FOXSCOPE_SANITIZE)
  target_compile_options(foxscope_options INTERFACE
    -fsanitize=${FOXSCOPE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(foxscope_options INTERFACE -fsanitize=${FOXSCOPE_SANITIZE})
endif()

# What a library of ours calls of its own is called directly.
target_compile_options(foxscope_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>)

# foxscope_library(TARGET [FOLDERS...]): installed with the others in a folder of their own, where they find each other,
# and what they need in FOLDERS.
set(FOXSCOPE_LIBRARY_FOLDER ${CMAKE_INSTALL_LIBDIR}/foxscope)
function(foxscope_library target)
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")  # one more macro, and precompiled headers do not fit
  if(BUILD_SHARED_LIBS)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "\$ORIGIN;${ARGN}")
    install(TARGETS ${target} DESTINATION ${FOXSCOPE_LIBRARY_FOLDER})
  endif()
endfunction()

find_program(FOXSCOPE_CCACHE ccache)
if(FOXSCOPE_CCACHE)
  # A precompiled header is cached only when its macros and times are not compared; another checkout's objects serve too.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true ${FOXSCOPE_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(foxscope_options INTERFACE -fpch-preprocess)
  endif()
endif()

# AUTO means ON only where a driver is: LibTorch's CUDA build is three times as large and starts slower.
if(FOXSCOPE_CUDA STREQUAL "AUTO")
  if(EXISTS /proc/driver/nvidia/version OR EXISTS /dev/nvidiactl)
    set(FOXSCOPE_USE_CUDA ON)
  else()
    set(FOXSCOPE_USE_CUDA OFF)
  endif()
else()
  set(FOXSCOPE_USE_CUDA ${FOXSCOPE_CUDA})
endif()
message(STATUS "CUDA: ${FOXSCOPE_USE_CUDA} (FOXSCOPE_CUDA=${FOXSCOPE_CUDA})")
