import type { Accept, Connection, SeamError, Transport } from '@seamline/core'

/** One side of a connection under test: everything it got, and what it does with it. */
export interface TestPeer {
  readonly accept: Accept
  readonly closes: Array<SeamError | undefined>
  connection: Connection
  /** Kept up to 1 MiB. */
  received: Buffer
  receivedBytes: number
}

export function testPeer(onData: (peer: TestPeer, bytes: Uint8Array) => void = () => {}): TestPeer {
  const buffer = new Uint8Array(1 << 18)
  const peer: TestPeer = {
    closes: [],
    connection: undefined as unknown as Connection,
    received: Buffer.alloc(0),
    receivedBytes: 0,
    accept(connection) {
      peer.connection = connection
      return {
        nextBuffer: () => buffer,
        onData(bytes) {
          peer.receivedBytes += bytes
          const chunk = buffer.slice(0, bytes)
          if (peer.received.length < 1 << 20) peer.received = Buffer.concat([peer.received, chunk])
          onData(peer, chunk)
        },
        onDrain() {},
        onClose: (reason) => void peer.closes.push(reason),
      }
    },
  }
  return peer
}

export function echoPeer(): TestPeer {
  return testPeer((peer, bytes) => void peer.connection.send(bytes))
}

/** Listens at `address` and dials it; `far` serves what arrives. */
export async function joinPair(
  transport: Transport,
  address: string,
  far: TestPeer = echoPeer(),
  dialAddress: (listening: string) => string = (listening) => listening,
) {
  const listener = await transport.listen(address, far.accept)
  const near = testPeer()
  await transport.dial(dialAddress(listener.address), near.accept)
  // The dialling side may be done before the listening side has the connection.
  const lastMs = Date.now() + 5000
  while (far.connection === undefined) {
    if (Date.now() > lastMs) throw new Error('the listener has no connection after 5 s')
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  return { listener, near, far }
}
