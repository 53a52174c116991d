#include "app/figure/page/pdf_metadata.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace foxscope::test {
namespace {

/// A PDF of one empty page, as Qt 6.4 writes it but for what is said; offsets are those of the objects.
struct SmallPdf {
  std::string numbers = "0 4";       ///< of the cross-reference section
  std::string used = " 00000 n \n";  ///< after each offset in it
  std::string box = "/MediaBox [0 0 100 100]";
  std::size_t shift = 0;  ///< of all offsets

  [[nodiscard]] std::string text() const {
    std::string pdf = "%PDF-1.4\n";
    std::string table = "xref\n" + numbers + "\n0000000000 65535 f \n";
    int number = 0;
    for (const std::string& object :
         {std::string("/Title (old)\n/CreationDate (D:20260101000000Z)"), std::string("/Type /Catalog /Pages 3 0 R"),
          "/Type /Page /Parent 3 0 R\n" + box}) {
      table += fmt::format("{:010}", pdf.size() + shift) + used;
      pdf += fmt::format("{} 0 obj\n<<\n{}\n>>\nendobj\n", ++number, object);
    }
    const std::size_t start = pdf.size();
    return pdf + table + fmt::format("trailer\n<<\n/Size 4\n/Info 1 0 R\n>>\nstartxref\n{}\n%%EOF\n", start);
  }
};

figure::PdfMetadata metadata() { return {"new", "subject", "keywords", 99.5, 98.25}; }

TEST(PdfMetadata, TheKnownFormGetsATitleAPageSizeAndNoDate) {
  const auto pdf = figure::withMetadata(SmallPdf{}.text(), metadata());
  ASSERT_TRUE(pdf);
  EXPECT_EQ(pdf->find("CreationDate"), std::string::npos);
  EXPECT_NE(pdf->find("/Title <FEFF006E00650077>"), std::string::npos);
  EXPECT_NE(pdf->find("/MediaBox [0 0.7500 99.5000 99.0000]"), std::string::npos) << *pdf;
  // Every offset is that of its object.
  const std::size_t table = std::stoul(pdf->substr(pdf->find("startxref\n") + 10));
  EXPECT_EQ(pdf->compare(table, 9, "xref\n0 4\n"), 0);
  for (std::size_t number = 1; number < 4; ++number) {
    const std::size_t offset = std::stoul(pdf->substr(table + 9 + 20 * number, 10));
    EXPECT_EQ(pdf->compare(offset, 7, fmt::format("{} 0 obj", number)), 0) << *pdf;
  }
  EXPECT_FALSE(figure::pdfNote(*pdf));
}

// What other versions of Qt may write: cross-references in a stream or in several sections, free entries, no box.
TEST(PdfMetadata, AnotherFormIsLeftAsItIsAndSaid) {
  const std::string known = SmallPdf{}.text();
  for (const std::string& pdf :
       {std::string(), std::string("%PDF-1.4\n"),
        std::string("%PDF-1.5\n1 0 obj\n<< /Type /XRef >>\nendobj\nstartxref\n9\n%%EOF\n"),
        std::string("trailer\n<<\n/Size 3\n/Info 1 0 R\n>>\nstartxref\n0\n%%EOF\n"),
        std::string("xref\n0 1\n0000000000 65535 f \ntrailer\n<<\n/Size 9\n/Info 1 0 R\n>>\nstartxref\n0\n%%EOF\n"),
        std::string(
            "xref\n0 1\n0000000000 65535 f \ntrailer\n<<\n/Size 922337203685477581\n/Info 1 0 R\n>>\nstartxref\n"
            "0\n%%EOF\n"),
        SmallPdf{.numbers = "0 3"}.text(), SmallPdf{.used = " 00000 f \n"}.text(),
        SmallPdf{.used = " 00001 n \n"}.text(), SmallPdf{.box = "/Rotate 0"}.text(), SmallPdf{.shift = 1}.text(),
        known.substr(0, known.find("trailer"))}) {
    EXPECT_FALSE(figure::withMetadata(pdf, metadata())) << pdf;
  }
  EXPECT_NE(figure::pdfNote(SmallPdf{.numbers = "0 3"}.text()).value_or("").find("creation date is not fixed"),
            std::string::npos);
  EXPECT_FALSE(figure::pdfNote("<svg>"));
  EXPECT_FALSE(figure::pdfNote("\x89PNG"));
}

}  // namespace
}  // namespace foxscope::test
