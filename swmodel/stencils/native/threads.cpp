// A pool of threads that poll for work for a while before they sleep. Those of XLA's pool sleep at once, and a sleeping
// thread takes a tenth of a millisecond to wake up, as long as a step of a small tile.

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace {

class ThreadPool {
 public:
  static ThreadPool& Get() {
    static auto* pool = new ThreadPool;  // never destroyed, as its threads never end
    return *pool;
  }

  // Calls work(0), ..., work(count - 1) on at most `threads` threads, including the caller's. If another caller is using
  // the pool, the caller's thread does all of the work.
  template <typename Work>
  void Run(int64_t threads, int64_t count, const Work& work) {
    std::unique_lock<std::mutex> mine(busy_, std::defer_lock);
    if (std::min(threads, count) <= 1 || !mine.try_lock()) {
      for (int64_t k = 0; k < count; ++k) work(k);
      return;
    }
    for (; size_ < threads - 1; ++size_) std::thread(&ThreadPool::Serve, this, size_).detach();
    work_ = &work, count_ = count, helpers_ = threads - 1, next_ = 0, done_ = 0;
    call_ = [](const void* work, int64_t k) { (*static_cast<const Work*>(work))(k); };
    open_ = true;
    Announce();
    Help();
    Until([&] { return done_ == count; });
    open_ = false;
    Until([&] { return inside_ == 0; });  // no thread uses this round's work any more
  }

  // Polls a condition for kPollingTime at most, and returns whether it holds.
  template <typename Condition>
  static bool Poll(const Condition& holds) {
    const auto end = std::chrono::steady_clock::now() + kPollingTime;
    Until([&] { return holds() || std::chrono::steady_clock::now() > end; });
    return holds();
  }

 private:
  static constexpr auto kPollingTime = std::chrono::microseconds(300);

  // Pauses between two polls. Every 64th pause lets another thread run on this core.
  static void Pause(int k) {
    if (k % 64 == 0) sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    else __builtin_ia32_pause();
#endif
  }

  template <typename Condition>
  static void Until(const Condition& holds) {
    for (int k = 1; !holds(); ++k) Pause(k);
  }

  void Help() {
    for (int64_t k; (k = next_.fetch_add(1)) < count_; ++done_) call_(work_, k);
  }

  void Announce() {
    ++round_;
    if (sleepers_ == 0) return;
    std::lock_guard<std::mutex> lock(sleep_);
    awake_.notify_all();
  }

  void Serve(int64_t number) {
    for (int64_t last = 0;;) {
      Await(last);
      last = round_;
      ++inside_;
      if (open_ && number < helpers_) Help();
      --inside_;
    }
  }

  // Waits until the number of the round is no longer `last`.
  void Await(int64_t last) {
    if (Poll([&] { return round_ != last; })) return;
    std::unique_lock<std::mutex> lock(sleep_);
    ++sleepers_;
    awake_.wait(lock, [&] { return round_ != last; });
    --sleepers_;
  }

  std::mutex busy_, sleep_;
  std::condition_variable awake_;
  std::atomic<int64_t> round_{0}, sleepers_{0}, inside_{0}, next_{0}, done_{0};
  std::atomic<bool> open_{false};
  const void* work_ = nullptr;
  void (*call_)(const void*, int64_t) = nullptr;
  int64_t count_ = 0, helpers_ = 0, size_ = 0;
};

}  // namespace
