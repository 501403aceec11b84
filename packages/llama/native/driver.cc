// Tests of the engine without Node, one per argument: driver TEST LIBRARIES. They make their own models, as
// whole files and as stages with the same tensors, through the gguf functions of libggml-base.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "stage.h"

namespace {

constexpr int kLayers = 4;
constexpr int kEmbedding = 64;
constexpr int kHeads = 4;
constexpr int kKvHeads = 2;
constexpr int kFeedForward = 96;
constexpr int kVocabulary = 101;
constexpr int kTrainedContext = 512;

std::string libraries;
std::string folder;
// Of the models that are made.
std::string architecture = "llama";

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (false)

template <typename F>
void check_throws(const char *code, const std::string &part, F action) {
  try {
    action();
  } catch (const StageError &error) {
    if (std::string(error.code) == code && std::string(error.what()).find(part) != std::string::npos) return;
    std::fprintf(stderr, "threw %s: %s; expected %s: ...%s...\n", error.code, error.what(), code, part.c_str());
    std::exit(1);
  }
  std::fprintf(stderr, "did not throw %s: ...%s...\n", code, part.c_str());
  std::exit(1);
}

const LlamaApi &api() { return load_llama(libraries); }

template <typename F>
F *symbol(const char *name) {
  auto *found = reinterpret_cast<F *>(dlsym(api().ggml_base, name));
  CHECK(found != nullptr);
  return found;
}
#define GGML(name) symbol<decltype(::name)>(#name)

// Values that depend on nothing but the name of a tensor in the whole model.
std::vector<float> weights(const std::string &name, int64_t count) {
  uint64_t state = 1469598103934665603ULL;
  for (const char c : name) state = (state ^ static_cast<uint8_t>(c)) * 1099511628211ULL;
  const bool norm = name.find("norm") != std::string::npos;
  std::vector<float> values(static_cast<size_t>(count));
  for (float &value : values) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const float uniform = static_cast<float>(state >> 40) / 16777216.0f - 0.5f;
    value = norm ? 1.0f + 0.2f * uniform : 0.5f * uniform;
  }
  return values;
}

// Writes layers [first, end) as a model of its own and returns its path.
std::string write_model(int first, int end) {
  const std::string path = folder + "/" + std::to_string(first) + "-" + std::to_string(end) + ".gguf";
  gguf_context *gguf = GGML(gguf_init_empty)();
  const auto set_int = [&](const char *key, int value) {
    GGML(gguf_set_val_u32)(gguf, (architecture + key).c_str(), static_cast<uint32_t>(value));
  };
  GGML(gguf_set_val_str)(gguf, "general.architecture", architecture.c_str());
  GGML(gguf_set_val_str)(gguf, "tokenizer.ggml.model", "none");
  GGML(gguf_set_val_f32)(gguf, (architecture + ".attention.layer_norm_rms_epsilon").c_str(), 1e-5f);
  set_int(".block_count", end - first);
  set_int(".context_length", kTrainedContext);
  set_int(".embedding_length", kEmbedding);
  set_int(".feed_forward_length", kFeedForward);
  set_int(".attention.head_count", kHeads);
  set_int(".attention.head_count_kv", kKvHeads);
  set_int(".vocab_size", kVocabulary);
  if (architecture == "qwen2vl") {
    const int32_t sections[] = {4, 2, 2, 0};
    GGML(gguf_set_arr_data)(gguf, "qwen2vl.rope.dimension_sections", GGUF_TYPE_INT32, sections, 4);
  }

  ggml_context *tensors = GGML(ggml_init)({4 << 20, nullptr, false});
  const auto add = [&](const std::string &name, const std::string &name_in_whole, int columns, int rows) {
    ggml_tensor *tensor = rows == 0 ? GGML(ggml_new_tensor_1d)(tensors, GGML_TYPE_F32, columns)
                                    : GGML(ggml_new_tensor_2d)(tensors, GGML_TYPE_F32, columns, rows);
    const std::vector<float> values = weights(name_in_whole, GGML(ggml_nelements)(tensor));
    std::memcpy(tensor->data, values.data(), values.size() * sizeof(float));
    GGML(ggml_set_name)(tensor, name.c_str());
    GGML(gguf_add_tensor)(gguf, tensor);
  };
  const auto add_global = [&](const std::string &name, int columns, int rows) {
    add(name, name, columns, rows);
  };
  add_global("token_embd.weight", kEmbedding, kVocabulary);
  add_global("output_norm.weight", kEmbedding, 0);
  if (architecture != "gemma") add_global("output.weight", kEmbedding, kVocabulary);
  const int kv = kEmbedding / kHeads * kKvHeads;
  for (int layer = first; layer < end; layer++) {
    const auto add_layer = [&](const std::string &name, int columns, int rows) {
      add("blk." + std::to_string(layer - first) + name, "blk." + std::to_string(layer) + name, columns, rows);
    };
    add_layer(".attn_norm.weight", kEmbedding, 0);
    add_layer(".attn_q.weight", kEmbedding, kEmbedding);
    add_layer(".attn_k.weight", kEmbedding, kv);
    add_layer(".attn_v.weight", kEmbedding, kv);
    add_layer(".attn_output.weight", kEmbedding, kEmbedding);
    add_layer(".ffn_norm.weight", kEmbedding, 0);
    add_layer(".ffn_gate.weight", kEmbedding, kFeedForward);
    add_layer(".ffn_up.weight", kEmbedding, kFeedForward);
    add_layer(".ffn_down.weight", kFeedForward, kEmbedding);
  }
  CHECK(GGML(gguf_write_to_file)(gguf, path.c_str(), false));
  GGML(ggml_free)(tensors);
  GGML(gguf_free)(gguf);
  return path;
}

