// A relay or one of its peers in a process of its own: `node relay-process.mjs ROLE JSON`. Says what it is ready for.

import { relay } from '../../dist/relay.js'
import { createRelay } from '../../dist/relay-server.js'

const [role, json] = process.argv.slice(2)
const { address, options } = JSON.parse(json)
const handle = (connection) => {
  const buffer = new Uint8Array(1 << 18)
  return {
    nextBuffer: () => buffer,
    onData: (bytes) => void (role === 'listen' && connection.send(buffer.slice(0, bytes))),
    onDrain() {},
    onClose() {},
  }
}
if (role === 'relay') {
  const running = await createRelay({ address, ...options })
  process.send({ address: running.address })
  process.on('message', () => {
    process.send({ metrics: running.metrics(), rssBytes: process.memoryUsage().rss })
  })
} else if (role === 'listen') {
  const listener = await relay(options).listen(address, handle)
  process.send({ address: listener.address })
} else {
  const connection = await relay(options).dial(address, handle)
  connection.send(Buffer.from('from another process'))
  process.send({ address: connection.remote })
}
process.on('disconnect', () => process.exit())
