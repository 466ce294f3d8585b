// Type traits, numeric limits and array.
#pragma once
#include <conform/bfloat.h>

namespace metal {

template <typename T, int N>
struct vec;

using std::add_const_t;
using std::conditional_t;
using std::decay_t;
using std::enable_if_t;
using std::integral_constant;
using std::is_same;
using std::make_signed_t;
using std::make_unsigned_t;
using std::remove_const_t;
using std::remove_cv_t;
using std::remove_pointer_t;
using std::remove_reference_t;
using std::true_type;
using std::false_type;

template <typename A, typename B>
constexpr bool is_same_v = std::is_same<A, B>::value;
template <typename A, typename B>
constexpr bool is_convertible_v = std::is_convertible<A, B>::value;

// In Metal a vector has the category of its elements; only is_scalar distinguishes them.
template <typename T>
struct is_floating_point : std::is_floating_point<T> {};
template <>
struct is_floating_point<half> : true_type {};
template <>
struct is_floating_point<bfloat> : true_type {};
template <typename T, int N>
struct is_floating_point<vec<T, N>> : is_floating_point<T> {};
template <typename T>
struct is_integral : std::is_integral<T> {};
template <typename T, int N>
struct is_integral<vec<T, N>> : is_integral<T> {};
template <typename T>
struct is_signed : integral_constant<bool, std::is_signed<T>::value || is_floating_point<T>::value> {
};
template <typename T>
struct is_vector : false_type {};
template <typename T, int N>
struct is_vector<vec<T, N>> : true_type {};

template <typename T>
constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <typename T>
constexpr bool is_integral_v = is_integral<T>::value;
template <typename T>
constexpr bool is_signed_v = is_signed<T>::value;
template <typename T>
constexpr bool is_unsigned_v = std::is_unsigned<T>::value;
template <typename T>
constexpr bool is_vector_v = is_vector<T>::value;
template <typename T>
constexpr bool is_arithmetic_v = is_floating_point<T>::value || is_integral<T>::value;
template <typename T>
constexpr bool is_scalar_v = is_arithmetic_v<T> && !is_vector_v<T>;

template <typename T>
struct numeric_limits : std::numeric_limits<T> {};

namespace detail {
// The 16-bit formats: each limit as its bits.
template <typename T, uint MAX, uint MIN, uint EPSILON, uint INF, uint QNAN, uint DENORM>
struct limits16 {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true;
  static T bits(uint word) { return as_type<T>(ushort(word)); }
  static T max() { return bits(MAX); }
  static T lowest() { return bits(MAX | 0x8000u); }
  static T min() { return bits(MIN); }
  static T epsilon() { return bits(EPSILON); }
  static T infinity() { return bits(INF); }
  static T quiet_NaN() { return bits(QNAN); }
  static T denorm_min() { return bits(DENORM); }
};
}  // namespace detail
template <>
struct numeric_limits<half> : detail::limits16<half, 0x7bff, 0x0400, 0x1400, 0x7c00, 0x7e00, 1> {
  static constexpr int digits = 11;
};
template <>
struct numeric_limits<bfloat> : detail::limits16<bfloat, 0x7f7f, 0x0080, 0x3c00, 0x7f80, 0x7fc0, 1> {
  static constexpr int digits = 8;
};
template <typename T, int N>
struct numeric_limits<vec<T, N>> {
  static vec<T, N> max() { return numeric_limits<T>::max(); }
  static vec<T, N> lowest() { return numeric_limits<T>::lowest(); }
  static vec<T, N> min() { return numeric_limits<T>::min(); }
  static constexpr vec<T, N> infinity() { return numeric_limits<T>::infinity(); }
  static vec<T, N> quiet_NaN() { return numeric_limits<T>::quiet_NaN(); }
};

template <typename T, size_t N>
struct array {
  T items[N];
  constexpr T& operator[](size_t i) { return items[i]; }
  constexpr const T& operator[](size_t i) const { return items[i]; }
  constexpr size_t size() const { return N; }
  T* data() { return items; }
  const T* data() const { return items; }
  T* begin() { return items; }
  T* end() { return items + N; }
};

}  // namespace metal
