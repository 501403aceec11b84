#include "stage.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace {

constexpr char kStateMagic[8] = {'S', 'E', 'A', 'M', 'K', 'V', '0', '1'};

ggml_type kv_type_of(const std::string &name) {
  if (name == "f16") return GGML_TYPE_F16;
  if (name == "f32") return GGML_TYPE_F32;
  if (name == "q8_0") return GGML_TYPE_Q8_0;
  throw StageError("UNSUPPORTED", "KV type " + name + "; choose f16, f32 or q8_0");
}

std::string with_log(const std::string &message, uint64_t mark) {
  const std::string log = log_ring().errors_since(mark);
  return log.empty() ? message : message + ": " + log;
}

// Little-endian host order throughout: states travel between processes of one kind, like the KV bytes
// themselves.
void put(std::vector<uint8_t> &out, const void *data, size_t size) {
  const auto *bytes = static_cast<const uint8_t *>(data);
  out.insert(out.end(), bytes, bytes + size);
}

void put_int(std::vector<uint8_t> &out, int32_t value) { put(out, &value, sizeof value); }

class StateReader {
 public:
  StateReader(const uint8_t *data, size_t size) : data_(data), left_(size) {}
  const uint8_t *take(size_t size) {
    if (size > left_) throw StageError("PROTOCOL", "the saved state is cut short");
    const uint8_t *start = data_;
    data_ += size;
    left_ -= size;
    return start;
  }
  int32_t take_int() {
    int32_t value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  // A count of items of `item_size` bytes that must all be there.
  size_t take_count(size_t item_size) {
    const int32_t count = take_int();
    if (count < 0 || static_cast<size_t>(count) > left_ / item_size) {
      throw StageError("PROTOCOL", "the saved state is malformed: count " + std::to_string(count));
    }
    return static_cast<size_t>(count);
  }
  size_t left() const { return left_; }

 private:
  const uint8_t *data_;
  size_t left_;
};

}  // namespace

double now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

uint32_t position_seed(uint32_t seed, int position) {
  uint64_t x = (static_cast<uint64_t>(seed) << 32) | static_cast<uint32_t>(position);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  const auto mixed = static_cast<uint32_t>((x ^ (x >> 31)) >> 32);
  return mixed == LLAMA_DEFAULT_SEED ? 0 : mixed;
}

