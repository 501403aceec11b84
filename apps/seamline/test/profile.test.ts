import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SPAN_RECORD_LENGTH, SpanName } from '@seamline/core'
import { type ProcessTrace, readTrace, writeTrace } from '@seamline/profiler'
import { describe, expect, it } from 'vitest'
import { childrenOf, gone, hasStories, STORIES, scratchFolder, seamline, start } from './support.ts'

const folder = scratchFolder()
const paced = ['profile', '--paced', '2,3', '--prompt-tokens', '16', '--json']

interface Summary {
  readonly complete: boolean
  readonly marks: readonly string[]
  readonly verdict: { readonly kind: string; readonly text: string }
  readonly attribution: {
    readonly causalityViolations: number
    readonly decode: {
      readonly tokens: number
      readonly unattributedMedianPct: number
      readonly wallNs: number
      readonly rows: readonly { readonly totalNs: number }[]
    }
  }
  readonly lanes: readonly {
    readonly lane: string
    readonly process: number
    readonly waitNs: Record<string, number>
  }[]
}

describe('a profile', () => {
  it('names where time goes, down to the last nanosecond, and writes all of its files', async () => {
    const out = join(folder, 'plain')
    const { code, stdout, stderr } = await seamline([...paced, '--tokens', '40', '--out', out])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const summary: Summary = JSON.parse(stdout)
    const { decode, causalityViolations } = summary.attribution
    expect(causalityViolations).toBe(0)
    expect(decode.tokens).toBe(39)
    expect(decode.rows.reduce((sum, { totalNs }) => sum + totalNs, 0)).toBe(decode.wallNs)
    expect(decode.unattributedMedianPct).toBeLessThan(2)
    expect(readdirSync(out).sort()).toEqual([
      ...['report.html', 'spans-0.f64.gz', 'spans-1.f64.gz', 'spans-2.f64.gz', 'summary.json'],
      ...['trace.json', 'trace.otlp.json', 'trace.perfetto.json', 'trace.speedscope.json'],
    ])
    expect(JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8')).verdict).toEqual(summary.verdict)
    for (const file of readdirSync(out).filter((name) => name.endsWith('.json')))
      JSON.parse(readFileSync(join(out, file), 'utf8'))

    const again = await seamline(['profile', '--read', out, '--json'])
    expect(JSON.parse(again.stdout)).toEqual({ ...summary, out })
  })

  it('with one slow stage names it, and its peers wait for it', async () => {
    const out = join(folder, 'slow')
    const args = ['profile', '--paced', '2,9,2', '--k', '3', '--tokens', '24', '--json', '--out', out]
    const summary: Summary = JSON.parse((await seamline(args)).stdout)
    expect(summary.verdict.text).toMatch(
      /worker-1 computes much longer than the others, which wait for it \(peer\.slow\)/,
    )
    const engines = summary.lanes.filter(({ lane }) => lane === 'engine')
    expect(engines).toHaveLength(3)
    for (const { process, waitNs } of engines) {
      const most = Object.entries(waitNs).sort(([, a], [, b]) => b - a)[0]
      if (process !== 2) expect(most?.[0]).toBe('peer.slow')
    }
  })

  it('of many sequences warns of nothing', async () => {
    const args = ['profile', '--paced', '1,1', '--k', '12', '--tokens', '4', '--warmup', '0', '--json']
    const { code, stderr } = await seamline([...args, '--out', join(folder, 'many')])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })

  it('at level 0 has the figures of tokens and says why there is no more', async () => {
    const out = join(folder, 'level-0')
    const { stdout } = await seamline([...paced, '--level', '0', '--tokens', '12', '--out', out])
    const summary = JSON.parse(stdout)
    expect(summary.attribution).toBeNull()
    expect(summary.missing.attribution).toMatch(/level 0/)
    const tpot = summary.metrics.find(({ name }: { name: string }) => name === 'tpot')
    expect(tpot.value).toBeGreaterThan(4e6)
  })

  it('at level 3 comes with a CPU profile of each worker, and says that its times are not to be quoted', async () => {
    const out = join(folder, 'level-3')
    const { stdout } = await seamline([...paced, '--level', '3', '--tokens', '12', '--out', out])
    const { limits, level } = JSON.parse(stdout)
    expect(level).toBe(3)
    expect(limits.join(' ')).toMatch(/no time of this run is to be quoted/)
    for (const name of ['worker-0', 'worker-1']) {
      const { nodes, samples } = JSON.parse(readFileSync(join(out, `${name}.cpuprofile`), 'utf8'))
      expect(nodes.length).toBeGreaterThan(10)
      expect(samples.length).toBeGreaterThan(10)
    }
  })

  it.skipIf(!hasStories)('of a text names tokenizing it and making text of tokens again', async () => {
    const out = join(folder, 'text')
    const args = [
      'profile',
      '--model',
      STORIES,
      '--local',
      '2',
      '--prompt',
      'Once upon a time',
      '--tokens',
      '12',
    ]
    const { code, stdout, stderr } = await seamline([...args, '--json', '--out', out])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const { attribution, bytes } = JSON.parse(stdout)
    const categories = attribution.first.rows.map(({ category }: { category: string }) => category)
    expect(categories).toContain('tokenize')
    expect(categories).toContain('open')
    const coordinator = (await readTrace(out)).processes[0]!.spans
    const names = Array.from({ length: coordinator.length / 6 }, (_, i) => coordinator[6 * i])
    expect(names.filter((name) => name === SpanName.detokenize)).toHaveLength(12)
    // 64 values of 4 B; a header of IP and TCP at the least is more on the wire than in the frame, where the kernel tells.
    const [{ logicalBytes, framedBytes, wireBytes }] = bytes
    expect(logicalBytes).toBe(256)
    if (wireBytes !== null) expect(wireBytes).toBeGreaterThanOrEqual(framedBytes + 40)
  })

  it('refuses what cannot be analysed, and options that mean nothing beside --read', async () => {
    const long = await seamline(['profile', '--paced', '1,1', '--k', '64', '--tokens', '500'])
    expect(long).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/64 sequences of 500 tokens are more than 4096/),
    })
    for (const option of [
      '--out x',
      '--model x',
      '--follow',
      '--local 2',
      '--k 2',
      '--ctx 64',
      '--codec f16',
    ]) {
      const both = await seamline(['profile', '--read', folder, ...option.split(' ')])
      const stderr = expect.stringMatching(`--read.*cannot be used with.*${option.split(' ')[0]}`)
      expect(both).toMatchObject({ code: 2, stderr })
    }
  })

  it('says what is absent from a record without tokens, and writes no half of a file where it may not', async () => {
    const out = join(folder, 'no-tokens')
    await seamline([...paced, '--tokens', '4', '--warmup', '0', '--out', out])
    const file = join(out, 'trace.json')
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), sequences: [] }))
    const { code, stdout, stderr } = await seamline(['profile', '--read', out])
    expect(code).toBe(0)
    expect(stdout).toMatch(/no token after a first one/)
    expect(stdout + stderr).not.toMatch(/null|undefined|NaN|Infinity/)

    rmSync(join(out, 'report.html'))
    mkdirSync(join(out, 'report.html', 'in the way'), { recursive: true })
    const refused = await seamline(['profile', '--read', out])
    expect(refused).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/no-tokens\/report\.html, \d+ B, cannot be written/),
    })
    expect(readdirSync(out).filter((name) => name.endsWith('.partial'))).toEqual([])
    const inFile = await seamline(['profile', '--paced', '1,1', '--tokens', '4', '--out', join(file, 'x')])
    expect(inFile).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/trace\.json\/x cannot be written: ENOTDIR/),
    })
  })

  it('with more spans than other viewers take leaves their files out and says so', async () => {
    const out = join(folder, 'few')
    await seamline([...paced, '--tokens', '4', '--warmup', '0', '--out', out])
    const { losses: _, ...trace } = await readTrace(out)
    const [coordinator, ...stages] = trace.processes as [ProcessTrace, ...ProcessTrace[]]
    const spans = new Float64Array(SPAN_RECORD_LENGTH * 100_001)
    spans.set(coordinator.spans)
    const atNs = coordinator.spans[1]!
    for (let at = coordinator.spans.length; at < spans.length; at += SPAN_RECORD_LENGTH)
      spans.set([SpanName.memory, atNs, atNs, 0, 1, 0], at)
    const many = join(folder, 'many-spans')
    await writeTrace(many, { ...trace, processes: [{ ...coordinator, spans }, ...stages] })
    const { code, stdout } = await seamline(['profile', '--read', many, '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout).missing.traces).toMatch(/\d{6} spans, more than 100000/)
    expect(readdirSync(many).filter((name) => /perfetto|speedscope|otlp/.test(name))).toEqual([])
    expect(existsSync(join(many, 'report.html'))).toBe(true)
  })

  it('of a record whose clocks do not fit together is that of a damaged file', async () => {
    const out = join(folder, 'clocks')
    await seamline([...paced, '--tokens', '4', '--warmup', '0', '--out', out])
    const { losses: _, ...trace } = await readTrace(out)
    const processes = trace.processes.map((process, i) => {
      const spans = process.spans.slice()
      for (let at = 0; i === 0 && at < spans.length; at += SPAN_RECORD_LENGTH)
        if (spans[at] === SpanName.probe) spans[at + 4] = 0
      return { ...process, spans }
    })
    const bad = join(folder, 'bad-clocks')
    await writeTrace(bad, { ...trace, processes })
    const { code, stderr } = await seamline(['profile', '--read', bad])
    expect({ code, stderr }).toMatchObject({ code: 4, stderr: expect.stringContaining('cannot be analysed') })
  })

  it.each(['SIGINT', 'SIGTERM', 'a worker that is killed'])(
    'that ends early by %s leaves a record',
    async (how) => {
      const out = join(folder, how)
      const run = start(['profile', '--paced', '20,20,20', '--tokens', '400', '--warmup', '0', '--out', out])
      const deadline = Date.now() + 20_000
      while (!existsSync(join(out, 'trace.json'))) {
        if (Date.now() > deadline) throw new Error('nothing was written')
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      await new Promise((resolve) => setTimeout(resolve, 1000))
      if (how === 'SIGINT' || how === 'SIGTERM') run.kill(how)
      else process.kill(childrenOf(run.pid)[0]!, 'SIGKILL')
      const { code, stderr } = await run.finished
      expect(code).toBe(how.startsWith('SIG') ? 130 : 3)
      expect(stderr).toContain(`partial record in ${out}: seamline profile --read ${out}`)
      expect((await readTrace(out)).complete).toBe(false)
      const read = await seamline(['profile', '--read', out, '--json'])
      const summary: Summary = JSON.parse(read.stdout)
      expect({ code: read.code, kind: summary.verdict.kind }).toEqual({ code: 0, kind: 'PARTIAL' })
    },
  )

  it('that is killed in the middle leaves a record that can be read and says that it is partial', async () => {
    const out = join(folder, 'killed')
    const run = start(['profile', '--paced', '2,3', '--tokens', '2000', '--follow', '--out', out])
    const deadline = Date.now() + 20_000
    while (!(existsSync(join(out, 'trace.json')) && (await tokensIn(out)) > 50)) {
      if (Date.now() > deadline) throw new Error('nothing was written')
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    const children = childrenOf(run.pid)
    run.kill('SIGKILL')
    await run.finished
    await gone(children, 5000)
    const { code, stdout, stderr } = await seamline(['profile', '--read', out, '--json'])
    const summary: Summary = JSON.parse(stdout)
    expect({ code, complete: summary.complete }).toEqual({ code: 0, complete: false })
    expect(summary.verdict.kind).toBe('PARTIAL')
    expect(summary.marks.join(' ')).toMatch(/cut|partial/i)
    expect(summary.attribution.decode.tokens).toBeGreaterThan(40)
    expect(stderr).not.toBe('')
  })
})

async function tokensIn(dir: string): Promise<number> {
  try {
    return (await readTrace(dir)).sequences[0]?.tokens.length ?? 0
  } catch {
    return 0
  }
}
