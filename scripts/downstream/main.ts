// A tracker of somebody else: sends rows through one codec, swaps the codec, sends them again.
import { zstd } from '@seamline/codec-zstd'
import { bf16 } from '@seamline/codecs/bf16'
import { f32 } from '@seamline/codecs/f32'
import { q8_0 } from '@seamline/codecs/q8_0'
import type { CodecFactory, Connection, ConnectionHandler, TensorMessage } from '@seamline/core'
import { alignedBytes } from '@seamline/core'
import { msgpack } from '@seamline/framing/msgpack'
import { tcp } from '@seamline/transports/tcp'

const [rows, columns] = [3, 64]
const sent = Float32Array.from({ length: rows * columns }, (_, i) => Math.sin(i) * 4)

async function through(make: CodecFactory): Promise<{ readonly bytes: number; readonly worst: number }> {
  const codec = make()
  const framing = msgpack()
  const transport = tcp()
  const received = new Float32Array(sent.length)
  let bytes = 0
  const arrived = new Promise<void>((resolve) => {
    const accept = (_: Connection): ConnectionHandler => {
      const target = alignedBytes(codec.maxEncodedBytes(rows, columns))
      const decoder = framing.createDecoder(
        {
          target: () => target,
          message(_, payload) {
            bytes = payload.length
            codec.decodeInto(payload, rows, columns, received)
            resolve()
          },
        },
        { maxPayloadBytes: target.length },
      )
      return {
        nextBuffer: () => decoder.nextBuffer(),
        onData: (count) => decoder.received(count),
        onDrain() {},
        onClose() {},
      }
    }
    void transport.listen('127.0.0.1:0', accept).then(async (listener) => {
      const silent = alignedBytes(64)
      const connection = await transport.dial(listener.address, () => ({
        nextBuffer: () => silent,
        onData() {},
        onDrain() {},
        onClose() {},
      }))
      const room = alignedBytes(framing.headroomBytes + codec.maxEncodedBytes(rows, columns))
      const payloadBytes = codec.encodeInto(sent, rows, columns, room.subarray(framing.headroomBytes))
      const message: TensorMessage = {
        kind: 'tensor',
        run: 1n,
        step: 0,
        edge: 0,
        fragment: 0,
        rows: [{ sequence: 0, epoch: 0, position: 0, tokenCount: rows, sample: false }],
        shape: [rows, columns],
        dtype: codec.wireDType,
        codec: codec.id,
        sentNs: 0,
        checksum: -1,
      }
      const start = framing.encodeInto(message, room, framing.headroomBytes, payloadBytes)
      connection.send(room.subarray(start, framing.headroomBytes + payloadBytes))
      await arrived
      await connection.close()
      await listener.close()
    })
  })
  await arrived
  const worst = sent.reduce((most, value, i) => Math.max(most, Math.abs(value - (received[i] ?? NaN))), 0)
  return { bytes, worst }
}

for (const codec of [f32, q8_0, bf16, zstd(f32)]) {
  const { bytes, worst } = await through(codec)
  console.log(`${codec().id}: ${rows * columns} values in ${bytes} B, off by at most ${worst}`)
  if (!(worst <= (codec().lossy ? 4 / 127 : 0))) throw new Error(`${codec().id} is off by ${worst}`)
}
