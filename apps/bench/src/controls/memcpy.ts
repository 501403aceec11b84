import {
  assertSameBytes,
  type BenchCase,
  benchActivations,
  benchSizes,
  sizeName,
} from '@seamline/conformance'
import { alignedBytes, asBytes, asFloat32 } from '@seamline/core'

/** `TypedArray.set` of as many bytes of f32, both sides aligned to 64 bytes. */
export function memcpyCases(): BenchCase[] {
  return benchSizes.map((bytes) => {
    const id = `control/memcpy/${sizeName(bytes)}`
    let source: Float32Array
    let target: Float32Array
    return {
      id,
      bytes,
      setup() {
        source = asFloat32(alignedBytes(bytes))
        source.set(benchActivations(bytes / 4))
        target = asFloat32(alignedBytes(bytes))
      },
      run: () => target.set(source),
      validate() {
        target.fill(0)
        target.set(source)
        assertSameBytes(id, asBytes(target), asBytes(benchActivations(bytes / 4)))
      },
      teardown() {
        source = target = new Float32Array(0)
      },
    }
  })
}
