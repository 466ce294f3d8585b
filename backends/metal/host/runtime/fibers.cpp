// Runs the threadgroups of a dispatch one after another. A thread that waits keeps its fiber;
// another fiber then starts the remaining threads.
#include "runtime.h"

namespace conform {

State state;

namespace {

// Equal offsets in all stacks would map to the same few cache lines.
constexpr size_t kColours = 64, kColour = 192;

Entry entry;

// Ends only when all threads have started, so kernels that never wait need one fiber.
void fiber_main() {
  for (;;) {
    entry(&state.launch);
    settle();
    state.running->wait = kEnded;
    switch_to(state.running->context, state.scheduler);
  }
}

uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

void prepare_fiber(uint32_t i) {
  const size_t size = kStack - i % kColours * kColour;
  prepare(state.fibers[i].context, state.stacks + i * kStack, size, fiber_main);
  state.fibers[i].wait = kEnded;
}

bool prepare_fibers() {
  if (state.stacks) return true;
  void* at = mmap(nullptr, kStack * kMaxThreads, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return false;
  state.stacks = static_cast<unsigned char*>(at);
  for (uint32_t i = 0; i < kMaxThreads; ++i) {
    prepare_fiber(i);
    state.free_fibers[i] = kMaxThreads - 1 - i;
  }
  state.free_count = kMaxThreads;
  return true;
}

// After a fault fibers are suspended anywhere, so recreate all of them.
void reset_fibers() {
  for (uint32_t i = 0; i < kMaxThreads; ++i) {
    prepare_fiber(i);
    state.free_fibers[i] = kMaxThreads - 1 - i;
    state.waiting[i] = nullptr;
  }
  state.free_count = kMaxThreads;
}

// Run a fiber until it waits or ends. False after a fault.
bool resume(Fiber& fiber) {
  const bool fresh = fiber.wait == kEnded;
  if (!fresh) {
    state.launch.current = fiber.thread;
    state.waiting[fiber.thread] = nullptr;
  }
  fiber.wait = kReady;
  state.running = &fiber;
  switch_to(state.scheduler, fiber.context);
  if (state.fault.kind != kNone) return false;
  if (fiber.wait == kEnded)
    state.free_fibers[state.free_count++] = uint32_t(&fiber - state.fibers);
  return true;
}

// Of the lanes that wait at SIMD-group operations, those at the earliest one are active. Lanes at a
// later one skipped a branch or left a loop, and wait for the others.
bool run_simdgroup(uint32_t first, uint32_t end) {
  for (;;) {
    const void* site = nullptr;
    for (uint32_t t = first; t < end; ++t) {
      const Fiber* fiber = state.waiting[t];
      if (fiber && fiber->wait == kSimd && (!site || fiber->site < site)) site = fiber->site;
    }
    if (!site) return true;
    Exchange& all = state.exchanges[first / kSimdWidth];
    all.active = all.reduced = 0;
    for (uint32_t t = first; t < end; ++t) {
      Fiber* fiber = state.waiting[t];
      if (!fiber || fiber->wait != kSimd || fiber->site != site) continue;
      all.active |= 1u << (t - first);
      memcpy(all.values[t - first], fiber->value, fiber->bytes);
    }
    const uint32_t active = all.active;
    for (uint32_t t = first; t < end; ++t)
      if (active >> (t - first) & 1u && !resume(*state.waiting[t])) return false;
  }
}

bool all_at_barrier() {
  for (uint32_t t = 0; t < state.launch.count; ++t) {
    if (state.waiting[t]) continue;
    state.fault.kind = kDivergentBarrier;
    state.fault.index = -1;
    grid_position(t, state.fault.thread);
    return false;
  }
  return true;
}

void pass_barrier(uint32_t flags) {
  ++state.stamp;
  if (flags & kDeviceFence) state.device_stamp = state.stamp;
  if (flags & kThreadgroupFence) state.shared_stamp = state.stamp;
}

// Run one SIMD group after another, each until all its lanes wait: its stacks stay in the cache.
bool run_group() {
  Launch& launch = state.launch;
  launch.next = 0;
  state.group_start = state.device_stamp = state.shared_stamp = ++state.stamp;
  for (uint32_t first = 0; first < launch.count; first += kSimdWidth) {
    const uint32_t end = least(first + kSimdWidth, launch.count);
    // A thread that does not wait passes its fiber to the next, so `next` may be far ahead.
    while (launch.next < end)
      if (!resume(state.fibers[state.free_fibers[--state.free_count]])) return false;
    if (!run_simdgroup(first, end)) return false;
  }
  while (state.free_count < kMaxThreads) {
    if (!all_at_barrier()) return false;
    uint32_t flags = kDeviceFence | kThreadgroupFence;
    for (uint32_t t = 0; t < launch.count; ++t) flags &= state.waiting[t]->flags;
    pass_barrier(flags);
    for (uint32_t first = 0; first < launch.count; first += kSimdWidth) {
      const uint32_t end = least(first + kSimdWidth, launch.count);
      for (uint32_t t = first; t < end; ++t)
        if (!resume(*state.waiting[t])) return false;
      if (!run_simdgroup(first, end)) return false;
    }
  }
  return !state.checked || all_writes_read();
}

void wait_here(Wait wait) {
  Fiber& fiber = *state.running;
  settle();
  fiber.thread = state.launch.current;
  fiber.wait = wait;
  state.waiting[fiber.thread] = &fiber;
  switch_to(fiber.context, state.scheduler);
}

}  // namespace

bool run_groups(Entry kernel) {
  if (!prepare_fibers()) {
    state.fault.kind = kNoMemory;
    return false;
  }
  entry = kernel;
  Launch& l = state.launch;
  bool good = true;
  for (uint32_t z = 0; good && z < l.groups[2]; ++z)
    for (uint32_t y = 0; good && y < l.groups[1]; ++y)
      for (uint32_t x = 0; good && x < l.groups[0]; ++x) {
        const uint32_t at[3] = {x, y, z};
        l.count = 1;
        for (int i = 0; i < 3; ++i) {
          l.group_position[i] = at[i];
          l.extent[i] = least(l.group[i], l.grid[i] - at[i] * l.group[i]);
          l.count *= l.extent[i];
        }
        good = run_group();
      }
  if (!good) reset_fibers();
  return good;
}

void grid_position(uint32_t thread, uint32_t (&to)[3]) {
  const Launch& l = state.launch;
  const uint32_t at[3] = {thread % l.extent[0], thread / l.extent[0] % l.extent[1],
                          thread / l.extent[0] / l.extent[1]};
  for (int i = 0; i < 3; ++i) to[i] = l.group_position[i] * l.group[i] + at[i];
}

void fail(const Fault& fault) {
  if (state.fault.kind == kNone) state.fault = fault;
  state.pending.address = nullptr;
  switch_to(state.running->context, state.scheduler);
  __builtin_unreachable();
}

}  // namespace conform

using namespace conform;

extern "C" {

Launch* conform_launch() { return &state.launch; }

void conform_barrier(uint32_t flags) {
  state.running->flags = flags;
  wait_here(kBarrier);
}

Exchange* conform_exchange(const void* value, uint32_t size, const void* site) {
  Fiber& fiber = *state.running;
  fiber.value = value;
  fiber.bytes = size;
  fiber.site = site;
  wait_here(kSimd);
  return &state.exchanges[state.launch.current / kSimdWidth];
}

}  // extern "C"
