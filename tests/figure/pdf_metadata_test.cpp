#include "app/figure/pdf_metadata.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace foxscope::test {
namespace {

TEST(PdfMetadata, AnotherFormIsRefusedWithWhatToUse) {
  for (const char* pdf :
       {"", "%PDF-1.4\n", "trailer\n<<\n/Size 3\n/Info 1 0 R\n>>\nstartxref\n0\n%%EOF\n",
        "xref\n0 1\n0000000000 65535 f \ntrailer\n<<\n/Size 9\n/Info 1 0 R\n>>\nstartxref\n0\n%%EOF\n"}) {
    const std::string message = error_of([&] { (void)figure::withMetadata(pdf, {}); });
    EXPECT_NE(message.find("use .svg or .png"), std::string::npos) << message << " of " << pdf;
  }
}

}  // namespace
}  // namespace foxscope::test
