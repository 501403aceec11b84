import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync, gzipSync } from 'node:zlib'
import { SpanName } from '@seamline/core'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import type { ProcessTrace, RunTrace } from '../src/trace.ts'
import { readTrace, traceWriter, writeTrace } from '../src/trace-file.ts'
import { process as processTrace, record, seeded, settings } from './clock-simulation.ts'

const root = mkdtempSync(join(tmpdir(), 'trace-file-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))
let folders = 0
const fresh = () => join(root, `run-${folders++}`)

/** Anything. */
type Json = ReturnType<typeof JSON.parse>

/** Numbers whose every bit matters, and the extremes. */
function spansOf(seed: number, records: number): number[][] {
  const random = seeded(seed)
  return Array.from({ length: records }, (_, i) =>
    record(
      SpanName.compute,
      104 * 86_400e9 + i,
      104 * 86_400e9 + i + random() * 1e6,
      2 ** 52 + i,
      random(),
      8,
    ),
  )
}

function run(over: Partial<RunTrace> = {}): RunTrace {
  return {
    ...{ format: 'seamline-trace/1', complete: true, level: 1 },
    settings: settings({
      link: { delayMs: 2.5, bitsPerSecond: 1e8 },
      injected: { place: 'encode', delayNs: 5000 },
    }),
    processes: [
      processTrace('coordinator', -1, spansOf(1, 1000), { dropped: 3, spanCostNs: 104.25 }),
      processTrace('stage 0', 0, spansOf(2, 5)),
      processTrace('relay', -1, [], { role: 'relay' }),
    ],
    sequences: [{ sequence: 0, promptTokens: 4, acceptedNs: 10, emittedNs: [20, 31], tokens: [5, 0] }],
    ...over,
  }
}

const failsWith = (code: string, text: string) =>
  expect.objectContaining({ name: 'SeamError', code, message: expect.stringContaining(text) })

const cut = (trace: RunTrace, from: number, to: number): RunTrace => ({
  ...trace,
  complete: false,
  processes: trace.processes.map((p): ProcessTrace => ({ ...p, spans: p.spans.slice(from * 6, to * 6) })),
})

describe('a trace in a folder', () => {
  it('comes back as it was, every number and name', async () => {
    const dir = fresh()
    await writeTrace(dir, run())
    expect(readdirSync(dir).sort()).toEqual([
      'spans-0.f64.gz',
      'spans-1.f64.gz',
      'spans-2.f64.gz',
      'trace.json',
    ])
    expect(await readTrace(dir)).toEqual({ ...run(), losses: [] })
    expect(readdirSync(root).filter((name) => name.includes('partial'))).toEqual([])
  })

  it('is plain JSON beside gzip of little-endian float64', async () => {
    const dir = fresh()
    const trace = run()
    await writeTrace(dir, trace)
    const bytes = gunzipSync(readFileSync(join(dir, 'spans-1.f64.gz')))
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    const values = Array.from({ length: 30 }, (_, i) => view.getFloat64(i * 8, true))
    expect(values).toEqual([...trace.processes[1]!.spans])
    const json = JSON.parse(readFileSync(join(dir, 'trace.json'), 'utf8'))
    expect(json.settings).toEqual(trace.settings)
    expect(json.processes[1].members).toEqual([{ bytes: expect.any(Number), records: 5 }])
  })

  it('holds a run without spans, and special numbers in spans', async () => {
    const none = run({ level: 0, processes: [processTrace('coordinator', -1, [])], sequences: [] })
    const odd = run({ processes: [processTrace('a', 0, [[NaN, -0, Infinity, 2 ** 53, 5e-324, -1]])] })
    for (const trace of [none, odd]) {
      const dir = fresh()
      await writeTrace(dir, trace)
      expect(await readTrace(dir)).toEqual({ ...trace, losses: [] })
    }
  })

  it('is never overwritten', async () => {
    const dir = fresh()
    await writeTrace(dir, run())
    await expect(writeTrace(dir, run({ level: 2 }))).rejects.toEqual(failsWith('FILE', 'never overwritten'))
    await expect(traceWriter(dir)).rejects.toEqual(failsWith('FILE', 'never overwritten'))
    expect((await readTrace(dir)).level).toBe(1)
  })

  it('refuses what could not be read back', async () => {
    const wrong = [
      run({ sequences: [{ ...run().sequences[0]!, emittedNs: [Number.NaN] }] }),
      run({ processes: [{ ...run().processes[0]!, spans: new Float64Array(7) }] }),
    ]
    for (const trace of wrong) {
      const dir = fresh()
      await expect(writeTrace(dir, trace)).rejects.toEqual(failsWith('USAGE', ''))
      const writer = await traceWriter(dir)
      await expect(writer.part(trace)).rejects.toEqual(failsWith('USAGE', ''))
    }
  })
})

describe('a trace in parts', () => {
  it('is readable and marked after every part, and whole when finished', async () => {
    const dir = fresh()
    const whole = run()
    const writer = await traceWriter(dir)
    const emittedNs: number[] = []
    const parts = [cut(whole, 0, 400), cut(whole, 400, 400), cut(whole, 400, 1000)]
    for (const [i, part] of parts.entries()) {
      emittedNs.push(20 + i)
      const growing = [{ ...whole.sequences[0]!, emittedNs, tokens: emittedNs }]
      await writer.part({ ...part, sequences: growing })
      const read = await readTrace(dir)
      expect(read.complete).toBe(false)
      expect(read.losses).toEqual([expect.stringContaining('never finished')])
      expect(read.sequences[0]!.emittedNs).toEqual(emittedNs)
      expect(read.processes[0]!.spans).toEqual(whole.processes[0]!.spans.slice(0, [400, 400, 1000][i]! * 6))
      expect(read.processes[0]!.dropped).toBe(3 * (i + 1))
    }
    await writer.finish(whole)
    expect(await readTrace(dir)).toEqual({ ...whole, losses: [] })
  })

  it('takes parts that nobody waits for in their order, as they stood', async () => {
    const dir = fresh()
    const whole = run()
    const writer = await traceWriter(dir)
    const emittedNs = [20]
    const sequences = [{ ...whole.sequences[0]!, emittedNs, tokens: [5] }]
    writer.part({ ...cut(whole, 0, 3), sequences })
    const second = writer.part({ ...cut(whole, 3, 1000), sequences })
    emittedNs.push(21)
    await second
    expect((await readTrace(dir)).sequences[0]!.emittedNs).toEqual([20])
    await writer.finish(whole)
    expect(await readTrace(dir)).toEqual({ ...whole, losses: [] })
  })

  it('is written again as a whole where parts are missing', async () => {
    const dir = fresh()
    const writer = await traceWriter(dir)
    await writer.part(cut(run(), 0, 10))
    await writer.finish(run())
    expect(await readTrace(dir)).toEqual({ ...run(), losses: [] })
    const only = fresh()
    await (await traceWriter(only)).finish(run())
    expect(await readTrace(only)).toEqual({ ...run(), losses: [] })
    expect(readdirSync(root).filter((name) => name.includes('partial'))).toEqual([])
  })

  it('tells of a failure with every later call', async () => {
    const file = join(root, 'a-file')
    writeFileSync(file, '')
    await expect(traceWriter(join(file, 'run'))).rejects.toEqual(failsWith('FILE', ''))
    const dir = fresh()
    const writer = await traceWriter(dir)
    rmSync(dir, { recursive: true })
    writer.part(run())
    await expect(writer.finish(run())).rejects.toEqual(failsWith('FILE', 'ENOENT'))
  })

  it('keeps every safe part of a process that is killed', async () => {
    for (let round = 0; round < 3; round++) {
      const dir = fresh()
      const child = spawn(
        process.execPath,
        [fileURLToPath(new URL('trace-writer-child.mjs', import.meta.url)), dir, JSON.stringify(settings())],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      )
      let said = ''
      child.stdout.setEncoding('utf8')
      await new Promise<void>((resolve) => {
        child.stdout.on('data', (text) => {
          said += text
          if (said.split('\n').length > 2 + round) resolve()
        })
      })
      child.kill('SIGKILL')
      await once(child, 'close')
      const safe = said.split('\n').length - 1
      const read = await readTrace(dir)
      const parts = read.processes[0]!.spans.length / 6 / 20_000
      expect(read.complete).toBe(false)
      expect(read.losses.length).toBeGreaterThan(0)
      expect(parts).toBeGreaterThanOrEqual(safe)
      expect(parts).toBeLessThanOrEqual(safe + 1)
      expect(read.sequences[0]!.emittedNs).toEqual(Array.from({ length: parts }, (_, i) => i + 1))
      const numbers = Array.from({ length: parts }, (_, i) => read.processes[0]!.spans[i * 120_000 + 1])
      expect(numbers).toEqual(read.sequences[0]!.emittedNs.map((n) => n - 1))
    }
  })
})

describe('damage', () => {
  async function written(complete: boolean): Promise<string> {
    const dir = fresh()
    const writer = await traceWriter(dir)
    await writer.part(cut(run(), 0, 600))
    await writer.part(cut(run(), 600, 1000))
    if (complete) await writer.finish(run())
    return dir
  }
  const edit = (dir: string, change: (json: Json) => void) => {
    const path = join(dir, 'trace.json')
    const json = JSON.parse(readFileSync(path, 'utf8'))
    change(json)
    writeFileSync(path, JSON.stringify(json))
  }

  it('of the last part is tolerated and told in a record that was not finished', async () => {
    const dir = await written(false)
    const path = join(dir, 'spans-0.f64.gz')
    appendFileSync(path, gzipSync(Buffer.alloc(4800)).subarray(0, 20))
    const more = await readTrace(dir)
    expect(more.losses).toContainEqual(expect.stringContaining('20 bytes of an unfinished part'))
    expect(more.processes[0]!.spans).toEqual(run().processes[0]!.spans)
    truncateSync(path, readFileSync(path).length - 25)
    const less = await readTrace(dir)
    expect(less.losses).toContainEqual(expect.stringContaining('400 records are lost'))
    expect(less.processes[0]!.spans).toEqual(run().processes[0]!.spans.slice(0, 3600))
  })

  it('of a finished record is refused', async () => {
    const dir = await written(true)
    const path = join(dir, 'spans-0.f64.gz')
    const bytes = readFileSync(path)
    truncateSync(path, bytes.length - 1)
    await expect(readTrace(dir)).rejects.toEqual(failsWith('FILE', 'the record is damaged'))
    bytes[bytes.length - 200]! ^= 0x10
    writeFileSync(path, bytes)
    await expect(readTrace(dir)).rejects.toEqual(failsWith('FILE', 'damaged'))
    rmSync(path)
    await expect(readTrace(dir)).rejects.toEqual(failsWith('FILE', 'ENOENT'))
  })

  it('of trace.json names the field', async () => {
    const cases: [(json: Json) => void, string][] = [
      [(json) => delete json.complete, 'trace.complete is undefined'],
      [(json) => (json.format = 'seamline-trace/2'), 'seamline-trace/2'],
      [(json) => (json.level = 7), 'one of 0, 1, 2, 3'],
      [(json) => (json.settings.model = 4), 'settings.model is 4, not a string'],
      [(json) => (json.settings.link = []), 'settings.link is [], not an object'],
      [(json) => (json.processes[1].role = 'spy'), 'trace.processes[1].role'],
      [(json) => (json.processes[0].members[0].bytes = -1), 'members[0].bytes is -1'],
      [(json) => (json.sequences[0].emittedNs = { length: 1e9 }), 'emittedNs'],
      [(json) => (json.sequences[0].tokens = [0.5]), 'tokens[0] is 0.5'],
      [(json) => (json.processes = Array(1025).fill(json.processes[0])), 'more than 1024'],
      [
        (json) => (json.settings.stages = 1e9),
        'settings.stages is 1000000000, not a whole number from 1 to 1024',
      ],
      [(json) => (json.settings.chunkTokens = 0), 'settings.chunkTokens is 0'],
      [(json) => (json.settings.embedding = 1e15), 'settings.embedding is 1000000000000000'],
      [(json) => (json.settings.link = { delayMs: -1 }), 'settings.link.delayMs is -1'],
      [(json) => (json.processes[0].dropped = -1), 'dropped is -1'],
      [(json) => (json.processes[0].name = 'x'.repeat(1025)), 'a string of at most 1024 characters'],
      [(json) => (json.processes[0].name = '\u001b[31m'), 'a string without control characters'],
      [(json) => (json.processes[0].name = 'a\u202eb'), 'name is "a?b", not a string without control'],
      [(json) => (json.sequences[0].acceptedNs = -1e15), 'acceptedNs is -1000000000000000'],
      [(json) => (json.sequences[0].sequence = 2 ** 29), 'sequence is 536870912'],
      [(json) => (json.sequences[0].promptTokens = 0), 'promptTokens is 0'],
      [(json) => (json.sequences[0].tokens[0] = -1), 'tokens[0] is -1'],
      // Promises more than its bytes can hold, and other than they hold.
      [(json) => (json.processes[0].members[0].records = 1e6), 'cannot hold 1000000 records'],
      [(json) => json.processes[0].members[0].records--, 'a part holds more than the'],
      [(json) => json.processes[0].members[0].records++, 'damaged'],
    ]
    for (const [change, text] of cases) {
      const dir = await written(true)
      edit(dir, change)
      await expect(readTrace(dir)).rejects.toEqual(failsWith('FILE', text))
    }
    const dir = await written(true)
    truncateSync(join(dir, 'trace.json'), 100)
    await expect(readTrace(dir)).rejects.toEqual(failsWith('FILE', 'not JSON'))
    await expect(readTrace(fresh())).rejects.toEqual(failsWith('FILE', 'ENOENT'))
    const odd = fresh()
    mkdirSync(join(odd, 'trace.json'), { recursive: true })
    await expect(readTrace(odd)).rejects.toEqual(failsWith('FILE', 'is not a file'))
  })

  it('meets limits before anything is allocated', async () => {
    const dir = await written(true)
    await expect(readTrace(dir, { maxSpanBytes: 1005 * 48 - 1 })).rejects.toEqual(
      failsWith('LIMIT', 'take 48240 bytes, the limit is 48239'),
    )
    expect((await readTrace(dir, { maxSpanBytes: 1005 * 48 })).losses).toEqual([])
    await expect(readTrace(dir, { maxJsonBytes: 100 })).rejects.toEqual(
      failsWith('LIMIT', 'the limit is 100'),
    )
    edit(dir, (json) => (json.processes[0].members[0].records = 2 ** 50))
    await expect(readTrace(dir)).rejects.toEqual(failsWith('LIMIT', 'raise maxSpanBytes'))
  })

  it('anywhere gives the trace or a typed error', async () => {
    const dir = await written(true)
    const names = readdirSync(dir)
    const originals = new Map(names.map((name) => [name, readFileSync(join(dir, name))]))
    const damage = fc.record({
      name: fc.constantFrom('trace.json', 'spans-0.f64.gz', 'spans-1.f64.gz'),
      at: fc.nat(),
      byte: fc.integer({ min: 0, max: 255 }),
      length: fc.option(fc.nat()),
    })
    await fc.assert(
      fc.asyncProperty(damage, async ({ name, at, byte, length }) => {
        const bytes = Buffer.from(originals.get(name)!)
        bytes[at % bytes.length] = byte
        writeFileSync(join(dir, name), length === null ? bytes : bytes.subarray(0, length % bytes.length))
        const outcome = await readTrace(dir).then(
          ({ format }) => format,
          ({ name: kind, code }) => `${kind} ${code}`,
        )
        writeFileSync(join(dir, name), originals.get(name)!)
        expect(['seamline-trace/1', 'SeamError FILE', 'SeamError LIMIT']).toContain(outcome)
      }),
      { numRuns: 300, seed: 7 },
    )
  })
})
