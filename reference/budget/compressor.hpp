#pragma once
#include "reference/budget/ledger.hpp"
#include "reference/budget/sum.hpp"
#include "reference/compressor.hpp"

// Budgets of reference/compressor.hpp.
namespace plumbline::reference::budget {

/// One compressor over a batch.
///   pooled: sum over slots of w |a| (u_w + 4 u) + w |a - pooled| B_logit + w B_value
///   dvalue = w dpooled, dlogit = w (a - pooled) dpooled, each factor by absolute value
class CompressorBudget {
 public:
  CompressorBudget(Ledger& ledger, const CompressorSpec& spec, Index width)
      : ledger_(ledger),
        spec_(spec),
        width_(width),
        channels_(ledger.config().coff() * width),
        value_(ledger.plan.tokens(), channels_),
        logit_(ledger.plan.tokens(), channels_),
        pooled_(ledger.plan.entries(), width),
        key(ledger.plan.entries(), width),
        wkv_(channels_, ledger.config().hidden),
        wgate_(channels_, ledger.config().hidden),
        ape_(ledger.config().ratio, channels_),
        norm_(1, width) {}

  void project_tokens(const TokenBlock& block, const Estimate& x) {
    const Index first = block.compact.front();
    for (auto [to, weight] : {std::pair{&value_, spec_.wkv}, std::pair{&logit_, spec_.wgate}}) {
      Estimate y = product(x, ledger_.weight(weight).transpose(), ledger_.arithmetic);
      y.cast(ledger_.cast(CastPoint::kPoolProjection));
      to->value.middleRows(first, block.count()) = y.value;
      to->error.middleRows(first, block.count()) = y.error;
    }
  }

  void finish() {
    const Arithmetic& a = ledger_.arithmetic;
    const double u = a.compute, cast = kCast * ledger_.cast(CastPoint::kPoolWeight).u;
    for (Index e = 0; e < pooled_.rows(); ++e) {
      const std::vector<Slot> slots = slots_of(e);
      const Index n = static_cast<Index>(slots.size());
      const Matrix<double> w = weights_of(slots);
      for (Index c = 0; c < width_; ++c) {
        double pooled = 0, largest = 1, l1 = 0, l2 = 0, moved1 = 0, moved2 = 0, own1 = 0, own2 = 0;
        for (Index k = 0; k < n; ++k) pooled += w(k, c) * value_.value(slots[k].row, slots[k].channel + c);
        for (Index k = 0; k < n; ++k) {
          const double v = value_.value(slots[k].row, slots[k].channel + c), term = w(k, c) * std::abs(v);
          const double own = term * (cast + 2 * u) + w(k, c) * value_.error(slots[k].row, slots[k].channel + c);
          const double moved = w(k, c) * std::abs(v - pooled) * logit_error(slots[k], c);
          largest = std::max(largest, std::abs(v));
          l1 += term;
          l2 += term * term;
          own1 += own;
          own2 += own * own;
          moved1 += moved;
          moved2 += moved * moved;
        }
        pooled_.value(e, c) = pooled;
        pooled_.error(e, c) = spread(n, own1, std::sqrt(own2)) + spread(n, moved1, std::sqrt(moved2)) +
                              accumulation(u, n, pooled, l1, std::sqrt(l2), 0) +
                              std::abs(pooled) * (positive_sum(u, n) + 2 * u + cast) +
                              static_cast<double>(n) * largest * (a.tiny + ledger_.cast(CastPoint::kPoolWeight).tiny);
      }
    }
    ledger_.settle(DatasetId::forward(spec_.pooled), ledger_.plan.own_entry_rows(), pooled_);
    key = pooled_;
    const double before = ledger_.cast(CastPoint::kRmsNormalized).u + ledger_.cast(CastPoint::kUnrotated).u;
    for (Index e = 0; e < key.rows(); ++e) {
      double *value = key.value.row(e).data(), *error = key.error.row(e).data();
      norm(value, error, ledger_.vector(spec_.norm), ledger_.config().eps, width_, before, a);
      ledger_.rotation(value, error, width_, position_of(e), 1);
      if (!spec_.hadamard) continue;
      for (Index c = 0; c < width_; ++c) error[c] += kCast * ledger_.cast(CastPoint::kUnrotated).u * std::abs(value[c]);
      hadamard_estimate(value, error, width_, a);
    }
    ledger_.settle(DatasetId::forward(spec_.key), ledger_.plan.own_entry_rows(), key);
  }

