#include "reference/contract/layout.hpp"

#include <gtest/gtest.h>

namespace plumbline::contract {
namespace {

/// A tensor whose every value says where it stands.
Tensor numbered(Shape shape) {
  Tensor tensor(std::move(shape));
  for (Index i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<double>(i);
  return tensor;
}

TEST(Layout, ViewsPackedRowsAsSbhd) {
  const Index batch = 3, length = 5, heads = 2, dim = 4;
  const Tensor packed = numbered({batch * length, heads, dim});
  const Tensor sbhd = to_sbhd(packed, batch);
  ASSERT_EQ(sbhd.shape(), (Shape{length, batch, heads, dim}));
  for (Index b = 0; b < batch; ++b)
    for (Index s = 0; s < length; ++s)
      for (Index c = 0; c < heads * dim; ++c)
        EXPECT_EQ(sbhd[sbhd_row(s, b, batch) * heads * dim + c], packed.row(packed_row(s, b, length))[c]);
}

TEST(Layout, RoundTrips) {
  const Tensor packed = numbered({12, 7});
  const Tensor back = from_sbhd(to_sbhd(packed, 4));
  EXPECT_EQ(back.shape(), packed.shape());
  EXPECT_EQ(back.values(), packed.values());
}

TEST(Layout, KeepsZeroExtents) {
  EXPECT_EQ(to_sbhd(Tensor(Shape{6, 0}), 2).shape(), (Shape{3, 2, 0}));
  EXPECT_EQ(from_sbhd(Tensor(Shape{0, 2, 5})).shape(), (Shape{0, 5}));
}

TEST(Layout, RefusesUnequalSegments) {
  EXPECT_TRUE(check_sbhd(make_packing({5, 7}, 8)).ok());
  const Status status = check_sbhd(make_packing({5, 7}, 1));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUsage);
  EXPECT_NE(status.error().text().find("segment 1 has 7 rows"), std::string::npos) << status.error().text();
}

}  // namespace
}  // namespace plumbline::contract
