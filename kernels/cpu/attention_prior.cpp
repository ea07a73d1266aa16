// With u_i = (1 - mix) mean_memberships_i P and bars for means over positions, B_ij - mean splits into four parts of
// which the first three are orthogonal over all (i, j), so that the variance of the alignment is a sum of squares:
//   (u_i - u).p + u.(phi_j - p) + (u_i - u).(phi_j - p) - slope (|i - j| - mean distance).
#include "kernels/attention_prior.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"

namespace longhaul::kernels {
namespace {

constexpr double kEpsilon = 1e-6;

/// A vector over the functions of the basis; entries beyond them stay 0.
struct Vector {
  double at[kMaxRegimes] = {};

  double dot(const Vector& other) const {
    double sum = 0;
    for (int64_t k = 0; k < kMaxRegimes; ++k) sum += at[k] * other.at[k];
    return sum;
  }
  void add(double factor, const Vector& other) {
    for (int64_t k = 0; k < kMaxRegimes; ++k) at[k] += factor * other.at[k];
  }
};

/// Covariance over positions.
struct Gram {
  Vector rows[kMaxRegimes];

  void add(double factor, const Vector& v) {
    for (int64_t k = 0; k < kMaxRegimes; ++k) rows[k].add(factor * v.at[k], v);
  }
  Vector times(const Vector& v) const {
    Vector result;
    for (int64_t k = 0; k < kMaxRegimes; ++k) result.at[k] = rows[k].dot(v);
    return result;
  }
};

/// sum_j |i - j| v_j for i = 0, 1, ..., from running sums of v_j and j v_j.
class DistanceSums {
 public:
  DistanceSums(const Vector& total, const Vector& total_by_position)
      : after_(total), after_by_position_(total_by_position) {}
  /// The sum for the next i, whose vector is v.
  Vector next(const Vector& v) {
    const double i = static_cast<double>(position_++);
    before_.add(1, v);
    after_.add(-1, v);
    before_by_position_.add(i, v);
    after_by_position_.add(-i, v);
    Vector sum;
    sum.add(i, before_);
    sum.add(-1, before_by_position_);
    sum.add(1, after_by_position_);
    sum.add(-i, after_);
    return sum;
  }

 private:
  Vector before_, before_by_position_, after_, after_by_position_;
  int64_t position_ = 0;
};

/// Everything about B that needs no T x T entries.
template <typename T>
class Analysis {
 public:
  double length, weight;         ///< T and 1 - mix
  double slope_per_beta, slope;  ///< of the penalty per token of distance
  double mean_distance, distance_variance;
  double covariance = 0;  ///< of the alignment with the distance
  Vector mean_query, mean_key;
  Gram keys;
  PriorMoments moments;
  double scale = 0;  ///< bias before clipping over B - mean

  Analysis(const T* memberships, const T* projection, const T* basis, const PriorShape& shape,
           const PriorSettings& settings)
      : length(static_cast<double>(shape.length)),
        weight(1 - settings.mix),
        slope_per_beta(shape.length > 1 ? settings.mix / (length - 1) : 0),
        slope(slope_per_beta * settings.pos_beta),
        mean_distance((length * length - 1) / (3 * length)),
        distance_variance((length * length - 1) / 6 - mean_distance * mean_distance),
        memberships_(memberships),
        projection_(projection),
        basis_(basis),
        shape_(shape) {
    for (int64_t t = 0; t < shape.length; ++t) {
      mean_query.add(1 / length, raw_query(t));
      mean_key.add(1 / length, raw_key(t));
    }
    Gram queries;
    for (int64_t t = 0; t < shape.length; ++t) {
      const Vector u = query(t), p = key(t);
      queries.add(1 / length, u);
      keys.add(1 / length, p);
      total_.add(1, p);
      total_by_position_.add(static_cast<double>(t), p);
      covariance += (u.dot(mean_key) + mean_query.dot(p)) * distance_from(t) / length;
    }
    DistanceSums sums = distance_sums();
    for (int64_t t = 0; t < shape.length; ++t) covariance += query(t).dot(sums.next(key(t))) / (length * length);
    double variance = mean_key.dot(queries.times(mean_key)) + mean_query.dot(keys.times(mean_query));
    for (int64_t k = 0; k < kMaxRegimes; ++k) variance += queries.rows[k].dot(keys.rows[k]);
    variance += slope * (slope * distance_variance - 2 * covariance);
    moments = {.mean = mean_query.dot(mean_key) - slope * mean_distance,
               .deviation = std::sqrt(std::max(variance, 0.0))};
    scale = settings.warm / (settings.clamped_temperature() * (moments.deviation + kEpsilon));
  }