  /// From the cotangent of key; leaves those of the projections.
  void finish_gradients(Estimate dkey) {
    const Arithmetic& a = ledger_.arithmetic;
    const double u = a.compute, weight_cast = kCast * ledger_.cast(CastPoint::kPoolWeight).u;
    ledger_.settle(DatasetId::gradient(spec_.key), ledger_.plan.own_entry_rows(), dkey);
    GainTerms gain(width_);
    for (Index e = 0; e < dkey.rows(); ++e) {
      double *value = dkey.value.row(e).data(), *error = dkey.error.row(e).data();
      if (spec_.hadamard) hadamard_estimate(value, error, width_, a);
      ledger_.rotation(value, error, width_, position_of(e), -1);
      norm_vjp(pooled_.value.row(e).data(), pooled_.error.row(e).data(), ledger_.vector(spec_.norm),
               ledger_.config().eps, width_, value, error, &gain, a);
      norm_.add(0, gain.value.data(), gain.error.data(), gain.alike.data());
    }
    norm_.set_terms(dkey.rows());
    ledger_.settle(DatasetId::gradient(spec_.pooled), ledger_.plan.own_entry_rows(), dkey);

    dvalue_ = Estimate(value_.rows(), channels_);
    dlogit_ = dvalue_own_ = dlogit_own_ = dvalue_;
    Matrix<double> alike = Matrix<double>::Zero(value_.rows(), channels_);
    shared_.resize(dkey.rows(), width_);
    dkey_ = dkey.value;
    from_pooled_.resize(dkey.rows(), width_);
    for (Index e = 0; e < dkey.rows(); ++e) {
      const std::vector<Slot> slots = slots_of(e);
      const Index n = static_cast<Index>(slots.size());
      const Matrix<double> w = weights_of(slots);
      for (Index c = 0; c < width_; ++c) {
        double moved1 = 0, moved2 = 0;  // what all slots' logits do to the group's normalisation
        for (Index k = 0; k < n; ++k) {
          const double moved = w(k, c) * logit_error(slots[static_cast<std::size_t>(k)], c);
          moved1 += moved;
          moved2 += moved * moved;
        }
        const double d = dkey.value(e, c), pooled = pooled_.value(e, c);
        shared_(e, c) =
            dkey.error(e, c) + std::abs(d) * (spread(n, moved1, std::sqrt(moved2)) + positive_sum(u, n) + 3 * u);
        from_pooled_(e, c) = std::abs(d) * pooled_.error(e, c);
        for (Index k = 0; k < n; ++k) {
          const Slot& slot = slots[static_cast<std::size_t>(k)];
          const Index row = slot.row, at = slot.channel + c;
          const double v = value_.value(row, at), gap = v - pooled,
                       moved = w(k, c) * (logit_error(slot, c) + weight_cast) + a.tiny;
          dvalue_.value(row, at) = w(k, c) * d;
          dlogit_.value(row, at) = w(k, c) * gap * d;
          dvalue_own_.error(row, at) = moved * std::abs(d) + a.tiny;
          dlogit_own_.error(row, at) =
              moved * std::abs(gap * d) + a.tiny +
              w(k, c) * std::abs(d) * (value_.error(row, at) + 2 * u * (std::abs(v) + std::abs(pooled)));
          alike(row, at) = w(k, c) * std::copysign(from_pooled_(e, c), d);
          dvalue_.error(row, at) = dvalue_own_.error(row, at) + w(k, c) * shared_(e, c);
          dlogit_.error(row, at) =
              dlogit_own_.error(row, at) + w(k, c) * (std::abs(gap) * shared_(e, c) + from_pooled_(e, c));
        }
      }
    }
    dvalue_own_.value = dvalue_.value;
    dlogit_own_.value = dlogit_.value;
    for (Estimate* e : {&dvalue_, &dlogit_, &dvalue_own_, &dlogit_own_})
      e->cast(ledger_.cast(CastPoint::kPoolCotangent));
    add_shared_errors();
    for (Index r = 0; r < value_.rows(); ++r)
      ape_.add(ledger_.plan.token_position[r] % ledger_.config().ratio, dlogit_.value.row(r).data(),
               dlogit_.error.row(r).data(), alike.row(r).data());
    ape_.set_terms((value_.rows() + ledger_.config().ratio - 1) / ledger_.config().ratio);
  }

  /// A block's parts of hidden's gradient; none when its input is detached.
  std::vector<Estimate> project_gradients(const TokenBlock& block, const Estimate& x) {
    const Index first = block.compact.front();
    std::vector<Estimate> parts;
    for (auto [from, own, weight, sum] : {std::tuple{&dvalue_, &dvalue_own_, spec_.wkv, &wkv_},
                                          std::tuple{&dlogit_, &dlogit_own_, spec_.wgate, &wgate_}}) {
      Estimate d(block.count(), channels_);
      d.value = from->value.middleRows(first, block.count());
      d.error = own->error.middleRows(first, block.count());
      sum->add_outer(d, x);
      if (!spec_.hidden_attached) continue;
      d.error = from->error.middleRows(first, block.count());
      Estimate part = product(d, ledger_.weight(weight), ledger_.arithmetic);
      part.cast(ledger_.cast(CastPoint::kHiddenPartial));
      parts.push_back(std::move(part));
    }
    return parts;
  }

