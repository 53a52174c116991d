#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "app/cli/command.h"

int main(int count, char** arguments) {
  const int status = foxscope::cli::runProgram(std::vector<std::string>(arguments, arguments + count));
#ifdef NDEBUG
  // LibTorch spends a tenth of a second on taking apart what the end of the process frees at once.
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(status);
#else
  return status;
#endif
}
