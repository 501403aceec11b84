// The Node side of a stage: one thread and one FIFO queue per stage, so that the event loop never waits for
// the engine. src/native.ts describes the interface; arguments are checked there.
#include <napi.h>
#include <signal.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <condition_variable>
#include <deque>
#include <functional>
#include <set>
#include <thread>

#include "quantize.h"
#include "stage.h"

namespace {

// Work for the compute thread. Made and finished on the JavaScript thread, which alone touches the promise
// and the references.
struct Job {
  explicit Job(Napi::Env env) : deferred(Napi::Promise::Deferred::New(env)) {}

  Napi::Promise::Deferred deferred;
  // Runs on the compute thread; throws StageError.
  std::function<void()> run;
  // Makes the value of the promise afterwards.
  std::function<Napi::Value(Napi::Env)> value;
  // Memory of the caller that `run` uses.
  std::vector<Napi::ObjectReference> memory;
  // What ends this job early, and what abort() and close() look for.
  std::atomic<bool> aborted{false};
  bool abortable = false;
  Step step;
  StepResult result;
  const char *error_code = nullptr;
  std::string error;

  void fail(const char *code, const std::string &message) {
    error_code = code;
    error = message;
  }
  void attempt() {
    try {
      run();
    } catch (const StageError &failure) {
      fail(failure.code, failure.what());
    } catch (const std::exception &failure) {
      fail("EXECUTOR", failure.what());
    }
  }
  void settle(Napi::Env env) {
    if (error_code == nullptr) {
      deferred.Resolve(value ? value(env) : env.Undefined());
      return;
    }
    const Napi::Error failure = Napi::Error::New(env, error);
    failure.Set("code", Napi::String::New(env, error_code));
    deferred.Reject(failure.Value());
  }
  void keep(Napi::Object object) { memory.push_back(Napi::Persistent(object)); }
};

class NativeStage : public Napi::ObjectWrap<NativeStage> {
 public:
  static Napi::Function Define(Napi::Env env) {
    return DefineClass(env, "Stage",
                       {
                           InstanceMethod("load", &NativeStage::Load),
                           InstanceMethod("open", &NativeStage::Open),
                           InstanceMethod("step", &NativeStage::RunStep),
                           InstanceMethod("canRollBack", &NativeStage::CanRollBack),
                           InstanceMethod("rollBack", &NativeStage::RollBack),
                           InstanceMethod("closeSequence", &NativeStage::CloseSequence),
                           InstanceMethod("save", &NativeStage::Save),
                           InstanceMethod("restore", &NativeStage::Restore),
                           InstanceMethod("abort", &NativeStage::Abort),
                           InstanceMethod("stop", &NativeStage::Stop),
                       });
  }

  explicit NativeStage(const Napi::CallbackInfo &info) : Napi::ObjectWrap<NativeStage>(info), env_(info.Env()) {
    const auto options = info[0].As<Napi::Object>();
    const auto text = [&](const char *key) { return options.Get(key).As<Napi::String>().Utf8Value(); };
    const auto number = [&](const char *key) { return options.Get(key).As<Napi::Number>().Int32Value(); };
    const auto flag = [&](const char *key) { return options.Get(key).As<Napi::Boolean>().Value(); };
    libraries_ = text("libraries");
    options_.path = text("path");
    options_.identity = text("identity");
    options_.first = flag("first");
    options_.last = flag("last");
    options_.inject = text("inject");
    options_.context_length = number("contextLength");
    options_.chunk_tokens = number("chunkTokens");
    options_.max_sequences = number("maxSequences");
    options_.threads = number("threads");
    options_.flash_attention = flag("flashAttention");
    options_.kv_type = text("kvType");
    options_.repack = flag("repack");
    options_.uniform = flag("uniform");
    done_ = Done::New(info.Env(), "seamline stage", 0, 1, this);
    done_.Unref(info.Env());
    thread_ = std::thread([this] { Work(); });
    // Hooks run last in, first out: when the environment goes down, the thread is gone before `done_` is.
    napi_add_env_cleanup_hook(env_, OnCleanup, this);
    const std::lock_guard<std::mutex> lock(live_mutex());
    live().insert(this);
  }

  ~NativeStage() override {
    {
      const std::lock_guard<std::mutex> lock(live_mutex());
      live().erase(this);
    }
    napi_remove_env_cleanup_hook(env_, OnCleanup, this);
    Shutdown();
  }

