// Short vectors of float and double over the GCC vector extensions, as wide as the instruction set the file is compiled
// for. Every operation is lane by lane and IEEE exact (no fast-math, no implicit contraction), so the bits of an
// element never depend on the lane it sits in; tails run through the same code on padded vectors.
//
// Accuracy (tests/kernels/simd_test.cpp): exp within 2 ulp in both types where the result is a normal number; results
// below the smallest normal number are 0; -inf gives 0, overflow gives inf, NaN stays NaN. sigmoid within 4 ulp.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace longhaul::kernels::simd {

// The inner namespace keeps apart the names of variants that meet in one process: a program compiled for the base set
// that includes this file and the kernel library that the loader picked.
#if defined(__AVX512F__)
inline namespace bytes64 {
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline namespace bytes32 {
inline constexpr int kVectorBytes = 32;
#else
inline namespace bytes16 {
inline constexpr int kVectorBytes = 16;
#endif

template <typename T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(kVectorBytes)));
  typedef uint32_t bits __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(kVectorBytes)));
  typedef uint64_t bits __attribute__((vector_size(kVectorBytes)));
};
template <typename T>
using Vec = typename VectorOf<T>::type;
using VecFloat = Vec<float>;
using VecDouble = Vec<double>;

/// Lanes of a vector of T.
template <typename T>
inline constexpr int64_t kWidth = kVectorBytes / static_cast<int64_t>(sizeof(T));

template <typename V>
using Element = std::remove_cvref_t<decltype(V{}[0])>;

template <typename T>
inline Vec<T> broadcast(T value) {
  return value -
         Vec<T>{};  // the extensions spread a scalar operand over the lanes; x - 0 keeps every bit, -0 and NaN too
}

template <typename T>
inline Vec<T> load(const T* source) {
  Vec<T> vector;
  std::memcpy(&vector, source, sizeof(vector));
  return vector;
}
template <typename T>
inline void store(T* target, Vec<T> vector) {
  std::memcpy(target, &vector, sizeof(vector));
}
/// The first `count` < kWidth elements, zeros after them.
template <typename T>
inline Vec<T> load_part(const T* source, int64_t count) {
  T lanes[kWidth<T>] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = source[i];
  return load(lanes);
}
template <typename T>
inline void store_part(T* target, Vec<T> vector, int64_t count) {
  for (int64_t i = 0; i < count; ++i) target[i] = vector[i];
}
/// Lanes from `count` on set to zero.
template <typename V>
inline V keep_first(V vector, int64_t count) {
  for (int64_t i = count; i < kWidth<Element<V>>; ++i) vector[i] = 0;
  return vector;
}

