// Memory for pages of keys and values: what is taken is nobody else's, and what is let go of goes back.
#include "backend/model/layer/cpu/page_pool.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"

namespace foxscope {
namespace {

using Pages = std::vector<std::shared_ptr<float>>;
constexpr std::int64_t kNumbers = 32;

Pages take_pages(PagePool& pool, std::int64_t count) {
  Pages pages;
  for (std::int64_t n = 0; n < count; ++n) pages.push_back(pool.take());
  return pages;
}

TEST(PagePool, PagesBeginAtACacheLineAndDoNotOverlap) {
  const auto pool = std::make_shared<PagePool>(kNumbers);
  const Pages pages = take_pages(*pool, 3 * PagePool::kPagesOfBlock + 1);
  for (std::size_t n = 0; n < pages.size(); ++n) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages[n].get()) % 64, 0U);
    std::fill_n(pages[n].get(), kNumbers, static_cast<float>(n));
  }
  for (std::size_t n = 0; n < pages.size(); ++n) {
    EXPECT_EQ(std::count(pages[n].get(), pages[n].get() + kNumbers, static_cast<float>(n)), kNumbers);
  }
  EXPECT_EQ(pool->blocks(), 4);
}

TEST(PagePool, APageThatIsLetGoOfIsTakenAgain) {
  const auto pool = std::make_shared<PagePool>(kNumbers);
  const Pages kept = take_pages(*pool, PagePool::kPagesOfBlock - 1);
  const float* const last = pool->take().get();
  EXPECT_EQ(pool->take().get(), last);
  EXPECT_EQ(pool->blocks(), 1);
}

TEST(PagePool, EmptyBlocksAreNeverMoreThanThoseInUse) {
  const auto pool = std::make_shared<PagePool>(kNumbers);
  Pages pages = take_pages(*pool, 8 * PagePool::kPagesOfBlock);
  for (const std::int64_t used : {8, 7, 6, 5, 4, 3, 2, 1}) {
    pages.resize(static_cast<std::size_t>(used * PagePool::kPagesOfBlock));
    EXPECT_EQ(pool->blocks(), std::min<std::int64_t>(8, 2 * used)) << used;
  }
  pages.clear();
  EXPECT_EQ(pool->blocks(), 0);
}

TEST(PagePool, PagesAreTakenFromTheOldestBlockSoThatOthersBecomeEmpty) {
  const auto pool = std::make_shared<PagePool>(kNumbers);
  Pages pages = take_pages(*pool, 4 * PagePool::kPagesOfBlock);
  std::mt19937 generator(1);
  std::set<float*> of_first;
  for (std::int64_t n = 0; n < PagePool::kPagesOfBlock; ++n) of_first.insert(pages[index_of(n)].get());
  // Half of each block.
  for (std::size_t n = 0; n < pages.size(); n += 2) pages[n].reset();
  for (std::int64_t n = 0; n < PagePool::kPagesOfBlock / 2; ++n) {
    pages.push_back(pool->take());
    EXPECT_TRUE(of_first.contains(pages.back().get()));
  }
}

/// As texts come and go, of any length: memory follows what is in use, however long it goes on.
TEST(PagePool, MemoryStaysWithinThatOfTheMostInUse) {
  const auto pool = std::make_shared<PagePool>(kNumbers);
  std::mt19937 generator(2);
  std::uniform_int_distribution<std::size_t> length(1, 200);
  std::vector<Pages> texts(32);
  std::size_t most = 0;
  for (int turn = 0; turn < 5000; ++turn) {
    texts[generator() % texts.size()] = take_pages(*pool, static_cast<std::int64_t>(length(generator)));
    std::size_t used = 0;
    for (const Pages& text : texts) used += text.size();
    // The text that was there goes when the new one has come.
    most = std::max(most, used + 200);
  }
  EXPECT_LE(pool->blocks() * PagePool::kPagesOfBlock, static_cast<std::int64_t>(most) + PagePool::kPagesOfBlock);
}

TEST(PagePool, PagesOutliveThePoolsOwner) {
  auto pool = std::make_shared<PagePool>(kNumbers);
  const std::shared_ptr<float> page = pool->take();
  pool.reset();
  std::fill_n(page.get(), kNumbers, 1.0F);
  EXPECT_EQ(page.get()[kNumbers - 1], 1.0F);
}

TEST(PagePool, ThreadsTakeAndLetGoTogether) {
  const auto pool = std::make_shared<PagePool>(kNumbers);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&pool, thread] {
      for (int turn = 0; turn < 200; ++turn) {
        const Pages pages = take_pages(*pool, 50);
        for (const auto& page : pages) std::fill_n(page.get(), kNumbers, static_cast<float>(thread));
        for (const auto& page : pages) {
          ASSERT_EQ(std::count(page.get(), page.get() + kNumbers, static_cast<float>(thread)), kNumbers);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->blocks(), 0);
}

}  // namespace
}  // namespace foxscope