StageOptions stage_options(int first, int end) {
  StageOptions options;
  options.path = write_model(first, end);
  options.identity = "layers " + std::to_string(first) + "-" + std::to_string(end);
  options.first = first == 0;
  options.last = end == kLayers;
  options.context_length = 256;
  options.chunk_tokens = 16;
  options.max_sequences = 2;
  if (architecture == "gemma" && first > 0) options.inject = "inp_scaled";
  return options;
}

std::unique_ptr<Stage> make_stage(const StageOptions &options) {
  static const std::atomic<bool> never{false};
  return std::make_unique<Stage>(api(), options, never);
}

struct Output {
  std::vector<int32_t> tokens;
  std::vector<float> logits;
  bool operator==(const Output &other) const { return tokens == other.tokens && logits == other.logits; }
};

// One or more stages that together are the model.
struct Chain {
  std::vector<std::unique_ptr<Stage>> stages;

  explicit Chain(const std::vector<int> &cuts) {
    for (size_t i = 0; i + 1 < cuts.size(); i++) {
      stages.push_back(make_stage(stage_options(cuts[i], cuts[i + 1])));
    }
  }
  void open(int sequence, const SamplerSettings &sampler = {}, const std::vector<int32_t> &history = {}) {
    for (auto &stage : stages) stage->open(sequence, sampler, history);
  }
  void roll_back(int sequence, int length, const std::vector<int32_t> &history = {}) {
    for (auto &stage : stages) stage->roll_back(sequence, length, history);
  }
  Output step(const std::vector<StepRow> &rows, const std::vector<int32_t> &tokens) {
    const size_t hidden = tokens.size() * kEmbedding;
    std::vector<float> from(hidden);
    std::vector<float> to(hidden);
    Output output;
    output.logits.resize(rows.size() * kVocabulary);
    for (auto &stage : stages) {
      Step step;
      step.rows = rows;
      step.token_count = static_cast<int>(tokens.size() / rows.size());
      const bool first = stage == stages.front();
      const bool last = stage == stages.back();
      if (first) step.tokens = tokens.data();
      if (!first) step.hidden = from.data();
      if (!last) step.output = to.data();
      if (last) step.logits = output.logits.data();
      if (!last) {
        for (StepRow &row : step.rows) row.sample = false;
      }
      output.tokens = stage->step(step).tokens;
      from.swap(to);
    }
    return output;
  }
  // Feeds tokens in chunks of 16 and samples after the last.
  Output feed(int sequence, int position, const std::vector<int32_t> &tokens) {
    Output output;
    for (size_t i = 0; i < tokens.size(); i += 16) {
      const size_t end = std::min(tokens.size(), i + 16);
      output = step({{sequence, position + static_cast<int>(i), end == tokens.size()}},
                    {tokens.begin() + static_cast<int64_t>(i), tokens.begin() + static_cast<int64_t>(end)});
    }
    return output;
  }
  // Feeds a prompt and goes on with what is sampled.
  std::vector<Output> generate(int sequence, const std::vector<int32_t> &prompt, int count) {
    std::vector<Output> outputs{feed(sequence, 0, prompt)};
    auto position = static_cast<int>(prompt.size());
    while (static_cast<int>(outputs.size()) < count) {
      outputs.push_back(feed(sequence, position++, outputs.back().tokens));
    }
    return outputs;
  }
};

