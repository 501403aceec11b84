import { getLlama } from 'node-llama-cpp'

const llama = await getLlama({ gpu: false, build: 'never', maxThreads: 1 })
for (const p of process.argv.slice(2)) {
  const model = await llama.loadModel({ modelPath: p, vocabOnly: true })
  for (const text of ['Once upon a time', 'bana ko 12 é✓ <s>']) {
    const t = model.tokenize(text)
    console.log(p.split('/').slice(-2).join('/'), t.join(' '), JSON.stringify(model.detokenize(t)))
  }
  console.log(
    model.tokens.bos,
    model.tokens.eos,
    model.detokenize([946, 334, 664, 575, 961].map((x) => x % 512)),
  )
}
process.exit(0)
