#pragma once
#include "reference/budget/ledger.hpp"
#include "reference/budget/sum.hpp"

// Budgets of reference/qkv.hpp.
namespace plumbline::reference::budget {

/// What successors know of the query path of some rows.
struct QueryEstimates {
  Estimate x, q_down, q_latent, q_up, q;
};

inline QueryEstimates query_budgets(Ledger& ledger, const TokenBlock& block) {
  const contract::LayerConfig& c = ledger.config();
  const Arithmetic& a = ledger.arithmetic;
  QueryEstimates e;
  e.x = ledger.gather(ledger.problem.hidden, block.physical);
  e.q_down = product(e.x, ledger.weight(WeightId::kWqA).transpose(), a);
  ledger.settle(DatasetId::forward(StageId::kQDown), block.physical, e.q_down);
  e.q_latent = e.q_down;
  for (Index r = 0; r < block.count(); ++r)
    norm(e.q_latent.value.row(r).data(), e.q_latent.error.row(r).data(), ledger.vector(WeightId::kQNorm), c.eps,
         c.q_lora_rank, ledger.cast(CastPoint::kRmsNormalized).u, a);
  ledger.settle(DatasetId::forward(StageId::kQLatent), block.physical, e.q_latent);
  e.q_up = product(e.q_latent, ledger.weight(WeightId::kWqB).transpose(), a);
  ledger.settle(DatasetId::forward(StageId::kQUp), block.physical, e.q_up);
  e.q = e.q_up;
  const double unrotated = ledger.cast(CastPoint::kUnrotated).u;
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < c.heads; ++h) {
      double *value = e.q.value.row(r).data() + h * c.head_dim, *error = e.q.error.row(r).data() + h * c.head_dim;
      norm(value, error, nullptr, c.eps, c.head_dim, unrotated, a);
      ledger.rotation(value, error, c.head_dim, block.position[r], 1);
    }
  ledger.settle(DatasetId::forward(StageId::kQ), block.physical, e.q);
  return e;
}

/// Gradients of the query path, from what is known of dq; sums of the weights they feed, and their part of hidden's.
struct QuerySums {
  Sum wq_a, wq_b, q_norm;
};

inline Estimate query_gradient_budgets(Ledger& ledger, const TokenBlock& block, const QueryEstimates& e, Estimate dq,
                                       QuerySums& sums) {
  const contract::LayerConfig& c = ledger.config();
  const Arithmetic& a = ledger.arithmetic;
  ledger.settle(DatasetId::gradient(StageId::kQ), block.physical, dq);
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < c.heads; ++h) {
      const Index at = h * c.head_dim;
      double *value = dq.value.row(r).data() + at, *error = dq.error.row(r).data() + at;
      ledger.rotation(value, error, c.head_dim, block.position[r], -1);
      norm_vjp(e.q_up.value.row(r).data() + at, e.q_up.error.row(r).data() + at, nullptr, c.eps, c.head_dim, value,
               error, nullptr, a);
    }
  ledger.settle(DatasetId::gradient(StageId::kQUp), block.physical, dq);
  if (!sums.wq_b.empty()) sums.wq_b.add_outer(dq, e.q_latent);

  Estimate dlatent = product(dq, ledger.weight(WeightId::kWqB), a);
  ledger.settle(DatasetId::gradient(StageId::kQLatent), block.physical, dlatent);
  GainTerms gain(c.q_lora_rank);
  for (Index r = 0; r < block.count(); ++r) {
    norm_vjp(e.q_down.value.row(r).data(), e.q_down.error.row(r).data(), ledger.vector(WeightId::kQNorm), c.eps,
             c.q_lora_rank, dlatent.value.row(r).data(), dlatent.error.row(r).data(), &gain, a);
    sums.q_norm.add(0, gain.value.data(), gain.error.data(), gain.alike.data());
  }
  sums.q_norm.set_terms(sums.q_norm.terms() + block.count());
  ledger.settle(DatasetId::gradient(StageId::kQDown), block.physical, dlatent);
  if (!sums.wq_a.empty()) sums.wq_a.add_outer(dlatent, e.x);
  Estimate dx = product(dlatent, ledger.weight(WeightId::kWqA), a);
  dx.cast(ledger.cast(CastPoint::kHiddenPartial));
  return dx;
}

/// Keys of all compact token rows.
struct KeyEstimates {
  Estimate kv_proj, kv;
};

inline void key_budgets(Ledger& ledger, const TokenBlock& block, const Estimate& x, KeyEstimates& keys) {
  const contract::LayerConfig& c = ledger.config();
  const Arithmetic& a = ledger.arithmetic;
  const Index first = block.compact.front();
  Estimate proj = product(x, ledger.weight(WeightId::kWkv).transpose(), a);
  ledger.settle(DatasetId::forward(StageId::kKvProj), block.physical, proj);
  keys.kv_proj.value.middleRows(first, block.count()) = proj.value;
  keys.kv_proj.error.middleRows(first, block.count()) = proj.error;
  for (Index r = 0; r < block.count(); ++r) {
    double *value = proj.value.row(r).data(), *error = proj.error.row(r).data();
    norm(value, error, ledger.vector(WeightId::kKvNorm), c.eps, c.head_dim,
         ledger.cast(CastPoint::kRmsNormalized).u + ledger.cast(CastPoint::kUnrotated).u, a);
    ledger.rotation(value, error, c.head_dim, block.position[r], 1);
  }
  ledger.settle(DatasetId::forward(StageId::kKv), block.physical, proj);
  keys.kv.value.middleRows(first, block.count()) = proj.value;
  keys.kv.error.middleRows(first, block.count()) = proj.error;
}

struct KeySums {
  Sum wkv, kv_norm;
};

/// From what all queries left in dkv; returns the block's part of hidden's gradient.
inline Estimate key_gradient_budgets(Ledger& ledger, const TokenBlock& block, const Estimate& x,
                                     const KeyEstimates& keys, Estimate dkv, KeySums& sums) {
  const contract::LayerConfig& c = ledger.config();
  const Arithmetic& a = ledger.arithmetic;
  const Index first = block.compact.front();
  ledger.settle(DatasetId::gradient(StageId::kKv), block.physical, dkv);
  GainTerms gain(c.head_dim);
  for (Index r = 0; r < block.count(); ++r) {
    double *value = dkv.value.row(r).data(), *error = dkv.error.row(r).data();
    ledger.rotation(value, error, c.head_dim, block.position[r], -1);
    norm_vjp(keys.kv_proj.value.row(first + r).data(), keys.kv_proj.error.row(first + r).data(),
             ledger.vector(WeightId::kKvNorm), c.eps, c.head_dim, value, error, &gain, a);
    sums.kv_norm.add(0, gain.value.data(), gain.error.data(), gain.alike.data());
  }
  sums.kv_norm.set_terms(sums.kv_norm.terms() + block.count());
  ledger.settle(DatasetId::gradient(StageId::kKvProj), block.physical, dkv);
  sums.wkv.add_outer(dkv, x);
  Estimate dx = product(dkv, ledger.weight(WeightId::kWkv), a);
  dx.cast(ledger.cast(CastPoint::kHiddenPartial));
  return dx;
}

}  // namespace plumbline::reference::budget
