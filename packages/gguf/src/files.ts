import { createHash, randomBytes } from 'node:crypto'
import { type FileHandle, lstat, mkdir, open, readdir, rename, rm, stat, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ErrorCode, SeamError } from '@seamline/core'

/** Called with bytes done and bytes in all; often, so a caller that prints should thin it out. */
export type OnProgress = (doneBytes: number, totalBytes: number) => void

/** Free bytes of the file system that holds a folder; replaceable where `statfs` does not tell the truth. */
export type FreeBytes = (folder: string) => Promise<number>

export interface WrittenFile {
  readonly byteLength: number
  /** Lower-case hex. */
  readonly sha256: string
}

const CHUNK_BYTES = 1 << 20

// Tells this process's temporary files from those of a dead process that had the same id.
const processToken = randomBytes(4).toString('hex')
let temporaryFiles = 0

/**
 * Writes a file that appears under its name only when it is complete and on the disk: chunks go to
 * `<name>.<process>-<token>-<n>.partial` beside it, which is synced and renamed. A chunk is consumed before the next one is asked
 * for. On an error or abort the temporary file is removed; one left by a killed process is removed by the next call for
 * a file in the same folder. Creates the folder.
 */
export async function replaceFile(
  path: string,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<WrittenFile> {
  const folder = dirname(path)
  const temporary = `${path}.${process.pid}-${processToken}-${temporaryFiles++}.partial`
  try {
    await makeFolder(folder)
    await requireReplaceable(path)
    await removeStalePartials(folder)
    const handle = await open(temporary, 'w')
    try {
      const written = await writeChunks(handle, chunks, signal)
      await handle.sync()
      await handle.close()
      await rename(temporary, path)
      await syncFolder(folder)
      return written
    } catch (error) {
      await handle.close().catch(() => {})
      await rm(temporary, { force: true })
      throw error
    }
  } catch (error) {
    throw SeamError.from(error, ErrorCode.FILE)
  }
}

/** Creates `folder` and what is missing above it. Node's own recursive `mkdir` never returns where nothing can be made, as in /proc. */
export async function makeFolder(folder: string): Promise<void> {
  const unlessThere = async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST' || !(await stat(folder)).isDirectory()) throw error
  }
  try {
    await mkdir(folder).catch(unlessThere)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(folder) === folder) throw error
    await makeFolder(dirname(folder))
    await mkdir(folder).catch(unlessThere)
  }
}

/** A rename would put a file in the place of a device or a folder, and of what a link points to nothing would change. */
async function requireReplaceable(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined)
  if (found === undefined || found.isFile()) return
  throw new SeamError(ErrorCode.FILE, `${path} exists and is no regular file: choose another name`)
}

async function writeChunks(
  handle: FileHandle,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<WrittenFile> {
  const hash = createHash('sha256')
  let byteLength = 0
  for await (const chunk of chunks) {
    throwIfAborted(signal)
    hash.update(chunk)
    let written = chunk.buffer === zeroChunk.buffer ? chunk.byteLength : 0
    while (written < chunk.byteLength) {
      const left = chunk.byteLength - written
      written += (await handle.write(chunk, written, left, byteLength + written)).bytesWritten
    }
    byteLength += chunk.byteLength
  }
  await handle.truncate(byteLength)
  return { byteLength, sha256: hash.digest('hex') }
}

const zeroChunk = new Uint8Array(CHUNK_BYTES)

/** Zeros, in chunks that `replaceFile` leaves as holes where the file system knows them. */
export function* zeros(byteLength: number): Generator<Uint8Array> {
  for (let left = byteLength; left > 0; left -= CHUNK_BYTES) {
    yield zeroChunk.subarray(0, Math.min(left, CHUNK_BYTES))
  }
}

/** Removes the temporary files that killed processes left in a folder. */
export async function removeStalePartials(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const match = /\.(\d+)-([0-9a-f]{8})-\d+\.partial$/.exec(name)
    if (match === null || match[2] === processToken) continue
    const processId = Number(match[1])
    if (processId === process.pid || !isRunning(processId)) await rm(join(folder, name), { force: true })
  }
}

