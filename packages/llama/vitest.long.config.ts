import { defineConfig } from 'vitest/config'

export default defineConfig({ test: { include: ['test/long/*.test.ts'], testTimeout: 300_000 } })
