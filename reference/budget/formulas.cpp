#include "reference/budget/formulas.hpp"

#include <array>

#include "reference/budget/estimate.hpp"
#include "reference/budget/rules.hpp"

namespace plumbline::reference {

using contract::DatasetId;

namespace {

struct Formula {
  std::string_view path;
  std::string_view text;
};

constexpr std::string_view kProjection =
    "accumulation over the inner axis, of x w: n u sum |x w| for n <= 16, else 6 u sqrt(n) max(|y|, ||x w||_2, largest "
    "partial sum); + 2 ||B_x w||_2 + |y| ||B_x|| / ||x||";
constexpr std::string_view kNormRotation =
    "norm: |y| (4 u + half the sum's relative error + casts) + |g| rho (B_x + |x| rho^2/n 2 ||x B_x||); rotation: "
    "|cos| "
    "B_a + |sin| B_b + (2 u + u of cos and sin) (|a cos| + |b sin|) + |partner| times the angle's error";
constexpr std::string_view kNormVjp =
    "rotated back as forward; then rms vjp, dx = rho (g - x s): rho (B_g + |x| B_s + |s| B_x) + rho (|g| + |x s|) "
    "times "
    "the norm's relative error, B_s = rho^2/n (accumulation of g x + 2 ||x B_g|| + 2 ||g B_x||) + |s| times twice that "
    "error";
constexpr std::string_view kWeightSum = "accumulation over tokens, of dy x; + 2 sqrt(sum (B_dy x)^2 + (dy B_x)^2)";
constexpr std::string_view kGainSum =
    "accumulation over rows, of dy x rho; + 2 ||errors of the terms||_2 + |sum of errors that rows may share|";

constexpr auto kFormulas = std::to_array<Formula>({
    {"forward/q_down", kProjection},
    {"forward/q_latent",
     "|y| (4 u + half the sum's relative error + cast before the gain) + |g| rho (B_x + |x| rho^2/n 2 ||x B_x||)"},
    {"forward/q_up", kProjection},
    {"forward/q", kNormRotation},
    {"forward/kv_proj", kProjection},
    {"forward/kv", kNormRotation},
    {"forward/compressed_pooled",
     "sum over slots of w |a| (u_w + 2 u) + w B_a, + sum over slots of w |a - pooled| B_w/w (B_w/w: error of logit + "
     "ape and of exp), "
     "+ accumulation of w a + |pooled| times the relative error of the softmax's sum"},
    {"forward/compressed_kv", kNormRotation},
    {"forward/index_q",
     "projection, then rotation as forward/q, then Hadamard: 2 ||B_x|| / sqrt(n) + 4 u sqrt(log2 n + 1) rms(x) + |y| "
     "||B_x|| / ||x||; casts between them"},
    {"forward/index_pooled", "as forward/compressed_pooled"},
    {"forward/index_k", "as forward/compressed_kv, then Hadamard as forward/index_q"},
    {"forward/index_w", kProjection},
    {"forward/index_scores",
     "D^(-1/2) (spread over heads of |w| B_a where a > -B_a, B_w relu(a), u |w relu(a)| and its cast; + accumulation "
     "over heads); B_a: accumulation over channels, "
     "operand and product casts"},
    {"forward/topk", "no budget: every swap against the truth must lie within both scores' budgets"},
    {"forward/attn_out",
     "cast of p: u_p max(|out|, 4 ||p key||_2); + 4 ||moved (key - out)||_2, moved = p expm1(B_z + u (|z - lse| + 3)) "
     "<= 1, B_z = D^(-1/2) accumulation + casts; + accumulation over keys; "
     "+ |out| (relative error of the softmax's sum + u |lse|); + 2 ||p B_key||_2"},
    {"forward/attn_lse", "spread of p expm1(B_z + ...), at most the largest; + relative error of the sum + u |lse|"},
    {"forward/max_logits", "the largest B_z of logits that may be the largest"},
    {"forward/attn_out_derotated", "rotation, as in forward/q"},
    {"forward/o_latent", kProjection},
    {"forward/out", kProjection},
    {"forward/teacher",
     "M[g] = sum over heads of p: spread of p expm1(B_z + B_L + u (|z - L| + |z| + 4)); B_M / sum M + teacher times "
     "the relative error of sum M; at most 1"},
    {"forward/predict", "p expm1(B_s + B_total + u (|s| + 2 |ln p|)) + 2 u p; at most 1"},
    {"forward/kl_rows",
     "sum of t (u (3 |ln t| + 2 |ln p|) + B_lnp) + (|ln t - ln p| + 1) B_t; + accumulation over candidates"},
    {"forward/indexer_loss", "accumulation over rows with their largest partial sum, + spread of B_kl + 4 u |loss|"},
    {"grad/forward/out", "the store alone: it is grad_out"},
    {"grad/forward/o_latent", kProjection},
    {"grad/weights/wo_b", kWeightSum},
    {"grad/forward/attn_out_derotated", kProjection},
    {"grad/weights/wo_a", kWeightSum},
    {"grad/forward/attn_out", "rotation, as in forward/q"},
    {"grad/forward/kl_rows", "4 u of its one value"},
    {"grad/forward/index_scores", "|weight| (B_predict + B_teacher + 3 u (predict + teacher))"},
    {"grad/forward/index_w",
     "spread over candidates of B_d relu(a) + |d| B_a where a > -B_a + u |d relu(a)|; + accumulation"},
    {"grad/weights/indexer.weights_proj", kWeightSum},
    {"grad/forward/index_q",
     "da = d w [a > 0]: |w| B_d + |d| B_w, cast; where |a| <= B_a both derivatives are right and the whole |d w| is in "
     "the budget; then accumulation of da key and 2 ||B_da key||_2"},
    {"grad/weights/indexer.wq_b", kWeightSum},
    {"grad/forward/q",
     "dz = p (dp - delta): p (B_dp + u (|dp| + |delta|)) + |dp - delta| B_p + casts; D^(-1/2) (4 ||B_dz key||_2 + "
     "B_delta |out|) + accumulation over keys; + 2 ||dz B_key||_2"},
    {"grad/weights/attn_sink",
     "accumulation over rows, of p_sink delta; + 2 ||p_sink (B_delta + |delta| (B_lse + u (|sink - lse| + 3)))||_2"},
    {"grad/forward/q_up", kNormVjp},
    {"grad/weights/wq_b", kWeightSum},
    {"grad/forward/q_latent", kProjection},
    {"grad/weights/q_norm", kGainSum},
    {"grad/forward/q_down", kNormVjp},
    {"grad/weights/wq_a", kWeightSum},
    {"grad/forward/kv",
     "accumulation over queries and heads, of D^(-1/2) dz q and p dout; + 2 ||B_dz q, B_p dout||_2 with B_dz as for "
     "grad/forward/q and B_delta p"},
    {"grad/forward/compressed_kv", "as grad/forward/kv, over the queries that picked the entry"},
    {"grad/forward/index_k",
     "accumulation over queries and heads, of da q; + 2 ||B_da q||_2, B_da as for grad/forward/index_q"},
    {"grad/weights/compressor.norm", kGainSum},
    {"grad/forward/compressed_pooled", kNormVjp},
    {"grad/weights/compressor.ape",
     "accumulation over groups, of dlogit = w (a - pooled) d; + 2 ||B_dlogit||_2 + |sum of w d B_pooled|"},
    {"grad/weights/compressor.wkv",
     "accumulation over tokens, of dvalue x; + 2 times the 2-norm of each slot's own errors, and of errors that a "
     "group shares times its sum of w x"},
    {"grad/weights/compressor.wgate",
     "as compressor.wkv with dlogit; shared errors times the group's sums of w (a - pooled) x and, of pooled, w x; + "
     "|sum of the latter|"},
    {"grad/weights/indexer.compressor.norm", kGainSum},
    {"grad/forward/index_pooled", "Hadamard, then as grad/forward/compressed_pooled"},
    {"grad/weights/indexer.compressor.ape", "as compressor.ape"},
    {"grad/weights/indexer.compressor.wkv", "as compressor.wkv"},
    {"grad/weights/indexer.compressor.wgate", "as compressor.wgate"},
    {"grad/weights/kv_norm", kGainSum},
    {"grad/forward/kv_proj", kNormVjp},
    {"grad/weights/wkv", kWeightSum},
    {"grad/inputs/hidden",
     "the four paths' projections; + 3 u and the cast of partial sums times max(|sum so far|, ||parts||_2)"},
});

}  // namespace

std::string_view budget_formula(DatasetId id) {
  for (const Formula& formula : kFormulas)
    if (formula.path == id.path()) return formula.text;
  return {};
}

const std::vector<BudgetConstant>& budget_constants() {
  using namespace budget;
  static const std::vector<BudgetConstant> all = {
      {"cast", kCast, "factor on a declared cast's u |dy/dv| |v|",
       "derived: second-order terms, and two casts that meet"},
      {"accumulation", kAccumulation, "of a sum of n > 16 terms, in u sqrt(n) max(|y|, ||terms||_2, partial sums)",
       "derived: n independent errors of at most u times a partial sum are within 3.5 at six standard deviations"},
      {"few terms", static_cast<double>(kFewTerms), "sums up to this long are bounded by n u sum |terms|",
       "derived: no order exceeds it"},
      {"spread", kSpread, "of independent errors e_i, each at most: this times ||e||_2, and at most sum e_i",
       "derived: 6.9 standard deviations of uniform errors"},
      {"spread of budgets", kSpreadOfBudgets, "the same where the e_i are budgets",
       "measured: the rms of error / budget is at most 0.43 in any dataset, 2026-12-01, on emulated runs of every "
       "kind, regime and profile"},
      {"angle roundings", kAngleRoundings, "of an fp32 angle t f, in units of 2^-24 |t f|",
       "derived from the operations, one ulp each"},
  };
  return all;
}

}  // namespace plumbline::reference
