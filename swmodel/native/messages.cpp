// Messages between the devices of one process.
//
// XLA's own lets the threads of devices sleep until all have come, and a sleeping thread takes a tenth of a millisecond to
// wake up. Here a rank leaves a copy for its neighbour and looks out for what it is to get for a while. If that has not
// come by then, the call stays unfinished (a Future), and is finished once it was sent: no thread is ever kept waiting, so
// that the order in which devices come to other work cannot lock them up.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

// Threads on which devices go on whose calls stayed unfinished: as many as there are such devices. XLA's are fewer, and
// other collectives may keep all of them waiting for just these devices.
class Helpers {
 public:
  static Helpers& Get() {
    static auto* helpers = new Helpers;  // its threads never end, and must not outlive it
    return *helpers;
  }

  void Finish(ffi::Promise done) {
    std::lock_guard<std::mutex> lock(mutex_);
    finished_.push_back(std::move(done));
    if (static_cast<int64_t>(finished_.size()) > idle_) std::thread(&Helpers::Serve, this).detach();
    some_.notify_one();
  }

 private:
  void Serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      ++idle_;
      some_.wait(lock, [&] { return !finished_.empty(); });
      --idle_;
      auto done = std::move(finished_.front());
      finished_.pop_front();
      lock.unlock();
      done.SetAvailable();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<ffi::Promise> finished_;
  int64_t idle_ = 0;
};

// The messages of one run of a program at one place in it.
class Mail {
 public:
  explicit Mail(size_t ranks) : boxes_(ranks) {}

  void Send(size_t to, const void* data, size_t size) {
    std::unique_ptr<char[]> copy(new char[size]);
    std::memcpy(copy.get(), data, size);
    auto& box = boxes_[to];
    std::unique_lock<std::mutex> lock(mutex_);
    ++box.sent;
    if (!box.waiting) {
      box.messages.push_back(std::move(copy));
      box.here.fetch_add(1, std::memory_order_release);
      return;
    }
    auto waiting = *std::exchange(box.waiting, std::nullopt);
    lock.unlock();
    std::memcpy(waiting.place, data, size);
    Helpers::Get().Finish(std::move(waiting.done));
  }

  ffi::Future Take(size_t rank, void* place, size_t size) {
    auto& box = boxes_[rank];
    LookOut(box);
    ffi::Promise done;
    ffi::Future future(done);
    std::unique_lock<std::mutex> lock(mutex_);
    if (box.messages.empty()) {
      box.waiting.emplace(Waiting{place, done});
      return future;
    }
    auto message = std::move(box.messages.front());
    box.messages.pop_front();
    box.here.fetch_sub(1, std::memory_order_relaxed);
    lock.unlock();
    std::memcpy(place, message.get(), size);
    done.SetAvailable();
    return future;
  }

  // Whether all ranks have sent as many, and have got them: none can tell a new Mail from this one.
  bool IsEven() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::all_of(boxes_.begin(), boxes_.end(), [&](const Box& box) {
      return box.messages.empty() && !box.waiting && box.sent == boxes_[0].sent;
    });
  }

 private:
  struct Waiting {
    void* place;
    ffi::Promise done;
  };
  struct Box {  // what is on its way to a rank, from the one rank that sends it something
    std::deque<std::unique_ptr<char[]>> messages;
    std::atomic<int64_t> here = 0;
    int64_t sent = 0;
    std::optional<Waiting> waiting;
  };

  void LookOut(const Box& box) const {
    if (boxes_.size() > std::thread::hardware_concurrency()) return;  // others need the core
    const auto end = std::chrono::steady_clock::now() + Team::kPatience;
    for (int k = 1; box.here.load(std::memory_order_acquire) == 0; ++k) {
      if (k % 32 == 0 && std::chrono::steady_clock::now() > end) return;
      Team::Pause(k);
    }
  }

  std::mutex mutex_;
  std::vector<Box> boxes_;
};

// The place of a shift in a compiled program, which all its devices share: XLA makes one for each that it compiles, also
// of those that it repeats.
struct Office {
  static ffi::TypeId id;

  std::shared_ptr<Mail> Of(int64_t run, size_t ranks) {
    std::lock_guard<std::mutex> lock(mutex);
    auto& mail = runs[run];
    if (!mail) {
      mail = std::make_shared<Mail>(ranks);
      for (auto old = runs.begin(); old != runs.end();)
        old = old->first != run && old->second.use_count() == 1 && old->second->IsEven() ? runs.erase(old) : std::next(old);
    }
    return mail;
  }

  std::mutex mutex;
  std::unordered_map<int64_t, std::shared_ptr<Mail>> runs;
};

ffi::TypeId Office::id = {};
constexpr ffi::TypeInfo kOfficeInfo = ffi::MakeTypeInfo<Office>();

ffi::ErrorOr<std::unique_ptr<Office>> OpenOffice() { return std::make_unique<Office>(); }

// y of rank r is the x of rank sources[r].
ffi::Future Shift(Office* office, ffi::RunId run, ffi::Buffer<ffi::S32> rank, ffi::AnyBuffer x,
                  ffi::Result<ffi::AnyBuffer> y, ffi::Span<const int64_t> sources) {
  const int64_t me = rank.typed_data()[0];
  const auto mail = office->Of(run.run_id, sources.size());
  mail->Send(std::find(sources.begin(), sources.end(), me) - sources.begin(), x.untyped_data(), x.size_bytes());
  return mail->Take(me, y->untyped_data(), y->size_bytes());
}

}  // namespace

extern "C" const void* swmodel_office_id() { return &Office::id; }
extern "C" const void* swmodel_office_info() { return &kOfficeInfo; }

XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_open_office, OpenOffice, ffi::Ffi::BindInstantiate());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_shift, Shift,
                              ffi::Ffi::Bind().Ctx<ffi::State<Office>>().Ctx<ffi::RunId>()
                                  .Arg<ffi::Buffer<ffi::S32>>().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>()
                                  .Attr<ffi::Span<const int64_t>>("sources"));
