# What ./dev has unpacked into .deps where there is no root (resources/deps.sh), included before project(): CMake finds it
# first. The compiler looks into it behind its own headers, which include the C library's as the next ones. Programs find
# its libraries by DT_RPATH, which unlike DT_RUNPATH holds for what those libraries load in turn.
set(FOXSCOPE_DEPS "")
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/.deps/usr)
  set(FOXSCOPE_DEPS ${CMAKE_CURRENT_SOURCE_DIR}/.deps)
  list(PREPEND CMAKE_PREFIX_PATH ${FOXSCOPE_DEPS}/usr)
  foreach(language C CXX)
    string(APPEND CMAKE_${language}_FLAGS_INIT
      " -idirafter ${FOXSCOPE_DEPS}/usr/include -idirafter ${FOXSCOPE_DEPS}/usr/include/x86_64-linux-gnu")
  endforeach()
  foreach(kind EXE SHARED MODULE)
    set(libraries ${FOXSCOPE_DEPS}/usr/lib/x86_64-linux-gnu)
    string(APPEND CMAKE_${kind}_LINKER_FLAGS_INIT " -L${libraries} -Wl,--disable-new-dtags,-rpath,${libraries}")
  endforeach()
endif()
