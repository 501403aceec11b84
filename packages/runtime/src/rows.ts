import { type Codec, type Message, SeamError, type StageSpec, type TensorMessage } from '@seamline/core'
import type { Sequence } from './sequence.ts'

/** Who checks. */
export interface Checker {
  readonly name: string
  /** See {@link TensorMessage.run}. */
  readonly run: bigint
  readonly spec: StageSpec
}

/**
 * Throws unless `message` is a tensor that the stage can take: hidden rows in `codec` from a neighbour, or token ids from
 * the coordinator where there is no codec.
 */
export function checkTensor(
  message: Message,
  payloadBytes: number,
  { name, run, spec }: Checker,
  codec?: Codec,
): asserts message is TensorMessage {
  if (message.kind !== 'tensor') {
    throw new SeamError('PROTOCOL', `${name} takes no payload of ${payloadBytes} B with ${message.kind}`)
  }
  const { rows, shape, dtype, codec: codecId } = message
  const [count, columns] = shape
  const tokenCount = rows[0]?.tokenCount ?? 0
  if (rows.some((row) => row.tokenCount !== tokenCount)) {
    throw new SeamError(
      'PROTOCOL',
      `rows of ${rows.map((row) => row.tokenCount).join(', ')} tokens in one tensor on ${name}`,
    )
  }
  const expected =
    codec === undefined
      ? { columns: 1, dtype: 'i32', codec: 'none' }
      : { columns: spec.embedding, dtype: codec.wireDType, codec: codec.id }
  if (columns !== expected.columns || dtype !== expected.dtype || codecId !== expected.codec) {
    throw new SeamError(
      'MISMATCH',
      `${name} takes rows of ${expected.columns} x ${expected.dtype} in codec ${expected.codec}, got ${columns} x ${dtype} in ${codecId}`,
    )
  }
  const due = rows.length * tokenCount
  if (count !== due || count < 1 || count > spec.chunkTokens) {
    throw new SeamError(
      'PROTOCOL',
      `tensor of ${count} rows for ${due} tokens on ${name}, whose chunk is ${spec.chunkTokens} tokens`,
    )
  }
  if (message.run !== run) {
    throw new SeamError(
      'PROTOCOL',
      `tensor of run ${runName(message.run)} on ${name}, which serves run ${runName(run)}`,
    )
  }
  const mostBytes = codec === undefined ? count * 4 : codec.maxEncodedBytes(count, columns)
  if (payloadBytes > mostBytes || (codec === undefined && payloadBytes !== mostBytes)) {
    throw new SeamError(
      'LIMIT',
      `payload of ${payloadBytes} B for ${count} rows on ${name}, at most ${mostBytes} B`,
    )
  }
}

/** Throws unless `row` is the next one of `sequence`: in its epoch, at its KV length, within what it asked for. */
export function expectRow(
  name: string,
  sequence: Sequence,
  row: { epoch: number; position: number; tokenCount: number },
): void {
  if (row.epoch !== sequence.epoch) {
    throw new SeamError(
      'PROTOCOL',
      `row of epoch ${row.epoch} on ${name}, where sequence ${sequence.id} is at ${sequence.epoch}`,
    )
  }
  if (row.position !== sequence.nextPosition) {
    throw new SeamError(
      'PROTOCOL',
      `row at position ${row.position} on ${name}, where sequence ${sequence.id} has ${sequence.nextPosition} in its KV cache`,
    )
  }
  const { promptTokens, maxTokens } = sequence.open
  if (row.position + row.tokenCount > promptTokens + maxTokens) {
    throw new SeamError(
      'LIMIT',
      `row ends at position ${row.position + row.tokenCount} on ${name}, sequence ${sequence.id} asked for ${promptTokens + maxTokens}`,
    )
  }
}

/** A run as a tensor carries it, from the 16 hex digits that name it. */
export function runNumber(name: string): bigint {
  return BigInt(`0x${name}`)
}

function runName(run: bigint): string {
  return run.toString(16).padStart(16, '0')
}
