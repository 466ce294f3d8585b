// Switching between the stacks of fibers. Hand-written where it takes few instructions: ucontext
// reads the signal mask from the kernel at each switch, which takes twenty times as long.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace conform {

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(CONFORM_UCONTEXT)

struct Context {
  void* sp = nullptr;
};

extern "C" void conform_switch(void** from, void* to);

#if defined(__x86_64__)
inline void prepare(Context& context, unsigned char* stack, size_t size, void (*entry)()) {
  auto top = reinterpret_cast<uintptr_t>(stack + size) & ~uintptr_t{15};
  void** sp = reinterpret_cast<void**>(top);
  *--sp = nullptr;  // the entry sees the stack as after a call
  *--sp = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--sp = nullptr;
  context.sp = sp;
}
#else
inline void prepare(Context& context, unsigned char* stack, size_t size, void (*entry)()) {
  auto top = reinterpret_cast<uintptr_t>(stack + size) & ~uintptr_t{15};
  void** sp = reinterpret_cast<void**>(top) - 20;
  for (int i = 0; i < 20; ++i) sp[i] = nullptr;
  sp[11] = reinterpret_cast<void*>(entry);  // x30
  context.sp = sp;
}
#endif

inline void switch_to(Context& from, Context& to) { conform_switch(&from.sp, to.sp); }

#else
}  // namespace conform
#include <ucontext.h>
namespace conform {

struct Context {
  ucontext_t state;
};

inline void prepare(Context& context, unsigned char* stack, size_t size, void (*entry)()) {
  getcontext(&context.state);
  context.state.uc_stack.ss_sp = stack;
  context.state.uc_stack.ss_size = size;
  context.state.uc_link = nullptr;
  makecontext(&context.state, entry, 0);
}

inline void switch_to(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

#endif

}  // namespace conform
