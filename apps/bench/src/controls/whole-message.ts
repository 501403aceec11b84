import {
  assertSameBytes,
  type BenchCase,
  benchActivations,
  benchSizes,
  benchTensor,
  sizeName,
} from '@seamline/conformance'
import { alignedBytes, asBytes, SeamError, type TensorMessage } from '@seamline/core'

/** The usual way with protobuf: one message with the payload as a field inside, encoded and decoded as a whole. */
export interface WholeMessage {
  encode(message: TensorMessage, payload: Uint8Array): Uint8Array
  decode(bytes: Uint8Array): { readonly payload: Uint8Array; readonly step: number }
}

/** The frames must be those of `reference`, byte for byte. */
export function wholeMessageCases(
  name: string,
  codec: WholeMessage,
  reference: (message: TensorMessage, payload: Uint8Array) => Uint8Array,
): BenchCase[] {
  return benchSizes.map((bytes) => {
    const id = `control/${name}/encode+decode/${sizeName(bytes)}`
    let payload: Uint8Array
    let message: TensorMessage
    let encoded: Uint8Array
    let decoded: ReturnType<WholeMessage['decode']>

    function run(): void {
      encoded = codec.encode(message, payload)
      decoded = codec.decode(encoded)
    }
    return {
      id,
      setup() {
        payload = alignedBytes(bytes)
        payload.set(asBytes(benchActivations(bytes / 4)))
        message = benchTensor(payload)
      },
      run,
      validate() {
        run()
        assertSameBytes(`${id}: the message`, encoded, reference(message, payload))
        assertSameBytes(`${id}: the payload`, decoded.payload, asBytes(benchActivations(bytes / 4)))
        if (decoded.step !== message.step)
          throw new SeamError('MISMATCH', `${id}: decoded step ${decoded.step}, encoded ${message.step}`)
      },
      teardown() {
        payload = encoded = new Uint8Array(0)
      },
    }
  })
}
