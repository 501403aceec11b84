import { X509Certificate } from 'node:crypto'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { visibleAddress } from '../src/advertise.ts'
import { loadSecurity } from '../src/identity.ts'
import { decodeJoin, encodeJoin, parseAddress } from '../src/join.ts'

const PIN = `${'kQ3_'.repeat(10)}abc`

describe('a join string', () => {
  const join = {
    secret: 'c2VjcmV0-_c2VjcmV0',
    addresses: [
      { transport: 'tcp', address: `[::1]:7100#${PIN}` },
      { transport: 'relay', address: `relay.example:7200~${PIN}/room-1#${PIN}` },
    ],
  }

  it('has the form that its description gives', () => {
    expect(encodeJoin(join)).toBe(
      `seamline:c2VjcmV0-_c2VjcmV0@tcp=[::1]:7100#${PIN},relay=relay.example:7200~${PIN}/room-1#${PIN}`,
    )
    expect(encodeJoin({ ...join, access: 'operator' })).toMatch(/^seamline:c2VjcmV0-_c2VjcmV0\+operator@tcp=/)
  })

  it('comes back as it was', () => {
    for (const each of [join, { ...join, access: 'operator' }])
      expect(decodeJoin(encodeJoin(each))).toEqual(each)
  })

  it('needs no quoting in a shell', () => {
    expect(encodeJoin(join)).not.toMatch(/[\s'"$`\\|&;()<>*?!{}]/)
  })

  it.each(['', 'seamline:', 'seamline:secret', 'seamline:secret@', 'http://x', `seamline:se cret@tcp=h:1`])(
    'is refused as %j, without repeating a secret',
    (text) => {
      const refusal = expect.objectContaining({
        code: 'USAGE',
        message: expect.not.stringContaining('se cret'),
      })
      expect(() => decodeJoin(text)).toThrow(refusal)
    },
  )

  it('is one at a time: several in one are refused without repeating a secret', () => {
    const two = `${encodeJoin(join)},${encodeJoin(join)}`
    const message = expect.stringMatching(/--join again/)
    expect(() => decodeJoin(two)).toThrow(expect.objectContaining({ code: 'USAGE', message }))
    expect(() => decodeJoin(two)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining(join.secret) }),
    )
  })

  it('holds no secret that would need quoting', () => {
    expect(() => encodeJoin({ ...join, secret: 'a b' })).toThrow(expect.objectContaining({ code: 'USAGE' }))
  })
})

describe('an address', () => {
  it('names its transport or takes the default', () => {
    expect(parseAddress('ws=127.0.0.1:1')).toEqual({ transport: 'ws', address: '127.0.0.1:1' })
    expect(parseAddress('127.0.0.1:1', 'tcp')).toEqual({ transport: 'tcp', address: '127.0.0.1:1' })
    expect(() => parseAddress('127.0.0.1:1')).toThrow(expect.objectContaining({ code: 'USAGE' }))
    expect(() => parseAddress('a=b=c', 'tcp')).toThrow(expect.objectContaining({ code: 'USAGE' }))
  })
})

describe('an address for others', () => {
  it('names a host where the listener takes every interface, and stays otherwise', () => {
    expect(visibleAddress('0.0.0.0:7100#pin', 'host.example')).toBe('host.example:7100#pin')
    expect(visibleAddress('[::]:7100~pin/room#pin', 'fd00::1')).toBe('[fd00::1]:7100~pin/room#pin')
    for (const address of ['127.0.0.1:7100', '10.0.0.0:1', 'relay.example:7200/room', 'worker-0'])
      expect(visibleAddress(address, 'host.example')).toBe(address)
    expect(visibleAddress('0.0.0.0:7100', undefined)).toMatch(/^\d+\.\d+\.\d+\.\d+:7100$/)
  })
})

describe('the identity of a machine', () => {
  let dir = ''
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'seamline-test-'))
  })
  afterEach(() => rm(dir, { recursive: true, force: true }))

  it('is made once, also by several processes at once, and is readable by its owner only', async () => {
    const folder = join(dir, 'deep', 'folder')
    const all = await Promise.all([1, 2, 3, 4].map(() => loadSecurity(folder)))
    for (const each of all) expect(each).toEqual(all[0])
    expect(await loadSecurity(folder)).toEqual(all[0])
    expect((await readdir(folder)).sort()).toEqual(['identity.pem', 'secret'])
    for (const file of ['identity.pem', 'secret'])
      expect((await stat(join(folder, file))).mode & 0o777).toBe(0o600)
    expect((await stat(folder)).mode & 0o777).toBe(0o700)
    const { certificate, fingerprint } = all[0]!.identity
    const hex = new X509Certificate(certificate).fingerprint256.replaceAll(':', '')
    expect(Buffer.from(fingerprint, 'base64url').toString('hex').toUpperCase()).toBe(hex)
  })

  it('takes the secret of others without keeping it', async () => {
    expect((await loadSecurity(dir, 'a secret of others')).secret).toBe('a secret of others')
    expect(await readdir(dir)).toEqual(['identity.pem'])
  })

  it('is an error of a file when it cannot be read', async () => {
    await writeFile(join(dir, 'identity.pem'), 'rubbish')
    const refused = { code: 'FILE', message: expect.stringContaining(dir) }
    await expect(loadSecurity(dir)).rejects.toMatchObject(refused)
    await expect(loadSecurity(join(dir, 'identity.pem'))).rejects.toMatchObject({ code: 'FILE' })
  })
})
