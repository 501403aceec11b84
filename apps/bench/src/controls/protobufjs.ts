import type { TensorMessage } from '@seamline/core'
import type { WholeMessage } from './whole-message.ts'

/** What protobufjs generated for a message type. */
interface StaticType {
  encode(message: object): { finish(): Uint8Array }
  decode(bytes: Uint8Array): {
    readonly payload: Uint8Array
    readonly tensor: { readonly step: number | { toNumber(): number } }
  }
}

/** protobufjs with the static code that the framing itself uses for its headers, on whole messages. */
export async function protobufjsStatic(): Promise<WholeMessage> {
  const generated = new URL('generated/seamline.js', import.meta.resolve('@seamline/framing'))
  const { seamline } = await import(generated.href)
  const Frame: StaticType = seamline.v1.Frame
  const dtype: number = seamline.v1.DType.DTYPE_F32
  return {
    encode: (message, payload) => Frame.encode({ tensor: toTensor(message, dtype), payload }).finish(),
    decode(bytes) {
      const { payload, tensor } = Frame.decode(bytes)
      const step = typeof tensor.step === 'number' ? tensor.step : tensor.step.toNumber()
      return { payload, step }
    },
  }
}

function toTensor(message: TensorMessage, dtype: number): object {
  const { kind: _, checksum, run, ...rest } = message
  return {
    ...rest,
    dtype,
    run: { low: Number(run & 0xffffffffn) | 0, high: Number(run >> 32n) | 0, unsigned: true },
    ...(checksum === -1 ? {} : { checksum }),
  }
}
