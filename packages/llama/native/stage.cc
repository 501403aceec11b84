#include "stage.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/sysmacros.h>
#endif
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>

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

// Nanoseconds that the calling thread could have run and had no CPU, since it began: the second number of its schedstat.
double cpu_wait_ns() {
#ifdef __linux__
  struct Schedstat {
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ~Schedstat() {
      if (fd >= 0) close(fd);
    }
  };
  thread_local Schedstat schedstat;
  char text[96];
  const ssize_t length = schedstat.fd < 0 ? -1 : pread(schedstat.fd, text, sizeof text - 1, 0);
  if (length <= 0) return 0;
  text[length] = 0;
  unsigned long long ran = 0;
  unsigned long long waited = 0;
  return std::sscanf(text, "%llu %llu", &ran, &waited) == 2 ? static_cast<double>(waited) : 0;
#else
  return 0;
#endif
}

// Gives the mapped pages of the model file back to the page cache. Loading touches all of them, also those of
// weights that were repacked into memory of their own and are never read again; what is still needed comes back with
// a minor fault when it is first used. RSS is then what the stage really holds.
void release_mapped_pages(const std::string &path) {
#ifdef __linux__
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    unsigned int major = 0;
    unsigned int minor = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %*x %x:%x %lu", &begin, &end, &major, &minor, &inode) != 5) continue;
    if (inode == file.st_ino && makedev(major, minor) == file.st_dev) {
      madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
    }
  }
#else
  (void)path;
#endif
}

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

  if (options.uniform) check_uniform();

  llama_context_params params = api.llama_context_default_params();
  // With a cell for the dummy after a lone last row.
  const int cells = options.context_length + (options.uniform ? 1 : 0);
  params.n_ctx = static_cast<uint32_t>(cells) * static_cast<uint32_t>(options.max_sequences);
  // One call is one micro-batch. llama.cpp also reserves a batch of one token per sequence.
  const int call_tokens =
      options.uniform ? std::clamp(options.chunk_tokens, 2, kUniformRows) : options.chunk_tokens;
  params.n_batch = static_cast<uint32_t>(std::max(call_tokens, options.max_sequences));
  params.n_ubatch = params.n_batch;
  params.n_seq_max = static_cast<uint32_t>(options.max_sequences);
  // Every token is an output where hidden rows are handed on, one a sequence where tokens are sampled.
  params.n_outputs_max = options.last ? std::max(params.n_seq_max, options.uniform ? 2u : 1u) : params.n_batch;
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
    const std::atomic<bool> *flag = static_cast<Stage *>(self)->current_.aborted;
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

  release_mapped_pages(options.path);

  sequences_ = std::make_unique<Sequence[]>(static_cast<size_t>(options.max_sequences));
  // A call has no more tokens than there are cells.
  const size_t chunk = std::min(static_cast<uint32_t>(call_tokens), params.n_ctx);
  positions_.resize(chunk * static_cast<size_t>(row_positions_));
  sequence_counts_.assign(chunk, 1);
  sequence_ids_.resize(chunk);
  sequence_pointers_.resize(chunk);
  for (size_t i = 0; i < chunk; i++) sequence_pointers_[i] = &sequence_ids_[i];
  outputs_.resize(chunk);
  if (options.last) candidates_.resize(static_cast<size_t>(vocabulary_));
  if (options.uniform && !options.first) padded_hidden_.resize(2 * static_cast<size_t>(embedding_));
}

