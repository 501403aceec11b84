// ggml-vectors LIBGGML_BASE quantize|dequantize|f16|bf16: standard input through ggml's own functions to standard output.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QK8_0 = 32, BLOCK_BYTES = 34, CHUNK_BLOCKS = 2048 };

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    static float values[CHUNK_BLOCKS * QK8_0];
    static unsigned char blocks[CHUNK_BLOCKS * BLOCK_BYTES];
    static uint16_t halves[CHUNK_BLOCKS * QK8_0];
    size_t count;
    if (!strcmp(argv[2], "quantize")) {
        void (*quantize)(const float *, void *, int64_t) = symbol(library, "quantize_row_q8_0_ref");
        while ((count = fread(values, 4 * QK8_0, CHUNK_BLOCKS, stdin)) > 0) {
            quantize(values, blocks, (int64_t)count * QK8_0);
            fwrite(blocks, BLOCK_BYTES, count, stdout);
        }
    } else if (!strcmp(argv[2], "dequantize")) {
        void (*dequantize)(const void *, float *, int64_t) = symbol(library, "dequantize_row_q8_0");
        while ((count = fread(blocks, BLOCK_BYTES, CHUNK_BLOCKS, stdin)) > 0) {
            dequantize(blocks, values, (int64_t)count * QK8_0);
            fwrite(values, 4 * QK8_0, count, stdout);
        }
    } else {
        const char *name = !strcmp(argv[2], "bf16") ? "ggml_fp32_to_bf16_row" : "ggml_fp32_to_fp16_row";
        void (*convert)(const float *, void *, int64_t) = symbol(library, name);
        while ((count = fread(values, 4, CHUNK_BLOCKS * QK8_0, stdin)) > 0) {
            convert(values, halves, (int64_t)count);
            fwrite(halves, 2, count, stdout);
        }
    }
    return fflush(stdout) ? 1 : 0;
}
