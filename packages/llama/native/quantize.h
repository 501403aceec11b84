// llama.cpp's own quantiser.
#pragma once

#include <string>

#include "llama_api.h"

// Writes the model at `path` to `out` with its matrices in `type`; F32, F16 and BF16 sources only. Throws FILE,
// or EXECUTOR with llama.cpp's reason.
void quantize_model(const LlamaApi &api, const std::string &path, const std::string &out, llama_ftype type,
                    int threads);
