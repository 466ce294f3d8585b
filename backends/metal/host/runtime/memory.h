// The memory of a checked kernel, and the recorded accesses to each part of it.
//
// Each buffer and threadgroup variable is in the middle of its own slot of address space, which no
// 32-bit index leaves: the address of an access identifies its buffer.
#pragma once
#include <string.h>
#include <sys/mman.h>

#include <conform/abi.h>

namespace conform {

// The last accesses to a granule. A stamp numbers a section between barriers and never repeats.
struct Trace {
  uint32_t write_stamp, write_thread;
  uint32_t read_stamp, read_thread;
};
constexpr uint32_t kAtomic = 0x7ffffffeu;        // in place of a thread: many atomic accesses
constexpr uint32_t kMany = 0x7fffffffu;          // in place of a thread: several
constexpr uint32_t kEarlier = 0x80000000u;       // flag of a reader: an earlier threadgroup read too

struct Region {
  unsigned char* base = nullptr;
  uint64_t size = 0;
  Trace* traces = nullptr;  // null: read-only
  uint32_t shift = 0;       // log2 of the bytes of a granule
  uint32_t index = 0;       // of the argument or threadgroup variable
  uint32_t element = 1;     // bytes
  bool shared = false;
  bool scattered = false;   // plain writes of several threads to one place are intended
};

class Arena {
 public:
  static constexpr unsigned kSlots = kMaxArguments + 1 + kMaxShared;
  static constexpr unsigned kScalars = kMaxArguments;  // the slot that holds all scalars

  // False if the process cannot reserve address space.
  bool reserve() {
    if (base_) return true;
    // Smaller slots if address space is limited: fewer wild indices are then attributed.
    for (shift_ = 36; shift_ >= 28; shift_ -= 4) {
      // Shared, because private address space counts for RLIMIT_DATA although no page of it is used.
      void* at = mmap(nullptr, uint64_t{kSlots} << shift_, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (at == MAP_FAILED) continue;
      base_ = static_cast<unsigned char*>(at);
      return true;
    }
    return false;
  }

  uint64_t slot_bytes() const { return uint64_t{1} << shift_; }
  // Sizes up to half a slot fit.
  unsigned char* place(unsigned slot) const {
    return base_ + (uint64_t{slot} << shift_) + slot_bytes() / 4;
  }
  // The slot of an address; kSlots or more if it is in none.
  uint64_t slot_of(const void* address) const {
    return (reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(base_)) >> shift_;
  }

  // Memory for traces of a slot. It is reused between dispatches: old stamps have no meaning.
  Trace* traces(unsigned slot, uint64_t count) {
    Pool& pool = pools_[slot];
    if (pool.count < count) {
      drop(pool);
      void* at = mmap(nullptr, count * sizeof(Trace), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (at == MAP_FAILED) return nullptr;
      pool = {static_cast<Trace*>(at), count};
    }
    return pool.traces;
  }
  void forget() {
    for (Pool& pool : pools_) drop(pool);
  }
  // Release pages of large buffers to the system; keep small ones for the next dispatch.
  void release(unsigned slot, uint64_t size) {
    if (size > kKeep) madvise(page(place(slot)), size + 4096, kRelease);
    if (pools_[slot].count * sizeof(Trace) > kKeep) drop(pools_[slot]);
  }

 private:
  struct Pool {
    Trace* traces = nullptr;
    uint64_t count = 0;
  };
  static constexpr uint64_t kKeep = uint64_t{16} << 20;
#ifdef MADV_REMOVE
  static constexpr int kRelease = MADV_REMOVE;
#else
  static constexpr int kRelease = MADV_DONTNEED;
#endif

  static void drop(Pool& pool) {
    if (pool.traces) munmap(pool.traces, pool.count * sizeof(Trace));
    pool = {};
  }
  static void* page(unsigned char* at) {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at) & ~uintptr_t{4095});
  }

  unsigned char* base_ = nullptr;
  unsigned shift_ = 36;
  Pool pools_[kSlots];
};

}  // namespace conform
