// Expects an Error of one kind whose text contains given pieces.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>

#include "kernels/error.h"

namespace longhaul::testing {

inline void expect_error(Fault fault, std::initializer_list<const char*> pieces, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault) << error.what();
    for (const char* piece : pieces) EXPECT_THAT(error.what(), ::testing::HasSubstr(piece));
  }
}

}  // namespace longhaul::testing