std::vector<int32_t> prompt(int count) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; i++) tokens.push_back((i * 37 + 11) % kVocabulary);
  return tokens;
}

SamplerSettings warm(uint32_t seed) {
  SamplerSettings settings;
  settings.temperature = 1.5f;
  settings.top_k = 50;
  settings.top_p = 0.98f;
  settings.penalty_last_n = 20;
  settings.repeat_penalty = 1.2f;
  settings.seed = seed;
  return settings;
}

// A prompt with the first `count` of the tokens that were sampled after it.
std::vector<int32_t> joined(std::vector<int32_t> prompt, const std::vector<Output> &outputs, size_t count) {
  for (size_t i = 0; i < count; i++) prompt.push_back(outputs[i].tokens[0]);
  return prompt;
}

std::vector<int32_t> tokens_of(const std::vector<Output> &outputs) {
  std::vector<int32_t> tokens;
  for (const Output &output : outputs) tokens.push_back(output.tokens.at(0));
  return tokens;
}

int32_t argmax(const std::vector<float> &logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void test_release() {
  check_release("v0.5.0", "0.5.0");
  check_release("v0.5.0", "0.5.0-dev");
  check_throws("MISMATCH", "v0.5.1", [] { check_release("v0.5.0", "0.5.1-dev"); });
  check_throws("MISMATCH", "v0.5.0", [] { check_release("v0.5.0", "0.50.0"); });
}

void test_libraries() {
  check_throws("FILE", "/nonexistent", [] { load_llama("/nonexistent"); });
  check_throws("FILE", "libggml-base", [] { load_llama(folder); });
  CHECK(api().backend.compare(0, 3, "cpu") == 0);
  CHECK(!api().version.empty());
  check_throws("USAGE", "already runs", [] { load_llama(folder); });
}

void test_bad_file() {
  StageOptions options = stage_options(0, kLayers);
  const std::string good = options.path;
  options.path = folder + "/absent.gguf";
  check_throws("FILE", "absent.gguf", [&] { make_stage(options); });

  std::vector<char> bytes(1 << 20);
  std::FILE *file = std::fopen(good.c_str(), "rb");
  bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
  std::fclose(file);
  options.path = folder + "/bad.gguf";
  const auto check_bytes = [&](size_t size) {
    std::FILE *bad = std::fopen(options.path.c_str(), "wb");
    CHECK(std::fwrite(bytes.data(), 1, size, bad) == size);
    std::fclose(bad);
    check_throws("FILE", "cannot load", [&] { make_stage(options); });
  };
  const size_t whole = bytes.size();
  for (const size_t size : {size_t{0}, size_t{3}, size_t{100}, whole / 2, whole - 64}) check_bytes(size);
  bytes[0] = 'X';
  check_bytes(bytes.size());

  const std::atomic<bool> aborted{true};
  options.path = good;
  check_throws("ABORTED", "aborted", [&] { Stage(api(), options, aborted); });
}

void test_split() {
  const std::vector<int32_t> tokens = prompt(40);
  for (const bool warm_sampler : {false, true}) {
    const SamplerSettings sampler = warm_sampler ? warm(7) : SamplerSettings{};
    Chain whole({0, kLayers});
    whole.open(0, sampler, tokens);
    const std::vector<Output> expected = whole.generate(0, tokens, 20);
    for (const std::vector<int> &cuts : {std::vector<int>{0, 2, 4}, {0, 1, 4}, {0, 1, 2, 3, 4}}) {
      Chain chain(cuts);
      chain.open(0, sampler, tokens);
      CHECK(chain.generate(0, tokens, 20) == expected);
    }
    if (architecture == "gemma") continue;  // its head is its embedding: it repeats itself
    std::vector<int32_t> distinct = tokens_of(expected);
    std::sort(distinct.begin(), distinct.end());
    CHECK(std::unique(distinct.begin(), distinct.end()) - distinct.begin() >= 4);
  }
}

void check_architecture(const std::string &name) {
  architecture = name;
  test_split();
  // Several sequences in a step, on a stage that both takes and hands out hidden rows too.
  std::vector<Output> outputs;
  for (const std::vector<int> &cuts : {std::vector<int>{0, kLayers}, {0, 1, 3, kLayers}}) {
    Chain chain(cuts);
    chain.open(0);
    chain.open(1);
    outputs.push_back(chain.step({{1, 0, true}, {0, 0, true}}, prompt(14)));
    outputs.push_back(chain.step({{0, 7, true}, {1, 7, true}}, prompt(4)));
  }
  CHECK(outputs[2] == outputs[0] && outputs[3] == outputs[1]);
}

void test_inject() {
  check_architecture("gemma");
  StageOptions options = stage_options(2, kLayers);
  const std::vector<float> hidden(2 * kEmbedding, 0.5f);
  std::vector<float> logits(kVocabulary);
  const auto run = [&](const std::string &node) {
    options.inject = node;
    auto stage = make_stage(options);
    stage->open(0, {}, {});
    Step step;
    step.rows = {{0, 0, true}};
    step.token_count = 2;
    step.hidden = hidden.data();
    step.logits = logits.data();
    stage->step(step);
    return logits;
  };
  CHECK(run("") != run("inp_scaled"));
  check_throws("EXECUTOR", "injected 0 hidden rows of 2 at absent", [&] { run("absent"); });
  check_throws("EXECUTOR", "in ffn_gate-0, expected at most 512", [&] { run("ffn_gate-0"); });
}

// Hidden rows of a model whose tokens have several rope positions.
void test_rope_positions() { check_architecture("qwen2vl"); }

void test_rows() {
  const std::vector<int32_t> a = prompt(3);
  const std::vector<int32_t> b = {90, 5, 61};
  std::vector<int32_t> both = a;
  both.insert(both.end(), b.begin(), b.end());

  Chain alone({0, kLayers});
  alone.open(0);
  alone.open(1);
  const Output of_a = alone.feed(0, 0, a);
  const Output of_b = alone.feed(1, 0, b);

  // In both orders of the sequences: rows must come out as they went in.
  for (const auto &[first, second] : {std::pair<int, int>{0, 1}, {1, 0}}) {
    Chain whole({0, kLayers});
    Chain split({0, 2, kLayers});
    for (Chain *chain : {&whole, &split}) {
      chain->open(0);
      chain->open(1);
    }
    const std::vector<StepRow> rows{{first, 0, true}, {second, 0, true}};
    const Output grouped = whole.step(rows, both);
    CHECK(split.step(rows, both) == grouped);
    CHECK(grouped.tokens.size() == 2);
    for (size_t i = 0; i < kVocabulary; i++) {
      CHECK(std::fabs(grouped.logits[i] - of_a.logits[i]) < 1e-3f);
      CHECK(std::fabs(grouped.logits[kVocabulary + i] - of_b.logits[i]) < 1e-3f);
    }
    // Only the second row samples.
    const Output one = whole.step({{first, 3, false}, {second, 3, true}}, {1, 2});
    CHECK(one.tokens.size() == 1);
    CHECK(one.tokens[0] == argmax({one.logits.begin(), one.logits.begin() + kVocabulary}));
  }
}

void test_rollback() {
  Chain chain({0, 2, kLayers});
  const std::vector<int32_t> tokens = prompt(20);
  chain.open(0, warm(3), tokens);
  chain.open(1, warm(3), tokens);
  const std::vector<Output> expected = chain.generate(0, tokens, 12);

  chain.generate(1, tokens, 12);
  // Back to before the fourth sampled token was fed: its draw comes again, with the same penalties.
  chain.roll_back(1, 22, joined(tokens, expected, 3));
  Output output = chain.feed(1, 22, expected[2].tokens);
  CHECK(output == expected[3]);
  for (int i = 4; i < 12; i++) {
    output = chain.feed(1, 19 + i, output.tokens);
    CHECK(output == expected[static_cast<size_t>(i)]);
  }
  // To nothing and all over again.
  chain.roll_back(1, 0, tokens);
  CHECK(chain.generate(1, tokens, 12) == expected);
  chain.roll_back(1, 31);
  check_throws("USAGE", "32", [&] { chain.roll_back(1, 32); });
  check_throws("PROTOCOL", "position 30", [&] { chain.feed(1, 30, {1}); });
  check_throws("PROTOCOL", "KV length of its sequence is 31", [&] { chain.feed(1, 32, {1}); });
  for (auto &stage : chain.stages) stage->close(1);
  check_throws("USAGE", "not open", [&] { chain.feed(1, 0, {1}); });
  chain.open(1, warm(3), tokens);
  CHECK(chain.generate(1, tokens, 12) == expected);
}

void test_abort() {
  auto stage = make_stage(stage_options(0, kLayers));
  stage->open(0, {}, {});
  stage->open(1, {}, {});
  const std::vector<int32_t> tokens = prompt(8);
  std::atomic<bool> aborted{false};
  std::vector<float> logits(kVocabulary);
  Step step;
  step.rows = {{0, 0, true}};
  step.token_count = 8;
  step.tokens = tokens.data();
  step.logits = logits.data();
  step.aborted = &aborted;
  stage->step(step);
  const std::vector<float> undisturbed = logits;

  step.rows = {{1, 0, false}};
  step.token_count = 5;
  stage->step(step);
  step.rows = {{1, 5, true}};
  step.token_count = 3;
  step.tokens = tokens.data() + 5;
  aborted = true;
  check_throws("ABORTED", "aborted", [&] { stage->step(step); });
  check_throws("PROTOCOL", "KV length of its sequence is 5", [&] {
    Step wrong = step;
    wrong.rows[0].position = 8;
    stage->step(wrong);
  });
  aborted = false;
  CHECK(stage->step(step).tokens.at(0) == argmax(logits));
  for (size_t i = 0; i < logits.size(); i++) CHECK(std::fabs(logits[i] - undisturbed[i]) < 1e-3f);
}

void test_state() {
  const std::vector<int32_t> tokens = prompt(20);
  const StageOptions options = stage_options(2, kLayers);
  Chain chain({0, 2, kLayers});
  Chain other({0, 2, kLayers});
  chain.open(0, warm(9), tokens);
  const std::vector<Output> expected = chain.generate(0, tokens, 12);
  chain.roll_back(0, 25, joined(tokens, expected, 6));
  Output next = chain.feed(0, 25, expected[5].tokens);
  CHECK(next == expected[6]);

  // Into another sequence of another process-like chain, opened with no history of its own.
  other.open(1, warm(9));
  std::vector<uint8_t> state;
  for (size_t i = 0; i < chain.stages.size(); i++) {
    state = chain.stages[i]->save(0);
    other.stages[i]->restore(1, 26, state.data(), state.size());
  }
  for (int i = 7; i < 12; i++) {
    next = other.feed(1, 19 + i, next.tokens);
    CHECK(next == expected[static_cast<size_t>(i)]);
  }

  Stage &last = *other.stages.back();
  const auto restore = [&](const std::vector<uint8_t> &bytes, int position = 26) {
    last.restore(1, position, bytes.data(), bytes.size());
  };
  for (const size_t size : {size_t{0}, size_t{7}, size_t{12}, size_t{40}}) {
    check_throws("PROTOCOL", "", [&] { restore({state.begin(), state.begin() + static_cast<int64_t>(size)}); });
  }
  check_throws("EXECUTOR", "refused", [&] { restore({state.begin(), state.end() - 1}); });
  std::vector<uint8_t> foreign = state;
  foreign[12] ^= 1;
  check_throws("MISMATCH", "layers 2-4", [&] { restore(foreign); });
  check_throws("MISMATCH", "26 positions, not 25", [&] { last.restore(1, 25, state.data(), state.size()); });
  restore(state);
  other.stages.front()->roll_back(1, 26, {});
  CHECK(other.feed(1, 26, expected[6].tokens) == expected[7]);
  chain.open(1);
  restore(chain.stages.back()->save(1), 0);
}

void test_nan() {
  auto stage = make_stage(stage_options(2, kLayers));
  stage->open(0, {}, {});
  std::vector<float> hidden(2 * kEmbedding, 0.5f);
  Step step;
  step.rows = {{0, 0, true}};
  step.token_count = 2;
  step.hidden = hidden.data();
  const std::vector<int32_t> expected = stage->step(step).tokens;
  stage->roll_back(0, 0, {});
  hidden[3] = std::nanf("");
  check_throws("EXECUTOR", "NaN", [&] { stage->step(step); });
  hidden[3] = 0.5f;
  CHECK(stage->step(step).tokens == expected);
}

void test_last_words() {
  auto stage = make_stage(stage_options(0, kLayers));
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    log_ring().append(GGML_LOG_LEVEL_ERROR, "the line before\n");
    GGML(ggml_abort)("file.cc", 7, "GGML_ASSERT(%s) failed", "x");
  }
  close(ends[1]);
  std::string words;
  char buffer[4096];
  for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0;) {
    words.append(buffer, static_cast<size_t>(size));
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  CHECK(words.find("llama.cpp: the line before\n"
                   "llama.cpp aborted: file.cc:7: GGML_ASSERT(x) failed\n") != std::string::npos);
}