  std::vector<std::pair<WeightId, const Sum*>> sums() const {
    return {{spec_.wkv, &wkv_}, {spec_.wgate, &wgate_}, {spec_.ape, &ape_}, {spec_.norm, &norm_}};
  }

 private:
  /// A slot's token row and first channel of the projections, and its place in ape.
  struct Slot {
    Index row, channel, slot;
  };

  /// Errors that all slots of a group share (of the cotangent, the normalisation, the pooled value) add up in the
  /// weights' gradients with the signs of the slots' terms: with the group's sums of w x and w (a - pooled) x.
  void add_shared_errors() {
    const Index ratio = ledger_.config().ratio, h = ledger_.config().hidden;
    Matrix<double> weight(ratio, width_), gap(ratio, width_), x(ratio, h), by_weight, by_gap, errors;
    for (Index e = 0; e < shared_.rows(); ++e) {
      const std::vector<Slot> slots = slots_of(e);
      const Matrix<double> w = weights_of(slots);
      for (Index first = 0; first < w.rows(); first += ratio) {
        for (Index k = 0; k < ratio; ++k) {
          const Slot& slot = slots[static_cast<std::size_t>(first + k)];
          weight.row(k) = w.row(first + k);
          gap.row(k) = w.row(first + k).cwiseProduct(value_.value.row(slot.row).segment(slot.channel, width_) -
                                                     pooled_.value.row(e));
          x.row(k) = map(ledger_.problem.hidden.row(ledger_.plan.token_rows[static_cast<std::size_t>(slot.row)]), 1, h);
        }
        by_weight.noalias() = weight.transpose() * x;
        by_gap.noalias() = gap.transpose() * x;
        const Index channel = slots[static_cast<std::size_t>(first)].channel;
        const auto shared = shared_.row(e).transpose().asDiagonal(),
                   from_pooled = from_pooled_.row(e).transpose().asDiagonal();
        errors.noalias() = shared * by_weight;
        wkv_.add_errors(channel, errors);
        errors.noalias() = shared * by_gap;
        wgate_.add_errors(channel, errors);
        errors.noalias() = from_pooled * by_weight;
        wgate_.add_errors(channel, errors);
        for (Index c = 0; c < width_; ++c)
          if (dkey_(e, c) < 0) errors.row(c) = -errors.row(c);
        wgate_.add_alike(channel, errors);
      }
    }
  }

  Index position_of(Index e) const {
    return contract::entry_position(ledger_.plan.entry_group[e], ledger_.config().ratio);
  }

  std::vector<Slot> slots_of(Index e) const {
    const Index ratio = ledger_.config().ratio, group = ledger_.plan.entry_group[e];
    const Index token = ledger_.plan.first_token[ledger_.plan.entry_segment[e]] + group * ratio;
    std::vector<Slot> slots;
    if (ledger_.config().overlap && group > 0)
      for (Index k = 0; k < ratio; ++k) slots.push_back({token - ratio + k, 0, k});
    for (Index k = 0; k < ratio; ++k) slots.push_back({token + k, channels_ - width_, k});
    return slots;
  }

  double biased_logit(const Slot& slot, Index c) const {
    return logit_.value(slot.row, slot.channel + c) +
           ledger_.vector(spec_.ape)[slot.slot * channels_ + slot.channel + c];
  }

  /// Relative error of exp(logit + ape - top): of the projection, of the sum, of exp.
  double logit_error(const Slot& slot, Index c) const {
    const double s = logit_.value(slot.row, slot.channel + c), biased = biased_logit(slot, c);
    return std::expm1(std::min(logit_.error(slot.row, slot.channel + c) +
                                   ledger_.arithmetic.compute * (std::abs(s) + 2 * std::abs(biased) + 3),
                               700.0));
  }

  Matrix<double> weights_of(const std::vector<Slot>& slots) const {
    Matrix<double> w(static_cast<Index>(slots.size()), width_);
    for (Index c = 0; c < width_; ++c) {
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (const Slot& slot : slots) top = std::max(top, biased_logit(slot, c));
      for (Index k = 0; k < w.rows(); ++k)
        total += w(k, c) = std::exp(biased_logit(slots[static_cast<std::size_t>(k)], c) - top);
      w.col(c) /= total;
    }
    return w;
  }

  Ledger& ledger_;
  const CompressorSpec spec_;
  const Index width_, channels_;
  Estimate value_, logit_, pooled_;
  Estimate dvalue_, dlogit_;                    // with all their errors
  Estimate dvalue_own_, dlogit_own_;            // with those that no two slots share
  Matrix<double> dkey_, shared_, from_pooled_;  // [E, width]: errors of the cotangent and of pooled, as slots see them

 public:
  Estimate key;  ///< what is known of the entries' keys, [E, width]

 private:
  Sum wkv_, wgate_, ape_, norm_;
};

}  // namespace plumbline::reference::budget