function isRunning(processId: number): boolean {
  try {
    process.kill(processId, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

async function syncFolder(folder: string): Promise<void> {
  // Windows cannot open a folder; the rename is as durable there as it gets.
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Yields a range of a file in chunks of at most 1 MiB; a chunk is valid until the next one is asked for. */
export async function* fileChunks(
  path: string,
  offset: number,
  byteLength: number,
): AsyncGenerator<Uint8Array> {
  const handle = await open(path, 'r')
  try {
    const buffer = Buffer.allocUnsafe(Math.min(byteLength, CHUNK_BYTES))
    for (let done = 0; done < byteLength; ) {
      const wanted = Math.min(buffer.length, byteLength - done)
      const { bytesRead } = await handle.read(buffer, 0, wanted, offset + done)
      if (bytesRead === 0) {
        throw new SeamError(
          ErrorCode.FILE,
          `${path} ends at ${offset + done} B, ${byteLength - done} B were to come`,
        )
      }
      yield buffer.subarray(0, bytesRead)
      done += bytesRead
    }
  } finally {
    await handle.close()
  }
}

/** SHA-256 and size of a file, read once in chunks. Throws FILE or ABORTED. */
export async function hashFile(path: string, options: HashOptions = {}): Promise<WrittenFile> {
  return hashFiles([path], options)
}

export interface HashOptions {
  readonly onProgress?: OnProgress | undefined
  readonly signal?: AbortSignal | undefined
}

/** SHA-256 and size of files as if they were one, each after the other. Throws FILE or ABORTED. */
export async function hashFiles(paths: readonly string[], options: HashOptions = {}): Promise<WrittenFile> {
  const sizes = await Promise.all(paths.map(fileBytes))
  const byteLength = sizes.reduce((sum, bytes) => sum + bytes, 0)
  const hash = createHash('sha256')
  let done = 0
  try {
    for (const [i, path] of paths.entries()) {
      for await (const chunk of fileChunks(path, 0, sizes[i]!)) {
        throwIfAborted(options.signal)
        hash.update(chunk)
        done += chunk.byteLength
        options.onProgress?.(done, byteLength)
      }
    }
    return { byteLength, sha256: hash.digest('hex') }
  } catch (error) {
    throw SeamError.from(error, ErrorCode.FILE)
  }
}

/** Throws FILE when the file's size or SHA-256 differs, with both values, or when it cannot be read; ABORTED. */
export async function verifyFile(
  path: string,
  expected: WrittenFile,
  options: HashOptions = {},
): Promise<void> {
  const refuse = (found: string, wanted: string) =>
    new SeamError(
      ErrorCode.FILE,
      `${path} was altered: ${found}, the manifest says ${wanted}; delete it and split the model again`,
    )
  const byteLength = await fileBytes(path)
  if (byteLength !== expected.byteLength) throw refuse(`${byteLength} B`, `${expected.byteLength} B`)
  const { sha256 } = await hashFile(path, options)
  if (sha256 !== expected.sha256) throw refuse(`SHA-256 ${sha256}`, expected.sha256)
}

/** Size of a regular file. Throws FILE when it is absent or something else (opening a pipe would wait for ever). */
export async function fileBytes(path: string): Promise<number> {
  try {
    const found = await stat(path)
    if (!found.isFile()) throw new SeamError(ErrorCode.FILE, `${path} is not a regular file`)
    return found.size
  } catch (error) {
    throw SeamError.from(error, ErrorCode.FILE)
  }
}

/** Throws FILE with both numbers when the folder's file system has less than `neededBytes` free. Creates the folder. */
export async function ensureRoom(
  folder: string,
  neededBytes: number,
  freeBytes: FreeBytes = statfsFree,
): Promise<void> {
  let free: number
  try {
    await makeFolder(folder)
    free = await freeBytes(folder)
  } catch (error) {
    throw SeamError.from(error, ErrorCode.FILE)
  }
  if (free < neededBytes) {
    throw new SeamError(
      ErrorCode.FILE,
      `${folder}: ${neededBytes} B are needed and ${free} B are free; make room or choose another folder`,
    )
  }
}

async function statfsFree(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new SeamError(ErrorCode.ABORTED, 'stopped at the caller’s request')
}
