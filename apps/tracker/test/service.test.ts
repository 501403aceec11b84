import { connect } from 'node:net'
import { tcp } from '@seamline/transports/tcp'
import { afterEach, describe, expect, it } from 'vitest'
import {
  announceTo,
  config,
  createTracker,
  type ServeOptions,
  serveTracker,
  type TrackerOptions,
  trackerClient,
} from '../src/index.ts'
import {
  announcementOf,
  GREEDY,
  mapOf,
  PROMPT,
  read,
  stagesTo,
  unsplit,
  withFakes,
} from './support/workers.ts'

const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

async function served(options: Partial<TrackerOptions> = {}, serve: ServeOptions = {}) {
  const tracker = createTracker({ ...config, ...options })
  const server = await serveTracker(tracker, serve)
  closers.push(server.close)
  const ask = async (method: string, path: string, body?: string, headers: Record<string, string> = {}) => {
    const response = await fetch(new URL(path, server.url), {
      ...{ method, headers: { 'content-type': 'application/json', ...headers } },
      ...(body === undefined ? {} : { body }),
    })
    // biome-ignore lint/suspicious/noExplicitAny: whatever the server says
    return { status: response.status, body: (await response.json()) as any }
  }
  return { tracker, server, ask, client: trackerClient(server.url) }
}

/** Sends `text` as it is and gives what comes back until the end. */
function raw(url: string, text: string): Promise<string> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    let answer = ''
    const socket = connect(Number(port), hostname, () => socket.write(text))
    socket.setEncoding('latin1').on('data', (part: string) => {
      answer += part
    })
    socket.on('error', () => {}).on('close', () => resolve(answer))
  })
}

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 500 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 10))
  expect(condition()).toBe(true)
}

const tcpAnnouncement = announcementOf('w 1/ä', [0, 6], {
  ...{ transports: ['tcp'], addresses: [{ transport: 'tcp', address: '127.0.0.1:9' }] },
})

