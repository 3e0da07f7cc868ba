// The bits of a result do not depend on the number of threads, nor on the run.
#include <omp.h>

#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

/// Large enough that every part of the body hands work to threads.
class ThreadProperty : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    threads_ = omp_get_max_threads();
    dynamic_ = omp_get_dynamic();
    omp_set_dynamic(0);
  }
  void TearDown() override {
    omp_set_num_threads(threads_);
    omp_set_dynamic(dynamic_);
  }

 private:
  int threads_ = 1, dynamic_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Kinds, ThreadProperty,
                         testing::Values(Kind{"swa", "swa"}, Kind{"csa", "csa,index_topk=60"},
                                         Kind{"dense_loss", "csa,loss=dense,index_topk=60"},
                                         Kind{"hca", "hca,ratio=6"}),
                         kind_name);

TEST_P(ThreadProperty, AnyNumberOfThreadsGivesTheSameBits) {
  const Problem problem = case_problem(GetParam(),
                                       "heads=8,head_dim=160,rope_dim=32,q_lora_rank=480,hidden=136,o_lora_rank=66,"
                                       "index_heads=8,index_dim=64,window=70,yarn_orig=4096,"
                                       "seq=561+43,mask=random:0.1,seed=97");
  omp_set_num_threads(1);
  const Results alone = run(problem);
  EXPECT_TRUE(same_bits(alone, run(problem))) << "run to run";
  for (const int threads : {2, 3, 5, 8}) {
    omp_set_num_threads(threads);
    EXPECT_TRUE(same_bits(alone, run(problem))) << threads << " threads";
  }
}

}  // namespace
}  // namespace plumbline::tests
