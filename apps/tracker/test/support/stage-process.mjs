// A worker process of somebody's own swarm: one stage on llama.cpp, with the codecs, framings and transports of a tracker's
// configuration, announced to a tracker until standard input ends.
import { pathToFileURL } from 'node:url'
import { dieWithParent, llamaExecutor } from '@seamline/llama'
import { createWorker } from '@seamline/runtime'

const { dist, url, name, stage } = JSON.parse(process.argv[2])
const { announceTo, config } = await import(pathToFileURL(`${dist}/index.js`).href)

dieWithParent()
const executor = await llamaExecutor(stage)
const worker = await createWorker({
  ...{ name, executor, codecs: config.codecs, framings: config.framings, transports: config.transports },
  listen: [{ transport: 'tcp', address: '127.0.0.1:0' }],
})
const announced = await announceTo(url, worker)
console.log(JSON.stringify(worker.announcement))
process.stdin.resume().once('end', async () => {
  await announced.close()
  await worker.close()
  await executor.close()
})