Stage::Stage(const LlamaApi &api, const StageOptions &options, const std::atomic<bool> &aborted)
    : api_(api), options_(options), model_(nullptr, {&api}), context_(nullptr, {&api}) {
  const uint64_t mark = log_ring().mark();
  if (FILE *file = std::fopen(options.path.c_str(), "rb")) {
    std::fclose(file);
  } else {
    throw StageError("FILE", "cannot open " + options.path + ": " + std::strerror(errno));
  }
  if (options.max_sequences > static_cast<int>(api.llama_max_parallel_sequences())) {
    throw StageError("LIMIT", std::to_string(options.max_sequences) + " sequences; llama.cpp takes at most " +
                                  std::to_string(api.llama_max_parallel_sequences()));
  }

  llama_model_params model_params = api.llama_model_default_params();
  ggml_backend_dev_t no_devices[] = {nullptr};  // CPU only
  model_params.devices = no_devices;
  model_params.n_gpu_layers = 0;
  model_params.load_mode = LLAMA_LOAD_MODE_MMAP;
  model_params.use_extra_bufts = options.repack;
  model_params.progress_callback = [](float, void *flag) {
    return !static_cast<const std::atomic<bool> *>(flag)->load(std::memory_order_relaxed);
  };
  model_params.progress_callback_user_data = const_cast<std::atomic<bool> *>(&aborted);
  model_.reset(api.llama_model_load_from_file(options.path.c_str(), model_params));
  if (aborted.load()) throw StageError("ABORTED", "loading of " + options.path + " was aborted");
  if (!model_) throw StageError("FILE", with_log("llama.cpp cannot load " + options.path, mark));

  embedding_ = api.llama_model_n_embd(model_.get());
  layers_ = api.llama_model_n_layer(model_.get());
  vocabulary_ = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model_.get()));
  window_ = api.llama_model_n_swa(model_.get());
  recurrent_ = api.llama_model_is_recurrent(model_.get()) || api.llama_model_is_hybrid(model_.get());
  capture_name_ = "l_out-" + std::to_string(layers_ - 1);
  const llama_rope_type rope = api.llama_model_rope_type(model_.get());
  if (!options.first && (rope == LLAMA_ROPE_TYPE_MROPE || rope == LLAMA_ROPE_TYPE_IMROPE)) row_positions_ = 4;
  const int trained = api.llama_model_n_ctx_train(model_.get());
  if (options.context_length > trained) {
    throw StageError("LIMIT", "context of " + std::to_string(options.context_length) +
                                  " positions; the model was trained for " + std::to_string(trained));
  }

  llama_context_params params = api.llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(options.context_length) * static_cast<uint32_t>(options.max_sequences);
  // One step is one micro-batch. llama.cpp also reserves a batch of one token per sequence.
  params.n_batch = static_cast<uint32_t>(std::max(options.chunk_tokens, options.max_sequences));
  params.n_ubatch = params.n_batch;
  params.n_seq_max = static_cast<uint32_t>(options.max_sequences);
  // Every token is an output where hidden rows are handed on, one a sequence where tokens are sampled.
  params.n_outputs_max = options.last ? params.n_seq_max : params.n_batch;
  params.n_threads = options.threads;
  params.n_threads_batch = options.threads;
  params.flash_attn_type =
      options.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = kv_type_of(options.kv_type);
  params.type_v = params.type_k;
  params.offload_kqv = false;
  params.op_offload = false;
  params.kv_unified = false;
  params.no_perf = true;
  params.abort_callback = [](void *self) {
    const Step *step = static_cast<Stage *>(self)->step_;
    const std::atomic<bool> *flag = step == nullptr ? nullptr : step->aborted;
    return flag != nullptr && flag->load(std::memory_order_relaxed);
  };
  params.abort_callback_data = this;
  if (!options.last || !options.inject.empty()) {
    params.cb_eval = [](ggml_tensor *tensor, bool ask, void *self) {
      return static_cast<Stage *>(self)->on_node(tensor, ask);
    };
    params.cb_eval_user_data = this;
  }
  context_.reset(api.llama_init_from_model(model_.get(), params));
  if (!context_) throw StageError("EXECUTOR", with_log("llama.cpp cannot make a context", mark));
  memory_ = api.llama_get_memory(context_.get());
  if (memory_ == nullptr) throw StageError("UNSUPPORTED", "the model keeps no KV cache");

  sequences_ = std::make_unique<Sequence[]>(static_cast<size_t>(options.max_sequences));
  // A step has no more tokens than a chunk, nor than all cells.
  const size_t chunk = std::min(static_cast<uint32_t>(options.chunk_tokens), params.n_ctx);
  positions_.resize(chunk * static_cast<size_t>(row_positions_));
  sequence_counts_.assign(chunk, 1);
  sequence_ids_.resize(chunk);
  sequence_pointers_.resize(chunk);
  for (size_t i = 0; i < chunk; i++) sequence_pointers_[i] = &sequence_ids_[i];
  outputs_.resize(chunk);
  if (options.last) candidates_.resize(static_cast<size_t>(vocabulary_));
}

void Stage::open(int sequence, const SamplerSettings &sampler, std::vector<int32_t> history) {
  Sequence &target = sequences_[sequence];
  target.open = true;
  target.length = 0;
  target.oldest = 0;
  target.sampler = sampler;
  target.history = std::move(history);
  target.broken.clear();
}

void Stage::close(int sequence) {
  sequences_[sequence].open = false;
  truncate(sequence, 0);
}

Stage::Sequence &Stage::usable(int sequence) {
  if (sequence < 0 || sequence >= options_.max_sequences || !sequences_[sequence].open) {
    throw StageError("USAGE", "sequence " + std::to_string(sequence) + " is not open");
  }
  Sequence &target = sequences_[sequence];
  if (!target.broken.empty()) throw StageError("EXECUTOR", target.broken);
  return target;
}

void Stage::break_sequence(Sequence &sequence, const std::string &reason) {
  sequence.broken = reason;
  throw StageError("EXECUTOR", reason);
}

void Stage::check_rows(const Step &step) {
  const auto tokens = static_cast<int>(step.rows.size()) * step.token_count;
  if (step.rows.empty() || step.token_count < 1) throw StageError("USAGE", "a step needs at least one token");
  if (tokens > options_.chunk_tokens) {
    throw StageError("LIMIT", std::to_string(tokens) + " tokens in a step; the chunk size is " +
                                  std::to_string(options_.chunk_tokens));
  }
  for (const StepRow &row : step.rows) {
    const Sequence &sequence = usable(row.sequence);
    if (row.position != sequence.length) {
      throw StageError("PROTOCOL", "row at position " + std::to_string(row.position) +
                                       "; the KV length of its sequence is " + std::to_string(sequence.length));
    }
    if (row.position + step.token_count > options_.context_length) {
      throw StageError("LIMIT", "row ends at position " + std::to_string(row.position + step.token_count) +
                                    "; the context has " + std::to_string(options_.context_length));
    }
  }
}