  /// u_t and phi_t without their means.
  Vector query(int64_t t) const { return without(raw_query(t), mean_query); }
  Vector key(int64_t t) const { return without(raw_key(t), mean_key); }
  /// Mean over j of |t - j|, less its mean over t.
  double distance_from(int64_t t) const {
    const double before = static_cast<double>(t), after = length - 1 - before;
    return (before * (before + 1) + after * (after + 1)) / (2 * length) - mean_distance;
  }
  DistanceSums distance_sums() const { return DistanceSums(total_, total_by_position_); }

 private:
  Vector raw_query(int64_t t) const {
    Vector u;
    for (int64_t r = 0; r < shape_.regimes; ++r) {
      const double membership = weight * static_cast<double>(memberships_[t * shape_.regimes + r]);
      for (int64_t k = 0; k < shape_.functions; ++k)
        u.at[k] += membership * static_cast<double>(projection_[r * shape_.functions + k]);
    }
    return u;
  }
  Vector raw_key(int64_t t) const {
    Vector p;
    for (int64_t k = 0; k < shape_.functions; ++k) p.at[k] = static_cast<double>(basis_[t * shape_.functions + k]);
    return p;
  }
  static Vector without(Vector v, const Vector& mean) {
    v.add(-1, mean);
    return v;
  }

