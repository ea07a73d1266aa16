#include "launch/config/value_parser.h"

#include <gtest/gtest.h>

#include "kernels/error.h"

namespace longhaul {
namespace {

TEST(ValueParser, ReadsEveryCommonWayToWriteANumber) {
  for (const char* text : {"1e-4", "1E-4", "1.e-4", ".0001", "0.0001", "+1e-4"}) {
    EXPECT_DOUBLE_EQ(parse_number("lr", text), 1e-4) << text;
  }
  EXPECT_EQ(parse_number("lr", "-1"), -1);
}

TEST(ValueParser, RefusesWhatIsNoFiniteDecimalNumber) {
  for (const char* text :
       {"1_000", "nan", "inf", "-inf", "NaN", "0x10", "1e999", "1,5", "", "+", "1e", "1e-4x", "++1", "+-1", "1 2"}) {
    try {
      parse_number("schedule.learning_rate", text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::kUser);
      EXPECT_EQ(std::string(error.what()).rfind("schedule.learning_rate: ", 0), 0u) << error.what();
    }
  }
}

TEST(ValueParser, IntegersAreDecimalDigitsOnly) {
  EXPECT_EQ(parse_integer("steps", "1000"), 1000);
  EXPECT_EQ(parse_integer("steps", "9223372036854775807"), INT64_MAX);
  for (const char* text : {"1e9", "1_000", "3.0", "0x10", "9223372036854775808", "", "ten", "1 "}) {
    EXPECT_THROW(parse_integer("steps", text), Error) << text;
  }
}

TEST(ValueParser, ChecksRanges) {
  EXPECT_THROW(parse_integer("steps", "0", 1), Error);
  EXPECT_THROW(parse_number("beta1", "1.5", 0, 1), Error);
  EXPECT_EQ(parse_number("beta1", "1", 0, 1), 1);
}

TEST(ValueParser, ChoicesNameTheNearest) {
  try {
    parse_choice("train.dtype", "fp32", {"f32", "bf16"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "train.dtype: expected f32 or bf16, found 'fp32'; did you mean 'f32'?");
  }
}

TEST(ValueParser, NumbersPrintShortAndReadBack) {
  for (const double value : {3e-4, 1e-8, 0.1, 123456789.125, 1.0 / 3}) {
    EXPECT_EQ(parse_number("x", number_text(value)), value);
  }
}

}  // namespace
}  // namespace longhaul
