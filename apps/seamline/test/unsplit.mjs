// The oracle: the whole model through node-llama-cpp's public interface, in a process of its own.
import { getLlama, LlamaCompletion, LlamaLogLevel } from 'node-llama-cpp'

const [modelPath, prompt, maxTokens] = process.argv.slice(2)
const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.disabled })
const model = await llama.loadModel({ modelPath })
const context = await model.createContext({ contextSize: 512, threads: 1, flashAttention: true })
const completion = new LlamaCompletion({ contextSequence: context.getSequence() })
const settings = { temperature: 0, repeatPenalty: false, maxTokens: Number(maxTokens) }
process.stdout.write(await completion.generateCompletion(prompt, settings))
await llama.dispose()
