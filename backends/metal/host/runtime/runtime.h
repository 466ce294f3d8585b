// The state of the running dispatch, and the interface to Python.
#pragma once
#include "context.h"
#include "memory.h"

namespace conform {

enum FaultKind : uint32_t {
  kNone = 0,
  kOutOfBounds = 1,        // outside of every buffer, or of the indexed one
  kRace = 2,               // two threads, one of which writes, without synchronization
  kReadOnly = 3,           // a write to a constant buffer
  kUninitialized = 4,      // threadgroup memory read before the threadgroup wrote it
  kDivergentBarrier = 5,   // some threads wait at a barrier, the others have ended
  kDivision = 6,           // an integer divided by zero
  kThreadgroupMemory = 7,  // more than a threadgroup may have
  kNoMemory = 8,
  kLostWrite = 9,          // threadgroup memory that no thread reads
};

// Mirrored by backends/metal/host/native.py.
struct Fault {
  uint32_t kind;
  uint32_t shared;     // `index` is a threadgroup variable, not an argument
  int32_t index;       // -1: unknown
  uint32_t bytes;      // of the access
  uint32_t write;
  uint32_t other_write;
  uint32_t element;    // bytes of one element of a threadgroup variable
  uint32_t reserved;
  int64_t offset;      // from the start of the buffer
  uint64_t size;       // of the buffer
  uint32_t thread[3];  // in the grid
  uint32_t other[3];   // in the threadgroup, of the other thread; all ones: unknown
};

// kScattered: only written, at indices that are data; any of the written values may remain.
enum ArgumentKind : uint32_t { kInput = 0, kOutput = 1, kScalar = 2, kScattered = 3 };

struct Argument {
  void* address;
  uint64_t bytes;
  uint32_t kind;
  uint32_t element;  // bytes of one element: the granularity at which races are detected
};

struct Request {
  Entry entry;
  const Argument* arguments;
  uint32_t argument_count;
  uint32_t grid[3];
  uint32_t group[3];
  uint32_t checked;
};

constexpr size_t kStack = size_t{128} << 10;  // of a fiber

enum Wait : uint32_t { kReady, kSimd, kBarrier, kEnded };

struct Fiber {
  Context context;
  uint32_t thread = 0;
  Wait wait = kEnded;
  uint32_t flags = 0;            // of the barrier
  const void* site = nullptr;    // of the SIMD-group operation
  const void* value = nullptr;   // the published value, on the fiber's stack
  uint32_t bytes = 0;
};

struct State {
  Launch launch;
  Arena arena;
  Fault fault;
  bool checked = false;

  // Regions by slot: arguments, scalars, threadgroup variables.
  Region regions[Arena::kSlots];
  uint64_t shared_bytes = 0;

  uint32_t stamp = 0;            // the newest
  uint32_t dispatch_start = 0;
  uint32_t group_start = 0;
  uint32_t device_stamp = 0;     // since the last fence of that memory
  uint32_t shared_stamp = 0;

  // A colliding write is a race only if it changes the value; known at the next event.
  struct {
    const unsigned char* address = nullptr;
    unsigned char before[16];
    Fault fault;
  } pending;

  Fiber fibers[kMaxThreads];
  Fiber* waiting[kMaxThreads];   // by thread; null: ended or not started
  uint32_t free_fibers[kMaxThreads];
  uint32_t free_count = 0;
  unsigned char* stacks = nullptr;
  Fiber* running = nullptr;
  Context scheduler;
  Exchange exchanges[kMaxThreads / kSimdWidth];
};

extern State state;

// Run all threadgroups of the launch. False after a fault.
bool run_groups(Entry entry);
// Check whether the ending threadgroup read all that it wrote to threadgroup memory.
bool all_writes_read();
// Let a checked kernel read the constants of its own library.
void watch_image(Entry entry);
// Record a fault of the running thread and leave the dispatch; does not return to the kernel.
[[noreturn]] void fail(const Fault& fault);
// Judge the pending write, if any.
void settle();
// The grid position of a thread of the running threadgroup.
void grid_position(uint32_t thread, uint32_t (&to)[3]);

}  // namespace conform
