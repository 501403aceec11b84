import { describe, expect, it } from 'vitest'
import { announceTo } from '../src/index.ts'
import { createProgram } from '../src/program.ts'
import { BIN, start, tracker } from './support/process.ts'
import { announcementOf } from './support/workers.ts'

const COMMANDS = createProgram(new AbortController().signal).commands.map((command) => command.name())

const tcpWorker = (name: string, layers: [number, number]) => ({
  announcement: announcementOf(name, layers, {
    ...{ transports: ['tcp'], addresses: [{ transport: 'tcp', address: `127.0.0.1:${7000 + layers[0]}` }] },
  }),
})

describe('the command line', () => {
  it('announces a worker by its ready line until that ends', async () => {
    const serve = start([BIN, 'serve', '--listen', '127.0.0.1:0', '--json'])
    const { url } = JSON.parse(await serve.ready) as { url: string }
    const { announcement } = tcpWorker('piped', [0, 6])
    const announce = start([BIN, 'announce', '--tracker', url])
    announce.write(`${JSON.stringify({ name: 'piped', announcement })}\n`)
    expect(JSON.parse(await announce.ready)).toMatchObject({ name: 'piped' })
    const listed = await tracker('workers', '--tracker', url, '--json')
    expect(JSON.parse(listed.stdout).workers).toMatchObject([{ announcement: { name: 'piped' } }])
    announce.end()
    expect((await announce.finished).code).toBe(0)
    expect(JSON.parse((await tracker('workers', '--tracker', url, '--json')).stdout).workers).toEqual([])

    const nothing = start([BIN, 'announce', '--tracker', url])
    nothing.write('hello\n')
    nothing.ready.catch(() => {})
    expect(await nothing.finished).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/no ready line.*"hello"/),
    })
    serve.kill('SIGTERM')
    await serve.finished
  })

  it('serves, lists, plans, and ends in good order', async () => {
    const serve = start([BIN, 'serve', '--listen', '127.0.0.1:0', '--json'])
    const { url } = JSON.parse(await serve.ready) as { url: string }
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(await tracker('workers', '--tracker', url)).toEqual({
      ...{ code: 0, stderr: '' },
      stdout: 'no worker has announced itself: pipe `seamline worker …` into `tracker announce`\n',
    })
    expect(await tracker('plan', '--tracker', url)).toMatchObject({
      ...{ code: 3, stdout: '', stderr: expect.stringMatching(/tracker announce.*\[WORKER\]/) },
    })
    await announceTo(url, tcpWorker('a', [0, 3]))
    expect(await tracker('plan', '--tracker', url, '--json')).toMatchObject({
      ...{ code: 4, stdout: expect.stringMatching(/"UNSUPPORTED"[\s\S]*layers 3-6/), stderr: '' },
    })
    await announceTo(url, tcpWorker('b', [3, 6]))
    const listed = await tracker('workers', '--tracker', url, '--json')
    expect(JSON.parse(listed.stdout).workers).toMatchObject([
      { announcement: { name: 'a' } },
      { announcement: { name: 'b' } },
    ])
    const plan = await tracker('plan', '--tracker', url, '--json')
    expect(JSON.parse(plan.stdout)).toMatchObject({
      stages: [{ name: 'a' }, { name: 'b' }],
      links: [{ from: 'a', to: 'b', codec: 'f32', framing: 'protobuf' }, { carries: 'tokens' }],
    })
    expect((await tracker('plan', '--tracker', url)).stdout).toMatch(
      /^a +0-3 +protobuf +tcp=127\.0\.0\.1:7000$[\s\S]*^a > b +hidden rows +f32 +protobuf +tcp=127\.0\.0\.1:7000$/m,
    )
    expect(await tracker('plan', '--tracker', url, '--codec', 'f16')).toMatchObject({
      ...{ code: 3, stderr: expect.stringMatching(/no codec in common.*allowed are f16/) },
    })
    expect(await tracker('plan', '--tracker', url, '--without', 'b')).toMatchObject({ code: 4 })
    expect(await tracker('plan', '--tracker', url, '--model', 'beef')).toMatchObject({ code: 3 })
    serve.kill('SIGINT')
    expect(await serve.finished).toMatchObject({ code: 0, stderr: '' })
    expect(await tracker('workers', '--tracker', url)).toMatchObject({ code: 3, stdout: '' })
  })

  it.each(['SIGTERM', 'SIGHUP'] as const)('ends in good order on %s too', async (signal) => {
    const serve = start([BIN, 'serve'])
    await serve.ready
    serve.kill(signal)
    expect(await serve.finished).toMatchObject({ code: 0, stderr: '' })
  })

  it.each([
    [['serve', '--listen', '0.0.0.0:0'], /neither secret nor TLS/],
    [['serve', '--expiry', '0'], /above 0/],
    [['plan'], /--tracker/],
    [['workers', '--tracker', 'nonsense'], /no URL of a tracker/],
    [['dance'], /unknown command/],
    [['serve', 'too', 'much'], /too many arguments/],
  ])('%j ends with status 2 and says what would be right', async (args, message) => {
    expect(await tracker(...args)).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(message),
    })
  })

  it('reports errors as JSON where it was asked to', async () => {
    const { code, stdout, stderr } = await tracker('workers', '--tracker', 'http://127.0.0.1:1', '--json')
    expect({ code, stderr, error: JSON.parse(stdout).error.code }).toEqual({
      code: 3,
      stderr: '',
      error: 'RESET',
    })
  })

  it('without a command prints its help as an error', async () => {
    const { code, stdout, stderr } = await tracker()
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    for (const name of COMMANDS) expect(stderr).toContain(name)
  })

  it.each(COMMANDS)('has a help of %s that names --json and the exit codes', (name) => {
    let text = ''
    const command = createProgram(new AbortController().signal).commands.find((one) => one.name() === name)!
    command.configureOutput({ writeOut: (part) => (text += part) }).outputHelp()
    expect(text).toContain('--json')
    for (const code of [0, 2, 3, 4, 70, 130]) expect(text).toMatch(new RegExp(`^ {2}${code} `, 'm'))
  })
})
