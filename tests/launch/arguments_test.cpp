#include "launch/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/error.h"

namespace longhaul {
namespace {

const ArgumentSpec kSpec{.options = {"config=", "set=", "gradients"}, .repeatable = {"set"}, .most_operands = 1};

std::string error_of(const std::vector<std::string>& words) {
  try {
    Arguments("eval", words, kSpec);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kUser);
    return error.what();
  }
  return "accepted";
}

TEST(Arguments, ReadsValuesFlagsAndOperands) {
  const Arguments arguments("eval", {"--config", "a.ini", "--set=x.y=1", "--set", "x.z=2", "step", "--gradients"},
                            kSpec);
  EXPECT_EQ(arguments.text("config"), "a.ini");
  EXPECT_THAT(arguments.all("set"), testing::ElementsAre("x.y=1", "x.z=2"));
  EXPECT_TRUE(arguments.has("gradients"));
  EXPECT_THAT(arguments.operands(), testing::ElementsAre("step"));
  EXPECT_EQ(arguments.text("missing", "fallback"), "fallback");
}

TEST(Arguments, NamesTheNearestOption) {
  EXPECT_EQ(error_of({"--confg", "a"}), "longhaul eval: unknown option '--confg'; did you mean '--config'?");
  EXPECT_EQ(error_of({"-c", "a"}), "longhaul eval: unknown option '-c'");
}

TEST(Arguments, RefusesWhatItCannotUse) {
  EXPECT_EQ(error_of({"--config"}), "longhaul eval: option --config needs a value");
  EXPECT_EQ(error_of({"--gradients=yes"}), "longhaul eval: option --gradients takes no value, found '--gradients=yes'");
  EXPECT_EQ(error_of({"--config", "a", "--config", "b"}), "longhaul eval: option --config is given twice");
  EXPECT_EQ(error_of({"a", "b"}), "longhaul eval: unexpected word 'b'; see `longhaul eval --help`");
}

TEST(Arguments, NumbersNameTheirOption) {
  const Arguments arguments("bench", {"--config", "2"}, kSpec);
  EXPECT_EQ(arguments.integer("config", 0), 2);
  EXPECT_THROW(arguments.integer("config", 0, 3), Error);
  EXPECT_THROW(arguments.text("set"), Error);
}

}  // namespace
}  // namespace longhaul