void test_sampler() {
  // From the published definition of SplitMix64, computed in Python.
  CHECK(position_seed(0, 0) == 0u);
  CHECK(position_seed(7, 1) == 2612170643u);
  CHECK(position_seed(7, 2) == 4183597273u);
  CHECK(position_seed(4294967295u, 131071) == 2304501121u);

  const std::vector<int32_t> tokens = prompt(30);
  Chain chain({0, kLayers});
  const auto run = [&](int sequence, const SamplerSettings &settings) {
    chain.open(sequence, settings, tokens);
    const std::vector<Output> outputs = chain.generate(sequence, tokens, 24);
    chain.roll_back(sequence, 0);
    return outputs;
  };
  const std::vector<Output> greedy = run(0, {});
  for (const Output &output : greedy) CHECK(output.tokens[0] == argmax(output.logits));
  SamplerSettings settings = warm(5);
  settings.penalty_last_n = 0;
  settings.top_k = 1;
  CHECK(tokens_of(run(0, settings)) == tokens_of(greedy));
  settings.top_k = 0;
  settings.min_p = 1.0f;
  CHECK(tokens_of(run(0, settings)) == tokens_of(greedy));

  // Temperature and draw against the definition: the first token whose cumulated probability reaches the
  // draw.
  settings = {};
  settings.temperature = 1.5f;
  settings.seed = 11;
  const std::vector<Output> drawn = run(0, settings);
  CHECK(tokens_of(drawn) != tokens_of(greedy));
  for (size_t i = 0; i < drawn.size(); i++) {
    const std::vector<float> &logits = drawn[i].logits;
    const float highest = *std::max_element(logits.begin(), logits.end()) / 1.5f;
    std::vector<double> weights;
    for (const float logit : logits) weights.push_back(std::exp(logit / 1.5f - highest));
    std::mt19937 random(position_seed(11, static_cast<int>(tokens.size() + i)));
    double left = std::accumulate(weights.begin(), weights.end(), 0.0);
    left *= std::uniform_real_distribution<double>(0, 1)(random);
    size_t token = 0;
    while ((left -= weights[token]) > 0) token++;
    CHECK(drawn[i].tokens[0] == static_cast<int32_t>(token));
  }

  const std::vector<int32_t> seven = tokens_of(run(0, warm(7)));
  CHECK(tokens_of(run(1, warm(7))) == seven);
  CHECK(tokens_of(run(0, warm(8))) != seven);
  CHECK(seven != tokens_of(greedy));

  // Penalties against the formula, with greedy choice: the last 20 of the prompt and what was sampled.
  settings = {};
  settings.penalty_last_n = 20;
  settings.repeat_penalty = 1.3f;
  settings.frequency_penalty = 0.4f;
  settings.presence_penalty = 0.2f;
  std::vector<int32_t> history = tokens;
  bool changed = false;
  for (const Output &output : run(0, settings)) {
    std::map<int32_t, int> counts;
    for (size_t i = history.size() - 20; i < history.size(); i++) counts[history[i]]++;
    std::vector<float> logits = output.logits;
    for (const auto &[token, count] : counts) {
      float &logit = logits[static_cast<size_t>(token)];
      logit = logit <= 0 ? logit * 1.3f : logit / 1.3f;
      logit -= static_cast<float>(count) * 0.4f + 0.2f;
    }
    CHECK(output.tokens[0] == argmax(logits));
    changed |= output.tokens[0] != argmax(output.logits);
    history.push_back(output.tokens[0]);
  }
  CHECK(changed);
}

