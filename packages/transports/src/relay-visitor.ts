import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { SeamError } from '@seamline/core'
import type { WebSocket, WebSocketServer } from 'ws'
import { type RelayRequest, refusal, websocketAccept } from './relay-protocol.ts'
import { wsStream } from './relay-ws-stream.ts'

/** A connection whose upgrade request is read and not answered yet. It is answered once. */
export interface Visitor {
  readonly request: RelayRequest
  /** Its address as the relay sees it. */
  readonly remote: string
  /** Refuses with an answer that names the code and the reason. Does nothing once it was answered. */
  refuse(error: SeamError): void
  grantControl(): Duplex
  grantRaw(): Duplex
  /** Called once when the connection is gone, answered or not. */
  onGone(listener: () => void): void
}

const refusalMs = 1000

/** `socket` is out of the hands of the HTTP server; nothing of it was read beyond `head`. */
export function createVisitor(
  request: RelayRequest,
  message: IncomingMessage,
  socket: Socket,
  head: Buffer,
  server: WebSocketServer,
): Visitor {
  let answered = false
  // A peer that waits has nothing to say: whatever comes is its end, or a fault.
  const leave = () => void socket.destroy()
  socket.on('error', leave).on('end', leave).on('data', leave)
  socket.setNoDelay(true)
  // Finds hosts that are gone, also in mode `raw`.
  socket.setKeepAlive(true, 30_000)
  if (head.length > 0) leave()

  function answer(): void {
    answered = true
    socket.off('end', leave).off('data', leave)
    socket.pause()
  }

  function grantWs(): WebSocket {
    answer()
    let opened: WebSocket | undefined
    server.handleUpgrade(message, socket, Buffer.alloc(0), (ws) => {
      opened = ws
    })
    socket.resume()
    if (opened === undefined) throw new TypeError('an upgrade that was checked before is granted at once')
    return opened
  }

  const visitor: Visitor = {
    request,
    remote: `${socket.remoteAddress}:${socket.remotePort}`,
    refuse(error) {
      if (answered) return
      answered = true
      refuseSocket(socket, error)
    },
    grantControl: () => (request.mode === 'ws' ? wsStream(grantWs()) : visitor.grantRaw()),
    grantRaw() {
      answer()
      const accept = websocketAccept(String(message.headers['sec-websocket-key']))
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
      )
      return socket
    },
    onGone: (listener) => void socket.once('close', listener),
  }
  return visitor
}

/** Sends the refusal and lets go of the socket, soon also when it is not read. */
export function refuseSocket(socket: Socket, error: SeamError): void {
  socket.on('error', () => {})
  const cut = setTimeout(() => socket.destroy(), refusalMs)
  socket.once('close', () => clearTimeout(cut))
  // What the peer still sends is read and dropped, or the kernel would answer with a reset that overtakes the refusal.
  socket.resume()
  socket.end(refusal(error))
  socket.once('finish', () => socket.destroySoon())
}
