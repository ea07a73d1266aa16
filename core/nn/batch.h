// Moved to core/tensor/batch.h: ops take batches too, and core/ops must not include core/nn.
#pragma once

#include "core/tensor/batch.h"
