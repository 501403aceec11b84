// llama.cpp's C interface, opened at run time. Nothing here is linked: the library files carry a variant and
// a release in their names, which differ between the packages that bring them.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "gguf.h"
#include "llama.h"

// A failure with one of the codes of SeamError.
struct StageError : std::runtime_error {
  StageError(const char *error_code, const std::string &message)
      : std::runtime_error(message), code(error_code) {}
  const char *code;
};

#define SEAMLINE_GGML_SYMBOLS(X)                                                                             \
  X(ggml_get_name)                                                                                           \
  X(ggml_nbytes)                                                                                             \
  X(ggml_type_name)                                                                                          \
  X(gguf_init_from_file)                                                                                     \
  X(gguf_get_n_tensors)                                                                                      \
  X(gguf_get_tensor_name)                                                                                    \
  X(gguf_get_tensor_type)                                                                                    \
  X(gguf_free)                                                                                               \
  X(ggml_set_abort_callback)                                                                                 \
  X(ggml_backend_tensor_get)                                                                                 \
  X(ggml_backend_tensor_set)                                                                                 \
  X(ggml_backend_dev_backend_reg)

#define SEAMLINE_REGISTRY_SYMBOLS(X)                                                                         \
  X(ggml_backend_load_all_from_path)                                                                         \
  X(ggml_backend_reg_count)                                                                                  \
  X(ggml_backend_dev_by_type)

#define SEAMLINE_LLAMA_SYMBOLS(X)                                                                            \
  X(llama_version)                                                                                           \
  X(llama_log_set)                                                                                           \
  X(llama_backend_init)                                                                                      \
  X(llama_model_default_params)                                                                              \
  X(llama_model_load_from_file)                                                                              \
  X(llama_model_free)                                                                                        \
  X(llama_model_get_vocab)                                                                                   \
  X(llama_model_n_embd)                                                                                      \
  X(llama_model_n_layer)                                                                                     \
  X(llama_model_n_ctx_train)                                                                                 \
  X(llama_model_n_swa)                                                                                       \
  X(llama_model_rope_type)                                                                                   \
  X(llama_model_is_recurrent)                                                                                \
  X(llama_model_is_hybrid)                                                                                   \
  X(llama_vocab_n_tokens)                                                                                    \
  X(llama_max_parallel_sequences)                                                                            \
  X(llama_context_default_params)                                                                            \
  X(llama_init_from_model)                                                                                   \
  X(llama_free)                                                                                              \
  X(llama_get_memory)                                                                                        \
  X(llama_decode)                                                                                            \
  X(llama_synchronize)                                                                                       \
  X(llama_get_logits_ith)                                                                                    \
  X(llama_memory_seq_rm)                                                                                     \
  X(llama_memory_seq_pos_min)                                                                                \
  X(llama_memory_seq_pos_max)                                                                                \
  X(llama_state_seq_get_size)                                                                                \
  X(llama_state_seq_get_data)                                                                                \
  X(llama_state_seq_set_data)                                                                                \
  X(llama_model_quantize_default_params)                                                                     \
  X(llama_model_quantize)                                                                                    \
  X(llama_sampler_chain_default_params)                                                                      \
  X(llama_sampler_chain_init)                                                                                \
  X(llama_sampler_chain_add)                                                                                 \
  X(llama_sampler_accept)                                                                                    \
  X(llama_sampler_apply)                                                                                     \
  X(llama_sampler_free)                                                                                      \
  X(llama_sampler_init_penalties)                                                                            \
  X(llama_sampler_init_top_k)                                                                                \
  X(llama_sampler_init_top_p)                                                                                \
  X(llama_sampler_init_min_p)                                                                                \
  X(llama_sampler_init_temp)                                                                                 \
  X(llama_sampler_init_dist)                                                                                 \
  X(llama_sampler_init_greedy)

struct LlamaApi {
#define SEAMLINE_MEMBER(name) decltype(&::name) name = nullptr;
  SEAMLINE_GGML_SYMBOLS(SEAMLINE_MEMBER)
  SEAMLINE_REGISTRY_SYMBOLS(SEAMLINE_MEMBER)
  SEAMLINE_LLAMA_SYMBOLS(SEAMLINE_MEMBER)
#undef SEAMLINE_MEMBER
  // Handle of libggml-base, for symbols that only the test driver needs.
  void *ggml_base = nullptr;
  // What llama_version() says, e.g. "0.5.0-dev".
  std::string version;
  // Back end and kernel variant that were picked for this CPU, e.g. "cpu haswell".
  std::string backend;
};

// Opens the libraries in `directory`, checks the release against the headers', loads the back end that fits
// the CPU and sends llama.cpp's log to `log_ring()`. The process keeps them; a second call must name the same
// directory. Throws FILE, UNSUPPORTED or MISMATCH.
const LlamaApi &load_llama(const std::string &directory);

// Throws MISMATCH, naming both, unless the loaded version is of the release that the headers were taken from.
void check_release(const std::string &headers_release, const std::string &loaded_version);

// The last lines that llama.cpp logged. Any thread.
class LogRing {
 public:
  void append(ggml_log_level level, const char *text);
  // Lines logged so far; a mark for errors_since().
  uint64_t mark() const;
  // Warnings and errors logged after `mark`, joined; empty when there are none (left).
  std::string errors_since(uint64_t mark) const;
  std::vector<std::string> lines() const;

 private:
  struct Line {
    uint64_t number;
    ggml_log_level level;
    std::string text;
  };
  mutable std::mutex mutex_;
  std::deque<Line> lines_;
  std::string partial_;
  ggml_log_level partial_level_ = GGML_LOG_LEVEL_NONE;
  uint64_t count_ = 0;
};

LogRing &log_ring();