  const T *memberships_, *projection_, *basis_;
  PriorShape shape_;
  Vector total_, total_by_position_;  ///< of key(t) and t key(t)
};

void check(const PriorShape& shape) {
  const auto inside = [](int64_t size) { return size >= 1 && size <= kMaxRegimes; };
  if (shape.length < 1 || !inside(shape.regimes) || !inside(shape.functions))
    throw internal_error("attention prior: length {}, {} regimes, {} functions: expected at least 1, 1..{}, 1..{}",
                         shape.length, shape.regimes, shape.functions, kMaxRegimes, kMaxRegimes);
}

/// Gradients to B's parts, summed over what attention left.
struct Totals {
  double all = 0, distance = 0;  ///< of the bias before clipping, alone and times i - j
  double scale = 0;              ///< gradient to Analysis::scale
};

template <typename T>
Totals totals_of(const double* sums, const Analysis<T>& analysis, const PriorShape& shape) {
  Totals totals;
  for (int64_t t = 0; t < shape.length; ++t, sums += shape.functions + 2) {
    const Vector u = analysis.query(t);
    const double row = sums[shape.functions];
    for (int64_t k = 0; k < shape.functions; ++k) totals.scale += (u.at[k] + analysis.mean_query.at[k]) * sums[k];
    totals.scale += row * u.dot(analysis.mean_key);
    totals.all += row;
    totals.distance += sums[shape.functions + 1];
  }
  totals.scale -= analysis.slope * (totals.distance - analysis.mean_distance * totals.all);
  return totals;
}

/// target (+)= value.
template <typename T>
void put(T& target, bool accumulate, double value) {
  target = static_cast<T>((accumulate ? static_cast<double>(target) : 0.0) + value);
}

}  // namespace

template <typename T>
PriorMoments attention_prior_forward(Cpu, T* query, T* key, const T* memberships, const T* projection, const T* basis,
                                     const PriorShape& shape, const PriorSettings& settings) {
  check(shape);
  const Analysis<T> analysis(memberships, projection, basis, shape, settings);
  const double scale = analysis.scale, slope = analysis.slope, middle = 0.5 * (analysis.length - 1);
  for (int64_t t = 0; t < shape.length; ++t, query += shape.functions + 1, key += shape.functions + 1) {
    const Vector u = analysis.query(t), p = analysis.key(t);
    const double shift = slope * (static_cast<double>(t) - middle);
    for (int64_t k = 0; k < shape.functions; ++k) query[k] = static_cast<T>(scale * u.at[k]);
    for (int64_t k = 0; k < shape.functions; ++k) key[k] = static_cast<T>(p.at[k]);
    query[shape.functions] =
        static_cast<T>(scale * (u.dot(analysis.mean_key) + slope * analysis.mean_distance - shift));
    key[shape.functions] = static_cast<T>(scale * (analysis.mean_query.dot(p) + shift));
  }
  return analysis.moments;
}

template <typename T>
void attention_prior_backward(Cpu, T* dmemberships, bool accumulate_memberships, T* dprojection,
                              bool accumulate_projection, double* dpos_beta, bool accumulate_pos_beta,
                              const double* sums, const T* memberships, const T* projection, const T* basis,
                              const PriorShape& shape, const PriorSettings& settings) {
  check(shape);
  const Analysis<T> analysis(memberships, projection, basis, shape, settings);
  const Totals totals = totals_of(sums, analysis, shape);
  const double scale = analysis.scale, length = analysis.length, deviation = analysis.moments.deviation;
  // Gradient to the variance; u_i moves it by 2 / T^2 sum_j (B_ij - mean) phi_j.
  const double dvariance = deviation > 0 ? -totals.scale * scale / ((deviation + kEpsilon) * 2 * deviation) : 0;
  Gram gradient_of_projection;
  DistanceSums distances = analysis.distance_sums();
  for (int64_t t = 0; t < shape.length; ++t, sums += shape.functions + 2) {
    const Vector u = analysis.query(t);
    Vector sum, du, whole = u;
    std::copy_n(sums, shape.functions, sum.at);
    whole.add(1, analysis.mean_query);
    du.add(scale, sum);
    du.add(scale * (sums[shape.functions] - totals.all / length), analysis.mean_key);
    const double row = u.dot(analysis.mean_key) - analysis.slope * analysis.distance_from(t);
    du.add(2 * dvariance / length * row, analysis.mean_key);
    du.add(2 * dvariance / length, analysis.keys.times(whole));
    du.add(-2 * dvariance * analysis.slope / (length * length), distances.next(analysis.key(t)));
    for (int64_t r = 0; r < shape.regimes; ++r) {
      const int64_t at = t * shape.regimes + r;
      double value = 0;
      for (int64_t k = 0; k < shape.functions; ++k)
        value += du.at[k] * static_cast<double>(projection[r * shape.functions + k]);
      put(dmemberships[at], accumulate_memberships, analysis.weight * value);
      gradient_of_projection.rows[r].add(analysis.weight * static_cast<double>(memberships[at]), du);
    }
  }
  if (dprojection != nullptr)
    for (int64_t i = 0; i < shape.regimes * shape.functions; ++i)
      put(dprojection[i], accumulate_projection,
          gradient_of_projection.rows[i / shape.functions].at[i % shape.functions]);
  const double dslope = -scale * (totals.distance - analysis.mean_distance * totals.all) +
                        2 * dvariance * (analysis.slope * analysis.distance_variance - analysis.covariance);
  put(*dpos_beta, accumulate_pos_beta, analysis.slope_per_beta * dslope);
}

#define LONGHAUL_INSTANTIATE(T)                                                                                     \
  template PriorMoments attention_prior_forward(Cpu, T*, T*, const T*, const T*, const T*, const PriorShape&,       \
                                                const PriorSettings&);                                              \
  template void attention_prior_backward(Cpu, T*, bool, T*, bool, double*, bool, const double*, const T*, const T*, \
                                         const T*, const PriorShape&, const PriorSettings&);
LONGHAUL_INSTANTIATE(float)
LONGHAUL_INSTANTIATE(double)
#undef LONGHAUL_INSTANTIATE

}  // namespace longhaul::kernels
