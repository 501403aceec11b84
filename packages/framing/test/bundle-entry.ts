// What a bundle of both framings does with 64-bit integers, printed as JSON.
import type { TensorMessage } from '@seamline/core'
import protobufjs from 'protobufjs/minimal.js'
import { msgpack, protobuf } from '../src/index.ts'

const tensor: TensorMessage = {
  kind: 'tensor',
  run: 0n,
  step: 0,
  edge: 0,
  fragment: 0,
  rows: [],
  shape: [1, 1],
  dtype: 'f32',
  codec: 'none',
  sentNs: 0,
  checksum: -1,
}
const results = [protobuf(), msgpack()].map((framing) => {
  function read(frame: Uint8Array): string {
    let text = ''
    const decoder = framing.createDecoder(
      {
        target: (_, payloadBytes) => new Uint8Array(payloadBytes),
        message: (message) => {
          const { run, step, sentNs } = message as TensorMessage
          text = `${typeof run} ${run} ${step} ${sentNs}`
        },
      },
      { maxPayloadBytes: 0 },
    )
    decoder.nextBuffer().set(frame)
    try {
      decoder.received(frame.byteLength)
    } catch (error) {
      return (error as Error).message
    }
    return text
  }
  const sent = (change: object) => {
    try {
      return read(framing.encode({ ...tensor, ...change }))
    } catch (error) {
      return (error as Error).message
    }
  }
  const made = (process.env[framing.id] ?? '').split(' ').map((hex) => read(Buffer.from(hex, 'hex')))
  const runs = [0n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n].map((run) => sent({ run, step: 2 ** 53 - 1 }))
  return { id: framing.id, runs, refused: sent({ sentNs: 2 ** 53 }), made }
})
console.log(JSON.stringify({ long: Boolean(protobufjs.util.Long), results }))
