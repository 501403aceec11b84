import { connect, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'

/**
 * A TCP port where a dial stays unanswered: its thread sleeps and so never accepts, and the backlog is full, so the
 * kernel ignores further dials.
 */
export async function silentListener(): Promise<{ address: string; dispose(): Promise<void> }> {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads')
     const server = require('node:net').createServer()
     server.listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => {
       parentPort.postMessage(server.address().port)
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
     })`,
    { eval: true },
  )
  const port = await new Promise<number>((resolve) => worker.once('message', resolve))
  const fillers: Socket[] = []
  for (let index = 0; index < 4; index += 1) {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    fillers.push(socket)
  }
  await new Promise((resolve) => setTimeout(resolve, 50))
  return {
    address: `127.0.0.1:${port}`,
    async dispose() {
      for (const socket of fillers) socket.destroy()
      await worker.terminate()
    },
  }
}
