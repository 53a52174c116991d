#pragma once

#include <string_view>

namespace foxscope::page {

// The files of resources/page and the program's icon, as the build puts them into the program.

std::string_view pageHtml();
std::string_view pageStyle();
std::string_view pageScript();
std::string_view pageIcon();

}  // namespace foxscope::page
