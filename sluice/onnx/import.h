// Moved: include sluice/onnx/files.h.
#pragma once

#include "sluice/onnx/files.h"
