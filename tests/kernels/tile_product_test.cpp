#include "kernels/cpu/tile_product.h"

#include "tests/kernels/kernel_test.h"

namespace longhaul::kernels {
namespace {

struct Sizes {
  int64_t rows, columns, depth;
};

constexpr double kUntouched = 77;

/// C by the definition, in double; elements that are not wanted keep what was there.
template <typename T>
std::vector<double> reference(const TileProduct<T>& p, const std::vector<T>& before) {
  std::vector<double> c(before.begin(), before.end());
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t j = 0; j < (p.lower_c ? std::min(i + 1, p.columns) : p.columns); ++j) {
      double sum = p.add ? c[i * p.c_stride + j] : 0;
      for (int64_t t = 0; t < p.depth; ++t) {
        sum += static_cast<double>(p.a[i * p.a_row + t * p.a_depth]) * static_cast<double>(p.b[t * p.b_stride + j]);
      }
      c[i * p.c_stride + j] = sum;
    }
  }
  return c;
}

template <typename T>
void check(const Sizes& s, bool transposed, bool add, Part part, bool lower_c, double tolerance) {
  const int64_t c_stride = s.columns + 3, b_stride = s.columns + 2;
  std::vector<T> a = random_values<T>(s.rows * s.depth, 1), b = random_values<T>(s.depth * b_stride, 2);
  std::vector<T> c(s.rows * c_stride, T(kUntouched));
  const int64_t a_row = transposed ? 1 : s.depth, a_depth = transposed ? s.rows : 1;
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t t = 0; t < s.depth; ++t) {
      if ((part == Part::kLower && t > i) || (part == Part::kUpper && t < i)) a[i * a_row + t * a_depth] = 0;
    }
  }
  const std::vector<T> before = c;
  const TileProduct<T> product{.c = c.data(),
                               .c_stride = c_stride,
                               .a = a.data(),
                               .a_row = a_row,
                               .a_depth = a_depth,
                               .b = b.data(),
                               .b_stride = b_stride,
                               .rows = s.rows,
                               .columns = s.columns,
                               .depth = s.depth,
                               .add = add,
                               .a_part = part,
                               .lower_c = lower_c};
  const std::vector<double> expected = reference(product, before);
  tile_product(product);
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t j = 0; j < c_stride; ++j) {
      if (lower_c && j > i && j < s.columns) continue;  // unspecified
      EXPECT_NEAR(static_cast<double>(c[i * c_stride + j]), expected[i * c_stride + j], tolerance)
          << s.rows << " x " << s.columns << " x " << s.depth << " at " << i << ", " << j;
    }
  }
}

TEST(TileProduct, FollowsItsDefinitionForOddSizesAndKnownZeros) {
  for (const Sizes& sizes : {Sizes{1, 1, 1}, Sizes{4, 16, 3}, Sizes{5, 17, 5}, Sizes{7, 7, 7}, Sizes{13, 31, 13},
                             Sizes{3, 5, 0}, Sizes{18, 40, 18}}) {
    for (const bool transposed : {false, true}) {
      for (const bool add : {false, true}) {
        for (const Part part : {Part::kAll, Part::kLower, Part::kUpper}) {
          for (const bool lower_c : {false, true}) {
            check<double>(sizes, transposed, add, part, lower_c, 1e-13);
            check<float>(sizes, transposed, add, part, lower_c, 1e-4);
          }
        }
      }
    }
  }
}

TEST(TileProduct, BitsOfAnElementDoNotDependOnItsPlace) {
  // One row and column of factors repeated everywhere: all elements of C must agree.
  const std::vector<float> terms = random_values<float>(29, 1), others = random_values<float>(29, 2);
  std::vector<float> a, b, c(11 * 37);
  for (int64_t i = 0; i < 11; ++i) a.insert(a.end(), terms.begin(), terms.end());
  for (const float other : others) b.insert(b.end(), 37, other);
  tile_product<float>({.c = c.data(),
                       .c_stride = 37,
                       .a = a.data(),
                       .a_row = 29,
                       .a_depth = 1,
                       .b = b.data(),
                       .b_stride = 37,
                       .rows = 11,
                       .columns = 37,
                       .depth = 29});
  EXPECT_TRUE(same_bits(c, std::vector<float>(c.size(), c[0])));
}

TEST(PackTransposed, TransposesRowsOfAWiderMatrix) {
  const std::vector<double> source = random_values<double>(11 * 9, 1);
  std::vector<double> target(7 * 11);
  pack_transposed(target.data(), source.data(), 9, 11, 7);
  for (int64_t i = 0; i < 11; ++i) {
    for (int64_t c = 0; c < 7; ++c) EXPECT_EQ(target[c * 11 + i], source[i * 9 + c]);
  }
}

}  // namespace
}  // namespace longhaul::kernels
