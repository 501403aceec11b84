// Writes parts until it is killed; says on standard output how many are safe.
import { traceWriter } from '../dist/index.js'

const [dir, settings] = process.argv.slice(2)
const writer = await traceWriter(dir)
const emittedNs = []
for (let part = 0; ; part++) {
  emittedNs.push(part + 1)
  // Noise does not compress: a part takes a while.
  const spans = new Float64Array(6 * 20_000).map((_, i) =>
    i % 6 === 0 ? 2 : i % 6 === 1 ? part : Math.random(),
  )
  const who = { layerFirst: 0, layerEnd: 1, dropped: 0, peakRssBytes: 1, spanCostNs: 1 }
  await writer.part({
    ...{ format: 'seamline-trace/1', complete: false, level: 1, settings: JSON.parse(settings) },
    processes: [
      { ...who, name: 'coordinator', role: 'coordinator', stage: -1, spans },
      { ...who, name: 'stage 0', role: 'stage', stage: 0, spans: spans.subarray(0, 60) },
    ],
    sequences: [{ sequence: 0, promptTokens: 1, acceptedNs: 0, emittedNs, tokens: emittedNs.map(() => 7) }],
  })
  process.stdout.write(`${part + 1}\n`)
}
