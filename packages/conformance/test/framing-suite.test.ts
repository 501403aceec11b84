import { describe, expect, it } from 'vitest'
import { framingSuite } from '../src/index.ts'
import { collect } from './collect.ts'
import { type FramingFault, jsonFraming } from './json-framing.ts'

framingSuite({ describe, it, framing: jsonFraming() })

const faults: Record<FramingFault, string> = {
  'unaligned headroom': 'states protocol ids and an aligned headroom',
  'headroom for one row': 'has headroom for a tensor of 64 rows and for a token',
  'payload on any kind': 'refuses a payload on a kind that carries none',
  'numbers rounded': 'carries every kind of message unchanged',
  'run through a number': 'carries every 64-bit run exactly and refuses what is none',
  'memory for any header': 'takes no length on trust: no memory is asked for what is not there',
  'no empty tensors': 'carries tensors of no rows and payloads of no bytes',
  'text cut to ASCII': 'carries every kind of message unchanged',
  'no room check': 'refuses a room that is one byte short and leaves it as it was',
  'byte in front of the frame': 'gives the same frame from encodeInto as from encode and writes nothing else',
  'payload cleared': 'gives the same frame from encodeInto as from encode and writes nothing else',
  'encode reuses memory': 'encodes into memory of its own',
  'no limit': 'refuses a payload over the limit before it asks for memory',
  'limit after target': 'refuses a payload over the limit before it asks for memory',
  'target for no payload':
    'asks for one target a payload, before its message, and for none where there is no payload',
  'payload kept in memory of its own': 'reads a payload straight into its target',
  'payload 8 bytes into the target': 'reads a payload straight into its target',
  'buffer beyond the payload': 'reads a payload straight into its target',
  'early message': 'says nothing about a frame before its last byte',
  'one frame a read': 'decodes the same messages however their bytes are cut',
  'no checksum': 'refuses a header with any one bit flipped',
  'any checksum option': 'refuses a frame whose sender disagrees on checksums',
  'plain errors': 'makes a well-formed message or an error of a flipped bit without checksums',
  'alive after an error': 'is dead after an error',
  'handler errors swallowed': 'is dead after its handler threw',
  'any count received': 'refuses more bytes than its buffer holds',
  'shared stage': 'keeps decoders and encoders apart',
}

describe('the framing suite fails a framing with', () => {
  for (const [fault, name] of Object.entries(faults)) {
    it(fault, () => {
      const cases = collect((runner) =>
        framingSuite({ ...runner, framing: jsonFraming(fault as FramingFault) }),
      )
      expect(cases.get(name)).toThrow()
    })
  }

  it('a frame in place of one that it must refuse', () => {
    const frame = jsonFraming()().encode({ kind: 'ack', request: 1 })
    const cases = collect((runner) =>
      framingSuite({ ...runner, framing: jsonFraming(), refused: { 'an ack': frame } }),
    )
    expect(cases.get('refuses an ack')).toThrow('was not refused')
  })
})
