import { connect, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'

/**
 * An address that swallows dials: the thread behind it sleeps and never accepts, and its backlog is full, so the kernel passes
 * over further ones without a word.
 */
export async function blackHole(): Promise<{ readonly address: string; close(): Promise<void> }> {
  const thread = new Worker(
    `const { parentPort } = require('node:worker_threads')
     const server = require('node:net').createServer()
     server.listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => {
       parentPort.postMessage(server.address().port)
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
     })`,
    { eval: true },
  )
  const port = await new Promise<number>((resolve) => thread.once('message', resolve))
  const fillers: Socket[] = []
  for (let i = 0; i < 4; i++) fillers.push(connect(port, '127.0.0.1').on('error', () => {}))
  await new Promise((resolve) => setTimeout(resolve, 50))
  return {
    address: `127.0.0.1:${port}`,
    async close() {
      for (const socket of fillers) socket.destroy()
      await thread.terminate()
    },
  }
}
