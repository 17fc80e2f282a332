#include "node/arrival_estimator.h"

#include <gtest/gtest.h>

namespace lynx::node {
namespace {

using std::chrono::milliseconds;

TEST(ArrivalEstimator, NeedsTwoArrivals) {
    ArrivalEstimator estimator(2, 10, 2);
    EXPECT_FALSE(estimator.eta());
    estimator.on_page(0, 100, milliseconds(5));
    EXPECT_FALSE(estimator.eta());
    estimator.on_page(0, 100, milliseconds(10));
    EXPECT_TRUE(estimator.eta());
}

TEST(ArrivalEstimator, ASteadyLinkIsPredictedExactly) {
    // 10 anchors of 100 bytes, then 10 residual pages of 50, one byte a millisecond.
    ArrivalEstimator estimator(2, 10, 2);
    for (int i = 1; i <= 10; ++i) {
        estimator.on_page(0, 100, milliseconds(100 * i));
    }
    for (int i = 1; i <= 4; ++i) {
        estimator.on_page(1, 50, milliseconds(1000 + 50 * i));
        const auto eta = estimator.eta();
        ASSERT_TRUE(eta);
        EXPECT_NEAR(base::to_seconds(eta->last_page), 1.5, 1e-6);
        EXPECT_NEAR(base::to_seconds(eta->first_layer), i < 2 ? 1.1 : base::to_seconds(milliseconds(1000 + 50 * i)),
                    1e-6);
    }
}

TEST(ArrivalEstimator, BeforeAnyResidualTheyAreTakenToBeAsLargeAsAnchors) {
    ArrivalEstimator estimator(2, 4, 2);
    for (int i = 1; i <= 4; ++i) {
        estimator.on_page(0, 100, milliseconds(100 * i));
    }
    EXPECT_NEAR(base::to_seconds(estimator.eta()->last_page), 0.8, 1e-6);
}

TEST(ArrivalEstimator, AnOverdueEtaStaysInThePast) {
    ArrivalEstimator estimator(1, 3, 1);
    estimator.on_page(0, 100, milliseconds(100));
    estimator.on_page(0, 100, milliseconds(200));
    EXPECT_EQ(estimator.eta()->last_page, milliseconds(300));
}

}  // namespace
}  // namespace lynx::node
