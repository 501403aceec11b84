import { type Exchange, type ExchangeShape, encodeShape } from '@seamline/conformance'

/** The dialling side of an exchange over something that carries whole messages. */
export interface MessageExchange {
  readonly exchange: Exchange
  /** A whole message of the answer is here. */
  received(message: Uint8Array): void
  failed(error: Error): void
}

export interface MessageWire {
  send(message: Uint8Array): void
  close(): Promise<void> | void
}

/** Sends the shape at once; `wire` must take messages already. */
export function messageExchange(
  shape: ExchangeShape,
  onResponse: (message: Uint8Array) => void,
  wire: MessageWire,
): MessageExchange {
  let left = 0
  let failure: Error | undefined
  let settle: { resolve(): void; reject(error: unknown): void } | undefined
  wire.send(encodeShape(shape))
  return {
    exchange: {
      run: (request) =>
        new Promise((resolve, reject) => {
          if (failure !== undefined) throw failure
          settle = { resolve, reject }
          left = shape.responseCount
          for (let i = 0; i < shape.requestCount; i += 1) wire.send(request)
        }),
      close: async () => wire.close(),
    },
    received(message) {
      left -= 1
      try {
        onResponse(message)
      } catch (error) {
        settle?.reject(error)
        return
      }
      if (left === 0) settle?.resolve()
    },
    failed(error) {
      failure = error
      settle?.reject(error)
    },
  }
}

/** A control that other arms are compared with: the listening side lives in a process of its own. */
export interface Control {
  /** Listens on loopback at a free port and answers exchanges; returns the address. Ends with its process. */
  listen(): Promise<string>
  open(address: string, shape: ExchangeShape, onResponse: (message: Uint8Array) => void): Promise<Exchange>
}