describe('the service', () => {
  it('takes, lists, plans and forgets', async () => {
    const { ask } = await served({ expiryMs: 5000 })
    expect(await ask('POST', '/workers', JSON.stringify(tcpAnnouncement))).toEqual({
      ...{ status: 200, body: { name: 'w 1/ä', expiresInMs: 5000, replaced: false } },
    })
    const listed = await ask('GET', '/workers')
    expect(listed.body.workers).toEqual([
      { announcement: tcpAnnouncement, expiresInMs: expect.any(Number) as number },
    ])
    const plan = await ask('POST', '/plan', '{}')
    expect(plan).toMatchObject({ status: 200, body: { stages: [{ name: 'w 1/ä', layerEnd: 6 }], links: [] } })
    const path = `/workers/${encodeURIComponent('w 1/ä')}`
    expect(await ask('DELETE', path)).toEqual({ status: 200, body: { withdrawn: 'w 1/ä' } })
    expect(await ask('DELETE', path)).toMatchObject({ status: 404, body: { error: { code: 'UNSUPPORTED' } } })
    expect((await ask('GET', '/workers')).body).toEqual({ workers: [] })
  })

  it('refuses what is wrong, with a typed error, and goes on', async () => {
    const { ask, tracker } = await served({}, { maxBodyBytes: 2000 })
    tracker.announce(tcpAnnouncement)
    const { codecs: _, ...lacking } = tcpAnnouncement
    const cases: [number, string, RegExp, Parameters<typeof ask>][] = [
      [400, 'PROTOCOL', /of w 1\/ä lacks the field codecs/, ['POST', '/workers', JSON.stringify(lacking)]],
      [400, 'PROTOCOL', /no JSON/, ['POST', '/workers', '{']],
      [400, 'PROTOCOL', /null where an object/, ['POST', '/workers', 'null']],
      [400, 'PROTOCOL', /lacks the field name/, ['POST', '/workers', '{"__proto__":{"name":"x"}}']],
      [413, 'LIMIT', /a body of 3002 B, at most 2000 B/, ['POST', '/workers', `"${'x'.repeat(3000)}"`]],
      [
        400,
        'USAGE',
        /content type is text\/plain/,
        ['POST', '/plan', '{}', { 'content-type': 'text/plain' }],
      ],
      [400, 'USAGE', /pages in a browser/, ['POST', '/plan', '{}', { origin: 'http://example.org' }]],
      [400, 'USAGE', /"codec"; known are/, ['POST', '/plan', '{"codec":"f32"}']],
      [409, 'MISMATCH', /the request has beef/, ['POST', '/plan', '{"facts":{"modelSha256":"beef"}}']],
      [404, 'USAGE', /known are POST \/workers/, ['GET', '/']],
      [404, 'USAGE', /known are/, ['GET', '/workers/a/b']],
      [405, 'USAGE', /known are/, ['PUT', '/workers']],
      [405, 'USAGE', /known are/, ['GET', '/workers/w']],
      [400, 'USAGE', /no encoded name/, ['DELETE', '/workers/%zz']],
      [413, 'LIMIT', /characters, at most 512/, ['GET', `/workers/${'x'.repeat(600)}`]],
    ]
    for (const [status, code, message, request] of cases) {
      const answer = await ask(...request)
      expect(answer.body.error.message).toMatch(message)
      expect([answer.status, answer.body.error.code]).toEqual([status, code])
    }
    expect(tracker.workers()).toHaveLength(1)
    tracker.withdraw('w 1/ä')
    tracker.announce({ ...tcpAnnouncement, facts: { ...tcpAnnouncement.facts, layerEnd: 3 } })
    const { status, body } = await ask('POST', '/plan', '{}')
    expect([status, body.error.code]).toEqual([404, 'UNSUPPORTED'])
    expect(body.error.message).toMatch(/layers 3-6 is a range served by nobody$/)
  })

  it('has no more room than it says', async () => {
    const { client } = await served({ maxWorkers: 1 })
    await client.announce(tcpAnnouncement)
    await expect(client.announce({ ...tcpAnnouncement, name: 'b' })).rejects.toMatchObject({
      ...{ code: 'BUSY', worker: 'b', message: expect.stringMatching(/at most 1/) },
    })
  })

  it('reads no more of a body than it takes, also of one that states no length', async () => {
    const { server } = await served({}, { maxBodyBytes: 100 })
    const head = 'POST /workers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
    const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n40\r\n${'x'.repeat(64)}\r\n40\r\n${'x'.repeat(64)}\r\n`
    expect(await raw(server.url, chunked)).toMatch(/^HTTP\/1.1 413 [\s\S]*"code":"LIMIT"/)
    expect(await raw(server.url, `${head}Content-Length: 1000000000\r\n\r\n`)).toMatch(/^HTTP\/1.1 413 /)
  })

  it('waits for a request only so long', async () => {
    const { server } = await served({}, { requestTimeoutMs: 100 })
    const half =
      'POST /workers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{'
    expect(await raw(server.url, half)).toMatch(/^HTTP\/1.1 408 /)
    expect(await raw(server.url, 'POST /wor')).toMatch(/^HTTP\/1.1 408 /)
  })

  it('is not for names that lead here from elsewhere', async () => {
    const { server } = await served()
    const text = 'GET /workers HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n'
    expect(await raw(server.url, text)).toMatch(/^HTTP\/1.1 400 [\s\S]*names no loopback address/)
  })

  it.each(['0.0.0.0:0', '[::]:0', '192.0.2.1:80', 'example.org:80', '127.0.0.1', ':80', '127.0.0.1:99999'])(
    'does not listen at %s',
    async (listen) => {
      await expect(served({}, { listen })).rejects.toMatchObject({ code: 'USAGE' })
    },
  )

  it('does not listen where somebody else does', async () => {
    const { server } = await served()
    await expect(served({}, { listen: new URL(server.url).host })).rejects.toMatchObject({
      ...{ code: 'USAGE', message: expect.stringMatching(/EADDRINUSE/) },
    })
  })
})

describe('a client', () => {
  it('is told when nobody answers, or somebody else', async () => {
    const { server } = await served()
    await server.close()
    await expect(trackerClient(server.url).workers()).rejects.toMatchObject({
      ...{ code: 'RESET', message: expect.stringMatching(`${server.url}: .*ECONNREFUSED`) },
    })
    expect(() => trackerClient('127.0.0.1:7300')).toThrowError(expect.objectContaining({ code: 'USAGE' }))
    const silent = await tcp().listen('127.0.0.1:0', () => ({
      ...{ nextBuffer: () => new Uint8Array(1024), onData() {}, onDrain() {}, onClose() {} },
    }))
    closers.push(() => silent.close())
    const client = trackerClient(`http://${silent.address}`, { timeoutMs: 100 })
    await expect(client.plan()).rejects.toMatchObject({ code: 'TIMEOUT' })
    const aborted = trackerClient(`http://${silent.address}`, { signal: AbortSignal.abort() })
    await expect(aborted.plan()).rejects.toMatchObject({ code: 'ABORTED' })
  })

  it('connects the chain that a tracker elsewhere has planned', async () => {
    const { server, client } = await served()
    const transport = tcp()
    await withFakes(
      stagesTo([2, 4, 6]),
      async ({ workers }) => {
        const announced = await Promise.all(workers.map((worker) => announceTo(server.url, worker)))
        const own = createTracker({ ...config, transports: mapOf(transport) })
        const pipeline = await own.connect(await client.plan(), { livenessMs: 1000 })
        const request = { prompt: PROMPT, maxTokens: 8, sampler: GREEDY, stopTokens: [] }
        expect(await read(pipeline.generate(request))).toEqual(await unsplit(PROMPT, 8))
        await pipeline.close()
        await Promise.all(announced.map((one) => one.close()))
        expect(await client.workers()).toEqual([])
      },
      transport,
    )
  })
})

