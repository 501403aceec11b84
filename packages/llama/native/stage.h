// One range of layers on llama.cpp: decode with capture of the last layer's output, sampling, rollback,
// state. No threads and no Node in here: every call except can_roll_back() belongs to the one thread that
// made the Stage.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "llama_api.h"

struct StageOptions {
  std::string path;
  // Names the stage in saved states: model, layers, KV type, engine.
  std::string identity;
  // A first stage takes token ids, the others hidden rows.
  bool first = true;
  // A last stage has the head and samples, the others hand out hidden rows.
  bool last = true;
  // The node that is overwritten with the hidden rows, where the model would change them on their way in. Empty:
  // they go in as they are.
  std::string inject;
  // Positions of one sequence.
  int context_length = 0;
  // Most tokens of one step.
  int chunk_tokens = 0;
  int max_sequences = 1;
  int threads = 1;
  bool flash_attention = true;
  std::string kv_type = "f16";
  // Repack quantised weights for the CPU's kernels at load.
  bool repack = true;
  // Rows do not depend on how they are grouped into steps: every decode call has 2 to kUniformRows rows. Needs
  // flash attention and no repacking.
  bool uniform = false;
};

// llama.cpp computes 2 to 63 rows alike, one row and 64 or more by other kernels; a multiple of 4 for the sake
// of its tiles.
constexpr int kUniformRows = 60;

struct SamplerSettings {
  float temperature = 0;
  int top_k = 0;
  float top_p = 1;
  float min_p = 0;
  int penalty_last_n = 0;
  float repeat_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  uint32_t seed = 0;
};

struct StepRow {
  int sequence = 0;
  int position = 0;
  bool sample = false;
};

// All rows have `token_count` tokens. Pointers are borrowed for the step.
struct Step {
  std::vector<StepRow> rows;
  int token_count = 0;
  const int32_t *tokens = nullptr;  // on a first stage
  const float *hidden = nullptr;    // on the others
  float *output = nullptr;          // hidden rows, except on a last stage
  float *logits = nullptr;          // a vocabulary for each sampling row, or null
  const std::atomic<bool> *aborted = nullptr;
};

struct StepResult {
  std::vector<int32_t> tokens;
  double compute_start_ns = 0;
  double compute_end_ns = 0;
  double sample_end_ns = 0;
  double cpu_wait_ns = 0;  // how long the thread could run and had no CPU meanwhile; 0 where that is not known
};

// Seed for the token at `position`: the finaliser of SplitMix64 over seed * 2^32 + position, its upper half.
// A draw thus depends on nothing but these two. llama.cpp takes 0xFFFFFFFF for "random", so that value
// becomes 0.
uint32_t position_seed(uint32_t seed, int position);

// Nanoseconds on CLOCK_MONOTONIC.
double now_ns();

class Stage {
 public:
  // Loads the file. Throws FILE, UNSUPPORTED, LIMIT, EXECUTOR, or ABORTED once `aborted` is set.
  Stage(const LlamaApi &api, const StageOptions &options, const std::atomic<bool> &aborted);

  int embedding() const { return embedding_; }
  int layers() const { return layers_; }
  int vocabulary() const { return vocabulary_; }

  // Takes an unused sequence number below max_sequences. `history`: the tokens before the first sampled one,
  // oldest first, for the penalties; what is sampled is appended.
  void open(int sequence, const SamplerSettings &sampler, std::vector<int32_t> history);
  void close(int sequence);

  // Throws PROTOCOL, LIMIT, EXECUTOR or ABORTED; the KV lengths of all rows are then as they were.
  StepResult step(const Step &step);

  // Whether the cache can be cut back to `length`. Any thread, while the sequence has no step in flight.
  bool can_roll_back(int sequence, int length) const;
  // Cuts the cache back, verified, and replaces the history. A failure is thrown here and by every later call
  // for the sequence.
  void roll_back(int sequence, int length, std::vector<int32_t> history);

  // KV cells, length and history of a sequence.
  std::vector<uint8_t> save(int sequence) const;
  // Replaces them by saved ones of length `position`. Throws PROTOCOL, MISMATCH, LIMIT or EXECUTOR; the
  // sequence is then empty.
  void restore(int sequence, int position, const uint8_t *data, size_t size);

 private:
  struct Sequence {
    bool open = false;
    int length = 0;
    // Lowest position in the cache: above 0 once a sliding window has moved on.
    std::atomic<int> oldest{0};
    SamplerSettings sampler;
    std::vector<int32_t> history;
    // Why the sequence cannot go on, when it cannot.
    std::string broken;
  };
  // One llama_decode: `token_count` tokens from `first_token` on of `row_count` rows from `first_row` on, which lie
  // together in the memory of the step.
  struct Call {
    int first_row = 0;
    int row_count = 0;
    int first_token = 0;
    int token_count = 0;
    int tokens() const { return row_count * token_count; }
  };
  // The call that runs.
  struct Current {
    const float *hidden = nullptr;
    float *output = nullptr;
    const std::atomic<bool> *aborted = nullptr;
    // Rows that llama.cpp computes, and those of them that the step wants.
    int computed = 0;
    int wanted = 0;
    int injected = 0;
    int captured = 0;
    std::string error;
  };
  struct ModelDeleter {
    const LlamaApi *api;
    void operator()(llama_model *model) const { api->llama_model_free(model); }
  };
  struct ContextDeleter {
    const LlamaApi *api;
    void operator()(llama_context *context) const { api->llama_free(context); }
  };

  void check_uniform() const;
  bool on_node(ggml_tensor *tensor, bool ask);
  Sequence &usable(int sequence);
  void check_rows(const Step &step);
  std::vector<Call> calls_of(const Step &step) const;
  int fill_batch(const Step &step, const Call &call);
  void decode(const Step &step, const Call &call);
  void read_logits(const Step &step, const Call &call);
  void sample(const Step &step, StepResult &result);
  int rows_of(ggml_tensor *tensor, int done);
  void inject(ggml_tensor *tensor);
  void capture(ggml_tensor *tensor);
  int32_t choose(const Sequence &sequence, int position, const float *logits);
  void truncate(int sequence, int length);
  [[noreturn]] void break_sequence(Sequence &sequence, const std::string &reason);

  const LlamaApi &api_;
  const StageOptions options_;
  std::unique_ptr<llama_model, ModelDeleter> model_;
  std::unique_ptr<llama_context, ContextDeleter> context_;
  llama_memory_t memory_ = nullptr;
  int embedding_ = 0;
  int layers_ = 0;
  int vocabulary_ = 0;
  int window_ = 0;
  bool recurrent_ = false;
  std::string capture_name_;
  std::unique_ptr<Sequence[]> sequences_;

  Current current_;
  // Where the logits of the next sampling row go; the second is for steps that bring no memory.
  float *logits_ = nullptr;
  std::vector<float> own_logits_;
  // A lone row and the dummy after it.
  int32_t padded_tokens_[2] = {};
  std::vector<float> padded_hidden_;

  // Rope positions of a hidden row; tokens always have one.
  int row_positions_ = 1;
  std::vector<llama_pos> positions_;
  std::vector<int32_t> sequence_counts_;
  std::vector<llama_seq_id> sequence_ids_;
  std::vector<llama_seq_id *> sequence_pointers_;
  std::vector<int8_t> outputs_;
  std::vector<llama_token_data> candidates_;
};
