// Messages between the devices of one process.
//
// XLA's own let the threads of devices sleep until all have come, and wake up slowly (see threads.cpp). Here a rank leaves
// a copy for its neighbour and looks out for what it is to get for a while. If that has not come by then, the call stays
// unfinished (a Future), and is finished once it was sent: it keeps no thread to itself, so that devices may come to
// independent shifts and collectives of a run in any order.
//
// Where a device fails alone the others would wait for ever: who waits for too long gets an error instead.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

// Threads on which devices go on whose calls stayed unfinished: as many as ever were so at once. XLA's are fewer, and other
// collectives may keep all of them waiting for just these devices.
class Helpers {
 public:
  static Helpers& Get() {
    static auto* helpers = new Helpers;  // its threads never end, and must not outlive it
    return *helpers;
  }

  void Call(std::function<void()> work) {
    std::lock_guard<std::mutex> lock(mutex_);
    work_.push_back(std::move(work));
    if (static_cast<int64_t>(work_.size()) > idle_) std::thread(&Helpers::Serve, this).detach();
    some_.notify_one();
  }

 private:
  void Serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      ++idle_;
      some_.wait(lock, [&] { return !work_.empty(); });
      --idle_;
      auto work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<std::function<void()>> work_;
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
    Helpers::Get().Call([done = std::move(waiting.done)]() mutable { done.SetAvailable(); });
  }

  ffi::Future Take(size_t rank, void* place, size_t size, double patience) {
    auto& box = boxes_[rank];
    if (boxes_.size() <= std::thread::hardware_concurrency())  // or others need the core
      Team::LookOut([&] { return box.here.load(std::memory_order_acquire) > 0; });
    ffi::Promise done;
    ffi::Future future(done);
    std::unique_lock<std::mutex> lock(mutex_);
    if (box.messages.empty()) {
      box.waiting.emplace(Waiting{place, done, patience});
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

  // A second has gone: lets those go with an error who have waited for too long, or all of a run that has failed. Whether
  // there were any.
  bool Tick(bool failed) {
    std::lock_guard<std::mutex> lock(mutex_);
    failed_ |= failed;
    bool some = false;
    for (size_t rank = 0; rank < boxes_.size(); ++rank) {
      auto& waiting = boxes_[rank].waiting;
      if (!waiting || (waiting->patience-- > 0 && !failed_)) continue;
      some = true;
      Helpers::Get().Call([rank, done = std::move(waiting->done)]() mutable {
        done.SetError(ffi::Error(ffi::ErrorCode::kDeadlineExceeded,
                                 "device " + std::to_string(rank) + " waited too long for its neighbour's strip: another "
                                 "device has failed or hangs; look for the first error, or run on one device."));
      });
      waiting.reset();
    }
    failed_ |= some;
    return some;
  }

  // Whether a new Mail would do as well: all ranks have sent as many, and have got them.
  bool IsOver() {
    std::lock_guard<std::mutex> lock(mutex_);
    return failed_ || std::all_of(boxes_.begin(), boxes_.end(), [&](const Box& box) {
      return box.messages.empty() && !box.waiting && box.sent == boxes_[0].sent;
    });
  }

 private:
  struct Waiting {
    void* place;
    ffi::Promise done;
    double patience;
  };
  struct Box {  // what is on its way to a rank, from the one rank that sends it something
    std::deque<std::unique_ptr<char[]>> messages;
    std::atomic<int64_t> here = 0;
    int64_t sent = 0;
    std::optional<Waiting> waiting;
  };

  std::mutex mutex_;
  std::vector<Box> boxes_;
  bool failed_ = false;
};

struct Office;

// Looks every second for those who wait for too long. It counts its looks: while the process is stopped nobody waits.
class Watch {
 public:
  static Watch& Get() {
    static auto* watch = new Watch;  // its thread never ends, and must not outlive it
    return *watch;
  }

  void Add(Office* office) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!std::exchange(goes_on_, true)) std::thread(&Watch::Look, this).detach();
    offices_.insert(office);
  }

  void Remove(Office* office) {
    std::lock_guard<std::mutex> lock(mutex_);
    offices_.erase(office);
  }

 private:
  void Look();

  std::mutex mutex_;
  std::unordered_set<Office*> offices_;
  bool goes_on_ = false;
};

// The place of a shift in a compiled program, which all its devices share: XLA makes one for each that it compiles, also
// of those that it repeats.
struct Office {
  static ffi::TypeId id;

  Office() { Watch::Get().Add(this); }
  ~Office() { Watch::Get().Remove(this); }

  std::shared_ptr<Mail> Of(int64_t run, size_t ranks) {
    std::lock_guard<std::mutex> lock(mutex);
    auto& mail = runs[run];
    if (!mail) {
      mail = std::make_shared<Mail>(ranks);
      for (auto old = runs.begin(); old != runs.end();)
        old = old->first != run && old->second.use_count() == 1 && old->second->IsOver() ? runs.erase(old) : std::next(old);
    }
    return mail;
  }

  std::mutex mutex;
  std::unordered_map<int64_t, std::shared_ptr<Mail>> runs;
};

// Where a device waits for too long, all of its run are let go at whatever place they wait.
void Watch::Look() {
  for (;; std::this_thread::sleep_for(std::chrono::seconds(1))) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::unordered_set<int64_t> failed;
    auto each = [&](auto&& look) {
      for (auto* office : offices_) {
        std::lock_guard<std::mutex> lock(office->mutex);
        for (auto& [run, mail] : office->runs) look(run, *mail);
      }
    };
    each([&](int64_t run, Mail& mail) { if (mail.Tick(false)) failed.insert(run); });
    if (!failed.empty()) each([&](int64_t run, Mail& mail) { if (failed.count(run)) mail.Tick(true); });
  }
}

ffi::TypeId Office::id = {};
constexpr ffi::TypeInfo kOfficeInfo = ffi::MakeTypeInfo<Office>();

ffi::ErrorOr<std::unique_ptr<Office>> OpenOffice() { return std::make_unique<Office>(); }

// y of rank r is the x of rank sources[r], for which it waits so many seconds.
ffi::Future Shift(Office* office, ffi::RunId run, ffi::Buffer<ffi::S32> rank, ffi::AnyBuffer x,
                  ffi::Result<ffi::AnyBuffer> y, ffi::Span<const int64_t> sources, double patience) {
  const int64_t me = rank.typed_data()[0];
  const auto mail = office->Of(run.run_id, sources.size());
  mail->Send(std::find(sources.begin(), sources.end(), me) - sources.begin(), x.untyped_data(), x.size_bytes());
  return mail->Take(me, y->untyped_data(), y->size_bytes(), patience);
}

}  // namespace

extern "C" const void* swmodel_office_id() { return &Office::id; }
extern "C" const void* swmodel_office_info() { return &kOfficeInfo; }

XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_open_office, OpenOffice, ffi::Ffi::BindInstantiate());
XLA_FFI_DEFINE_HANDLER_SYMBOL(swmodel_shift, Shift,
                              ffi::Ffi::Bind().Ctx<ffi::State<Office>>().Ctx<ffi::RunId>()
                                  .Arg<ffi::Buffer<ffi::S32>>().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>()
                                  .Attr<ffi::Span<const int64_t>>("sources")
                                  .Attr<double>("patience"));
