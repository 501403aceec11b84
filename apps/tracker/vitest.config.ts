import { defineConfig } from 'vitest/config'

// llama.cpp spins on its barriers: two files at once would disturb each other and everybody else.
export default defineConfig({
  test: { fileParallelism: false, testTimeout: 60_000, hookTimeout: 60_000 },
})
