import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'

const commonName = new TextEncoder().encode('seamline')

/** A key pair with a certificate of its own; what a peer knows of it is the fingerprint. */
export interface Identity {
  /** Private key: PKCS #8 in PEM. Whoever has it can pose as the listener. */
  readonly key: string
  /** Self-signed X.509 certificate in PEM. */
  readonly certificate: string
  /** SHA-256 of the certificate's DER bytes in base64url: 43 characters. Public; dialling sides pin it. */
  readonly fingerprint: string
}

/**
 * Makes a P-256 key and a self-signed certificate (X.509 v3 as in RFC 5280) under the name `seamline`. It never
 * expires and says nothing about its owner: trust comes from the pinned fingerprint alone. Takes some milliseconds.
 */
export function createIdentity(): Identity {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const body = sequence(
    der(0xa0, integer(Buffer.of(2))),
    integer(randomSerial()),
    ecdsaWithSha256,
    name,
    sequence(der(0x17, Buffer.from('200101000000Z')), der(0x18, Buffer.from('99991231235959Z'))),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(subjectAltName, der(0x04, sequence(der(0x82, commonName)))))),
  )
  const certificate = sequence(body, ecdsaWithSha256, bitString(sign('sha256', body, privateKey)))
  const lines = certificate.toString('base64').match(/.{1,64}/g) ?? []
  return {
    key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })),
    certificate: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
    fingerprint: fingerprintOf(certificate),
  }
}

/** Base64url of the SHA-256 of a certificate's DER bytes. */
export function fingerprintOf(certificate: Uint8Array): string {
  return createHash('sha256').update(certificate).digest('base64url')
}

// DER (X.690): tag, length, content. Nothing here is longer than 64 KiB.
function der(tag: number, ...contents: Uint8Array[]): Buffer {
  const content = Buffer.concat(contents)
  const { length } = content
  const head = [
    [tag, length],
    [tag, 0x81, length],
    [tag, 0x82, length >> 8, length & 0xff],
  ]
  return Buffer.concat([Buffer.from(head[length < 0x80 ? 0 : length < 0x100 ? 1 : 2] ?? []), content])
}

function sequence(...contents: Uint8Array[]): Buffer {
  return der(0x30, ...contents)
}

function integer(bytes: Uint8Array): Buffer {
  return der(0x02, bytes)
}

function bitString(bytes: Uint8Array): Buffer {
  return der(0x03, Buffer.of(0), bytes)
}

/** Positive and in the shortest form, as DER wants it: the first byte is 0x40 to 0x7f. */
function randomSerial(): Buffer {
  const serial = randomBytes(16)
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40
  return serial
}

// 1.2.840.10045.4.3.2, 2.5.29.17 and 2.5.4.3.
const ecdsaWithSha256 = sequence(der(0x06, Buffer.from('2a8648ce3d040302', 'hex')))
const subjectAltName = der(0x06, Buffer.from('551d11', 'hex'))
const name = sequence(der(0x31, sequence(der(0x06, Buffer.from('550403', 'hex')), der(0x0c, commonName))))