void Stage::fill_batch(const Step &step) {
  const size_t tokens = step.rows.size() * static_cast<size_t>(step.token_count);
  size_t i = 0;
  for (const StepRow &row : step.rows) {
    for (int t = 0; t < step.token_count; t++, i++) {
      positions_[i] = row.position + t;
      // Time, height and width of a text token are the same, the fourth is not used.
      for (size_t axis = 1; axis < static_cast<size_t>(row_positions_); axis++) {
        positions_[axis * tokens + i] = axis < 3 ? row.position + t : 0;
      }
      sequence_ids_[i] = row.sequence;
      outputs_[i] = !options_.last || (row.sample && t == step.token_count - 1);
    }
  }
}

bool Stage::on_node(ggml_tensor *tensor, bool ask) {
  const char *name = api_.ggml_get_name(tensor);
  const bool last_layer = !options_.last && capture_name_ == name;
  const bool injected = !options_.inject.empty() && options_.inject == name;
  if (ask) return last_layer || injected;
  if (injected) inject(tensor);
  if (last_layer) capture(tensor);
  return !last_layer && node_error_.empty();  // nothing after the last layer is wanted
}

// Rows in a node of the graph that must hold some of those that are left of the step.
int Stage::rows_of(ggml_tensor *tensor, int done) {
  const size_t row_bytes = static_cast<size_t>(embedding_) * sizeof(float);
  const size_t bytes = api_.ggml_nbytes(tensor);
  const size_t room = static_cast<size_t>(tokens_ - done) * row_bytes;
  if (tensor->type == GGML_TYPE_F32 && bytes % row_bytes == 0 && bytes <= room) {
    return static_cast<int>(bytes / row_bytes);
  }
  node_error_ = ": " + std::to_string(bytes) + " B in " + api_.ggml_get_name(tensor) + ", expected at most " +
                std::to_string(room);
  return 0;
}

void Stage::inject(ggml_tensor *tensor) {
  const int rows = rows_of(tensor, injected_);
  const size_t values = static_cast<size_t>(embedding_);
  api_.ggml_backend_tensor_set(tensor, step_->hidden + static_cast<size_t>(injected_) * values, 0,
                               static_cast<size_t>(rows) * values * sizeof(float));
  injected_ += rows;
}

void Stage::capture(ggml_tensor *tensor) {
  const int rows = rows_of(tensor, captured_);
  const size_t values = static_cast<size_t>(embedding_);
  api_.ggml_backend_tensor_get(tensor, step_->output + static_cast<size_t>(captured_) * values, 0,
                               static_cast<size_t>(rows) * values * sizeof(float));
  captured_ += rows;
}

void Stage::decode(const Step &step, StepResult &result) {
  const auto tokens = static_cast<int>(step.rows.size()) * step.token_count;
  llama_batch batch{};
  batch.n_tokens = tokens;
  batch.token = const_cast<llama_token *>(step.tokens);
  batch.embd = const_cast<float *>(step.hidden);
  batch.pos = positions_.data();
  batch.n_seq_id = sequence_counts_.data();
  batch.seq_id = sequence_pointers_.data();
  batch.logits = outputs_.data();

  step_ = &step;
  tokens_ = tokens;
  injected_ = captured_ = 0;
  node_error_.clear();
  const uint64_t mark = log_ring().mark();
  result.compute_start_ns = now_ns();
  const int status = api_.llama_decode(context_.get(), batch);
  api_.llama_synchronize(context_.get());
  result.compute_end_ns = now_ns();
  step_ = nullptr;

  if (status == 2 || (step.aborted != nullptr && step.aborted->load())) {
    throw StageError("ABORTED", "the step was aborted");
  }
  if (status == 1) throw StageError("LIMIT", with_log("no room in the KV cache", mark));
  if (status != 0) {
    throw StageError("EXECUTOR", with_log("llama_decode failed with " + std::to_string(status), mark));
  }
  if (!options_.inject.empty() && injected_ != tokens) {
    throw StageError("EXECUTOR", "injected " + std::to_string(injected_) + " hidden rows of " +
                                     std::to_string(tokens) + " at " + options_.inject + node_error_);
  }
  if (!options_.last && captured_ != tokens) {
    throw StageError("EXECUTOR", "captured " + std::to_string(captured_) + " hidden rows of " +
                                     std::to_string(tokens) + node_error_);
  }
  for (const StepRow &row : step.rows) {
    const int expected = row.position + step.token_count - 1;
    const int highest = api_.llama_memory_seq_pos_max(memory_, row.sequence);
    if (highest != expected) {
      throw StageError("EXECUTOR", "the KV cache ends at position " + std::to_string(highest) + ", expected " +
                                       std::to_string(expected));
    }
  }
}

