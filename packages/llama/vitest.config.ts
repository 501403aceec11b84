import { defineConfig } from 'vitest/config'

// llama.cpp spins on its barriers: two files at once would disturb each other and everybody else.
export default defineConfig({
  test: { include: ['test/*.test.ts'], fileParallelism: false, testTimeout: 30_000 },
})
