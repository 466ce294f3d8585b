// One dispatch as Python requests it: place arguments, run threadgroups, return results.
#include "runtime.h"

namespace conform {

namespace {

constexpr uint64_t kThreadgroupBytes = 32 << 10;  // of every Apple GPU

uint32_t log2_of(uint32_t bytes) {
  return bytes >= 8 ? 3 : bytes >= 4 ? 2 : bytes >= 2 ? 1 : 0;
}

// Arguments whose memory overlaps: views of one storage, or one tensor given twice. They share a
// copy: otherwise a kernel that updates in place would not see its own writes.
struct Span {
  unsigned char* begin;
  unsigned char* end;
  uint32_t slot, element;
  bool write, scattered;
};

class Arguments {
 public:
  explicit Arguments(const Request& request) : request_(request) {}

  bool bind() {
    for (uint32_t i = 0; i < request_.argument_count; ++i) {
      const Argument& argument = request_.arguments[i];
      if (!request_.checked)
        state.launch.arguments[i] = argument.address;
      else if (argument.kind == kScalar)
        bind_scalar(i, argument);
      else
        add(i, argument);
    }
    for (uint32_t s = 0; s < count_; ++s)
      if (!copy_in(spans_[s])) return false;
    return true;
  }

  void copy_out() {
    for (uint32_t s = 0; s < count_; ++s)
      if (spans_[s].write)
        memcpy(spans_[s].begin, state.arena.place(spans_[s].slot),
               size_t(spans_[s].end - spans_[s].begin));
  }

  void release() {
    for (uint32_t s = 0; s < count_; ++s)
      state.arena.release(spans_[s].slot, uint64_t(spans_[s].end - spans_[s].begin));
  }

 private:
  void bind_scalar(uint32_t i, const Argument& argument) {
    unsigned char* at = state.arena.place(Arena::kScalars) + i * 16;
    memcpy(at, argument.address, argument.bytes < 16 ? argument.bytes : 16);
    Region& region = state.regions[Arena::kScalars];
    region.base = state.arena.place(Arena::kScalars);
    region.size = 16 * kMaxArguments;
    region.index = i;
    state.launch.arguments[i] = at;
  }

  void add(uint32_t i, const Argument& argument) {
    auto* begin = static_cast<unsigned char*>(argument.address);
    const bool scattered = argument.kind == kScattered;
    const bool write = scattered || argument.kind == kOutput;
    Span span{begin, begin + argument.bytes, i, argument.element, write, scattered};
    for (uint32_t s = 0; s < count_;) {
      const Span& other = spans_[s];
      if (other.begin >= span.end || span.begin >= other.end) {
        ++s;
        continue;
      }
      if (other.begin < span.begin) span.begin = other.begin;
      if (other.end > span.end) span.end = other.end;
      if (other.slot < span.slot) span.slot = other.slot;
      if (other.element < span.element) span.element = other.element;
      span.write |= other.write;
      span.scattered &= other.scattered;
      spans_[s] = spans_[--count_];
      s = 0;
    }
    spans_[count_++] = span;
  }

  bool copy_in(const Span& span) {
    const auto size = uint64_t(span.end - span.begin);
    if (size > state.arena.slot_bytes() / 2) return false;
    Region& region = state.regions[span.slot];
    region.base = state.arena.place(span.slot);
    region.size = size;
    region.index = span.slot;
    region.shift = log2_of(span.element);
    region.scattered = span.scattered;
    if (span.write) {
      region.traces = state.arena.traces(span.slot, (size >> region.shift) + 1);
      if (!region.traces) return false;
    }
    memcpy(region.base, span.begin, size);
    for (uint32_t i = 0; i < request_.argument_count; ++i) {
      const Argument& argument = request_.arguments[i];
      auto* at = static_cast<unsigned char*>(argument.address);
      if (argument.kind != kScalar && at >= span.begin &&
          (at < span.end || (argument.bytes == 0 && at == span.end)))
        state.launch.arguments[i] = region.base + (at - span.begin);
    }
    return true;
  }

  const Request& request_;
  Span spans_[kMaxArguments];
  uint32_t count_ = 0;
};

void begin(const Request& request) {
  Launch& launch = state.launch;
  state.fault = Fault{};
  state.pending.address = nullptr;
  state.checked = request.checked;
  state.shared_bytes = 0;
  for (Region& region : state.regions) region = Region{};
  // Drop all traces long before stamps wrap around, so that no old trace looks new.
  if (state.stamp > uint32_t{1} << 31) {
    state.arena.forget();
    state.stamp = 0;
  }
  state.dispatch_start = ++state.stamp;
  for (int i = 0; i < 3; ++i) {
    launch.grid[i] = request.grid[i];
    launch.group[i] = request.group[i];
    launch.groups[i] = (request.grid[i] + request.group[i] - 1) / request.group[i];
  }
}

}  // namespace

}  // namespace conform

using namespace conform;

extern "C" {

// Returns 0, or the kind of fault; `*fault` then describes it.
uint32_t conform_run(const Request* request, Fault* fault) {
  begin(*request);
  Arguments arguments(*request);
  if (!state.arena.reserve() || !arguments.bind()) {
    state.fault.kind = kNoMemory;
  } else {
    if (request->checked) watch_image(request->entry);
    if (run_groups(request->entry)) arguments.copy_out();
    arguments.release();
  }
  *fault = state.fault;
  return state.fault.kind;
}

// The same variable for all threads; its size is known when the first one declares it.
void* conform_shared(uint32_t index, uint32_t size, uint32_t element) {
  const uint32_t slot = Arena::kScalars + 1 + index;
  Region& region = state.regions[slot];
  if (!region.base) {
    Fault fault{};
    fault.shared = 1;
    fault.index = int32_t(index);
    fault.size = state.shared_bytes += (size + 15) / 16 * 16;
    fault.kind = kThreadgroupMemory;
    if (fault.size > kThreadgroupBytes) fail(fault);
    region.base = state.arena.place(slot);
    region.size = size;
    region.index = index;
    region.element = element;
    region.shared = true;
    region.shift = log2_of(element);
    if (state.checked) {
      region.traces = state.arena.traces(slot, (size >> region.shift) + 1);
      fault.kind = kNoMemory;
      if (!region.traces) fail(fault);
    }
  }
  return region.base;
}

}  // extern "C"
