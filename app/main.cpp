#include <string>
#include <vector>

#include "app/cli/command.h"

int main(int count, char** arguments) {
  return foxscope::cli::runProgram(std::vector<std::string>(arguments, arguments + count));
}