describe('announceTo', () => {
  it('renews for longer than one announcement lasts, and withdraws at the end', async () => {
    const { tracker, server } = await served({ expiryMs: 150 })
    let announced = 0
    const counted = await serveTracker({
      ...tracker,
      announce(value) {
        announced++
        return tracker.announce(value)
      },
    })
    closers.push(counted.close)
    const worker = await announceTo(counted.url, { announcement: tcpAnnouncement })
    await until(() => announced >= 6) // at a third of 150 ms each
    expect(tracker.workers()).toHaveLength(1)
    await worker.close()
    await worker.close()
    expect(tracker.workers()).toHaveLength(0)
    const at = announced
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(announced).toBe(at)
    await server.close()
  })

  it('fails at once where it is refused or nobody answers', async () => {
    const { server } = await served()
    const lacking = { announcement: { ...tcpAnnouncement, addresses: [] } }
    await expect(announceTo(server.url, lacking)).rejects.toMatchObject({ code: 'PROTOCOL', worker: 'w 1/ä' })
    await expect(announceTo('http://127.0.0.1:1', lacking)).rejects.toMatchObject({ code: 'RESET' })
  })

  it('outlives the tracker, and tells the next one', async () => {
    const first = await served({ expiryMs: 100 })
    const troubles: (string | undefined)[] = []
    const worker = await announceTo(
      first.server.url,
      { announcement: tcpAnnouncement },
      { onTrouble: (reason) => troubles.push(reason?.code) },
    )
    closers.push(() => worker.close())
    await first.server.close()
    await until(() => troubles.length > 0)
    const second = await served({ expiryMs: 100 }, { listen: new URL(first.server.url).host })
    await until(() => second.tracker.workers().length === 1)
    await until(() => troubles.at(-1) === undefined)
    expect(troubles[0]).toBe('RESET')
    await worker.close()
    expect(second.tracker.workers()).toEqual([])
  })
})
