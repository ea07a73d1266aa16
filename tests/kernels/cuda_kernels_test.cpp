// Every CUDA kernel against the CPU kernel of the same name, at odd sizes beyond a warp and beyond a block.
#include <cmath>
#include <random>

#include "core/device/cuda_blas.h"
#include "kernels/activation.h"
#include "kernels/adamw.h"
#include "kernels/embedding.h"
#include "kernels/layer_norm.h"
#include "kernels/matmul.h"
#include "kernels/pointwise.h"
#include "kernels/rms_norm.h"
#include "tests/core/device/cuda_test_array.h"

namespace longhaul::test {
namespace {

using namespace kernels;
using Floats = std::vector<float>;

constexpr int64_t kRows = 37, kColumns = 301, kCount = kRows * kColumns;

Floats random_floats(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-2, 2);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(generator);
  return values;
}

Cuda queue() { return {device::stream(kFirstCuda)}; }

void expect_near(const Floats& actual, const Floats& expected, float tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(1.0f, std::abs(expected[i]))) << "element " << i;
  }
}

TEST(CudaKernels, AddAndScaleAndBias) {
  SKIP_WITHOUT_CUDA();
  Floats a = random_floats(kCount, 1), b = random_floats(kCount, 2), bias = random_floats(kColumns, 3);
  CudaArray<float> da(a), db(b), dbias(bias);
  add(Cpu{}, a.data(), a.data(), b.data(), kCount);
  scale(Cpu{}, a.data(), 0.5f, kCount);
  add_bias(Cpu{}, a.data(), bias.data(), kRows, kColumns);
  add(queue(), da.data(), da.data(), db.data(), kCount);
  scale(queue(), da.data(), 0.5f, kCount);
  add_bias(queue(), da.data(), dbias.data(), kRows, kColumns);
  expect_near(da.host(), a, 1e-6f);
}

TEST(CudaKernels, ColumnSumAddsToWhatIsThere) {
  SKIP_WITHOUT_CUDA();
  Floats dy = random_floats(kCount, 1), sums = random_floats(kColumns, 2);
  CudaArray<float> ddy(dy), dsums(sums);
  column_sum(Cpu{}, sums.data(), true, dy.data(), kRows, kColumns);
  column_sum(queue(), dsums.data(), true, ddy.data(), kRows, kColumns);
  expect_near(dsums.host(), sums, 1e-5f);
}

TEST(CudaKernels, ConvertRoundsLikeTheCpu) {
  SKIP_WITHOUT_CUDA();
  const Floats x = random_floats(kCount, 1);
  std::vector<bf16> rounded(x.size());
  Floats back(x.size());
  CudaArray<float> dx(x), dback(back);
  CudaArray<bf16> drounded(rounded);
  convert(Cpu{}, rounded.data(), x.data(), kCount);
  convert(Cpu{}, back.data(), rounded.data(), kCount);
  convert(queue(), drounded.data(), dx.data(), kCount);
  convert(queue(), dback.data(), drounded.data(), kCount);
  EXPECT_EQ(dback.host(), back);
}

TEST(CudaKernels, SumOfSquaresIsRepeatable) {
  SKIP_WITHOUT_CUDA();
  const Floats x = random_floats(kCount, 1);
  CudaArray<float> dx(x);
  CudaArray<double> result({0.0}), again({0.0}), scratch(std::vector<double>(3));
  sum_of_squares(queue(), result.data(), scratch.data(), dx.data(), kCount);
  sum_of_squares(queue(), again.data(), scratch.data(), dx.data(), kCount);
  EXPECT_NEAR(result.host()[0], sum_of_squares(Cpu{}, x.data(), kCount), 1e-9 * kCount);
  EXPECT_EQ(result.host(), again.host());
}

TEST(CudaKernels, AllFiniteFindsTheLastElement) {
  SKIP_WITHOUT_CUDA();
  Floats x = random_floats(kCount, 1);
  CudaArray<int32_t> flag({-1});
  all_finite(queue(), flag.data(), CudaArray<float>(x).data(), kCount);
  EXPECT_EQ(flag.host()[0], 1);
  x.back() = NAN;
  CudaArray<float> broken(x);
  all_finite(queue(), flag.data(), broken.data(), kCount);
  EXPECT_EQ(flag.host()[0], 0);
}

