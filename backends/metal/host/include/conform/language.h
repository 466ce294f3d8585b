// The language itself: address spaces, scalar types, bit casts, the constants of <metal_math>.
#pragma once
// Included before the macros below: the standard library uses some of these words as identifiers.
#include <conform/abi.h>

#include <limits>
#include <type_traits>

#define __METAL__ 1
// Language 3.2, a dialect of C++14: what macOS 15 compiles by default.
#define __METAL_VERSION__ 320

// The host has a single address space. Variables in `threadgroup` memory are declared through
// conform::shared, which host/kernel_source.py writes in place of the declaration.
#define device
#define constant
#define thread
#define threadgroup
#define kernel static

#ifdef CONFORM_CHECKED
// The shim itself is not instrumented, or its helpers would report their own accesses.
#define CONFORM_UNWATCHED __attribute__((no_sanitize("thread")))
#else
#define CONFORM_UNWATCHED
#endif

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;
using ulong = unsigned long;
using half = _Float16;

static_assert(sizeof(long) == 8, "Metal's long has 64 bits");

#define NAN (__builtin_nanf(""))
#define INFINITY (__builtin_inff())
#define HUGE_VALF (__builtin_inff())
#define MAXFLOAT 0x1.fffffep127f
#define FLT_MAX MAXFLOAT
#define FLT_MIN 0x1p-126f
#define FLT_EPSILON 0x1p-23f
#define M_E_F 2.71828182845904523536028747135266250f
#define M_LOG2E_F 1.44269504088896340735992468100189214f
#define M_LOG10E_F 0.434294481903251827651128918916605082f
#define M_LN2_F 0.693147180559945309417232121458176568f
#define M_LN10_F 2.30258509299404568401799145468436421f
#define M_PI_F 3.14159265358979323846264338327950288f
#define M_PI_2_F 1.57079632679489661923132169163975144f
#define M_PI_4_F 0.785398163397448309615660845819875721f
#define M_1_PI_F 0.318309886183790671537767526745028724f
#define M_2_PI_F 0.636619772367581343075535053490057448f
#define M_2_SQRTPI_F 1.12837916709551257389615890312154517f
#define M_SQRT2_F 1.41421356237309504880168872420969808f
#define M_SQRT1_2_F 0.707106781186547524400844362104849039f

template <typename To, typename From>
inline To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of one size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

namespace metal {
using ::as_type;
using std::declval;
enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
inline constexpr mem_flags operator|(mem_flags a, mem_flags b) {
  return mem_flags(uint(a) | uint(b));
}
}  // namespace metal
