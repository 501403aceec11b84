import { execFileSync } from 'node:child_process'
import { createHash, createPrivateKey, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectPlain, createServer, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { createIdentity, createSecret, type Security, secureClient, secureServer } from '../src/security.ts'

const identity = createIdentity()
const security: Security = { identity, secret: 'a secret of 24 bytes, ok' }

/** Two connected sockets of one TCP connection. */
async function socketPair(): Promise<[Socket, Socket]> {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const near = connectPlain({
    port: (server.address() as { port: number }).port,
    host: '127.0.0.1',
    allowHalfOpen: true,
  })
  const [[far]] = (await Promise.all([once(server, 'connection'), once(near, 'connect')])) as [
    [Socket],
    unknown,
  ]
  server.close()
  return [near, far]
}

/** Two Duplexes that are no sockets; what one writes the other reads. */
function duplexPair(): [Duplex, Duplex] {
  const make = (peer: () => Duplex): Duplex => {
    let resume: (() => void) | undefined
    const self = new Duplex({
      read() {
        resume?.()
        resume = undefined
      },
      write(chunk, _encoding, done) {
        if (peer().push(chunk)) done()
        else wake(peer(), done)
      },
      final(done) {
        peer().push(null)
        done()
      },
      destroy(error, done) {
        if (!peer().destroyed) peer().push(null)
        done(error)
      },
    })
    const wake = (_stream: Duplex, done: () => void) => void setImmediate(done)
    return self
  }
  const near: Duplex = make(() => far)
  const far: Duplex = make(() => near)
  return [near, far]
}

/** Settles both sides and tells the codes or the sockets. */
async function handshake(
  [near, far]: [Duplex, Duplex],
  client: { pin?: string; secret?: string } = {},
  timeoutMs = 2000,
): Promise<[TLSSocket | Error, TLSSocket | Error]> {
  const failed = (error: Error) => error
  return Promise.all([
    secureClient(
      near,
      client.pin ?? identity.fingerprint,
      { secret: client.secret ?? security.secret },
      { timeoutMs },
    ).catch(failed),
    secureServer(far, security, { timeoutMs }).catch(failed),
  ])
}

describe('an identity', () => {
  it('is an X.509 certificate as node:crypto understands it', () => {
    const certificate = new X509Certificate(identity.certificate)
    expect(certificate.verify(certificate.publicKey)).toBe(true)
    expect(certificate.checkPrivateKey(createPrivateKey(identity.key))).toBe(true)
    expect(certificate.checkIssued(certificate)).toBe(true)
    expect(certificate.subject).toBe('CN=seamline')
    expect(certificate.subjectAltName).toBe('DNS:seamline')
    expect(new Date(certificate.validTo).getUTCFullYear()).toBe(9999)
    expect(createHash('sha256').update(certificate.raw).digest('base64url')).toBe(identity.fingerprint)
    expect(identity.fingerprint).toMatch(/^[\w-]{43}$/)
    expect(certificate.fingerprint256.replaceAll(':', '').toLowerCase()).toBe(
      Buffer.from(identity.fingerprint, 'base64url').toString('hex'),
    )
  })

  it('is an X.509 certificate as openssl understands it', ({ skip }) => {
    const openssl = (...args: string[]) =>
      execFileSync('openssl', args, { input: identity.certificate, encoding: 'utf8', stdio: 'pipe' })
    try {
      openssl('version')
    } catch {
      skip('openssl is not installed')
    }
    const text = openssl('x509', '-noout', '-text', '-fingerprint', '-sha256')
    expect(text).toContain('Version: 3 (0x2)')
    expect(text).toContain('Signature Algorithm: ecdsa-with-SHA256')
    expect(text).toContain('NIST CURVE: P-256')
    expect(text).toContain('DNS:seamline')
    expect(openssl('x509', '-noout', '-checkend', '999999999')).toContain('will not expire')
    // Encodes what it parsed: equal bytes mean canonical DER.
    expect(openssl('x509', '-outform', 'PEM')).toBe(identity.certificate)
  })

  it('is another one each time', () => {
    expect(createIdentity().fingerprint).not.toBe(identity.fingerprint)
    expect(createSecret()).not.toBe(createSecret())
    expect(Buffer.from(createSecret(), 'base64url').length).toBe(32)
  })
})

for (const [kind, pair] of [
  ['sockets', socketPair],
  ['other duplexes', async () => duplexPair()],
] as const) {
  describe(`TLS on ${kind}`, () => {
    it('resolves once both ends proved the secret, and carries bytes both ways', async () => {
      const [near, far] = (await handshake(await pair())) as [TLSSocket, TLSSocket]
      expect([near.getProtocol(), far.getProtocol()]).toEqual(['TLSv1.3', 'TLSv1.3'])
      near.write('to the server')
      far.write('to the client')
      expect(String((await once(far, 'data'))[0])).toBe('to the server')
      expect(String((await once(near, 'data'))[0])).toBe('to the client')
      near.destroy()
      far.destroy()
    })

    it('another secret: MISMATCH on both sides, and the secret in neither error', async () => {
      const secret = 'another secret of 30 bytes, ok'
      const errors = await handshake(await pair(), { secret })
      for (const error of errors) {
        expect(error).toMatchObject({
          code: 'MISMATCH',
          message: expect.stringContaining('another secret than'),
        })
        expect(JSON.stringify([error, (error as Error).stack])).not.toContain(secret)
        expect(JSON.stringify([error, (error as Error).stack])).not.toContain(security.secret)
      }
    })

    it('another certificate of the same name: MISMATCH with both fingerprints, and no byte is sent to it', async () => {
      const pin = createIdentity().fingerprint
      const [client, server] = await handshake(await pair(), { pin })
      expect(client).toMatchObject({
        code: 'MISMATCH',
        message: expect.stringContaining(`${identity.fingerprint}, expected ${pin}`),
      })
      expect(server).toMatchObject({ code: 'RESET' })
    })

    it('a peer that says nothing: TIMEOUT on either side, and the stream is destroyed', async () => {
      const [near, far] = await pair()
      await expect(secureServer(far, security, { timeoutMs: 50 })).rejects.toMatchObject({ code: 'TIMEOUT' })
      expect(far.destroyed).toBe(true)
      near.destroy()
      const [second, silent] = await pair()
      const dialled = secureClient(second, identity.fingerprint, security, { timeoutMs: 50 })
      await expect(dialled).rejects.toMatchObject({ code: 'TIMEOUT' })
      expect(second.destroyed).toBe(true)
      silent.destroy()
    })

    it('an aborted signal: ABORTED, and the stream is destroyed', async () => {
      const [near, far] = await pair()
      const controller = new AbortController()
      const serving = secureServer(far, security, { signal: controller.signal })
      const dialling = secureClient(near, identity.fingerprint, security, { signal: controller.signal })
      controller.abort()
      await expect(serving).rejects.toMatchObject({ code: 'ABORTED' })
      await expect(dialling).rejects.toMatchObject({ code: 'ABORTED' })
      expect([near.destroyed, far.destroyed]).toEqual([true, true])
    })

    it('garbage: PROTOCOL on either side', async () => {
      const [near, far] = await pair()
      near.on('error', () => {}).resume()
      near.write('GET / HTTP/1.1\r\nHost: seamline\r\n\r\n')
      await expect(secureServer(far, security)).rejects.toMatchObject({ code: 'PROTOCOL' })
      const [second, peer] = await pair()
      peer.on('error', () => {}).resume()
      peer.write(Buffer.alloc(1000, 0xab))
      await expect(secureClient(second, identity.fingerprint, security)).rejects.toMatchObject({
        code: 'PROTOCOL',
      })
      expect([far.destroyed, second.destroyed]).toEqual([true, true])
      near.destroy()
      peer.destroy()
    })

    it('a peer that leaves: RESET on either side', async () => {
      const [near, far] = await pair()
      near.on('error', () => {}).destroy()
      await expect(secureServer(far, security)).rejects.toMatchObject({ code: 'RESET' })
      const [second, peer] = await pair()
      peer.on('error', () => {}).destroy()
      await expect(secureClient(second, identity.fingerprint, security)).rejects.toMatchObject({
        code: 'RESET',
      })
    })

    it('a peer with TLS 1.2 only: MISMATCH', async () => {
      const [near, far] = await pair()
      const client = connectTls({ socket: near, maxVersion: 'TLSv1.2', rejectUnauthorized: false })
      client.on('error', () => {})
      await expect(secureServer(far, security)).rejects.toMatchObject({
        code: 'MISMATCH',
        message: expect.stringContaining('expected 1.3'),
      })
      client.destroy()
    })
  })
}

it('refuses a secret below 16 bytes, an identity of mixed parts, and a pin that is none', async () => {
  const [near, far] = await socketPair()
  const short = { identity, secret: 'fifteen bytes..' }
  expect(() => secureServer(far, short)).toThrow(expect.objectContaining({ code: 'USAGE' }))
  expect(() => secureClient(near, identity.fingerprint, short)).toThrow(/15 B, at least 16 B/)
  const other = createIdentity()
  const mixed = (part: object) => ({ secret: security.secret, identity: { ...identity, ...part } })
  expect(() => secureServer(far, mixed({ fingerprint: other.fingerprint }))).toThrow(
    `has ${identity.fingerprint}, expected ${other.fingerprint}: its parts are mixed up`,
  )
  expect(() => secureServer(far, mixed({ key: other.key }))).toThrow(/has another key, expected .*mixed up/)
  expect(() => secureServer(far, mixed({ key: 'no key' }))).toThrow(/make one with createIdentity/)
  expect(() => secureClient(near, 'abc', security)).toThrow(/3 characters.*43/)
  near.destroy()
  far.destroy()
})
