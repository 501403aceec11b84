#include "quantize.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {

constexpr size_t kMaxBufferBytes = 256 << 20;

void check_open(const std::string &path, const char *mode) {
  std::FILE *file = std::fopen(path.c_str(), mode);
  if (file == nullptr) throw StageError("FILE", "cannot open " + path + ": " + std::strerror(errno));
  std::fclose(file);
}

}  // namespace

void quantize_model(const LlamaApi &api, const std::string &path, const std::string &out, llama_ftype type,
                    int threads) {
  check_open(path, "rb");
  check_open(out, "wb");
  llama_model_quantize_params params = api.llama_model_quantize_default_params();
  params.ftype = type;
  params.nthread = threads;
  params.max_buf_size = kMaxBufferBytes;
  const uint64_t mark = log_ring().mark();
  if (api.llama_model_quantize(path.c_str(), out.c_str(), &params) == 0) return;
  const std::string log = log_ring().errors_since(mark);
  throw StageError("EXECUTOR", "llama.cpp cannot quantise " + path + (log.empty() ? "" : ": " + log));
}