/// a * b + c, rounded once where the instruction set can.
inline VecFloat fma(VecFloat a, VecFloat b, VecFloat c) {
#if defined(__AVX512F__)
  return reinterpret_cast<VecFloat>(_mm512_fmadd_ps(a, b, c));
#elif defined(__FMA__)
  return reinterpret_cast<VecFloat>(_mm256_fmadd_ps(a, b, c));
#elif defined(__FP_FAST_FMAF)
  for (int64_t i = 0; i < kWidth<float>; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}
inline VecDouble fma(VecDouble a, VecDouble b, VecDouble c) {
#if defined(__AVX512F__)
  return reinterpret_cast<VecDouble>(_mm512_fmadd_pd(a, b, c));
#elif defined(__FMA__)
  return reinterpret_cast<VecDouble>(_mm256_fmadd_pd(a, b, c));
#elif defined(__FP_FAST_FMA)
  for (int64_t i = 0; i < kWidth<double>; ++i) c[i] = __builtin_fma(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}

/// Unsigned 64-bit lanes, for counter-based random numbers.
typedef uint64_t VecWide __attribute__((vector_size(kVectorBytes)));
inline constexpr int64_t kWideLanes = kVectorBytes / 8;

/// Product of the lower 32 bits of each lane of a and b.
inline VecWide multiply_low_halves(VecWide a, VecWide b) {
#if defined(__AVX512F__)
  // The unmasked intrinsic of GCC 12 starts from an undefined register, which -Wmaybe-uninitialized reports.
  return reinterpret_cast<VecWide>(
      _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<VecWide>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__x86_64__) && !defined(__AVX__)
  return reinterpret_cast<VecWide>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
#endif
}

/// Larger of a and b; b where either is NaN.
template <typename V>
inline V max(V a, V b) {
  return a > b ? a : b;
}
template <typename V>
inline V min(V a, V b) {
  return a < b ? a : b;
}

/// Sum of the lanes by halving: one fixed order.
template <typename V>
inline Element<V> sum(V vector) {
  using T = Element<V>;
  T lanes[kWidth<T>];
  store(lanes, vector);
  for (int64_t half = kWidth<T> / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}
template <typename V>
inline Element<V> max_lane(V vector) {
  Element<V> largest = vector[0];
  for (int64_t i = 1; i < kWidth<Element<V>>; ++i) largest = vector[i] > largest ? vector[i] : largest;
  return largest;
}

/// Constants of exp: x = n ln 2 + r (Cody & Waite 1980, two-part ln 2), then a polynomial in r, |r| <= ln(2) / 2.
template <typename T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  static constexpr float kLowest = -87.33654f, kHighest = 88.72283f;  ///< results outside are not normal numbers
  static constexpr float kRound = 12582912.0f;  ///< 1.5 * 2^23: adding it rounds to an integer held in the low bits
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  static constexpr int kExponentShift = 23;
  /// Minimax in r^2..r^7 (Cephes expf), highest power first.
  static constexpr float kPolynomial[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                          4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
};
template <>
struct ExpConstants<double> {
  static constexpr double kLowest = -708.3964185322641, kHighest = 709.782712893384;
  static constexpr double kRound = 6755399441055744.0;  ///< 1.5 * 2^52
  static constexpr double kLn2High = 6.93145751953125e-1, kLn2Low = 1.42860682030941723212e-6;
  static constexpr int kExponentShift = 52;
  /// Taylor coefficients 1/13! ... 1/2!: the rest is below 2^-57 on the reduced range.
  static constexpr double kPolynomial[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                           1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                           1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};
};

template <typename V>
inline V exp(V x) {
  using T = Element<V>;
  using Constants = ExpConstants<T>;
  using Bits = typename VectorOf<T>::bits;
  const V shifted = fma(x, broadcast<T>(1.44269504088896340736), broadcast<T>(Constants::kRound));
  const V n = shifted - Constants::kRound;
  V r = fma(n, broadcast<T>(-Constants::kLn2High), x);
  r = fma(n, broadcast<T>(-Constants::kLn2Low), r);
  V polynomial = broadcast<T>(Constants::kPolynomial[0]);
  for (size_t i = 1; i < std::size(Constants::kPolynomial); ++i)
    polynomial = fma(polynomial, r, broadcast<T>(Constants::kPolynomial[i]));
  const V power = fma(polynomial, r * r, r) + T(1);
  // 2^n by adding n to the exponent field: the low bits of `shifted` hold n.
  const V scaled = reinterpret_cast<V>(reinterpret_cast<Bits>(power) +
                                       (reinterpret_cast<Bits>(shifted) << Constants::kExponentShift));
  const V upper = x <= Constants::kHighest ? scaled : x + std::numeric_limits<T>::infinity();  // inf, or NaN for NaN
  return x < Constants::kLowest ? V{} : upper;
}

/// 1 / (1 + exp(-x)).
template <typename V>
inline V sigmoid(V x) {
  using T = Element<V>;
  return T(1) / (T(1) + exp(-x));
}

/// target[i] = f(sources[i]...) for i < count, vector by vector; f takes and returns vectors. Elementwise aliasing is
/// fine.
template <typename T, typename F, typename... Sources>
inline void transform(T* target, int64_t count, F f, const Sources*... sources) {
  int64_t i = 0;
  for (; i + kWidth<T> <= count; i += kWidth<T>) store<T>(target + i, f(load(sources + i)...));
  if (i < count) store_part<T>(target + i, f(load_part(sources + i, count - i)...), count - i);
}

/// Sum over i < count of f(sources[i]...): four vector accumulators in turn, then one fixed tree. Depends on count
/// alone.
template <typename T, typename F, typename... Sources>
inline T transform_sum(int64_t count, F f, const Sources*... sources) {
  constexpr int64_t kStep = kWidth<T>;
  Vec<T> sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kStep <= count; i += 4 * kStep)
    for (int64_t part = 0; part < 4; ++part) sums[part] += f(load(sources + i + part * kStep)...);
  for (int64_t part = 0; i + kStep <= count; i += kStep, ++part) sums[part] += f(load(sources + i)...);
  if (i < count) sums[3] += keep_first(f(load_part(sources + i, count - i)...), count - i);
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

}  // inner namespace
}  // namespace longhaul::kernels::simd
