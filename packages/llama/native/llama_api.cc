#include "llama_api.h"

#include <dirent.h>
#include <dlfcn.h>

#include <cstdio>

namespace {

constexpr size_t kLogLines = 50;
constexpr size_t kLogLineBytes = 1000;

// Finds `lib<stem>.so`, `lib<stem>.<variant and release>.so` or their .dylib forms.
std::string find_library(const std::string &directory, const std::string &stem) {
  DIR *listing = opendir(directory.c_str());
  if (listing == nullptr) {
    throw StageError("FILE", "cannot read the folder of the llama.cpp libraries: " + directory);
  }
  std::string found;
  while (const dirent *entry = readdir(listing)) {
    const std::string name = entry->d_name;
    const size_t dot = name.rfind('.');
    const bool shared = dot != std::string::npos && (name.substr(dot) == ".so" || name.substr(dot) == ".dylib");
    if (shared && name.compare(0, stem.size() + 1, stem + ".") == 0) found = directory + "/" + name;
  }
  closedir(listing);
  if (found.empty()) throw StageError("FILE", "no " + stem + ".*.so in " + directory);
  return found;
}

void *open_library(const std::string &path) {
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw StageError("UNSUPPORTED", std::string("cannot load a library: ") + dlerror());
  return handle;
}

template <typename F>
void resolve(void *handle, const char *name, F &target) {
  target = reinterpret_cast<F>(dlsym(handle, name));
  if (target == nullptr) {
    throw StageError("MISMATCH", std::string("the llama.cpp library does not export ") + name +
                                     ": it is not of release " SEAMLINE_LLAMA_RELEASE);
  }
}

// ".../libggml-cpu-haswell.so" becomes "cpu haswell": the kernels are part of what makes an output
// reproducible.
std::string backend_of(const LlamaApi &api) {
  ggml_backend_dev_t device = api.ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) throw StageError("UNSUPPORTED", "no llama.cpp CPU back end runs on this machine");
  Dl_info info{};
  // The registry record lies in the data of the library that registered it.
  if (dladdr(api.ggml_backend_dev_backend_reg(device), &info) == 0 || info.dli_fname == nullptr) return "cpu";
  std::string name = info.dli_fname;
  name = name.substr(name.rfind('/') + 1);
  const std::string prefix = "libggml-cpu-";
  if (name.compare(0, prefix.size(), prefix) != 0) return "cpu";
  return "cpu " + name.substr(prefix.size(), name.rfind('.') - prefix.size());
}

void on_log(ggml_log_level level, const char *text, void *) { log_ring().append(level, text); }

// llama.cpp is about to end the process: leave its last words where the parent reads them.
void on_abort(const char *message) {
  for (const std::string &line : log_ring().lines()) std::fprintf(stderr, "llama.cpp: %s\n", line.c_str());
  std::fprintf(stderr, "llama.cpp aborted: %s\n", message);
  std::fflush(stderr);
}

}  // namespace

void check_release(const std::string &headers_release, const std::string &loaded_version) {
  const std::string loaded = "v" + loaded_version.substr(0, loaded_version.find('-'));
  if (loaded != headers_release) {
    throw StageError("MISMATCH", "the loaded llama.cpp is " + loaded + " (" + loaded_version +
                                     "), the addon was built for " + headers_release +
                                     "; rebuild it or load the libraries of that release");
  }
}

const LlamaApi &load_llama(const std::string &directory) {
  static std::mutex mutex;
  static LlamaApi *loaded = nullptr;
  static std::string loaded_directory;
  const std::lock_guard<std::mutex> lock(mutex);
  if (loaded != nullptr) {
    if (directory != loaded_directory) {
      throw StageError("USAGE", "this process already runs llama.cpp from " + loaded_directory +
                                    " and cannot also load it from " + directory);
    }
    return *loaded;
  }
  static LlamaApi api;
  api.ggml_base = open_library(find_library(directory, "libggml-base"));
  void *ggml = open_library(find_library(directory, "libggml"));
  void *llama = open_library(find_library(directory, "libllama"));
  resolve(llama, "llama_version", api.llama_version);
  api.version = api.llama_version();
  check_release(SEAMLINE_LLAMA_RELEASE, api.version);
#define SEAMLINE_FROM_BASE(name) resolve(api.ggml_base, #name, api.name);
#define SEAMLINE_FROM_GGML(name) resolve(ggml, #name, api.name);
#define SEAMLINE_FROM_LLAMA(name) resolve(llama, #name, api.name);
  SEAMLINE_GGML_SYMBOLS(SEAMLINE_FROM_BASE)
  SEAMLINE_REGISTRY_SYMBOLS(SEAMLINE_FROM_GGML)
  SEAMLINE_LLAMA_SYMBOLS(SEAMLINE_FROM_LLAMA)
#undef SEAMLINE_FROM_BASE
#undef SEAMLINE_FROM_GGML
#undef SEAMLINE_FROM_LLAMA
  api.llama_log_set(on_log, nullptr);
  api.ggml_set_abort_callback(on_abort);
  // Another user of the same libraries in this process may have loaded the back ends already.
  if (api.ggml_backend_reg_count() == 0) api.ggml_backend_load_all_from_path(directory.c_str());
  api.backend = backend_of(api);
  api.llama_backend_init();
  loaded_directory = directory;
  loaded = &api;
  return api;
}

void LogRing::append(ggml_log_level level, const char *text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (level != GGML_LOG_LEVEL_CONT) partial_level_ = level;
  for (; *text != '\0'; text++) {
    if (*text != '\n') {
      if (partial_.size() < kLogLineBytes) partial_ += *text;
      continue;
    }
    lines_.push_back({count_++, partial_level_, partial_});
    partial_.clear();
    if (lines_.size() > kLogLines) lines_.pop_front();
  }
}

uint64_t LogRing::mark() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return count_;
}

std::string LogRing::errors_since(uint64_t mark) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string joined;
  for (const Line &line : lines_) {
    if (line.number < mark || line.level < GGML_LOG_LEVEL_WARN || line.level > GGML_LOG_LEVEL_ERROR) continue;
    if (!joined.empty()) joined += "; ";
    joined += line.text;
  }
  return joined;
}

std::vector<std::string> LogRing::lines() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> copy;
  for (const Line &line : lines_) copy.push_back(line.text);
  return copy;
}

LogRing &log_ring() {
  // Never destroyed: llama.cpp may log while the process exits.
  static LogRing *ring = new LogRing();
  return *ring;
}
