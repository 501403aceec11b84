import { SeamError } from '@seamline/core'

/**
 * What each end of a link sends before its first frame, so that two ends with different framings or protocol
 * versions part with an error on both sides instead of misreading each other:
 *
 *     "SEAM" | u8 version = 1 | u8 verdict | u8 count | count * 32 bytes protocol id
 *
 * The dialling end offers what it speaks in its order of preference, each framing's newest first. The listening end answers with the
 * first of these that it speaks too, or, with the verdict `refused`, with everything it speaks.
 */
export const Verdict = { offer: 0, chosen: 1, refused: 2 } as const
export type Verdict = (typeof Verdict)[keyof typeof Verdict]

export interface Preamble {
  readonly verdict: Verdict
  /** 64 hex digits each. */
  readonly protocolIds: readonly string[]
}

const MAGIC = [0x53, 0x45, 0x41, 0x4d] as const
const VERSION = 1
const FIXED_BYTES = 7
const ID_BYTES = 32
const MAX_IDS = 16

/** Most bytes a preamble can take. */
export const MAX_PREAMBLE_BYTES = FIXED_BYTES + MAX_IDS * ID_BYTES

export function encodePreamble(preamble: Preamble): Uint8Array {
  const { protocolIds, verdict } = preamble
  if (protocolIds.length > MAX_IDS) {
    throw new SeamError('LIMIT', `${protocolIds.length} protocol ids offered, at most ${MAX_IDS} fit`)
  }
  return Uint8Array.from([
    ...MAGIC,
    VERSION,
    verdict,
    protocolIds.length,
    ...protocolIds.flatMap((id) => [...Buffer.from(id, 'hex')]),
  ])
}

/**
 * Reads a preamble from the front of `bytes`. Returns undefined while more bytes are needed, `length` being what it
 * took. Throws `PROTOCOL` as soon as a byte cannot belong to one.
 */
export function decodePreamble(bytes: Uint8Array): { preamble: Preamble; length: number } | undefined {
  for (let i = 0; i < Math.min(bytes.length, MAGIC.length); i++) {
    if (bytes[i] !== MAGIC[i]) {
      throw new SeamError('PROTOCOL', `the peer is not a Seamline process: its first bytes are ${hex(bytes)}`)
    }
  }
  if (bytes.length < FIXED_BYTES) return undefined
  const [version, verdict, count] = bytes.subarray(MAGIC.length) as unknown as [number, number, number]
  if (version !== VERSION) {
    throw new SeamError('PROTOCOL', `the peer speaks preamble version ${version}, this side ${VERSION}`)
  }
  if (verdict !== 0 && verdict !== 1 && verdict !== 2) {
    throw new SeamError('PROTOCOL', `preamble verdict ${verdict} is none of 0, 1, 2`)
  }
  if (count > MAX_IDS) throw new SeamError('LIMIT', `${count} protocol ids offered, at most ${MAX_IDS} fit`)
  const length = FIXED_BYTES + count * ID_BYTES
  if (bytes.length < length) return undefined
  const protocolIds = Array.from({ length: count }, (_, i) =>
    Buffer.from(bytes.subarray(FIXED_BYTES + i * ID_BYTES, FIXED_BYTES + (i + 1) * ID_BYTES)).toString('hex'),
  )
  return { preamble: { verdict, protocolIds }, length }
}

/** The error both ends raise when they share no protocol: it names what each side speaks. */
export function noCommonProtocol(
  ours: readonly string[],
  theirs: readonly string[],
  peer: string,
): SeamError {
  return new SeamError(
    'MISMATCH',
    `no protocol in common with ${peer}: this side speaks ${short(ours)}, the peer ${short(theirs)}; ` +
      'run the same release on both sides',
  )
}

function short(ids: readonly string[]): string {
  return ids.length === 0 ? 'none' : ids.map((id) => id.slice(0, 12)).join(', ')
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(0, 8)).toString('hex')
}
