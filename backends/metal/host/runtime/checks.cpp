// The compiler's thread instrumentation calls these before each access of a checked kernel: checks
// of bounds, writes to constants, races, and reads of uninitialized threadgroup memory.
#include <link.h>

#include "runtime.h"

namespace conform {

namespace {

struct Image {
  const void* entry = nullptr;
  uintptr_t begin = 0, end = 0;
};
Image image;  // the library of the running kernel: its constant tables may be read

Fault describe(const Region& region, const void* address, uint32_t bytes, bool write) {
  Fault fault{};
  fault.shared = region.shared;
  fault.index = region.base ? int32_t(region.index) : -1;
  fault.bytes = bytes;
  fault.write = write;
  fault.element = region.element;
  fault.offset = static_cast<const unsigned char*>(address) - region.base;
  fault.size = region.size;
  grid_position(state.launch.current, fault.thread);
  memset(fault.other, 0xff, sizeof(fault.other));
  return fault;
}

[[noreturn, gnu::noinline]] void report(FaultKind kind, const Region& region, const void* address,
                                        uint32_t bytes, bool write) {
  Fault fault = describe(region, address, bytes, write);
  fault.kind = kind;
  fail(fault);
}

// Whether an access of this kind by `thread` under `stamp` collides with the running one.
struct Rival {
  uint32_t stamp, thread;
  bool write;
};

// A colliding write is judged by its effect: writing the same value is harmless.
[[gnu::noinline]] void collide(const Region& region, const void* address, uint32_t bytes,
                               bool write, bool atomic, Rival rival) {
  Fault fault = describe(region, address, bytes, write);
  fault.kind = kRace;
  fault.other_write = rival.write;
  if (rival.stamp >= state.group_start && rival.thread < kMaxThreads)
    grid_position(rival.thread, fault.other);
  if (!write || atomic || bytes > sizeof(state.pending.before)) fail(fault);
  settle();
  state.pending.address = static_cast<const unsigned char*>(address);
  memcpy(state.pending.before, address, bytes);
  state.pending.fault = fault;
}

struct Watch {
  Region& region;
  uint32_t first;  // the first stamp of this dispatch, or of this lifetime of the memory
  uint32_t now, me;

  bool known(uint32_t stamp) const { return stamp >= first; }
  // Neither a barrier nor program order separates that access from this one.
  bool unordered(uint32_t stamp, uint32_t thread) const {
    if (!known(stamp)) return false;
    if (thread == kAtomic && me == kAtomic) return false;
    return stamp < state.group_start || (stamp >= now && thread != me);
  }
};

// False if the access collides; its trace is then unchanged.
inline bool trace_write(const Watch& watch, Trace& trace, Rival& rival) {
  rival = {trace.write_stamp, trace.write_thread, true};
  const bool meant =
      watch.region.scattered && rival.thread != kAtomic && watch.me != kAtomic;
  if (!meant && watch.unordered(rival.stamp, rival.thread)) return false;
  if (watch.known(trace.read_stamp)) {
    const bool earlier = trace.read_thread & kEarlier;
    rival = {trace.read_stamp, earlier ? kMany : trace.read_thread, false};
    if (earlier || watch.unordered(rival.stamp, rival.thread)) return false;
  }
  trace.write_stamp = watch.now;
  trace.write_thread = watch.me;
  return true;
}

inline bool trace_read(const Watch& watch, Trace& trace, Rival& rival) {
  rival = {trace.write_stamp, trace.write_thread, true};
  if (watch.unordered(rival.stamp, rival.thread)) return false;
  uint32_t reader = watch.me;
  if (watch.known(trace.read_stamp)) {
    const uint32_t before = trace.read_thread & ~kEarlier;
    if (trace.read_stamp < state.group_start || trace.read_thread & kEarlier) reader |= kEarlier;
    if (trace.read_stamp >= watch.now && before != watch.me) reader |= kMany;
  }
  trace.read_thread = reader;
  trace.read_stamp = watch.now;
  return true;
}

inline void touch(Region& region, const void* address, uint32_t bytes, bool write, bool atomic) {
  const uint64_t offset = uint64_t(static_cast<const unsigned char*>(address) - region.base);
  const Watch watch{region, region.shared ? state.group_start : state.dispatch_start,
                    region.shared ? state.shared_stamp : state.device_stamp,
                    atomic ? kAtomic : state.launch.current};
  Trace* trace = region.traces + (offset >> region.shift);
  Trace* const last = region.traces + ((offset + bytes - 1) >> region.shift);
  for (; trace <= last; ++trace) {
    Rival rival;
    if (!write && region.shared && !watch.known(trace->write_stamp))
      report(kUninitialized, region, address, bytes, write);
    if (!(write ? trace_write(watch, *trace, rival) : trace_read(watch, *trace, rival))) {
      collide(region, address, bytes, write, atomic, rival);
      return;
    }
  }
}

inline bool within(const void* address, uintptr_t begin, uintptr_t end) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  return at - begin < end - begin;
}

[[gnu::noinline]] void access_elsewhere(const void* address, uint32_t bytes, bool write) {
  const auto stacks = reinterpret_cast<uintptr_t>(state.stacks);
  if (within(address, stacks, stacks + kStack * kMaxThreads)) return;
  if (!write && within(address, image.begin, image.end)) return;
  report(kOutOfBounds, Region{}, address, bytes, write);
}

inline void access(const void* address, uint32_t bytes, bool write, bool atomic = false) {
  if (__builtin_expect(state.pending.address != nullptr, false)) settle();
  const uint64_t slot = state.arena.slot_of(address);
  if (slot >= Arena::kSlots) return access_elsewhere(address, bytes, write);
  Region& region = state.regions[slot];
  const uint64_t offset = uint64_t(static_cast<const unsigned char*>(address) - region.base);
  if (__builtin_expect(offset >= region.size || bytes > region.size - offset, false))
    report(kOutOfBounds, region, address, bytes, write);
  if (region.traces)
    touch(region, address, bytes, write, atomic);
  else if (__builtin_expect(write, false))
    report(kReadOnly, region, address, bytes, write);
}

int find_image(dl_phdr_info* info, size_t, void*) {
  const auto at = reinterpret_cast<uintptr_t>(image.entry);
  uintptr_t begin = ~uintptr_t{0}, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    const uintptr_t from = info->dlpi_addr + header.p_vaddr;
    if (from < begin) begin = from;
    if (from + header.p_memsz > end) end = from + header.p_memsz;
  }
  if (at < begin || at >= end) return 0;
  image.begin = begin;
  image.end = end;
  return 1;
}

}  // namespace

