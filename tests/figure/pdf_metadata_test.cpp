#include "app/figure/pdf_metadata.h"

#include <gtest/gtest.h>

#include "backend/base/error.h"

namespace foxscope::test {
namespace {

TEST(PdfMetadata, AnotherFormIsRefusedWithWhatToUse) {
  for (const char* pdf :
       {"", "%PDF-1.4\n", "trailer\n<<\n/Size 3\n/Info 1 0 R\n>>\nstartxref\n0\n%%EOF\n",
        "xref\n0 1\n0000000000 65535 f \ntrailer\n<<\n/Size 9\n/Info 1 0 R\n>>\nstartxref\n0\n%%EOF\n"}) {
    try {
      (void)figure::withMetadata(pdf, {});
      ADD_FAILURE() << "accepted: " << pdf;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("use .svg or .png"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace foxscope::test
