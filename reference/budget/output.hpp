#pragma once
#include "reference/budget/ledger.hpp"
#include "reference/budget/sum.hpp"

// Budgets of reference/output.hpp.
namespace plumbline::reference::budget {

struct OutputEstimates {
  Estimate derotated, o_latent;
};

/// `attn_out`: what is known of it.
inline OutputEstimates output_budgets(Ledger& ledger, const TokenBlock& block, const Estimate& attn_out) {
  const contract::LayerConfig& c = ledger.config();
  OutputEstimates e{attn_out, Estimate(block.count(), c.o_groups * c.o_lora_rank)};
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < c.heads; ++h)
      ledger.rotation(e.derotated.value.row(r).data() + h * c.head_dim,
                      e.derotated.error.row(r).data() + h * c.head_dim, c.head_dim, block.position[r], -1);
  ledger.settle(DatasetId::forward(StageId::kAttnOutDerotated), block.physical, e.derotated);
  const Index width = c.heads_per_group() * c.head_dim;
  const auto wo_a = ledger.weight(WeightId::kWoA);
  for (Index j = 0; j < c.o_groups; ++j)
    e.o_latent.set_columns(j * c.o_lora_rank,
                           product(e.derotated.columns(j * width, width),
                                   wo_a.middleRows(j * c.o_lora_rank, c.o_lora_rank).transpose(), ledger.arithmetic));
  ledger.settle(DatasetId::forward(StageId::kOLatent), block.physical, e.o_latent);
  Estimate out = product(e.o_latent, ledger.weight(WeightId::kWoB).transpose(), ledger.arithmetic);
  ledger.settle(DatasetId::forward(StageId::kOut), block.physical, out);
  return e;
}

struct OutputSums {
  Sum wo_b;
  std::vector<Sum> wo_a;  ///< one a group
};

/// Returns what is known of dattn_out.
inline Estimate output_gradient_budgets(Ledger& ledger, const TokenBlock& block, const OutputEstimates& e,
                                        OutputSums& sums) {
  const contract::LayerConfig& c = ledger.config();
  Estimate dout = ledger.gather(ledger.problem.grad_out, block.physical);
  ledger.settle(DatasetId::gradient(StageId::kOut), block.physical, dout);
  Estimate dlatent = product(dout, ledger.weight(WeightId::kWoB), ledger.arithmetic);
  ledger.settle(DatasetId::gradient(StageId::kOLatent), block.physical, dlatent);
  if (!sums.wo_b.empty()) sums.wo_b.add_outer(dout, e.o_latent);
  const Index width = c.heads_per_group() * c.head_dim;
  const auto wo_a = ledger.weight(WeightId::kWoA);
  Estimate d(block.count(), c.heads * c.head_dim);
  for (Index j = 0; j < c.o_groups; ++j) {
    const Estimate group = dlatent.columns(j * c.o_lora_rank, c.o_lora_rank);
    d.set_columns(j * width, product(group, wo_a.middleRows(j * c.o_lora_rank, c.o_lora_rank), ledger.arithmetic));
    if (!sums.wo_a.empty())
      sums.wo_a[static_cast<std::size_t>(j)].add_outer(group, e.derotated.columns(j * width, width));
  }
  ledger.settle(DatasetId::gradient(StageId::kAttnOutDerotated), block.physical, d);
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < c.heads; ++h)
      ledger.rotation(d.value.row(r).data() + h * c.head_dim, d.error.row(r).data() + h * c.head_dim, c.head_dim,
                      block.position[r], 1);
  ledger.settle(DatasetId::gradient(StageId::kAttnOut), block.physical, d);
  return d;
}

}  // namespace plumbline::reference::budget