void Stage::check_uniform() const {
  if (!options_.flash_attention || options_.repack) {
    throw StageError("USAGE", "uniform rows need flash attention on and repacking off");
  }
  if (recurrent_) throw StageError("UNSUPPORTED", "uniform rows: a recurrent state cannot drop a dummy row");
  const std::unique_ptr<gguf_context, decltype(api_.gguf_free)> file(
      api_.gguf_init_from_file(options_.path.c_str(), {true, nullptr}), api_.gguf_free);
  if (!file) throw StageError("FILE", "cannot read the tensor types of " + options_.path);
  for (int64_t i = 0; i < api_.gguf_get_n_tensors(file.get()); i++) {
    const std::string type = api_.ggml_type_name(api_.gguf_get_tensor_type(file.get(), i));
    if (type.compare(0, 2, "iq") != 0) continue;
    throw StageError("UNSUPPORTED", std::string("uniform rows: ") + api_.gguf_get_tensor_name(file.get(), i) +
                                        " is " + type +
                                        ", which llama.cpp computes otherwise for 8 rows and more; choose the "
                                        "per-row regime or another quantisation");
  }
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

// Per row: one call. Uniform: at most kUniformRows tokens a call, in parts as even as can be: whole rows where
// one fits, else parts of one row. llama.cpp takes rows into one micro-batch only while their sequences ascend
// by one, so a call ends where they do not. One token is left alone only where a row has no more than one.
std::vector<Stage::Call> Stage::calls_of(const Step &step) const {
  const auto rows = static_cast<int>(step.rows.size());
  if (!options_.uniform) return {{0, rows, 0, step.token_count}};
  std::vector<Call> calls;
  const auto evenly = [](int total, int most, auto take) {
    const int parts = (total + most - 1) / most;
    for (int part = 0, from = 0; part < parts; part++) {
      const int count = (total - from) / (parts - part);
      take(from, count);
      from += count;
    }
  };
  for (int first = 0, end; first < rows; first = end) {
    end = first + 1;
    if (step.token_count > kUniformRows) {
      evenly(step.token_count, kUniformRows,
             [&](int from, int count) { calls.push_back({first, 1, from, count}); });
      continue;
    }
    while (end < rows && step.rows[end].sequence == step.rows[end - 1].sequence + 1) end++;
    evenly(end - first, kUniformRows / step.token_count,
           [&](int from, int count) { calls.push_back({first + from, count, 0, step.token_count}); });
  }
  return calls;
}

// Returns how many tokens llama.cpp is to compute: a lone row of the uniform regime gets a dummy after it.
int Stage::fill_batch(const Step &step, const Call &call) {
  const bool padded = options_.uniform && call.tokens() == 1;
  const int per_row = padded ? 2 : call.token_count;
  const int tokens = call.row_count * per_row;
  int outputs = 0;
  int i = 0;
  for (int r = 0; r < call.row_count; r++) {
    const StepRow &row = step.rows[call.first_row + r];
    for (int t = 0; t < per_row; t++, i++) {
      const int position = row.position + call.first_token + t;
      positions_[i] = position;
      // Time, height and width of a text token are the same, the fourth is not used.
      for (int axis = 1; axis < row_positions_; axis++) positions_[axis * tokens + i] = axis < 3 ? position : 0;
      sequence_ids_[i] = row.sequence;
      outputs_[i] = !options_.last || (row.sample && call.first_token + t == step.token_count - 1);
      outputs += outputs_[i];
    }
  }
  // What follows the attention of the last layer runs for the outputs alone: these must not be one row either.
  if (options_.uniform && outputs == 1) outputs_[outputs_[0] ? 1 : 0] = 1;
  return tokens;
}

bool Stage::on_node(ggml_tensor *tensor, bool ask) {
  const char *name = api_.ggml_get_name(tensor);
  const bool last_layer = !options_.last && capture_name_ == name;
  const bool injected = !options_.inject.empty() && options_.inject == name;
  if (ask) return last_layer || injected;
  if (injected) inject(tensor);
  if (last_layer) capture(tensor);
  return !last_layer && current_.error.empty();  // nothing after the last layer is wanted
}

// Rows in a node of the graph that must hold some of those that are left of the call.
int Stage::rows_of(ggml_tensor *tensor, int done) {
  const size_t row_bytes = static_cast<size_t>(embedding_) * sizeof(float);
  const size_t bytes = api_.ggml_nbytes(tensor);
  const size_t room = static_cast<size_t>(current_.computed - done) * row_bytes;
  if (tensor->type == GGML_TYPE_F32 && bytes % row_bytes == 0 && bytes <= room) {
    return static_cast<int>(bytes / row_bytes);
  }
  current_.error = ": " + std::to_string(bytes) + " B in " + api_.ggml_get_name(tensor) + ", expected at most " +
                std::to_string(room);
  return 0;
}

void Stage::inject(ggml_tensor *tensor) {
  const int rows = rows_of(tensor, current_.injected);
  const size_t values = static_cast<size_t>(embedding_);
  api_.ggml_backend_tensor_set(tensor, current_.hidden + static_cast<size_t>(current_.injected) * values, 0,
                               static_cast<size_t>(rows) * values * sizeof(float));
  current_.injected += rows;
}

void Stage::capture(ggml_tensor *tensor) {
  const int rows = rows_of(tensor, current_.captured);
  const int wanted = std::min(rows, current_.wanted - current_.captured);
  const size_t values = static_cast<size_t>(embedding_);
  if (wanted > 0) {
    api_.ggml_backend_tensor_get(tensor, current_.output + static_cast<size_t>(current_.captured) * values, 0,
                                 static_cast<size_t>(wanted) * values * sizeof(float));
  }
  current_.captured += rows;
}

void Stage::decode(const Step &step, const Call &call) {
  const int tokens = fill_batch(step, call);
  const bool padded = tokens > call.tokens();
  const auto offset = static_cast<size_t>(call.first_row * step.token_count + call.first_token);
  const auto values = static_cast<size_t>(embedding_);
  llama_batch batch{};
  batch.n_tokens = tokens;
  if (options_.first) {
    batch.token = const_cast<llama_token *>(step.tokens + offset);
    if (padded) {
      std::fill_n(padded_tokens_, 2, batch.token[0]);
      batch.token = padded_tokens_;
    }
  } else {
    batch.embd = const_cast<float *>(step.hidden + offset * values);
    if (padded) {
      for (size_t i = 0; i < 2; i++) std::copy_n(batch.embd, values, padded_hidden_.data() + i * values);
      batch.embd = padded_hidden_.data();
    }
  }
  batch.pos = positions_.data();
  batch.n_seq_id = sequence_counts_.data();
  batch.seq_id = sequence_pointers_.data();
  batch.logits = outputs_.data();

  current_ = {};
  current_.hidden = batch.embd;
  if (!options_.last) current_.output = step.output + offset * values;
  current_.aborted = step.aborted;
  current_.computed = tokens;
  current_.wanted = call.tokens();
  const uint64_t mark = log_ring().mark();
  const int status = api_.llama_decode(context_.get(), batch);
  api_.llama_synchronize(context_.get());
  current_.aborted = nullptr;

  if (status == 2 || (step.aborted != nullptr && step.aborted->load())) {
    throw StageError("ABORTED", "the step was aborted");
  }
  if (status == 1) throw StageError("LIMIT", with_log("no room in the KV cache", mark));
  if (status != 0) {
    throw StageError("EXECUTOR", with_log("llama_decode failed with " + std::to_string(status), mark));
  }
  const auto check_node = [&](const char *verb, int rows, const std::string &name) {
    if (rows == tokens) return;
    throw StageError("EXECUTOR", std::string(verb) + std::to_string(rows) + " hidden rows of " +
                                     std::to_string(tokens) + " at " + name + current_.error);
  };
  if (!options_.inject.empty()) check_node("injected ", current_.injected, options_.inject);
  if (!options_.last) check_node("captured ", current_.captured, capture_name_);
  for (int r = 0; r < call.row_count; r++) {
    const StepRow &row = step.rows[call.first_row + r];
    const int expected = row.position + call.first_token + call.token_count - (padded ? 0 : 1);
    const int highest = api_.llama_memory_seq_pos_max(memory_, row.sequence);
    if (highest != expected) {
      throw StageError("EXECUTOR", "the KV cache ends at position " + std::to_string(highest) + ", expected " +
                                       std::to_string(expected));
    }
  }
  read_logits(step, call);
  if (padded) truncate(step.rows[call.first_row].sequence, step.rows[call.first_row].position + 1);
}

// Before the next call of the step, which overwrites them.
void Stage::read_logits(const Step &step, const Call &call) {
  if (call.first_token + call.token_count < step.token_count) return;
  for (int r = 0; r < call.row_count; r++) {
    if (!step.rows[call.first_row + r].sample) continue;
    const float *logits = api_.llama_get_logits_ith(context_.get(), (r + 1) * call.token_count - 1);
    if (logits == nullptr) throw StageError("EXECUTOR", "llama.cpp returned no logits");
    logits_ = std::copy_n(logits, vocabulary_, logits_);
  }
}

StepResult Stage::step(const Step &step) {
  check_rows(step);
  StepResult result;
  try {
    const auto samples = std::count_if(step.rows.begin(), step.rows.end(), [](auto &row) { return row.sample; });
    if (step.logits == nullptr) own_logits_.resize(static_cast<size_t>(samples) * vocabulary_);
    logits_ = step.logits == nullptr ? own_logits_.data() : step.logits;
    const double waited_before_ns = cpu_wait_ns();
    result.compute_start_ns = now_ns();
    for (const Call &call : calls_of(step)) decode(step, call);
    result.compute_end_ns = now_ns();
    result.cpu_wait_ns = cpu_wait_ns() - waited_before_ns;
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
  const float *logits = step.logits == nullptr ? own_logits_.data() : step.logits;
  for (const StepRow &row : step.rows) {
    if (!row.sample) continue;
    result.tokens.push_back(choose(sequences_[row.sequence], row.position + step.token_count, logits));
    logits += vocabulary_;
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
