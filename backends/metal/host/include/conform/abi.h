// The interface between a compiled kernel and the runtime. Both include it: no Metal names here.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace conform {

constexpr unsigned kSimdWidth = 32;
constexpr unsigned kMaxThreads = 1024;     // per threadgroup
constexpr unsigned kMaxArguments = 31;     // slots of Metal's buffer argument table
constexpr unsigned kMaxShared = 32;        // threadgroup variables of one kernel
constexpr unsigned kExchangeBytes = 64;    // the largest value a SIMD-group operation publishes

// One dispatch. The runtime fills it; the kernel's entry walks `next` up to `count`.
struct Launch {
  void* arguments[kMaxArguments];
  uint32_t grid[3];            // threads
  uint32_t group[3];           // threads of a full threadgroup
  uint32_t groups[3];          // threadgroups
  uint32_t group_position[3];  // of the running threadgroup
  uint32_t extent[3];          // its threads; fewer than `group` at the grid's edge
  uint32_t count;              // extent[0] * extent[1] * extent[2]
  uint32_t next;               // the first thread that has not started
  uint32_t current;            // the running thread
};

using Entry = void (*)(Launch*);

// Values that the active lanes of a SIMD group published at one operation.
struct Exchange {
  uint32_t active;             // bit per lane
  uint32_t reduced;            // set once `result` holds the operation's result
  alignas(16) unsigned char values[kSimdWidth][kExchangeBytes];
  alignas(16) unsigned char result[kExchangeBytes];
};

enum BarrierFlags : uint32_t { kNoFence = 0, kDeviceFence = 1, kThreadgroupFence = 2 };

}  // namespace conform

extern "C" {
// Wait until all threads of the threadgroup arrive.
void conform_barrier(uint32_t flags);
// Publish a value and wait for the lanes that are at the same operation.
conform::Exchange* conform_exchange(const void* value, uint32_t size, const void* site);
// The address of threadgroup variable `index` of the running kernel.
void* conform_shared(uint32_t index, uint32_t size, uint32_t element);
// An atomic access is about to happen (checked builds only).
void conform_atomic(const void* address, uint32_t size);
}