TEST(CudaKernels, DropoutDrawsTheSameElementsAsTheCpu) {
  SKIP_WITHOUT_CUDA();
  const Floats x = random_floats(kRows * kColumns, 1);
  const std::vector<int64_t> samples(kRows, 12345678901);
  const RandomKey key{7, 3, 2};
  Floats y(x.size());
  CudaArray<float> dx(x), dy(y);
  CudaArray<int64_t> dsamples(samples);
  dropout(Cpu{}, y.data(), x.data(), 0.25, key, samples.data(), kRows, 1, kColumns);
  dropout(queue(), dy.data(), dx.data(), 0.25, key, dsamples.data(), kRows, 1, kColumns);
  expect_near(dy.host(), y, 1e-6f);
}

TEST(CudaKernels, LayerNorm) {
  SKIP_WITHOUT_CUDA();
  const Floats x = random_floats(kCount, 1), w = random_floats(kColumns, 2), b = random_floats(kColumns, 3);
  const Floats dy = random_floats(kCount, 4);
  Floats y(kCount), mean(kRows), rstd(kRows), dx = random_floats(kCount, 5), dw(kColumns, 1.0f), db(kColumns, 2.0f);
  CudaArray<float> cx(x), cw(w), cb(b), cdy(dy), cy(y), cmean(mean), crstd(rstd), cdx(dx), cdw(dw), cdb(db);
  layer_norm_forward(Cpu{}, y.data(), mean.data(), rstd.data(), x.data(), w.data(), b.data(), kRows, kColumns, 1e-5);
  layer_norm_backward(Cpu{}, dx.data(), true, dw.data(), db.data(), true, dy.data(), x.data(), w.data(), mean.data(),
                      rstd.data(), kRows, kColumns);
  layer_norm_forward(queue(), cy.data(), cmean.data(), crstd.data(), cx.data(), cw.data(), cb.data(), kRows, kColumns,
                     1e-5);
  layer_norm_backward(queue(), cdx.data(), true, cdw.data(), cdb.data(), true, cdy.data(), cx.data(), cw.data(),
                      cmean.data(), crstd.data(), kRows, kColumns);
  expect_near(cy.host(), y, 1e-5f);
  expect_near(cdx.host(), dx, 1e-5f);
  expect_near(cdw.host(), dw, 1e-4f);
  expect_near(cdb.host(), db, 1e-4f);
}

TEST(CudaKernels, RmsNorm) {
  SKIP_WITHOUT_CUDA();
  const Floats x = random_floats(kCount, 1), w = random_floats(kColumns, 2), dy = random_floats(kCount, 4);
  Floats y(kCount), rstd(kRows), dx(kCount), dw(kColumns);
  CudaArray<float> cx(x), cw(w), cdy(dy), cy(y), crstd(rstd), cdx(dx), cdw(dw);
  rms_norm_forward(Cpu{}, y.data(), rstd.data(), x.data(), w.data(), kRows, kColumns, 1e-6);
  rms_norm_backward(Cpu{}, dx.data(), false, dw.data(), false, dy.data(), x.data(), w.data(), rstd.data(), kRows,
                    kColumns);
  rms_norm_forward(queue(), cy.data(), crstd.data(), cx.data(), cw.data(), kRows, kColumns, 1e-6);
  rms_norm_backward(queue(), cdx.data(), false, cdw.data(), false, cdy.data(), cx.data(), cw.data(), crstd.data(),
                    kRows, kColumns);
  expect_near(cy.host(), y, 1e-5f);
  expect_near(cdx.host(), dx, 1e-5f);
  expect_near(cdw.host(), dw, 1e-4f);
}

TEST(CudaKernels, Activations) {
  SKIP_WITHOUT_CUDA();
  const Floats x = random_floats(2 * kCount, 1), dy = random_floats(kCount, 2), bias = random_floats(kColumns, 3);
  Floats y(kCount), dx(kCount), dgate_up(2 * kCount);
  CudaArray<float> cx(x), cdy(dy), cbias(bias), cy(y), cdx(dx), cdgate_up(dgate_up);
  bias_gelu_forward(Cpu{}, y.data(), x.data(), bias.data(), kRows, kColumns);
  bias_gelu_backward(Cpu{}, dx.data(), dy.data(), x.data(), bias.data(), kRows, kColumns);
  bias_gelu_forward(queue(), cy.data(), cx.data(), cbias.data(), kRows, kColumns);
  bias_gelu_backward(queue(), cdx.data(), cdy.data(), cx.data(), cbias.data(), kRows, kColumns);
  expect_near(cy.host(), y, 1e-5f);
  expect_near(cdx.host(), dx, 1e-5f);
  swiglu_forward(Cpu{}, y.data(), x.data(), kRows, kColumns);
  swiglu_backward(Cpu{}, dgate_up.data(), dy.data(), x.data(), kRows, kColumns);
  swiglu_forward(queue(), cy.data(), cx.data(), kRows, kColumns);
  swiglu_backward(queue(), cdgate_up.data(), cdy.data(), cx.data(), kRows, kColumns);
  expect_near(cy.host(), y, 1e-5f);
  expect_near(cdgate_up.host(), dgate_up, 1e-5f);
}

