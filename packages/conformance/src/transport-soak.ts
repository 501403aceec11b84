import assert from 'node:assert/strict'
import { type ConnectionHandler, isSeamError } from '@seamline/core'
import { type Skip, skipping } from './skip.ts'
import { KiB, MiB, type Peer, runCase, type TransportFixture } from './transport-peer.ts'

export interface TransportSoakOptions {
  readonly describe: (name: string, body: () => void) => void
  readonly it: (name: string, body: () => Promise<void>) => void
  /** Called once for each case. */
  readonly create: () => Promise<TransportFixture> | TransportFixture
  /** Bytes through one connection. @default 4 GiB */
  readonly totalBytes?: number
  /** Bytes of the one large send. @default 2 GiB + 1 B */
  readonly sendBytes?: number
  /** Most that the memory of the process may grow over the stream, behind its first 8th. @default 64 MiB */
  readonly growthBytes?: number
  /** Longest time for one case. @default 300000 */
  readonly deadlineMs?: number
  readonly skip?: readonly Skip[]
}

const GiB = 2 ** 30
/** How often the reader rests. */
const restBytes = 4 * MiB

/**
 * Defines the long cases of a transport, those that take gigabytes: for a test run of its own. Give the runner a timeout
 * above `deadlineMs`.
 */
export function transportSoak(options: TransportSoakOptions): void {
  const {
    totalBytes = 4 * GiB,
    sendBytes = 2 * GiB + 1,
    growthBytes = 64 * MiB,
    deadlineMs = 300_000,
  } = options
  const { it, finish } = skipping(options.it, options.skip)

  options.describe('transport: gigabytes', () => {
    it(`streams ${totalBytes} B through one connection to a slow reader in flat memory`, () =>
      runCase(options.create, deadlineMs, async (bench) => {
        let nextRest = restBytes
        const resting = (peer: Peer) => {
          if (peer.receivedBytes < nextRest) return
          nextRest += restBytes
          peer.pause()
          setTimeout(() => peer.resume(), 1)
        }
        const { near, far } = await bench.pair({}, { onData: resting, bufferBytes: () => 256 * KiB })
        const steps = 64
        let base = 0
        let largest = 0
        for (let step = 1; step <= steps; step += 1) {
          await near.feed(Math.floor((totalBytes * step) / steps) - near.sentBytes, () => 256 * KiB)
          const bytes = process.memoryUsage.rss()
          if (step <= steps / 8) base = Math.max(base, bytes)
          else largest = Math.max(largest, bytes - base)
          assert.ok(
            largest <= growthBytes,
            `memory grew by ${largest} B over ${near.sentBytes} B; ${growthBytes} B are allowed`,
          )
        }
        await bench.until(() => far.receivedBytes === totalBytes, 'every byte')
        await bench.until(() => near.releases === near.sends, 'every release')
      }))

    it(`carries one send of ${sendBytes} B, or refuses it with LIMIT and goes on`, () =>
      runCase(options.create, deadlineMs, async ({ transport, address, until }) => {
        let received = 0
        let last = 0
        let released = 0
        const buffer = new Uint8Array(MiB)
        const quiet: ConnectionHandler = { nextBuffer: () => buffer, onData() {}, onDrain() {}, onClose() {} }
        const counting: ConnectionHandler = {
          ...quiet,
          onData(bytes) {
            received += bytes
            last = buffer[bytes - 1] ?? 0
          },
        }
        const listener = await transport.listen(address, () => counting)
        const connection = await transport.dial(listener.address, () => quiet)
        // Pages that nobody writes take no memory.
        const payload = new Uint8Array(sendBytes)
        payload[sendBytes - 1] = 77
        let expected = sendBytes
        const release = () => {
          released += 1
        }
        try {
          connection.send(payload, release)
        } catch (error) {
          assert.ok(isSeamError(error) && error.code === 'LIMIT', `LIMIT, not ${error}`)
          expected = 1
          connection.send(payload.subarray(sendBytes - 1), release)
        }
        await connection.close({ timeoutMs: deadlineMs })
        await until(() => received >= expected, 'every byte')
        await listener.close()
        assert.deepEqual([received, last, released], [expected, 77, 1])
      }))
  })
  finish()
}
