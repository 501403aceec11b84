import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'

const bin = fileURLToPath(new URL('../dist/bin.js', import.meta.url))
const root = fileURLToPath(new URL('../../..', import.meta.url))

function start(args: readonly string[]): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(process.execPath, [bin, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const ended = new Promise<Ended>((resolve) =>
    child.once('close', (code) => resolve({ code, stdout, stderr })),
  )
  return { child, ended }
}

interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

const bench = (...args: string[]) => start(args).ended
const lines = (text: string) => text.split('\n').filter((line) => line !== '')
const records = (text: string) => lines(text).map((line) => JSON.parse(line))

describe('bench', () => {
  it('--smoke runs every case that --list names, and none fails', async () => {
    const listed = lines((await bench('--list')).stdout)
    expect(new Set(listed).size).toBe(listed.length)
    for (const group of ['codec', 'framing', 'transport', 'relay', 'control'])
      expect(listed.some((id) => id.startsWith(`${group}/`))).toBe(true)
    const { code, stdout, stderr } = await bench('--smoke', '--json')
    const [environment, ...rest] = records(stdout)
    expect(rest.filter((record) => record.type !== 'checked')).toEqual([])
    expect(rest.map((record) => record.id).sort()).toEqual(listed.sort())
    expect({ code, dropped: environment.dropped }, stderr).toEqual({ code: 0, dropped: [] })
  })

  it('--json prints the environment, a record a case and a record a ratio, without paths of this machine', async () => {
    const { code, stdout, stderr } = await bench(
      '--filter',
      'codec/f16/encode/16KiB',
      '--time',
      '20',
      '--json',
    )
    const all = records(stdout)
    expect(all.map(({ type, id }) => [type, id])).toEqual([
      ['environment', undefined],
      ['case', 'control/memcpy/16KiB'],
      ['case', 'codec/f16/encode/16KiB'],
      ['ratio', undefined],
    ])
    expect(all[0]).toMatchObject({ node: process.versions.node, kernel: expect.any(String), timeMs: 20 })
    expect(all[2]).toMatchObject({ bytes: 16384, roundsNs: { length: 10 } })
    expect(all[2].bytesPerSecond).toBeCloseTo(16384 / (all[2].p50Ns / 1e9), 0)
    expect(all[3]).toMatchObject({ candidate: 'codec/f16/encode/16KiB', control: 'control/memcpy/16KiB' })
    expect(code).toBe(0)
    expect(stdout).not.toContain(root)
    expect(stderr).toContain('2 cases, about')
  })

  it('prints tables with a pass or a miss for each target', async () => {
    const { code, stdout } = await bench('--filter', 'framing/protobuf/encode+decode/16KiB', '--time', '20')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^framing\/protobuf\/encode\+decode\/16KiB +[\d.]+ us/m)
    expect(stdout).toMatch(/control\/protobufjs\/encode\+decode\/16KiB +time .*<= 0\.15 +(pass|miss)$/m)
  })

  it('refuses a filter that matches nothing with the groups, and other bad arguments', async () => {
    const none = await bench('--filter', 'tensor')
    expect(none).toMatchObject({ code: 2, stdout: '' })
    expect(none.stderr).toContain('groups codec, framing, transport, relay, pipeline, or with control')
    expect(await bench('--time', '1')).toMatchObject({ code: 2 })
    expect(await bench('--colour')).toMatchObject({ code: 2 })
    const json = await bench('--filter', 'tensor', '--json')
    expect(records(json.stdout)).toEqual([{ type: 'error', code: 'USAGE', message: expect.any(String) }])
  })

  it('--help names the options and the exit status', async () => {
    const { code, stdout } = await bench('--help')
    expect(code).toBe(0)
    for (const text of ['--filter', '--smoke', '--time', 'Exit status']) expect(stdout).toContain(text)
  })
})

describe('bench profile', () => {
  it('writes a CPU profile of one case and prints where its time goes', async () => {
    const file = join(await mkdtemp(join(tmpdir(), 'bench-profile-')), 'it.cpuprofile')
    onTestFinished(() => rm(dirname(file), { recursive: true }))
    const id = 'codec/f16/encode/256KiB'
    const { code, stdout } = await bench('profile', id, '--time', '300', '--out', file, '--json')
    const [record] = records(stdout)
    expect({ code, ...record }).toMatchObject({ code: 0, type: 'profile', id, file })
    // f16 is encoded in WebAssembly.
    expect(record.functions.some(({ url }: { url: string }) => url.startsWith('wasm:'))).toBe(true)
    expect(JSON.stringify(record.functions)).not.toContain(root)
    const profile = JSON.parse(await readFile(file, 'utf8'))
    expect(profile.samples.length).toBeGreaterThan(100)
    expect(profile.nodes[0].callFrame.functionName).toBe('(root)')
  })

  it('refuses an id that there is not, a part of one too', async () => {
    const { code, stderr } = await bench('profile', 'codec/f16')
    expect(code).toBe(2)
    expect(stderr).toContain('there is no case codec/f16')
  })
})

it('bench --version is that of the package', async () => {
  const { version } = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8'))
  expect(await bench('--version')).toMatchObject({ code: 0, stdout: `${version}\n` })
})

describe.skipIf(process.platform !== 'linux')('the processes of a run', () => {
  const childrenOf = (pid: number) =>
    readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)

  function isAlive(pid: number): boolean {
    try {
      process.kill(pid, 0)
      return true
    } catch {
      return false
    }
  }

  async function until(what: string, holds: () => boolean): Promise<void> {
    for (const deadline = Date.now() + 20_000; !holds(); ) {
      if (Date.now() > deadline) throw new Error(`not within 20 s: ${what}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  // The relay, its far ends, and the neighbour.
  const args = ['--filter', 'relay/raw/(alone|beside-flood)', '--time', '60000']

  it.each(['SIGINT', 'SIGTERM'] as const)('are gone after %s, and the status is 130', async (signal) => {
    const { child, ended } = start(args)
    await until('four processes', () => childrenOf(child.pid!).length === 4)
    const pids = childrenOf(child.pid!)
    child.kill(signal)
    expect(await ended).toMatchObject({ code: 130 })
    await until('no process', () => !pids.some(isAlive))
  })

  it('end in the midst of synchronous cases, which leave no turn of the loop by themselves', async () => {
    const { child, ended } = start(['--filter', '^codec/f16/', '--time', '500'])
    await new Promise((resolve) => child.stderr!.once('data', resolve)) // the estimate: cases begin
    child.kill('SIGINT')
    expect(await ended).toMatchObject({ code: 130 })
  })

  it('end by themselves when the one that started them is killed', async () => {
    const { child, ended } = start(args)
    await until('four processes', () => childrenOf(child.pid!).length === 4)
    const pids = childrenOf(child.pid!)
    child.kill('SIGKILL')
    await ended
    await until('no process', () => !pids.some(isAlive))
  })
})