void settle() {
  auto& pending = state.pending;
  if (!pending.address) return;
  const bool changed = memcmp(pending.address, pending.before, pending.fault.bytes) != 0;
  pending.address = nullptr;
  if (changed) fail(pending.fault);
}

// Partial results that no thread reads: a reduction narrower than its threadgroup.
bool all_writes_read() {
  for (unsigned slot = Arena::kScalars + 1; slot < Arena::kSlots; ++slot) {
    const Region& region = state.regions[slot];
    if (!region.base) break;
    const uint64_t count = region.size >> region.shift;
    for (uint64_t i = 0; i < count; ++i) {
      const Trace& trace = region.traces[i];
      const bool read = trace.read_stamp >= trace.write_stamp;
      if (trace.write_stamp < state.group_start || read || trace.write_thread >= kMaxThreads)
        continue;
      state.launch.current = trace.write_thread;
      state.fault = describe(region, region.base + (i << region.shift), 1u << region.shift, true);
      state.fault.kind = kLostWrite;
      return false;
    }
  }
  return true;
}

void watch_image(Entry entry) {
  const void* at = reinterpret_cast<const void*>(entry);
  if (image.entry == at) return;
  image.entry = at;
  dl_iterate_phdr(find_image, nullptr);
}

}  // namespace conform

using namespace conform;

extern "C" {

void conform_atomic(const void* address, uint32_t size) { access(address, size, true, true); }

#define CONFORM_HOOKS(n)                                               \
  void __tsan_read##n(void* at) { access(at, n, false); }              \
  void __tsan_write##n(void* at) { access(at, n, true); }              \
  void __tsan_unaligned_read##n(void* at) { access(at, n, false); }    \
  void __tsan_unaligned_write##n(void* at) { access(at, n, true); }
CONFORM_HOOKS(1)
CONFORM_HOOKS(2)
CONFORM_HOOKS(4)
CONFORM_HOOKS(8)
CONFORM_HOOKS(16)
#undef CONFORM_HOOKS
void __tsan_read_range(void* at, unsigned long size) { access(at, uint32_t(size), false); }
void __tsan_write_range(void* at, unsigned long size) { access(at, uint32_t(size), true); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

void __ubsan_handle_divrem_overflow(void*, unsigned long, unsigned long) {
  Fault fault{};
  fault.kind = kDivision;
  fault.index = -1;
  grid_position(state.launch.current, fault.thread);
  fail(fault);
}

}  // extern "C"
