import { X509Certificate } from 'node:crypto'
import { link, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { SeamError } from '@seamline/core'
import { createIdentity, createSecret, fingerprintOf, type Security } from '@seamline/transports/security'

/** Where this machine keeps its key, certificate and secret: `SEAMLINE_IDENTITY_DIR`, else below the state folder of the user. */
export function identityDir(): string {
  const { SEAMLINE_IDENTITY_DIR, XDG_STATE_HOME } = process.env
  return SEAMLINE_IDENTITY_DIR || join(XDG_STATE_HOME || join(homedir(), '.local', 'state'), 'seamline')
}

/**
 * Reads key, certificate and secret from `dir`, all made on first use, readable by their owner only. `secret` replaces the one
 * that lies there, for a machine that joins others. Throws `FILE`.
 */
export async function loadSecurity(dir: string, secret?: string): Promise<Security> {
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 })
    const pem = await kept(join(dir, 'identity.pem'), () => {
      const { key, certificate } = createIdentity()
      return key + certificate
    })
    const certificate = pem.slice(pem.indexOf('-----BEGIN CERTIFICATE-----'))
    const key = pem.slice(0, pem.length - certificate.length)
    const fingerprint = fingerprintOf(new X509Certificate(certificate).raw)
    const shared = secret ?? (await kept(join(dir, 'secret'), () => `${createSecret()}\n`)).trim()
    return { identity: { key, certificate, fingerprint }, secret: shared }
  } catch (error) {
    throw new SeamError('FILE', `identity in ${dir}: ${(error as Error).message}`, { cause: error })
  }
}

/** The secret in a file, for example that of a relay's operator. Throws `FILE`. */
export async function secretFrom(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    throw SeamError.from(error, 'FILE')
  }
}

/** A folder with an identity of its own that nobody else knows, for the processes of one command. */
export async function withTemporaryIdentity<T>(use: (dir: string) => Promise<T>): Promise<T> {
  const dir = await mkdtemp(join(tmpdir(), 'seamline-')).catch((error) => {
    throw SeamError.from(error, 'FILE')
  })
  try {
    return await use(dir)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** The text of a file; where there is none yet, that of `make`, or of whoever was faster. */
export async function kept(path: string, make: () => string): Promise<string> {
  try {
    return await readOrMake(path, make)
  } catch (error) {
    throw SeamError.from(error, 'FILE')
  }
}

async function readOrMake(path: string, make: () => string): Promise<string> {
  const found = await readText(path)
  if (found !== undefined) return found
  const temporary = await mkdtemp(join(dirname(path), '.new-'))
  try {
    const file = join(temporary, 'file')
    await writeFile(file, make(), { mode: 0o600 })
    await link(file, path).catch((error) => {
      if (error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
  return readFile(path, 'utf8')
}

async function readText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** True for an address that begins with `HOST:PORT` and that only this machine reaches. */
export function isLoopback(address: string): boolean {
  return /^(127\.\d+\.\d+\.\d+|\[::1\]|localhost):\d+($|[/#])/.test(address)
}