StepResult Stage::step(const Step &step) {
  check_rows(step);
  fill_batch(step);
  StepResult result;
  try {
    decode(step, result);
    sample(step, result);
  } catch (const StageError &) {
    for (const StepRow &row : step.rows) {
      try {
        truncate(row.sequence, row.position);
      } catch (const StageError &) {
        // The sequence is marked as broken; the caller hears of the first cause.
      }
    }
    throw;
  }
  size_t next = 0;
  for (const StepRow &row : step.rows) {
    Sequence &sequence = sequences_[row.sequence];
    sequence.length = row.position + step.token_count;
    sequence.oldest = api_.llama_memory_seq_pos_min(memory_, row.sequence);
    if (row.sample) sequence.history.push_back(result.tokens[next++]);
  }
  return result;
}

void Stage::sample(const Step &step, StepResult &result) {
  float *logits_out = step.logits;
  int row_end = 0;
  for (const StepRow &row : step.rows) {
    row_end += step.token_count;
    if (!row.sample) continue;
    const float *logits = api_.llama_get_logits_ith(context_.get(), row_end - 1);
    if (logits == nullptr) throw StageError("EXECUTOR", "llama.cpp returned no logits");
    if (logits_out != nullptr) {
      std::copy_n(logits, vocabulary_, logits_out);
      logits_out += vocabulary_;
    }
    result.tokens.push_back(choose(sequences_[row.sequence], row.position + step.token_count, logits));
  }
  result.sample_end_ns = result.tokens.empty() ? result.compute_end_ns : now_ns();
}

// The chain is built anew for every token, so that a draw is a function of its arguments: no sampler state
// has to be rolled back, saved or kept per sequence. Order as in llama.cpp's default chain.
int32_t Stage::choose(const Sequence &sequence, int position, const float *logits) {
  bool numbers = true;
  for (int id = 0; id < vocabulary_; id++) {
    candidates_[static_cast<size_t>(id)] = {id, logits[id], 0.0f};
    numbers &= logits[id] == logits[id];
  }
  if (!numbers) {
    throw StageError("EXECUTOR", "the logits for position " + std::to_string(position) + " hold NaN");
  }

  const SamplerSettings &settings = sequence.sampler;
  const auto deleter = [this](llama_sampler *sampler) { api_.llama_sampler_free(sampler); };
  const std::unique_ptr<llama_sampler, decltype(deleter)> chain(
      api_.llama_sampler_chain_init(api_.llama_sampler_chain_default_params()), deleter);
  const auto add = [&](llama_sampler *sampler) { api_.llama_sampler_chain_add(chain.get(), sampler); };

  const size_t looked_at = std::min(sequence.history.size(), static_cast<size_t>(settings.penalty_last_n));
  if (looked_at > 0) {
    llama_sampler *penalties = api_.llama_sampler_init_penalties(
        vocabulary_, static_cast<int32_t>(looked_at), settings.repeat_penalty, settings.frequency_penalty,
        settings.presence_penalty);
    for (size_t i = sequence.history.size() - looked_at; i < sequence.history.size(); i++) {
      api_.llama_sampler_accept(penalties, sequence.history[i]);
    }
    add(penalties);
  }
  if (settings.temperature > 0) {
    add(api_.llama_sampler_init_top_k(settings.top_k));
    add(api_.llama_sampler_init_top_p(settings.top_p, 1));
    add(api_.llama_sampler_init_min_p(settings.min_p, 1));
    add(api_.llama_sampler_init_temp(settings.temperature));
    add(api_.llama_sampler_init_dist(position_seed(settings.seed, position)));
  } else {
    add(api_.llama_sampler_init_greedy());
  }

  llama_token_data_array array{candidates_.data(), candidates_.size(), -1, false};
  api_.llama_sampler_apply(chain.get(), &array);
  if (array.selected < 0 || static_cast<size_t>(array.selected) >= array.size) {
    throw StageError("EXECUTOR", "the sampler chose nothing");
  }
  return array.data[array.selected].id;
}

bool Stage::can_roll_back(int sequence, int length) const {
  if (length == 0) return true;
  if (recurrent_) return false;
  // The next token at `length` attends to the window_ positions that end with its own.
  const int needed = window_ > 0 ? std::max(0, length - window_ + 1) : 0;
  return sequences_[sequence].oldest.load() <= needed;
}