void test_limits() {
  StageOptions options = stage_options(0, kLayers);
  options.context_length = kTrainedContext + 1;
  check_throws("LIMIT", "513", [&] { make_stage(options); });
  options.context_length = 30;
  options.max_sequences = 100000;
  check_throws("LIMIT", "100000", [&] { make_stage(options); });
  options.kv_type = "q3";
  options.max_sequences = 1;
  check_throws("UNSUPPORTED", "q3", [&] { make_stage(options); });

  Chain chain({0, kLayers});
  chain.open(0);
  chain.feed(0, 0, prompt(250));
  check_throws("LIMIT", "257", [&] { chain.feed(0, 250, prompt(7)); });
  chain.feed(0, 250, prompt(6));
  check_throws("LIMIT", "17 tokens", [&] { chain.step({{0, 256, true}}, prompt(17)); });

  // More sequences than tokens in a chunk.
  for (const bool last : {true, false}) {
    options = stage_options(0, last ? kLayers : 2);
    options.chunk_tokens = 1;
    options.max_sequences = 4;
    auto stage = make_stage(options);
    std::vector<float> hidden(kEmbedding);
    for (int sequence = 0; sequence < 4; sequence++) {
      stage->open(sequence, {}, {});
      const int32_t token = 3;
      Step step;
      step.rows = {{sequence, 0, last}};
      step.token_count = 1;
      step.tokens = &token;
      step.output = last ? nullptr : hidden.data();
      CHECK(stage->step(step).tokens.size() == (last ? 1 : 0));
    }
  }
}

}  // namespace

