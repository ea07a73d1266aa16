#include "kernels/mamba2_scan.h"

#include <omp.h>

#include "tests/kernels/recurrence_fixture.h"

namespace longhaul::kernels {
namespace {

template <typename T>
struct Values {
  std::vector<T> xbc, dt, a_log, d, dy;
  Mamba2Inputs<T> inputs() const { return {xbc.data(), dt.data(), a_log.data(), d.data()}; }
  template <typename U>
  Values<U> to() const {
    const auto cast = [](const std::vector<T>& v) { return std::vector<U>(v.begin(), v.end()); };
    return {cast(xbc), cast(dt), cast(a_log), cast(d), cast(dy)};
  }
};

template <typename T>
struct Results {
  std::vector<T> y, xbc, dt, a_log, d;
};

Values<float> make_values(const Mamba2Shape& shape, uint32_t seed) {
  return {uniform_values<float>(shape.tokens * shape.xbc_columns(), -1, 1, seed),
          uniform_values<float>(shape.tokens * shape.heads, 0.001, 0.5, seed + 1),
          uniform_values<float>(shape.heads, 0, 1.5, seed + 2), uniform_values<float>(shape.heads, -1, 1, seed + 3),
          uniform_values<float>(shape.tokens * shape.inner(), -1, 1, seed + 4)};
}

template <typename T>
Results<T> run_chunked(const Values<T>& values, const Mamba2Shape& shape, const std::vector<int32_t>& starts,
                       int64_t chunk) {
  const auto chunks = document_chunks(starts.data(), 1, shape.tokens, chunk);
  const int64_t count = static_cast<int64_t>(chunks.size());
  std::vector<char> workspace(mamba2_scan_workspace<T>(shape, count, chunk, true, omp_get_max_threads()) + 64, '\xff');
  void* memory = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64);
  Results<T> out{std::vector<T>(values.dy.size()), std::vector<T>(values.xbc.size()), std::vector<T>(values.dt.size()),
                 std::vector<T>(shape.heads), std::vector<T>(shape.heads)};
  mamba2_scan_forward<T>(Cpu{}, out.y.data(), memory, values.inputs(), shape, chunks.data(), count, chunk);
  mamba2_scan_backward<T>(Cpu{}, {out.xbc.data(), out.dt.data(), out.a_log.data(), out.d.data(), false}, memory,
                          values.dy.data(), values.inputs(), shape, chunks.data(), count, chunk);
  return out;
}

/// Token-by-token recurrence and its reverse, in double: the oracle of outputs and gradients.
Results<double> run_sequential(const Values<double>& v, const Mamba2Shape& s, const std::vector<int32_t>& starts) {
  Results<double> out{std::vector<double>(v.dy.size()), std::vector<double>(v.xbc.size()),
                      std::vector<double>(v.dt.size()), std::vector<double>(s.heads), std::vector<double>(s.heads)};
  const auto chunks = document_chunks(starts.data(), 1, s.tokens, s.tokens);
  std::vector<double> scratch(s.inner() * s.state_size);
  mamba2_scan_sequential<double>(Cpu{}, out.y.data(), scratch.data(), v.inputs(), s, chunks.data(), chunks.size());
  const int64_t P = s.head_size, N = s.state_size;
  for (int64_t h = 0; h < s.heads; ++h) {
    const int64_t g = h * s.groups / s.heads;
    const double rate = -std::exp(v.a_log[h]);
    std::vector<std::vector<double>> states(s.tokens + 1, std::vector<double>(P * N, 0.0));  // states[t + 1] after t
    const auto row = [&](int64_t t) { return v.xbc.data() + t * s.xbc_columns(); };
    const auto before = [&](int64_t t, int64_t e) { return starts[t] == t ? 0.0 : states[t][e]; };
    for (int64_t t = 0; t < s.tokens; ++t) {
      const double dt = v.dt[t * s.heads + h], a = std::exp(rate * dt);
      for (int64_t p = 0; p < P; ++p)
        for (int64_t n = 0; n < N; ++n)
          states[t + 1][p * N + n] = a * before(t, p * N + n) + dt * row(t)[h * P + p] * row(t)[s.inner() + g * N + n];
    }
    std::vector<double> dS(P * N, 0.0);
    for (int64_t t = s.tokens - 1; t >= 0; --t) {
      const double dt = v.dt[t * s.heads + h], a = std::exp(rate * dt);
      const double *x = row(t) + h * P, *b = row(t) + s.inner() + g * N, *c = b + s.groups * N;
      double* gradient = out.xbc.data() + t * s.xbc_columns();
      double da = 0, ddt = 0;
      for (int64_t p = 0; p < P; ++p) {
        const double dy = v.dy[t * s.inner() + h * P + p];
        out.d[h] += dy * x[p];
        double dx = v.d[h] * dy;
        for (int64_t n = 0; n < N; ++n) {
          double& e = dS[p * N + n];
          e += dy * c[n];
          gradient[s.inner() + (s.groups + g) * N + n] += dy * states[t + 1][p * N + n];
          gradient[s.inner() + g * N + n] += dt * e * x[p];
          dx += dt * e * b[n];
          ddt += e * x[p] * b[n];
          da += e * before(t, p * N + n);
          e = starts[t] == t ? 0.0 : e * a;
        }
        gradient[h * P + p] += dx;
      }
      out.dt[t * s.heads + h] = ddt + da * a * rate;
      out.a_log[h] += da * a * rate * dt;
    }
  }
  return out;
}

template <typename T>
void expect_close(const Results<T>& actual, const Results<double>& expected, double tolerance,
                  const std::string& what) {
  EXPECT_LT(scaled_error(actual.y, expected.y), tolerance) << what << " y";
  EXPECT_LT(scaled_error(actual.xbc, expected.xbc), tolerance) << what << " gradient of x, B, C";
  EXPECT_LT(scaled_error(actual.dt, expected.dt), tolerance) << what << " gradient of dt";
  EXPECT_LT(scaled_error(actual.a_log, expected.a_log), tolerance) << what << " gradient of A_log";
  EXPECT_LT(scaled_error(actual.d, expected.d), tolerance) << what << " gradient of D";
}

TEST(Mamba2Scan, ChunkedEqualsSequentialAtEveryLength) {
  for (const int64_t groups : {1, 2}) {
    for (const auto& lengths : document_cases(16)) {
      const auto starts = document_starts(lengths);
      const Mamba2Shape shape{static_cast<int64_t>(starts.size()), 4, 5, 7, groups};
      const auto values = make_values(shape, 11);
      const auto expected = run_sequential(values.to<double>(), shape, starts);
      const std::string what = "tokens " + std::to_string(starts.size()) + " groups " + std::to_string(groups);
      expect_close(run_chunked(values.to<double>(), shape, starts, 16), expected, 1e-9, what);
      expect_close(run_chunked(values, shape, starts, 16), expected, 1e-5, what);
    }
  }
}

TEST(Mamba2Scan, ExtremeDecaysStayFiniteAndExact) {
  const auto starts = document_starts({37, 9});
  const Mamba2Shape shape{46, 2, 4, 6, 1};
  for (const double log_decay : {0.0, -1e-6, -20.0, -200.0, -1e4}) {
    auto values = make_values(shape, 5);
    for (auto& a_log : values.a_log) a_log = 0;  // log a = -dt
    for (size_t i = 0; i < values.dt.size(); ++i) values.dt[i] = static_cast<float>(i % 3 == 1 ? 0.01 : -log_decay);
    const auto expected = run_sequential(values.to<double>(), shape, starts);
    const std::string what = "log decay " + std::to_string(log_decay);
    expect_close(run_chunked(values.to<double>(), shape, starts, 16), expected, 1e-9, what);
    expect_close(run_chunked(values, shape, starts, 16), expected, 1e-5, what);
  }
}

TEST(Mamba2Scan, PackedDocumentHasTheBitsOfOneAlone) {
  const std::vector<int64_t> lengths = {19, 40, 5};
  const Mamba2Shape packed{64, 3, 8, 16, 1};
  const auto values = make_values(packed, 3);
  const auto together = run_chunked(values, packed, document_starts(lengths), 16);
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    Mamba2Shape alone = packed;
    alone.tokens = length;
    const auto part = [&](const std::vector<float>& all, int64_t columns) {
      return std::vector<float>(all.begin() + begin * columns, all.begin() + (begin + length) * columns);
    };
    const Values<float> own{part(values.xbc, packed.xbc_columns()), part(values.dt, 3), values.a_log, values.d,
                            part(values.dy, packed.inner())};
    const auto single = run_chunked(own, alone, document_starts({length}), 16);
    EXPECT_EQ(single.y, part(together.y, packed.inner()));
    EXPECT_EQ(single.xbc, part(together.xbc, packed.xbc_columns()));
    EXPECT_EQ(single.dt, part(together.dt, 3));
    begin += length;
  }
}

TEST(Mamba2Scan, StepsEqualTheFullForm) {
  const Mamba2Shape shape{21, 2, 8, 16, 1};
  const auto values = make_values(shape, 8).to<double>();
  const auto full = run_chunked(values, shape, document_starts({21}), 16);
  std::vector<double> state(shape.inner() * shape.state_size, 0.0), y(shape.inner());
  Mamba2Shape one = shape;
  one.tokens = 1;
  for (int64_t t = 0; t < shape.tokens; ++t) {
    const Mamba2Inputs<double> in{values.xbc.data() + t * shape.xbc_columns(), values.dt.data() + t * 2,
                                  values.a_log.data(), values.d.data()};
    mamba2_scan_step<double>(Cpu{}, y.data(), state.data(), in, one);
    const std::vector<double> expected(full.y.begin() + t * shape.inner(), full.y.begin() + (t + 1) * shape.inner());
    EXPECT_LT(scaled_error(y, expected), 1e-12) << t;
  }
}

}  // namespace
}  // namespace longhaul::kernels
