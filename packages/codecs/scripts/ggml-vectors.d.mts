export function inputs(): { name: string; values: Float32Array<ArrayBuffer> }[]
export type Mode = 'quantize' | 'dequantize' | 'f16' | 'bf16'
export function openGgml():
  | string
  | { run: (mode: Mode, bytes: ArrayBufferView) => Uint8Array<ArrayBuffer>; close: () => void }
export function sha256(view: ArrayBufferView): string
export interface Vector {
  name: string
  elements: number
  inputSha256: string
  q8_0Sha256: string
  decodedSha256: string
  bf16Sha256: string
  f16Sha256?: string
  q8_0?: string
}
export function makeVectors(run: (mode: Mode, bytes: ArrayBufferView) => Uint8Array<ArrayBuffer>): Vector[]
