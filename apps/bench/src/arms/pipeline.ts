import { type BenchCase, sizeName } from '@seamline/conformance'
import { type FramingFactory, SeamError, type Transport } from '@seamline/core'
import { connectPipeline, createWorker, type Pipeline } from '@seamline/runtime'
import { fakeExecutor } from '@seamline/runtime/fake'
import { memory } from '@seamline/transports/memory'
import { tcp } from '@seamline/transports/tcp'
import { codecs, framings } from 'seamline/cluster'
import { GREEDY } from 'seamline/profile'
import { type Entry, entriesOf } from '../selection.ts'

const stages = 2
const tokens = 16
const shape = { layerCount: stages, embedding: 4096, vocabulary: 256, contextLength: 64, chunkTokens: 8 }
const prompt = [1, 2, 3]
const livenessMs = 5000

/** Whole pipelines whose stages compute nothing, in this process: the runtime with each framing, without and with sockets. */
export function pipelineEntries(): readonly Entry[] {
  const transports: readonly (readonly [string, () => Transport, string])[] = [
    ['memory', memory, ''],
    ['tcp', () => tcp({}), '127.0.0.1:0'],
  ]
  const cases = transports.flatMap(([transport, make, address]) =>
    [...framings.values()].map((framing) => pipelineCase(transport, make, address, framing)),
  )
  return entriesOf('pipeline', cases, (path) => path.at(-1)!)
}

/** One run is a sequence from its opening to its last token. */
function pipelineCase(
  name: string,
  make: () => Transport,
  address: string,
  framing: FramingFactory,
): BenchCase {
  let pipeline: Pipeline | undefined
  const ends: (() => Promise<void>)[] = []
  const rowBytes = shape.embedding * Float32Array.BYTES_PER_ELEMENT

  async function generate(): Promise<number[]> {
    const request = { prompt, maxTokens: tokens, sampler: GREEDY, stopTokens: [] }
    const found: number[] = []
    for await (const { token } of pipeline!.generate(request)) found.push(token)
    return found
  }

  return {
    id: `pipeline/fake-over-${name}/${framing().id}/${tokens}x${sizeName(rowBytes)}`,
    // Hidden rows of every position but the last token's.
    bytes: (prompt.length + tokens - 1) * rowBytes,
    async setup() {
      const transports = new Map([[name, make()]])
      const workers: { name: string; addresses: { transport: string; address: string }[] }[] = []
      for (let layerFirst = 0; layerFirst < stages; layerFirst++) {
        const executor = fakeExecutor({ ...shape, layerFirst, layerEnd: layerFirst + 1, maxSequences: 2 })
        ends.push(() => executor.close())
        const worker = await createWorker({
          ...{ name: `worker-${layerFirst}`, executor, transports, codecs, framings: [framing], livenessMs },
          listen: [{ transport: name, address: address || `stage-${layerFirst}` }],
        })
        ends.push(() => worker.close())
        workers.push({ name: worker.name, addresses: [...worker.addresses] })
      }
      const made = await connectPipeline({
        ...{ workers, transports, expected: {}, framings: [framing], livenessMs, progressMs: livenessMs },
      })
      pipeline = made
      ends.push(() => made.close())
    },
    async run() {
      await generate()
    },
    async validate() {
      const [found, expected] = [await generate(), await unsplit()]
      if (found.join() !== expected.join())
        throw new SeamError('MISMATCH', `tokens ${found.join(' ')} instead of ${expected.join(' ')}`)
    },
    async teardown() {
      for (const end of ends.splice(0).reverse()) await end()
    },
  }
}

/** The same layers in one executor, without a pipeline. */
async function unsplit(): Promise<number[]> {
  const executor = fakeExecutor({ ...shape, layerFirst: 0, layerEnd: stages, maxSequences: 1 })
  try {
    const session = executor.openSession({ sampler: GREEDY, promptTail: [] })
    const found: number[] = []
    let input = prompt
    let position = 0
    while (found.length < tokens) {
      const rows = [{ session, position, tokenCount: input.length, sample: true }]
      const step = { rows, input: Int32Array.from(input), output: null, logits: null, tag: 0 }
      const { tokens: sampled } = await executor.step(step)
      position += input.length
      input = [sampled[0]!]
      found.push(sampled[0]!)
    }
    return found
  } finally {
    await executor.close()
  }
}
