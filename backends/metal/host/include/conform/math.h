// Floating-point functions. The C library's float functions stand for Metal's precise ones; a
// 16-bit argument is computed in float and rounded once, as its result type is the argument's.
#pragma once
#include <conform/vector.h>

namespace metal {

#define CONFORM_UNARY(name, function)                                                        \
  inline float name(float x) { return function(x); }                                         \
  inline half name(half x) { return half(function(float(x))); }                              \
  inline bfloat name(bfloat x) { return bfloat(function(float(x))); }                        \
  template <typename T, enable_if_t<std::is_integral<T>::value, int> = 0>                    \
  inline float name(T x) {                                                                   \
    return function(float(x));                                                               \
  }                                                                                          \
  template <typename T, int N>                                                               \
  inline vec<T, N> name(vec<T, N> x) {                                                       \
    vec<T, N> r;                                                                             \
    for (int i = 0; i < N; ++i) r[i] = name(x[i]);                                           \
    return r;                                                                                \
  }
#define CONFORM_BINARY(name, function)                                                       \
  inline float name(float x, float y) { return function(x, y); }                             \
  inline half name(half x, half y) { return half(function(float(x), float(y))); }            \
  inline bfloat name(bfloat x, bfloat y) { return bfloat(function(float(x), float(y))); }    \
  template <typename T, enable_if_t<std::is_integral<T>::value, int> = 0>                    \
  inline float name(T x, T y) {                                                              \
    return function(float(x), float(y));                                                     \
  }                                                                                          \
  template <typename T, int N>                                                               \
  inline vec<T, N> name(vec<T, N> x, vec<T, N> y) {                                          \
    vec<T, N> r;                                                                             \
    for (int i = 0; i < N; ++i) r[i] = name(x[i], y[i]);                                     \
    return r;                                                                                \
  }
#define CONFORM_PREDICATE(name, expression)                                                  \
  template <typename T, enable_if_t<is_scalar_v<T>, int> = 0>                                \
  inline bool name(T value) {                                                                \
    const float x = static_cast<float>(value);                                               \
    return expression;                                                                       \
  }                                                                                          \
  template <typename T, int N>                                                               \
  inline vec<bool, N> name(vec<T, N> x) {                                                    \
    vec<bool, N> r;                                                                          \
    for (int i = 0; i < N; ++i) r[i] = name(x[i]);                                           \
    return r;                                                                                \
  }

namespace detail {
inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
inline float sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x == x ? x : 0.0f; }
inline float saturate(float x) { return __builtin_fminf(__builtin_fmaxf(x, 0.0f), 1.0f); }
inline float fract(float x) {
  // Less than one, even for a tiny negative x.
  return __builtin_fminf(x - __builtin_floorf(x), 0x1.fffffep-1f);
}
// Exact argument reduction, so that whole and half multiples of pi give exact results.
inline float sinpi(float x) {
  const float r = __builtin_remainderf(x, 2.0f);
  if (r == __builtin_truncf(r)) return __builtin_copysignf(0.0f, x);
  if (__builtin_fabsf(r) == 0.5f) return __builtin_copysignf(1.0f, r);
  return __builtin_sinf(M_PI_F * r);
}
inline float cospi(float x) {
  const float r = __builtin_fabsf(__builtin_remainderf(x, 2.0f));
  return r == 0.5f ? 0.0f : __builtin_cosf(M_PI_F * r);
}
inline float tanpi(float x) { return sinpi(x) / cospi(x); }
inline float exp10(float x) { return __builtin_powf(10.0f, x); }
inline float step(float edge, float x) { return x < edge ? 0.0f : 1.0f; }
}  // namespace detail

