import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/long/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 900_000,
    hookTimeout: 60_000,
  },
})
