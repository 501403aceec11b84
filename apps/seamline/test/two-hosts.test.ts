import { execFileSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { splitModel, synthModel, synthPresets } from '@seamline/gguf'
import { alignClocks, attribute, readTrace } from '@seamline/profiler'
import { afterAll, describe, expect, it } from 'vitest'
import { BIN, type Running, scratchFolder, seamline, startCommand } from './support.ts'

const folder = scratchFolder()
/** Names of its own, so that two runs of the tests do not meet. */
const name = `seam${process.pid}`

/** Two hosts on one: this one and a network namespace, joined by a cable. Undefined where that is not allowed. */
function twoHosts(): string | undefined {
  const ip = (...args: string[]) => execFileSync('ip', args, { stdio: 'pipe', timeout: 5000 })
  try {
    ip('netns', 'add', name)
    ip('link', 'add', `${name}a`, 'type', 'veth', 'peer', 'name', `${name}b`, 'netns', name)
    ip('addr', 'add', '10.231.77.1/30', 'dev', `${name}a`)
    ip('link', 'set', `${name}a`, 'up')
    ip('-n', name, 'addr', 'add', '10.231.77.2/30', 'dev', `${name}b`)
    ip('-n', name, 'link', 'set', `${name}b`, 'up')
    ip('-n', name, 'link', 'set', 'lo', 'up')
    return undefined
  } catch (error) {
    return `no network namespace can be made here: ${(error as Error).message.split('\n')[0]}`
  }
}

const refusal = twoHosts()
if (refusal !== undefined) console.warn(`tests on two hosts are skipped: ${refusal}`)
afterAll(() => {
  if (refusal === undefined) execFileSync('ip', ['netns', 'del', name], { timeout: 5000 })
})

describe.skipIf(refusal !== undefined)('two hosts whose clocks disagree', () => {
  const running: Running[] = []
  afterAll(async () => {
    for (const process of running) process.kill('SIGTERM')
    await Promise.all(running.map(({ finished }) => finished))
  })

  async function worker(prefix: readonly string[], ...args: string[]): Promise<{ join: string }> {
    const identity = mkdtempSync(join(folder, 'identity-'))
    const [command, ...rest] = [...prefix, process.execPath, BIN, 'worker', ...args, '--identity', identity]
    const process_ = startCommand(command!, rest)
    running.push(process_)
    await process_.output(10)
    return JSON.parse(process_.stdout())
  }

  it('are aligned within the band that the probes give, offset and drift alike', async () => {
    const model = join(folder, 'model.gguf')
    await synthModel({ ...synthPresets.demo, path: model, seed: 5 })
    const split = join(folder, 'split')
    await splitModel({ source: model, outDir: split, stages: 2 })
    const manifest = join(split, 'manifest.json')
    const [offsetMs, driftPpm] = [123_456, 60]
    const first = await worker([], '--manifest', manifest, '--stage', '0', '--listen', '10.231.77.1:0')
    const there = ['ip', 'netns', 'exec', name]
    const stage = ['--manifest', manifest, '--stage', '1', '--listen', '10.231.77.2:0']
    const skew = ['--skew', `${offsetMs}ms,${driftPpm}ppm`]
    const second = await worker(there, ...stage, ...skew, '--join', first.join)

    const out = join(folder, 'profile')
    const joins = [first.join, second.join].flatMap((text) => ['--join', text])
    const args = ['profile', ...joins, '--manifest', manifest, '--prompt-tokens', '32', '--tokens', '200']
    const { code, stderr } = await seamline([...args, '--out', out])
    expect({ code, stderr }).toMatchObject({ code: 0 })

    const trace = await readTrace(out)
    const alignment = alignClocks(trace)
    expect(alignment.causalityViolations).toBe(0)
    // The last stage is the one that is off; what others showed is mapped to its clock.
    for (const [process, map] of alignment.maps.entries()) {
      if (trace.processes[process]!.stage === 1) continue
      expect(map.probes).toBeGreaterThan(30)
      for (const { atNs, lowNs, highNs } of map.band) {
        // The skew began when the worker started, some seconds before: it has drifted by less than this since.
        const driftedNs = (driftPpm / 1e6) * 120e9
        expect(lowNs).toBeLessThanOrEqual(offsetMs * 1e6 + driftedNs)
        expect(highNs).toBeGreaterThanOrEqual(offsetMs * 1e6)
        expect(highNs - lowNs).toBeLessThan(20e6)
        expect(atNs).toBeGreaterThan(0)
      }
      expect(Math.abs(map.offsetNs - offsetMs * 1e6)).toBeLessThan(20e6)
    }
    const { tokens, causalityViolations } = attribute(trace, alignment)
    expect(causalityViolations).toBe(0)
    expect(tokens).toHaveLength(200)
    for (const { segments, startNs, endNs } of tokens) {
      const sum = segments.reduce((total, segment) => total + segment.endNs - segment.startNs, 0)
      expect(sum).toBe(endNs - startNs)
    }
  })
})
