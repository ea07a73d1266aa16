#include "launch/training/prior_state.h"

#include <gtest/gtest.h>

#include "launch/training/training_state.h"
#include "tests/core/error_check.h"
#include "tests/core/models/model_testing.h"
#include "tests/launch/training/prior_testing.h"
#include "tests/parallel/checkpoint_fixture.h"

namespace longhaul {
namespace {

using testing::PriorModel;

/// Two lengths, one of them seen twice.
std::unique_ptr<PriorModel> trained_model() {
  auto model = std::make_unique<PriorModel>();
  PriorMemory& memory = *model->prior_memory();
  for (const int64_t length : {2, 5, 2}) {
    const Tensor memberships = Tensor::empty({2, length, 3}, DType::f64),
                 alignment = Tensor::empty({2, 3, 3}, DType::f64);
    for (const Tensor& tensor : {memberships, alignment}) {
      for (int64_t i = 0; i < tensor.count(); ++i) {
        tensor.data<double>()[i] = 1.0 / static_cast<double>(3 + i + length + memory.entry(2).updates);
      }
    }
    memory.observe(length, memberships, alignment);
  }
  memory.set_control({0.1 + 0.2, 0.75, 0.125});
  return model;
}

/// The newest checkpoint of a run of two ranks, of which the first writes the prior memory.
class PriorCheckpoint : public ::testing::Test {
 protected:
  CheckpointReader saved(const LanguageModel& model) {
    testing::run_ranks(2, [&](Communicator& group) {
      const RunDirectory run = RunDirectory::acquire(group, directory_.path());
      CheckpointOptions options;
      options.background = false;
      CheckpointWriter writer(group, run, options);
      testing::ToyState state(1);
      std::vector<TensorSlice> slices = state.slices(group.rank(), group.size());
      if (group.is_root()) {
        for (const TensorSlice& slice : prior_slices(model)) slices.push_back(slice);
      }
      ControllerState controllers;
      controllers.prior = prior_state(model);
      CheckpointExtras extras = testing::toy_extras(1);
      extras.controller_state = controllers.to_json();
      writer.begin(1, slices, extras);
    });
    return CheckpointReader::open(resolve_checkpoint(directory_.path()));
  }
  static std::optional<PriorState> state_in(const CheckpointReader& checkpoint) {
    return ControllerState::from_json(checkpoint.manifest().extras.controller_state, "here").prior;
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(PriorCheckpoint, ReadsBackExactly) {
  const std::unique_ptr<PriorModel> model = trained_model();
  const CheckpointReader checkpoint = saved(*model);
  EXPECT_TRUE(checkpoint.contains("prior/memberships.2"));
  EXPECT_TRUE(checkpoint.contains("prior/alignment.5"));
  PriorModel again;
  again.prior_memory()->entry(7);  // forgotten
  restore_prior(again, state_in(checkpoint), checkpoint);
  const PriorMemory &found = *again.prior_memory(), &expected = *model->prior_memory();
  EXPECT_EQ(found.control(), expected.control());
  ASSERT_EQ(found.entries().size(), 2u);
  for (const auto& [length, entry] : expected.entries()) {
    EXPECT_EQ(found.entries().at(length).updates, entry.updates);
    EXPECT_EQ(found.entries().at(length).memberships.to_vector<double>(), entry.memberships.to_vector<double>());
    EXPECT_EQ(found.entries().at(length).alignment.to_vector<double>(), entry.alignment.to_vector<double>());
  }
  EXPECT_EQ(found.entries().at(2).updates, 2);
}

TEST_F(PriorCheckpoint, ModelsWithoutMembershipsKeepNothing) {
  PriorModel plain(0, 0);
  EXPECT_FALSE(prior_state(plain));
  EXPECT_TRUE(prior_slices(plain).empty());
  const CheckpointReader checkpoint = saved(plain);
  EXPECT_EQ(checkpoint.manifest().extras.controller_state.find("prior"), std::string::npos);
  restore_prior(plain, state_in(checkpoint), checkpoint);
  PriorModel model;
  testing::expect_error(Fault::kUser, {"step_", "no prior memory"},
                        [&] { restore_prior(model, state_in(checkpoint), checkpoint); });
}

TEST_F(PriorCheckpoint, OtherModelsAreUserErrors) {
  const CheckpointReader checkpoint = saved(*trained_model());
  PriorModel plain(0, 0), other(2, 4);
  testing::expect_error(Fault::kUser, {"step_", "the model has none"},
                        [&] { restore_prior(plain, state_in(checkpoint), checkpoint); });
  testing::expect_error(Fault::kUser, {"step_", "memberships.2", "[2, 2, 3]", "[2, 2, 4]"},
                        [&] { restore_prior(other, state_in(checkpoint), checkpoint); });
}

TEST(CopyPrior, TakesEntriesNotTheControlAndSharesNoMemory) {
  const std::unique_ptr<PriorModel> source = trained_model();
  PriorModel model;
  copy_prior(model, *source);
  EXPECT_EQ(model.prior_memory()->control().temperature, 0.68);
  EXPECT_EQ(model.prior_memory()->entries().at(2).updates, 2);
  const std::vector<double> before = source->prior_memory()->entries().at(5).alignment.to_vector<double>();
  EXPECT_EQ(model.prior_memory()->entries().at(5).alignment.to_vector<double>(), before);
  model.prior_memory()->entry(5).alignment.zero();
  EXPECT_EQ(source->prior_memory()->entries().at(5).alignment.to_vector<double>(), before);
}

TEST(CopyPrior, AMemoryWithoutAlignmentsIsNoStartForAPrior) {
  const auto model_of = [](const char* prior) {
    ModelConfig config = testing::tiny_config("fuzzy");
    config.rpa.prior = prior;
    return make_model(config, 1, DType::f32);
  };
  const auto lengths_after = [&](const char* ours, const char* theirs) {
    const auto model = model_of(ours), source = model_of(theirs);
    source->prior_memory()->entry(4).updates = 5;
    copy_prior(*model, *source);
    return model->prior_memory()->entries().size();
  };
  EXPECT_EQ(lengths_after("on", "on"), 1u);
  EXPECT_EQ(lengths_after("off", "off"), 1u);
  EXPECT_EQ(lengths_after("off", "on"), 1u);
  EXPECT_EQ(lengths_after("on", "off"), 0u);
}

}  // namespace
}  // namespace longhaul