void Stage::roll_back(int sequence, int length, std::vector<int32_t> history) {
  Sequence &target = usable(sequence);
  if (length > target.length) {
    throw StageError("USAGE", "rollback to position " + std::to_string(length) + "; the KV length is " +
                                  std::to_string(target.length));
  }
  if (length < target.length) {
    if (!can_roll_back(sequence, length)) {
      break_sequence(target,
                     "the cache no longer holds what position " + std::to_string(length) + " attends to");
    }
    truncate(sequence, length);
  }
  target.history = std::move(history);
}

// Cuts the cache to `length` cells and checks that it did: llama.cpp may report success and have emptied the
// sequence.
void Stage::truncate(int sequence, int length) {
  Sequence &target = sequences_[sequence];
  target.length = length;
  if (api_.llama_memory_seq_pos_max(memory_, sequence) == length - 1) return;
  const bool removed = api_.llama_memory_seq_rm(memory_, sequence, length, -1);
  const int lowest = api_.llama_memory_seq_pos_min(memory_, sequence);
  const int highest = api_.llama_memory_seq_pos_max(memory_, sequence);
  target.oldest = std::max(lowest, 0);
  if (!removed || highest != length - 1 || !can_roll_back(sequence, length)) {
    break_sequence(target, "truncating the KV cache to " + std::to_string(length) + " positions left " +
                               std::to_string(lowest) + " to " + std::to_string(highest));
  }
}

std::vector<uint8_t> Stage::save(int sequence) const {
  const Sequence &source = const_cast<Stage *>(this)->usable(sequence);
  std::vector<uint8_t> state;
  const size_t kv_bytes = api_.llama_state_seq_get_size(context_.get(), sequence);
  state.reserve(sizeof kStateMagic + options_.identity.size() + 12 +
                source.history.size() * sizeof(int32_t) + kv_bytes);
  put(state, kStateMagic, sizeof kStateMagic);
  put_int(state, static_cast<int32_t>(options_.identity.size()));
  put(state, options_.identity.data(), options_.identity.size());
  put_int(state, source.length);
  put_int(state, static_cast<int32_t>(source.history.size()));
  put(state, source.history.data(), source.history.size() * sizeof(int32_t));
  const size_t header = state.size();
  state.resize(header + kv_bytes);
  const size_t written =
      api_.llama_state_seq_get_data(context_.get(), state.data() + header, kv_bytes, sequence);
  if (written != kv_bytes) {
    throw StageError("EXECUTOR", "llama.cpp saved " + std::to_string(written) + " B of state, expected " +
                                     std::to_string(kv_bytes));
  }
  return state;
}

void Stage::restore(int sequence, int position, const uint8_t *data, size_t size) {
  Sequence &target = usable(sequence);
  truncate(sequence, 0);
  target.history.clear();

  StateReader reader(data, size);
  if (std::memcmp(reader.take(sizeof kStateMagic), kStateMagic, sizeof kStateMagic) != 0) {
    throw StageError("PROTOCOL", "these bytes are not the saved state of a stage");
  }
  const size_t identity_size = reader.take_count(1);
  const std::string identity(reinterpret_cast<const char *>(reader.take(identity_size)), identity_size);
  if (identity != options_.identity) {
    throw StageError("MISMATCH", "the state is of " + identity + ", this stage is " + options_.identity);
  }
  const int length = reader.take_int();
  if (length != position) {
    throw StageError("MISMATCH", "the state has " + std::to_string(length) + " positions, not " +
                                     std::to_string(position));
  }
  if (length > options_.context_length) {
    throw StageError("LIMIT", "the state has " + std::to_string(length) + " positions; the context has " +
                                  std::to_string(options_.context_length));
  }
  std::vector<int32_t> history(reader.take_count(sizeof(int32_t)));
  for (int32_t &token : history) token = reader.take_int();

  const uint64_t mark = log_ring().mark();
  const size_t kv_bytes = reader.left();
  const uint8_t *kv = reader.take(kv_bytes);
  const size_t read = api_.llama_state_seq_set_data(context_.get(), kv, kv_bytes, sequence);
  const int highest = api_.llama_memory_seq_pos_max(memory_, sequence);
  if (read != kv_bytes || highest != length - 1) {
    truncate(sequence, 0);
    throw StageError("EXECUTOR", with_log("llama.cpp refused the saved state", mark));
  }
  target.length = length;
  target.oldest = std::max(0, static_cast<int>(api_.llama_memory_seq_pos_min(memory_, sequence)));
  target.history = std::move(history);
}
