import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, expect, it } from 'vitest'
import { codecSuite, executorSuite, framingSuite, transportSuite } from '../src/index.ts'
import { collect } from './collect.ts'
import { jsonFraming } from './json-framing.ts'
import { plain } from './plain-codecs.ts'
import { plainStage } from './plain-executor.ts'
import { plainTransport } from './plain-transport.ts'

const folder = dirname(fileURLToPath(import.meta.url))
const compiled = join(folder, 'node-runner/dist/node-runner/suites.js')
const run = promisify(execFile)

interface Outcome {
  readonly code: number
  readonly stdout: string
}

/** `node --test` over the compiled suites, in a process of its own. */
function nodeTest(isBroken: boolean): Promise<Outcome> {
  const env = { PATH: process.env.PATH, SEAMLINE_TEST_BROKEN: isBroken ? '1' : '0' }
  const options = { env, timeout: 60_000, maxBuffer: 1 << 24 }
  return run(process.execPath, ['--test', '--test-reporter=tap', compiled], options).then(
    ({ stdout }) => ({ code: 0, stdout }),
    (error: Outcome) => error,
  )
}

/** Cases that the suites of `node-runner/suites.ts` define. */
function caseCount(): number {
  return [
    collect((runner) => codecSuite({ ...runner, codec: plain() })),
    collect((runner) => framingSuite({ ...runner, framing: jsonFraming() })),
    collect((runner) =>
      executorSuite({ ...runner, create: async () => [plainStage({ layerFirst: 0, layerEnd: 4 })] }),
    ),
    collect((runner) =>
      transportSuite({ ...runner, create: () => ({ transport: plainTransport(), address: 'stage:0' }) }),
    ),
  ].reduce((sum, cases) => sum + cases.size, 0)
}

beforeAll(async () => {
  const tsc = join(folder, '../node_modules/.bin/tsc')
  await run(tsc, ['-p', join(folder, 'node-runner')], { timeout: 60_000 })
}, 60_000)

it('passes under node:test, every case of it', async () => {
  const { code, stdout } = await nodeTest(false)
  expect(stdout).toMatch(new RegExp(`^# pass ${caseCount()}$`, 'm'))
  expect(stdout).toMatch(/^# fail 0$/m)
  expect(code).toBe(0)
}, 60_000)

it('fails under node:test with a broken codec', async () => {
  const { code, stdout } = await nodeTest(true)
  expect(stdout).toMatch(/not ok \d+ - writes nothing behind what it returns and leaves its source alone$/m)
  expect(code).toBe(1)
}, 60_000)
