// The queue from which the lanes of fusec.serve take batches.
#include "runtime/python/src/serve/batch_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <thread>

namespace fusec::python {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kLong = seconds(30);

std::shared_ptr<Waiting> Request(int64_t key, int64_t rows, std::vector<int64_t> sizes = {}) {
  return std::make_shared<Waiting>(key, rows, std::move(sizes));
}

std::vector<int64_t> RowsOf(const Batch& batch) {
  std::vector<int64_t> rows;
  for (const auto& waiting : batch) rows.push_back(waiting->rows);
  return rows;
}

using Rows = std::vector<int64_t>;

TEST(Crowd, AllAreAsManyAsThereWere) {
  Crowd crowd(seconds(1));
  const Clock::time_point start = Clock::now();
  for (size_t present = 1; present < 10; ++present)  // nothing is known yet
    EXPECT_FALSE(crowd.IsAll(present, start + present * milliseconds(100)));
  for (const int now : {1200, 1400}) {
    EXPECT_FALSE(crowd.IsAll(8, start + milliseconds(now)));
    EXPECT_TRUE(crowd.IsAll(9, start + milliseconds(now)));
  }
  EXPECT_TRUE(crowd.IsAll(12, start + milliseconds(1500)));
  EXPECT_FALSE(crowd.IsAll(11, start + milliseconds(1600)));
  EXPECT_FALSE(crowd.IsAll(12, start + seconds(9)));  // that is long ago
}

TEST(BatchQueue, ABatchIsFullOrHasWaited) {
  BatchQueue queue({4, {}, milliseconds(20), 100, true, false}, kLong);
  for (const int64_t rows : {3, 1, 2, 3, 9}) EXPECT_TRUE(queue.Push(Request(0, rows)));
  EXPECT_EQ(RowsOf(queue.Take()), (Rows{3, 1}));
  EXPECT_EQ(RowsOf(queue.Take()), (Rows{2}));
  EXPECT_EQ(RowsOf(queue.Take()), (Rows{3}));
  EXPECT_EQ(RowsOf(queue.Take()), (Rows{9}));  // on its own
  const Clock::time_point start = Clock::now();
  EXPECT_TRUE(queue.Push(Request(0, 1)));
  EXPECT_EQ(RowsOf(queue.Take()), (Rows{1}));
  EXPECT_GE(Clock::now() - start, milliseconds(19));
}

TEST(BatchQueue, OnlyEqualKeysAndSizesThatFitShareABatch) {
  BatchQueue queue({100, {5}, Clock::duration::zero(), 100, true, false}, kLong);
  EXPECT_TRUE(queue.Push(Request(7, 1, {3})));
  EXPECT_TRUE(queue.Push(Request(8, 2, {0})));
  EXPECT_TRUE(queue.Push(Request(7, 3, {3})));  // 6 together, which is more than 5
  EXPECT_TRUE(queue.Push(Request(7, 4, {2})));
  EXPECT_EQ(RowsOf(queue.Take()), (Rows{1, 4}));
  EXPECT_EQ(RowsOf(queue.Take()), (Rows{2}));
  EXPECT_EQ(RowsOf(queue.Take()), (Rows{3}));
}

TEST(BatchQueue, WhatHasEndedIsNotTaken) {
  BatchQueue queue({100, {}, Clock::duration::zero(), 3, true, false}, kLong);
  std::vector<std::shared_ptr<Waiting>> requests;
  for (const int64_t rows : {1, 2, 3}) {
    requests.push_back(Request(0, rows));
    EXPECT_TRUE(queue.Push(requests.back()));
  }
  EXPECT_FALSE(queue.Push(Request(0, 4)));  // it is full
  EXPECT_TRUE(requests[0]->End());
  EXPECT_FALSE(requests[0]->End());
  EXPECT_TRUE(requests[1]->End());
  EXPECT_TRUE(queue.Push(Request(0, 5)));  // two have made room
  EXPECT_EQ(RowsOf(queue.Take()), (Rows{3, 5}));
}

TEST(BatchQueue, NothingIsJoinedWhereNothingCanBe) {
  BatchQueue queue({100, {}, kLong, 100, false, false}, kLong);
  for (int64_t key = 0; key < 3; ++key) EXPECT_TRUE(queue.Push(Request(key, 1)));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.Take().size(), 1u);  // without delay
}

TEST(BatchQueue, ClosedItIsEmptied) {
  BatchQueue queue({100, {}, kLong, 100, true, false}, kLong);
  EXPECT_TRUE(queue.Push(Request(0, 1)));
  std::thread closes([&] {
    std::this_thread::sleep_for(milliseconds(20));
    queue.Close();
  });
  EXPECT_EQ(queue.Take().size(), 1u);
  closes.join();
  EXPECT_FALSE(queue.Push(Request(0, 1)));
  EXPECT_TRUE(queue.Take().empty());
  EXPECT_TRUE(queue.Take().empty());
}

TEST(BatchQueue, IdleLanesShareManyRequests) {
  BatchQueue queue({100, {}, milliseconds(50), 100, true, true}, kLong);
  std::mutex mutex;
  std::vector<size_t> sizes;
  std::vector<std::thread> lanes;
  for (int i = 0; i < 3; ++i) {
    lanes.emplace_back([&] {
      while (true) {
        const size_t size = queue.Take().size();
        if (size == 0) return;
        std::this_thread::sleep_for(milliseconds(200));  // it runs
        queue.Finish(size);
        const std::lock_guard lock(mutex);
        sizes.push_back(size);
      }
    });
  }
  std::this_thread::sleep_for(milliseconds(20));
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(queue.Push(Request(0, 1)));
  std::this_thread::sleep_for(milliseconds(400));
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(queue.Push(Request(0, 1)));  // too few to be shared
  std::this_thread::sleep_for(milliseconds(400));
  queue.Close();
  for (std::thread& lane : lanes) lane.join();
  ASSERT_EQ(sizes.size(), 4u);
  std::sort(sizes.begin(), sizes.begin() + 3);
  EXPECT_EQ(sizes, (std::vector<size_t>{13, 13, 14, 15}));
}

TEST(BatchQueue, NobodyWaitsWhenAllHaveAsked) {
  BatchQueue queue({1000, {}, milliseconds(100), 100, true, false}, milliseconds(400));
  const auto seconds_of_batch = [&] {
    for (int i = 0; i < 12; ++i) EXPECT_TRUE(queue.Push(Request(0, 1)));
    const Clock::time_point start = Clock::now();
    const Batch batch = queue.Take();
    EXPECT_EQ(batch.size(), 12u);
    queue.Finish(batch.size());
    return Seconds(Clock::now() - start).count();
  };
  EXPECT_GE(seconds_of_batch(), 0.09);  // nothing is known yet
  for (int i = 0; i < 5; ++i) seconds_of_batch();
  EXPECT_LT(seconds_of_batch(), 0.05);
}

}  // namespace
}  // namespace fusec::python
