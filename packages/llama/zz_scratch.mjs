import { getLlama } from 'node-llama-cpp'

const llama = await getLlama({ gpu: false, build: 'never', maxThreads: 1, logLevel: 'error' })
for (const p of process.argv.slice(2)) {
  try {
    const model = await llama.loadModel({ modelPath: p, gpuLayers: 0 })
    const ctx = await model.createContext({ contextSize: 256, threads: 1, batchSize: 64 })
    const seq = ctx.getSequence()
    const out = []
    const it = seq.evaluate([1, 400 % model.fileInfo.metadata.llama.vocab_size || 300], {
      temperature: 0,
      yieldEogToken: true,
    })
    const t = performance.now()
    for await (const tok of it) {
      out.push(tok)
      if (out.length >= 64) break
    }
    console.log(
      p.split('/').slice(-2).join('/'),
      'distinct',
      new Set(out).size,
      (performance.now() - t).toFixed(0) + 'ms',
      out.join(' '),
    )
    await ctx.dispose()
    await model.dispose()
  } catch (e) {
    console.log(p, 'ERR', e.message)
  }
}
process.exit(0)