int main(int argc, char **argv) {
  const std::map<std::string, void (*)()> tests = {
      {"release", test_release}, {"libraries", test_libraries},
      {"bad_file", test_bad_file}, {"split", test_split},
      {"rows", test_rows}, {"rollback", test_rollback},
      {"abort", test_abort}, {"state", test_state},
      {"inject", test_inject}, {"rope_positions", test_rope_positions},
      {"nan", test_nan}, {"last_words", test_last_words},
      {"sampler", test_sampler}, {"limits", test_limits},
  };
  const auto test = argc == 3 ? tests.find(argv[1]) : tests.end();
  if (test == tests.end()) {
    std::fprintf(stderr, "usage: driver TEST LIBRARIES\n");
    return 2;
  }
  libraries = argv[2];
  const char *temporary = std::getenv("TMPDIR");
  std::string pattern = std::string(temporary == nullptr ? "/tmp" : temporary) + "/seamline-driver-XXXXXX";
  CHECK(mkdtemp(pattern.data()) != nullptr);
  folder = pattern;
  static const auto remove_folder = [] {
    const std::string command = "rm -rf '" + folder + "'";
    CHECK(std::system(command.c_str()) == 0);
  };
  std::atexit([] { remove_folder(); });
  try {
    test->second();
  } catch (const StageError &error) {
    std::fprintf(stderr, "threw %s: %s\n", error.code, error.what());
    return 1;
  }
  return 0;
}
