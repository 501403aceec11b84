import { defineConfig } from 'vitest/config'

// Every case once, in real processes.
export default defineConfig({
  test: { fileParallelism: false, testTimeout: 120_000, hookTimeout: 60_000 },
})