TEST(CudaKernels, EmbeddingAddsRepeatedIds) {
  SKIP_WITHOUT_CUDA();
  constexpr int64_t kManyRows = 601, kVocabulary = 11;
  std::vector<int32_t> ids(kManyRows), positions(kManyRows);
  for (int64_t row = 0; row < kManyRows; ++row) {
    ids[row] = static_cast<int32_t>(row * row % kVocabulary);
    positions[row] = static_cast<int32_t>(row % 7);
  }
  const Floats tokens = random_floats(kVocabulary * kColumns, 1), places = random_floats(7 * kColumns, 2);
  const Floats dy = random_floats(kManyRows * kColumns, 3);
  Floats y(dy.size()), dtable(tokens.size());
  CudaArray<int32_t> cids(ids), cpositions(positions);
  CudaArray<float> ctokens(tokens), cplaces(places), cdy(dy), cy(y), cdtable(dtable);
  embedding_forward(Cpu{}, y.data(), ids.data(), positions.data(), tokens.data(), places.data(), kManyRows, kColumns);
  embedding_backward(Cpu{}, dtable.data(), ids.data(), dy.data(), kManyRows, kColumns);
  embedding_forward(queue(), cy.data(), cids.data(), cpositions.data(), ctokens.data(), cplaces.data(), kManyRows,
                    kColumns);
  embedding_backward(queue(), cdtable.data(), cids.data(), cdy.data(), kManyRows, kColumns);
  EXPECT_EQ(cy.host(), y);
  EXPECT_EQ(cdtable.host(), dtable);  // the same additions in the same order
}

TEST(CudaKernels, AdamW) {
  SKIP_WITHOUT_CUDA();
  Floats p = random_floats(kCount, 1), m = random_floats(kCount, 2), v(kCount, 0.5f);
  const Floats g = random_floats(kCount, 3);
  CudaArray<float> cp(p), cm(m), cv(v), cg(g);
  const AdamWStep step{1e-3, 0.9, 0.95, 1e-8, 0.1, 0.25, 0.19, 0.0975};
  adamw_update(Cpu{}, p.data(), m.data(), v.data(), g.data(), kCount, step);
  adamw_update(queue(), cp.data(), cm.data(), cv.data(), cg.data(), kCount, step);
  expect_near(cp.host(), p, 1e-6f);
  expect_near(cm.host(), m, 1e-6f);
  expect_near(cv.host(), v, 1e-6f);
}

TEST(CudaKernels, MatmulInAllFourOrientations) {
  SKIP_WITHOUT_CUDA();
  constexpr int64_t m = 33, n = 65, k = 17;
  const cuda::Blas blas(0);
  const Cuda device = blas.on(static_cast<cudaStream_t>(device::stream(kFirstCuda)));
  const Floats a = random_floats(m * k, 1), b = random_floats(k * n, 2);
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      Floats c = random_floats(m * n, 3);
      CudaArray<float> ca(a), cb(b), cc(c);
      const int64_t a_stride = a_transposed ? m : k, b_stride = b_transposed ? k : n;
      matmul<float>(Cpu{}, c.data(), n, {a.data(), a_stride, a_transposed}, {b.data(), b_stride, b_transposed}, m, n, k,
                    0.5f, 2.0f);
      matmul<float, float>(device, cc.data(), n, {ca.data(), a_stride, a_transposed},
                           {cb.data(), b_stride, b_transposed}, m, n, k, 0.5f, 2.0f);
      expect_near(cc.host(), c, 1e-5f);
    }
  }
}

TEST(CudaKernels, MatmulWithoutInnerDimensionScales) {
  SKIP_WITHOUT_CUDA();
  CudaArray<float> c({1.0f, 2.0f, 9.0f, 3.0f, 4.0f, 9.0f});
  matmul<float, float>(queue(), c.data(), 3, {nullptr, 1}, {nullptr, 2}, 2, 2, 0, 1.0f, 10.0f);
  EXPECT_EQ(c.host(), (Floats{10.0f, 20.0f, 9.0f, 30.0f, 40.0f, 9.0f}));
}

}  // namespace
}  // namespace longhaul::test