  // process.exit() runs the static destructors of llama.cpp and no cleanup hooks: compute has to end before.
  static void OnExit(const Napi::CallbackInfo &info) {
    std::vector<NativeStage *> stages;
    {
      const std::lock_guard<std::mutex> lock(live_mutex());
      for (NativeStage *stage : live()) {
        if (stage->env_ == static_cast<napi_env>(info.Env())) stages.push_back(stage);
      }
    }
    for (NativeStage *stage : stages) stage->Shutdown();
  }

 private:
  static void OnCleanup(void *self) { static_cast<NativeStage *>(self)->Shutdown(); }

  // The stages of all environments of the process; never destroyed.
  static std::set<NativeStage *> &live() {
    static auto *stages = new std::set<NativeStage *>();
    return *stages;
  }
  static std::mutex &live_mutex() {
    static auto *mutex = new std::mutex();
    return *mutex;
  }

  // Ends the thread, and the step that it is in. What has not been handed back to JavaScript by then never
  // will be.
  void Shutdown() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      for (Job *job : queue_) job->aborted = true;
      if (current_ != nullptr) current_->aborted = true;
    }
    wake_.notify_one();
    thread_.join();
    done_.Release();
  }

  static void OnDone(Napi::Env env, Napi::Function, NativeStage *self, Job *job) {
    if (env != nullptr) {
      try {
        self->Finish(env, job);
      } catch (const Napi::Error &) {
        // JavaScript is being terminated and takes no more results.
      }
      return;
    }
    // The environment is going down: references can no longer be deleted.
    for (Napi::ObjectReference &reference : job->memory) reference.SuppressDestruct();
    delete job;
  }
  using Done = Napi::TypedThreadSafeFunction<NativeStage, Job, OnDone>;

  void Work() {
    for (;;) {
      Job *job = nullptr;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) break;
        job = queue_.front();
        queue_.pop_front();
        current_ = job;
      }
      if (job->error_code == nullptr && job->aborted) job->fail("ABORTED", "the step was aborted");
      if (job->error_code == nullptr) job->attempt();
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        current_ = nullptr;
      }
      done_.BlockingCall(job);
    }
    stage_.reset();
  }

  void Finish(Napi::Env env, Job *job) {
    const std::unique_ptr<Job> owned(job);
    if (--pending_ == 0) {
      done_.Unref(env);
      Unref();
    }
    job->settle(env);
  }

  Napi::Value Enqueue(Napi::Env env, std::unique_ptr<Job> job) {
    const Napi::Promise promise = job->deferred.Promise();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!stopping_) queue_.push_back(job.release());
    }
    if (job != nullptr) {
      job->fail("CLOSED", "the process is about to end");
      job->settle(env);
      return promise;
    }
    if (pending_++ == 0) {
      done_.Ref(env);
      Ref();
    }
    wake_.notify_one();
    return promise;
  }

  static std::vector<int32_t> Tokens(const Napi::Value &value) {
    const auto array = value.As<Napi::Int32Array>();
    return {array.Data(), array.Data() + array.ElementLength()};
  }

  Napi::Value Load(const Napi::CallbackInfo &info) {
    auto job = std::make_unique<Job>(info.Env());
    job->abortable = true;
    job->run = [this, job = job.get()] {
      const LlamaApi &api = load_llama(libraries_);
      stage_ = std::make_unique<Stage>(api, options_, job->aborted);
      loaded_ = &api;
    };
    job->value = [this](Napi::Env env) -> Napi::Value {
      auto facts = Napi::Object::New(env);
      facts.Set("embedding", stage_->embedding());
      facts.Set("layers", stage_->layers());
      facts.Set("vocabulary", stage_->vocabulary());
      facts.Set("backend", loaded_->backend);
      return facts;
    };
    return Enqueue(info.Env(), std::move(job));
  }

  // (sequence, settings, history: Int32Array)
  Napi::Value Open(const Napi::CallbackInfo &info) {
    const int sequence = info[0].As<Napi::Number>().Int32Value();
    const auto from = info[1].As<Napi::Object>();
    const auto number = [&](const char *key) { return from.Get(key).As<Napi::Number>(); };
    SamplerSettings settings;
    settings.temperature = number("temperature").FloatValue();
    settings.top_k = number("topK").Int32Value();
    settings.top_p = number("topP").FloatValue();
    settings.min_p = number("minP").FloatValue();
    settings.penalty_last_n = number("penaltyLastN").Int32Value();
    settings.repeat_penalty = number("repeatPenalty").FloatValue();
    settings.frequency_penalty = number("frequencyPenalty").FloatValue();
    settings.presence_penalty = number("presencePenalty").FloatValue();
    settings.seed = number("seed").Uint32Value();
    auto job = std::make_unique<Job>(info.Env());
    job->run = [this, sequence, settings, history = Tokens(info[2])] {
      stage_->open(sequence, settings, history);
    };
    return Enqueue(info.Env(), std::move(job));
  }

  // (rows: Int32Array of sequence, position, sample; tokenCount; input; output or null; logits or null)
  Napi::Value RunStep(const Napi::CallbackInfo &info) {
    auto job = std::make_unique<Job>(info.Env());
    Step &step = job->step;
    const auto rows = info[0].As<Napi::Int32Array>();
    for (size_t i = 0; i + 2 < rows.ElementLength(); i += 3) {
      step.rows.push_back({rows[i], rows[i + 1], rows[i + 2] != 0});
    }
    step.token_count = info[1].As<Napi::Number>().Int32Value();
    if (options_.first) {
      step.tokens = info[2].As<Napi::Int32Array>().Data();
    } else {
      step.hidden = info[2].As<Napi::Float32Array>().Data();
    }
    job->keep(info[2].As<Napi::Object>());
    if (!info[3].IsNull()) {
      step.output = info[3].As<Napi::Float32Array>().Data();
      job->keep(info[3].As<Napi::Object>());
    }
    if (!info[4].IsNull()) {
      step.logits = info[4].As<Napi::Float32Array>().Data();
      job->keep(info[4].As<Napi::Object>());
    }
    step.aborted = &job->aborted;
    job->abortable = true;
    job->run = [this, job = job.get()] { job->result = stage_->step(job->step); };
    job->value = [job = job.get()](Napi::Env env) -> Napi::Value {
      const StepResult &from = job->result;
      auto tokens = Napi::Array::New(env, from.tokens.size());
      for (size_t i = 0; i < from.tokens.size(); i++) tokens.Set(static_cast<uint32_t>(i), from.tokens[i]);
      auto result = Napi::Object::New(env);
      result.Set("tokens", tokens);
      result.Set("computeStartNs", from.compute_start_ns);
      result.Set("computeEndNs", from.compute_end_ns);
      result.Set("sampleEndNs", from.sample_end_ns);
      result.Set("cpuWaitNs", from.cpu_wait_ns);
      return result;
    };
    return Enqueue(info.Env(), std::move(job));
  }

  // (sequence, length). For a sequence that has nothing queued but rollbacks.
  Napi::Value CanRollBack(const Napi::CallbackInfo &info) {
    const int sequence = info[0].As<Napi::Number>().Int32Value();
    const int length = info[1].As<Napi::Number>().Int32Value();
    return Napi::Boolean::New(info.Env(), stage_ != nullptr && stage_->can_roll_back(sequence, length));
  }

  // (sequence, length, history: Int32Array)
  Napi::Value RollBack(const Napi::CallbackInfo &info) {
    const int sequence = info[0].As<Napi::Number>().Int32Value();
    const int length = info[1].As<Napi::Number>().Int32Value();
    auto job = std::make_unique<Job>(info.Env());
    job->run = [this, sequence, length, history = Tokens(info[2])] {
      stage_->roll_back(sequence, length, history);
    };
    return Enqueue(info.Env(), std::move(job));
  }

  // (sequence). Ends its steps first.
  Napi::Value CloseSequence(const Napi::CallbackInfo &info) {
    const int sequence = info[0].As<Napi::Number>().Int32Value();
    AbortIf([sequence](const Job &job) {
      for (const StepRow &row : job.step.rows) {
        if (row.sequence == sequence) return true;
      }
      return false;
    });
    auto job = std::make_unique<Job>(info.Env());
    job->run = [this, sequence] { stage_->close(sequence); };
    return Enqueue(info.Env(), std::move(job));
  }

  // (sequence), resolves with an ArrayBuffer
  Napi::Value Save(const Napi::CallbackInfo &info) {
    const int sequence = info[0].As<Napi::Number>().Int32Value();
    auto job = std::make_unique<Job>(info.Env());
    auto state = std::make_shared<std::vector<uint8_t>>();
    job->run = [this, sequence, state] { *state = stage_->save(sequence); };
    job->value = [state](Napi::Env env) -> Napi::Value {
      auto *owner = new std::shared_ptr<std::vector<uint8_t>>(state);
      return Napi::ArrayBuffer::New(env, state->data(), state->size(),
                                    [owner](Napi::Env, void *) { delete owner; });
    };
    return Enqueue(info.Env(), std::move(job));
  }

  // (sequence, position, state: Uint8Array)
  Napi::Value Restore(const Napi::CallbackInfo &info) {
    const int sequence = info[0].As<Napi::Number>().Int32Value();
    const int position = info[1].As<Napi::Number>().Int32Value();
    const auto state = info[2].As<Napi::Uint8Array>();
    auto job = std::make_unique<Job>(info.Env());
    job->keep(state);
    job->run = [this, sequence, position, data = state.Data(), size = state.ByteLength()] {
      stage_->restore(sequence, position, data, size);
    };
    return Enqueue(info.Env(), std::move(job));
  }

  Napi::Value Abort(const Napi::CallbackInfo &info) {
    AbortIf([](const Job &job) { return job.abortable; });
    return info.Env().Undefined();
  }

  // Fails what is queued, waits for what runs, frees the model.
  Napi::Value Stop(const Napi::CallbackInfo &info) {
    auto job = std::make_unique<Job>(info.Env());
    job->run = [this] { stage_.reset(); };
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      for (Job *queued : queue_) queued->fail("CLOSED", "the stage is closed");
    }
    const Napi::Value promise = Enqueue(info.Env(), std::move(job));
    const std::lock_guard<std::mutex> guard(mutex_);
    stopping_ = true;
    wake_.notify_one();
    return promise;
  }

  template <typename Predicate>
  void AbortIf(Predicate predicate) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Job *job : queue_) {
      if (predicate(*job)) job->aborted = true;
    }
    if (current_ != nullptr && predicate(*current_)) current_->aborted = true;
  }

  const napi_env env_;
  std::string libraries_;
  StageOptions options_;
  const LlamaApi *loaded_ = nullptr;
  std::unique_ptr<Stage> stage_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job *> queue_;
  Job *current_ = nullptr;
  bool stopping_ = false;

  Done done_;
  size_t pending_ = 0;
  std::thread thread_;
};