CONFORM_UNARY(acos, __builtin_acosf)
CONFORM_UNARY(acosh, __builtin_acoshf)
CONFORM_UNARY(asin, __builtin_asinf)
CONFORM_UNARY(asinh, __builtin_asinhf)
CONFORM_UNARY(atan, __builtin_atanf)
CONFORM_UNARY(atanh, __builtin_atanhf)
CONFORM_UNARY(ceil, __builtin_ceilf)
CONFORM_UNARY(cos, __builtin_cosf)
CONFORM_UNARY(cosh, __builtin_coshf)
CONFORM_UNARY(cospi, detail::cospi)
CONFORM_UNARY(exp, __builtin_expf)
CONFORM_UNARY(exp2, __builtin_exp2f)
CONFORM_UNARY(exp10, detail::exp10)
CONFORM_UNARY(fabs, __builtin_fabsf)
CONFORM_UNARY(floor, __builtin_floorf)
CONFORM_UNARY(fract, detail::fract)
CONFORM_UNARY(log, __builtin_logf)
CONFORM_UNARY(log2, __builtin_log2f)
CONFORM_UNARY(log10, __builtin_log10f)
CONFORM_UNARY(rint, __builtin_rintf)
CONFORM_UNARY(round, __builtin_roundf)
CONFORM_UNARY(rsqrt, detail::rsqrt)
CONFORM_UNARY(saturate, detail::saturate)
CONFORM_UNARY(sign, detail::sign)
CONFORM_UNARY(sin, __builtin_sinf)
CONFORM_UNARY(sinh, __builtin_sinhf)
CONFORM_UNARY(sinpi, detail::sinpi)
CONFORM_UNARY(sqrt, __builtin_sqrtf)
CONFORM_UNARY(tan, __builtin_tanf)
CONFORM_UNARY(tanh, __builtin_tanhf)
CONFORM_UNARY(tanpi, detail::tanpi)
CONFORM_UNARY(trunc, __builtin_truncf)

CONFORM_BINARY(atan2, __builtin_atan2f)
CONFORM_BINARY(copysign, __builtin_copysignf)
CONFORM_BINARY(fdim, __builtin_fdimf)
CONFORM_BINARY(fmax, __builtin_fmaxf)
CONFORM_BINARY(fmin, __builtin_fminf)
CONFORM_BINARY(fmod, __builtin_fmodf)
CONFORM_BINARY(nextafter, __builtin_nextafterf)
CONFORM_BINARY(pow, __builtin_powf)
CONFORM_BINARY(powr, __builtin_powf)
CONFORM_BINARY(step, detail::step)

CONFORM_PREDICATE(isnan, __builtin_isnan(x))
CONFORM_PREDICATE(isinf, __builtin_isinf(x))
CONFORM_PREDICATE(isfinite, __builtin_isfinite(x))
CONFORM_PREDICATE(isnormal, __builtin_isnormal(x))
CONFORM_PREDICATE(signbit, __builtin_signbit(x))

template <typename T>
inline bool isunordered(T a, T b) {
  return a != a || b != b;
}
template <typename T>
inline bool isordered(T a, T b) {
  return !isunordered(a, b);
}

// One rounding: the product of two 16-bit floats is exact in float, its sum with a third nearly.
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline half fma(half a, half b, half c) { return half(fma(float(a), float(b), float(c))); }
inline bfloat fma(bfloat a, bfloat b, bfloat c) {
  return bfloat(fma(float(a), float(b), float(c)));
}
template <typename T, int N>
inline vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = fma(a[i], b[i], c[i]);
  return r;
}

inline float ldexp(float x, int exponent) { return __builtin_ldexpf(x, exponent); }
inline half ldexp(half x, int exponent) { return half(ldexp(float(x), exponent)); }
inline int ilogb(float x) { return __builtin_ilogbf(x); }
// The C library must not write results through references: its writes are not instrumented.
inline float frexp(float x, int& exponent) {
  int e = 0;
  const float r = __builtin_frexpf(x, &e);
  exponent = e;
  return r;
}
inline float modf(float x, float& whole) {
  const float w = __builtin_truncf(x);
  whole = w;
  return __builtin_isinf(x) ? __builtin_copysignf(0.0f, x) : __builtin_copysignf(x - w, x);
}
inline float sincos(float x, float& cosine) {
  cosine = __builtin_cosf(x);
  return __builtin_sinf(x);
}

template <typename T, enable_if_t<is_floating_point_v<T>, int> = 0>
inline T mix(T a, T b, T t) {
  return a + (b - a) * t;
}
template <typename T, int N>
inline T dot(vec<T, N> a, vec<T, N> b) {
  T sum = a[0] * b[0];
  for (int i = 1; i < N; ++i) sum = sum + a[i] * b[i];
  return sum;
}
template <typename T, int N>
inline T length(vec<T, N> a) {
  return sqrt(dot(a, a));
}
template <typename T, int N>
inline T length_squared(vec<T, N> a) {
  return dot(a, a);
}

template <typename T>
inline T select(T a, T b, bool second) {
  return second ? b : a;
}
template <typename T, int N>
inline vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> second) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = second[i] ? b[i] : a[i];
  return r;
}

// The runtime's libraries are compiled with precise functions and safe math, where Metal's three
// families are one.
namespace precise {
using namespace ::metal;
}
namespace fast {
using namespace ::metal;
}

#undef CONFORM_UNARY
#undef CONFORM_BINARY
#undef CONFORM_PREDICATE

}  // namespace metal
