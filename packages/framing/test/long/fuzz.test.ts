import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bundle } from '../bundle.ts'

// SEAMLINE_FUZZ_INPUTS of each framing, from SEAMLINE_FUZZ_SEED; the record goes to SEAMLINE_FUZZ_RECORD.
const inputs = Number(process.env.SEAMLINE_FUZZ_INPUTS ?? 5_500_000)
const seed = process.env.SEAMLINE_FUZZ_SEED ?? '1'
const recordPath =
  process.env.SEAMLINE_FUZZ_RECORD ?? fileURLToPath(new URL('../../dist/fuzz-record.json', import.meta.url))

describe('coverage-guided fuzzing', () => {
  const records: object[] = []
  let fuzzer: Awaited<ReturnType<typeof bundle>>

  beforeAll(async () => {
    fuzzer = await bundle('./long/fuzzer.ts')
  })

  afterAll(() => {
    mkdirSync(dirname(recordPath), { recursive: true })
    writeFileSync(recordPath, `${JSON.stringify(records, null, 1)}\n`)
    fuzzer.remove()
  })

  for (const id of ['protobuf', 'msgpack']) {
    it(`${id} takes ${inputs} inputs as messages that re-encode to themselves or refuses them by type`, async () => {
      const vectors = fileURLToPath(new URL(`../../vectors/${id}.json`, import.meta.url))
      const { stdout } = await promisify(execFile)(process.execPath, [
        fuzzer.file,
        id,
        String(inputs),
        seed,
        vectors,
      ])
      const record = JSON.parse(stdout)
      records.push(record)
      console.log(record)
      expect(record.accepted + record.refused + record.waiting).toBe(inputs)
      expect(record.accepted).toBeGreaterThan(inputs / 1000)
      expect(record.blocks.all).toBeGreaterThan(record.blocks.golden)
    })
  }
})