// Runs a job on a thread of libuv's pool, which the end of the process waits for.
class PoolWorker : public Napi::AsyncWorker {
 public:
  PoolWorker(Napi::Env env, std::unique_ptr<Job> job) : Napi::AsyncWorker(env), job_(std::move(job)) {}
  void Execute() override { job_->attempt(); }
  void OnOK() override { job_->settle(Env()); }

 private:
  const std::unique_ptr<Job> job_;
};

// (libraries, path, out, type, threads)
Napi::Value Quantize(const Napi::CallbackInfo &info) {
  auto job = std::make_unique<Job>(info.Env());
  const auto text = [&](size_t i) { return info[i].As<Napi::String>().Utf8Value(); };
  const auto number = [&](size_t i) { return info[i].As<Napi::Number>().Int32Value(); };
  job->run = [libraries = text(0), path = text(1), out = text(2), type = number(3), threads = number(4)] {
    quantize_model(load_llama(libraries), path, out, static_cast<llama_ftype>(type), threads);
  };
  const Napi::Promise promise = job->deferred.Promise();
  (new PoolWorker(info.Env(), std::move(job)))->Queue();
  return promise;
}

// A process that is stopped notices nothing by itself: the kernel ends it with its parent.
void DieWithParent(const Napi::CallbackInfo &info) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  (void)info;
}

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  exports.Set("Stage", NativeStage::Define(env));
  exports.Set("quantize", Napi::Function::New(env, Quantize, "quantize"));
  const auto process = env.Global().Get("process").As<Napi::Object>();
  process.Get("on").As<Napi::Function>().Call(
      process, {Napi::String::New(env, "exit"), Napi::Function::New(env, NativeStage::OnExit)});
  exports.Set("dieWithParent", Napi::Function::New(env, DieWithParent, "dieWithParent"));
  exports.Set("nowNs", Napi::Function::New(
                           env, [](const Napi::CallbackInfo &info) { return Napi::Number::New(info.Env(), now_ns()); },
                           "nowNs"));
  exports.Set("release", SEAMLINE_LLAMA_RELEASE);
  exports.Set("napi", NAPI_VERSION);
  return exports;
}

}  // namespace

NODE_API_MODULE(NODE_GYP_MODULE_NAME, Init)
